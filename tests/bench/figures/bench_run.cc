#include "tests/bench/figures/bench_run.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/runtime/system_runtime.h"
#include "nlohmann/json.hpp"
#include "tests/bench/figures/machine.h"

ABSL_FLAG(std::string, bin, ".", "the folder that holds services/ and tests/ as built");
ABSL_FLAG(int, repetitions, 0, "medians of so many, interleaved; 0: as many as seems right");
ABSL_FLAG(bool, quick, false, "small: the stages work, their figures are coarse");
ABSL_FLAG(std::string, only, "", "only stages whose name contains this");
ABSL_FLAG(std::string, json, "", "also writes the figures to this file");
ABSL_FLAG(std::string, commit, "unknown", "of what was built; it goes into the file");

namespace escapement::bench {

namespace {

class LaterClock final : public Clock {
 public:
  LaterClock(Clock& clock, absl::Duration later) : clock_(clock), later_(later) {}
  absl::Duration Elapsed() const override { return clock_.Elapsed() + later_; }
  absl::Time WallNow() const override { return clock_.WallNow() + later_; }
  std::string BootId() const override { return clock_.BootId(); }

 private:
  Clock& clock_;
  const absl::Duration later_;
};

}  // namespace

absl::Status PassTime(const std::string& data_folder, absl::Duration time) {
  SystemRuntime runtime;
  LaterClock clock(runtime.clock(), time);
  kv::RocksKvStore::Options options;
  options.data_dir = data_folder;
  ASSIGN_OR_RETURN(const auto store, kv::RocksKvStore::Open(std::move(options), clock));
  // Opening a session commits, and every commit stores the clock's time.
  struct Answer {
    absl::Notification given;
    absl::Status status;
  };
  const auto answer = std::make_shared<Answer>();
  store->OpenSession(0, 0, [answer](absl::StatusOr<kv::SessionInfo> opened) {
    answer->status = opened.status();
    answer->given.Notify();
  });
  if (!answer->given.WaitForNotificationWithTimeout(absl::Seconds(30)))
    return absl::DeadlineExceededError("the store opened no session");
  if (!answer->status.ok()) return answer->status;
  const absl::Duration ahead = store->info().store_time - runtime.clock().WallNow();
  if (ahead < time - absl::Seconds(2)) {
    return absl::InternalError(
        absl::StrCat("the store's time is only ", absl::FormatDuration(ahead), " further"));
  }
  return absl::OkStatus();
}

namespace {

// If others used more of the machine than this part, the report says so.
constexpr double kOthersShareMax = 0.1;

struct Circumstances {
  std::vector<std::string> arguments;  // arguments that say what was measured
  absl::Time begin;
  double seconds = 0;
  double others_share = 0;
};

std::vector<std::string> ArgumentsOf(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    const absl::string_view argument = argv[i];
    const absl::string_view name = argument.substr(0, argument.find('='));
    if (name != "--bin" && name != "--json" && name != "--commit") arguments.emplace_back(argument);
  }
  return arguments;
}

absl::Status WriteJson(const std::string& path, const Bench& bench, const Machine& machine,
                       const Circumstances& about, const Figures& figures) {
  nlohmann::ordered_json json = {
      {"bench", bench.name},
      {"arguments", about.arguments},
      {"quick", absl::GetFlag(FLAGS_quick)},
      {"commit", absl::GetFlag(FLAGS_commit)},
      {"begin", absl::FormatTime(about.begin, absl::UTCTimeZone())},
      {"seconds", about.seconds},
      {"machine",
       {{"cores", machine.cores},
        {"model", machine.model},
        {"memory_gib", machine.memory_gib},
        {"kernel", machine.kernel},
        {"others_share", about.others_share}}},
      {"versions", {{"rocksdb", machine.rocksdb}, {"grpc", machine.grpc}}}};
  json.update(nlohmann::ordered_json::parse(figures.Json()));
  std::ofstream out(path);
  out << json.dump(2) << "\n";
  out.close();
  if (!out) return absl::UnavailableError(absl::StrCat("cannot write ", path));
  return absl::OkStatus();
}

void Print(const Machine& machine, const Circumstances& about, const Figures& figures) {
  std::cout << absl::StrFormat(
      "%d cores, %s, %.0f GiB, Linux %s; RocksDB %s, gRPC %s; commit %s; took %.0f s, others used "
      "%.0f %% of the machine%s\n",
      machine.cores, machine.model, machine.memory_gib, machine.kernel, machine.rocksdb,
      machine.grpc, absl::GetFlag(FLAGS_commit), about.seconds, 100 * about.others_share,
      about.others_share > kOthersShareMax ? ": THESE ARE NO FIGURES OF RECORD" : "");
  if (absl::GetFlag(FLAGS_quick)) std::cout << "a quick run: its figures are coarse\n";
  std::cout << figures.Table() << std::flush;
}

}  // namespace

bool BenchSetting::Wanted(absl::string_view stage) const { return absl::StrContains(stage, only); }

void BenchSetting::Measure(absl::string_view stage, Figures& figures,
                           absl::FunctionRef<absl::Status()> measure) const {
  if (!Wanted(stage)) return;
  if (absl::Status status = measure(); !status.ok()) figures.AddFailure(stage, status);
}

int RunBench(int argc, char** argv, const Bench& bench) {
  absl::SetProgramUsageMessage(bench.usage);
  absl::ParseCommandLine(argc, argv);
  const char* tmp = std::getenv("TMPDIR");
  std::string folder =
      absl::StrCat(tmp == nullptr ? "/tmp" : tmp, "/escapement-", bench.name, "-XXXXXX");
  if (mkdtemp(folder.data()) == nullptr) {
    std::cerr << "cannot make " << folder << "\n";
    return 1;
  }
  const bool quick = absl::GetFlag(FLAGS_quick);
  const int wanted = absl::GetFlag(FLAGS_repetitions);
  const BenchSetting setting = {.bin = absl::GetFlag(FLAGS_bin),
                                .folder = folder,
                                .quick = quick,
                                .repetitions = wanted > 0 ? wanted
                                               : quick    ? bench.quick_repetitions
                                                          : bench.repetitions,
                                .only = absl::GetFlag(FLAGS_only)};
  const Quietness quietness;
  Circumstances about = {.arguments = ArgumentsOf(argc, argv), .begin = absl::Now()};
  Figures figures;
  // Must have no running processes left when it returns.
  if (absl::Status status = bench.run(setting, figures); !status.ok())
    figures.AddFailure(bench.name, status);
  about.seconds = absl::ToDoubleSeconds(quietness.elapsed());
  about.others_share = quietness.OthersShare();
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);

  const Machine machine = ThisMachine();
  Print(machine, about, figures);
  absl::Status written;
  if (const std::string path = absl::GetFlag(FLAGS_json); !path.empty())
    written = WriteJson(path, bench, machine, about, figures);
  if (!written.ok()) std::cerr << written << "\n";
  return written.ok() && figures.complete() ? 0 : 1;
}

}  // namespace escapement::bench
