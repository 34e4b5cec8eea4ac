// Throttled delivery on this machine, each figure with the bound that it is to keep, and where a
// ratio is asked both of its sides from the same run.
//
//   bazel run -c opt //tests/bench:throttle -- [--separate] [--repetitions=3] [--only=busy]
//   [--json]
//
// Consumer, platform and disk share the machine. Every process has a port of its own choice and
// data in a temporary folder, which is removed at the end. Exit code: 0, or 1 if something could
// not be measured.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/bench/figures.h"
#include "tests/bench/throttle_stages.h"

ABSL_FLAG(std::string, bin, ".", "the folder that holds services/ and tests/ as built");
ABSL_FLAG(bool, separate, false,
          "store, master, emitter, token manager and handler as processes of their own instead of "
          "standalone");
ABSL_FLAG(int, repetitions, 3, "medians of so many, interleaved");
ABSL_FLAG(int64_t, events, 200'000, "of each stage that measures a rate");
ABSL_FLAG(int64_t, big_events, 1'000'000, "of the big batch, which goes once");
ABSL_FLAG(
    std::string, only, "",
    "only stages whose name contains this: completions, turnover, busy, unbound, fairness, big");
ABSL_FLAG(bool, json, false, "print JSON instead of a table");

namespace escapement::bench {
namespace {

constexpr double kMiB = 1 << 20;
constexpr double kTurnoverEvents = 60'000;

class ThrottleBench {
 public:
  explicit ThrottleBench(const std::string& folder)
      : events_(absl::GetFlag(FLAGS_events)),
        separate_(absl::GetFlag(FLAGS_separate)),
        stages_({.bin = absl::GetFlag(FLAGS_bin), .folder = folder, .separate = separate_}) {}

  absl::Status Start() { return stages_.Start(); }

  void Run() {
    for (int i = 0; i < absl::GetFlag(FLAGS_repetitions); ++i) {
      if (Wanted("completions")) Completions();
      if (Wanted("turnover")) Turnover();
      if (Wanted("busy")) {
        Busy(500, absl::Milliseconds(100), {.at_least = 97}, {.at_most = 1.05});
        Busy(50, absl::Milliseconds(10), {.at_least = 85}, {});
      }
      if (Wanted("unbound")) Unbound();
      if (Wanted("fairness")) Fairness();
    }
    if (Wanted("big") && separate_) Big();
  }

  const Figures& figures() const { return figures_; }

 private:
  static bool Wanted(absl::string_view stage) {
    return absl::StrContains(stage, absl::GetFlag(FLAGS_only));
  }

  void Completions() {
    const std::string name = "completion to next delivery, m = 1,000, no work";
    const auto result = stages_.Batch({.events = events_, .concurrent = 1000});
    if (!result.ok()) return figures_.AddFailure(name, result.status());
    figures_.Add(name, "/s", result->per_second);
    CheckOut(name, *result, 1000);
  }

  void Turnover() {
    const std::string name = "completion sent to next delivery, 10 k/s: ";
    const auto result = stages_.Batch({.events = static_cast<int64_t>(kTurnoverEvents),
                                       .concurrent = 1000,
                                       .completions_per_second = 10'000});
    if (!result.ok()) return figures_.AddFailure(name, result.status());
    figures_.Add(name + "p50", "ms", result->work.turnover_p50 / 1000);
    figures_.Add(name + "p99", "ms", result->work.turnover_p99 / 1000);
    // The worker begins half a second after the first arrival.
    figures_.Add(name + "pace kept", "%",
                 100 * result->per_second / (kTurnoverEvents / (kTurnoverEvents / 1e4 + 0.5)),
                 {.at_least = 98});
    CheckOut(name, *result, 1000);
  }

  void Busy(int64_t concurrent, absl::Duration work, const Bound& busy, const Bound& took) {
    constexpr int64_t kEvents = 20'000;
    const std::string name = absl::StrCat("m = ", concurrent, ", work ", absl::FormatDuration(work),
                                          ", n = ", kEvents, ": ");
    const auto result = stages_.Batch({.events = kEvents, .concurrent = concurrent, .work = work});
    if (!result.ok()) return figures_.AddFailure(name, result.status());
    const double ideal = static_cast<double>(kEvents) / static_cast<double>(concurrent) *
                         absl::ToDoubleSeconds(work);
    figures_.Add(name + "busy", "%", 100 * result->busy, busy);
    figures_.Add(name + "end, as part of the ideal time", "", result->took_seconds / ideal, took);
    CheckOut(name, *result, concurrent);
  }

  void Unbound() {
    const std::string name = "gRPC, done durable, ";
    const auto without = stages_.Batch({.events = events_, .completion = v1::ON_DELIVERY});
    if (!without.ok()) return figures_.AddFailure(name + "no policy", without.status());
    const auto with =
        stages_.Batch({.events = events_, .concurrent = 10'000'000, .completion = v1::ON_DELIVERY});
    if (!with.ok()) return figures_.AddFailure(name + "a policy of 10,000,000", with.status());
    figures_.Add(name + "no policy", "/s", without->durable_per_second);
    figures_.Add(name + "a policy of 10,000,000", "/s", with->durable_per_second);
    figures_.Add("the latter as part of the former", "%",
                 100 * with->durable_per_second / without->durable_per_second, {.at_least = 65});
  }

  void Fairness() {
    const std::string name = "wait of 1,000 beside 1,000,000 events, as part of a fair share's: ";
    const auto result = stages_.Fairness(1'000'000, 1000, 50, absl::Milliseconds(50));
    if (!result.ok()) return figures_.AddFailure(name, result.status());
    figures_.Add(name + "mean", "", result->mean, {.at_most = 2});
    figures_.Add(name + "max", "", result->max, {.at_most = 2});
  }

  void Big() {
    const int64_t events = absl::GetFlag(FLAGS_big_events);
    const std::string name = absl::StrCat("batch of ", events, ", m = 1,000: ");
    const auto result = stages_.BigBatch(events, 1000);
    if (!result.ok()) return figures_.AddFailure(name, result.status());
    figures_.Add(name + "rows of its emission", "", static_cast<double>(result->rows));
    figures_.Add(name + "rate", "/s", result->per_second);
    for (const auto& [service, bytes] : result->before)
      figures_.Add(absl::StrCat(name, service, " before"), "MiB",
                   static_cast<double>(bytes) / kMiB);
    for (const auto& [service, bytes] : result->peak)
      figures_.Add(absl::StrCat(name, service, " peak"), "MiB", static_cast<double>(bytes) / kMiB);
  }

  // A rate that breaks the limit is none.
  void CheckOut(absl::string_view name, const BatchResult& result, int64_t concurrent) {
    if (result.work.out_max > concurrent) {
      figures_.AddFailure(
          name, absl::InternalError(absl::StrCat(result.work.out_max, " events were out at once")));
    }
  }

  const int64_t events_;
  const bool separate_;
  ThrottleStages stages_;
  Figures figures_;
};

int Main(const std::string& folder) {
  ThrottleBench bench(folder);
  if (absl::Status status = bench.Start(); !status.ok()) {
    std::cerr << "platform: " << status << "\n";
    return 1;
  }
  bench.Run();
  std::cout << (absl::GetFlag(FLAGS_json) ? bench.figures().Json() : bench.figures().Table())
            << std::endl;
  return bench.figures().complete() ? 0 : 1;
}

}  // namespace
}  // namespace escapement::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("measures throttled delivery on this machine");
  absl::ParseCommandLine(argc, argv);
  const char* tmp = std::getenv("TMPDIR");
  std::string folder = absl::StrCat(tmp == nullptr ? "/tmp" : tmp, "/escapement-throttle-XXXXXX");
  if (mkdtemp(folder.data()) == nullptr) {
    std::cerr << "cannot make " << folder << "\n";
    return 1;
  }
  const int code = escapement::bench::Main(folder);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return code;
}
