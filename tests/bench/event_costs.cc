// Measures the costs of an event on real processes under load, by stage of the path, process and
// kind of thread: processor time, context switches, system calls, wakes, allocations and copies.
//
//   tools/dev profile costs [--separate] [--events=100000] [and the flags of bench_run.h]
//
// A figure is what the measured part of a stage cost, divided by its events. A delivery begins 11 s
// before its events are due, when the handler loads them, and an occurrence as long before it
// fires. So the platform's idle work of that time is in the figures; the row "idle" says what it
// costs in a second. Counting is in the processor time, too; --count=false leaves out counter.so.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "tests/bench/beds/delivery_peers.h"
#include "tests/bench/beds/platform_bed.h"
#include "tests/bench/costs/cost_meter.h"
#include "tests/bench/costs/counts.h"
#include "tests/bench/figures/bench_run.h"
#include "tests/bench/stages/doors_stages.h"
#include "tests/bench/stages/path_stages.h"
#include "tests/integration/api_client.h"

ABSL_FLAG(bool, separate, false, "five processes instead of standalone");
ABSL_FLAG(uint64_t, events, 100'000, "of each stage");
ABSL_FLAG(uint64_t, schedules, 20'000, "that fire once, for the stage of occurrences");
ABSL_FLAG(uint64_t, payload_bytes, 500, "of each event");
ABSL_FLAG(bool, count, true, "false: without counter.so, so without allocations and copies");
ABSL_FLAG(bool, threads, true, "false: no rows for kinds of threads");

namespace escapement::bench {
namespace {

// A kind of thread with less than this part of the platform's processor time has no row.
constexpr double kShownShare = 0.01;
// The name, processor time in microseconds, voluntary and involuntary context switches, system
// calls, those of them that wake threads, allocations and their bytes, copies and their bytes.
constexpr char kRow[] = "%-44s %9s %8s %8s %8s %8s %8s %10s %8s %10s\n";

std::string Shown(double value, bool missing = false) {
  if (missing) return "-";
  if (value >= 100) return absl::StrFormat("%.0f", value);
  if (value >= 10) return absl::StrFormat("%.1f", value);
  return value >= 0.1 || value == 0 ? absl::StrFormat("%.2f", value)
                                    : absl::StrFormat("%.4f", value);
}

class CostsBench {
 public:
  CostsBench(const BenchSetting& setting, PlatformBed* bed, ReceiverProcess* receiver,
             const std::string& counts_folder)
      : setting_(setting),
        bed_(bed),
        receiver_(receiver),
        meter_(ProcessesOf(*bed), setting.folder, counts_folder),
        path_({.payload_bytes = absl::GetFlag(FLAGS_payload_bytes),
               .lead = PathStages::kBeforeDue + absl::Seconds(4),
               .begin = [this] { Note(meter_.Start()); },
               .end = [this] { costs_ = meter_.Stop(); }},
              bed, receiver),
        doors_(bed->front("master"), bed->http_front("master")) {}

  void Run(Figures& figures) {
    const uint64_t events = absl::GetFlag(FLAGS_events) / (setting_.quick ? 10 : 1);
    const uint64_t schedules = absl::GetFlag(FLAGS_schedules) / (setting_.quick ? 10 : 1);
    const v1::Target grpc = integration::GrpcTo(receiver_->grpc_target());
    const v1::Target http = integration::HttpTo(receiver_->http_origin() + "/bench");
    // A new platform is slower than one that has worked for a while.
    status_ = path_.OneOffRate(grpc, events / 4).status();
    Stage(figures, "idle, in a second", [this]() -> absl::StatusOr<double> {
      constexpr double kSeconds = 10;
      RETURN_IF_ERROR(meter_.Start());
      absl::SleepFor(absl::Seconds(kSeconds));
      costs_ = meter_.Stop();
      return kSeconds;
    });
    const auto path = [&](const char* name, uint64_t count,
                          const std::function<absl::StatusOr<double>()>& rate) {
      Stage(figures, name, [&]() -> absl::StatusOr<double> {
        ASSIGN_OR_RETURN(const auto per_second, rate());
        std::cout << "\n" << name << ": " << Shown(per_second) << "/s\n";
        return static_cast<double>(count);
      });
    };
    path("ingest", events, [&] { return path_.IngestRate(events); });
    path("ingest, client-chosen ids", events,
         [&] { return path_.IngestRate(events, Ids::kClientChosen); });
    path("deliver one-off events, gRPC", events, [&] { return path_.OneOffRate(grpc, events); });
    path("deliver one-off events, HTTP", events, [&] { return path_.OneOffRate(http, events); });
    const auto run = [&](const v1::Target& target) -> absl::StatusOr<double> {
      ASSIGN_OR_RETURN(const auto result, path_.RunRate(target, events));
      return result.per_second;
    };
    path("deliver a run, gRPC", events, [&] { return run(grpc); });
    path("deliver a run, HTTP", events, [&] { return run(http); });
    path("occurrences of different schedules, gRPC", schedules,
         [&] { return path_.OccurrencesRate(grpc, schedules); });
    Stage(figures, "GetSchedule", [this]() -> absl::StatusOr<double> {
      RETURN_IF_ERROR(doors_.Prepare());
      RETURN_IF_ERROR(meter_.Start());
      constexpr absl::Duration kTime = absl::Seconds(3);
      ASSIGN_OR_RETURN(const auto rate, doors_.GetByGrpc({.time = kTime}));
      costs_ = meter_.Stop();
      std::cout << "\nGetSchedule: " << Shown(rate) << "/s\n";
      return rate * absl::ToDoubleSeconds(kTime);
    });
    PrintSummary();
  }

 private:
  static std::vector<CostMeter::Process> ProcessesOf(PlatformBed& bed) {
    std::vector<CostMeter::Process> processes;
    for (const std::string& name : bed.names())
      processes.push_back({name, bed.platform().pid(name)});
    return processes;
  }

  void Note(absl::Status status) { status_.Update(std::move(status)); }

  // `measure` measures `costs_` and returns of how many events they are.
  void Stage(Figures& figures, const std::string& name,
             const std::function<absl::StatusOr<double>()>& measure) {
    setting_.Measure(name, figures, [&]() -> absl::Status {
      // Background work of the stage before (compaction…) must not count.
      RETURN_IF_ERROR(bed_->AwaitIdle());
      costs_ = absl::InternalError("not measured");
      ASSIGN_OR_RETURN(const auto events, measure());
      RETURN_IF_ERROR(status_);
      RETURN_IF_ERROR(costs_.status());
      Print(name, *costs_, events);
      figures.Add(absl::StrCat(name, ": processor time"), "us",
                  1e6 * costs_->Total().cpu_seconds / events);
      measured_.push_back({name, *costs_, events});
      return absl::OkStatus();
    });
  }

  static void PrintHead(const std::string& name) {
    std::cout << absl::StrFormat(kRow, name, "cpu us", "waits", "preempt", "syscalls", "wakes",
                                 "allocs", "bytes", "copies", "bytes");
  }

  static void PrintRow(const std::string& name, const Costs& costs, const ThreadCosts& of,
                       double events) {
    const bool calls = !costs.syscalls_missing.empty();
    const bool counts = !costs.counts_missing.empty();
    std::cout << absl::StrFormat(
        kRow, name, Shown(of.cpu_seconds / events * 1e6), Shown(of.voluntary / events),
        Shown(of.involuntary / events), Shown(of.syscalls / events, calls),
        Shown(of.wakes / events, calls), Shown(of.allocations / events, counts),
        Shown(of.allocated_bytes / events, counts), Shown(of.copies / events, counts),
        Shown(of.copied_bytes / events, counts));
  }

  void Print(const std::string& name, const Costs& costs, double events) const {
    PrintHead(name);
    const double shown = kShownShare * costs.Total().cpu_seconds;
    for (const std::string& process : bed_->names()) {
      if (bed_->names().size() > 1)
        PrintRow("  " + process, costs, costs.OfProcess(process), events);
      for (const auto& [kind, of_kind] : costs.by_thread) {
        if (absl::GetFlag(FLAGS_threads) && kind.first == process && of_kind.cpu_seconds >= shown)
          PrintRow(absl::StrCat("    ", kind.second), costs, of_kind, events);
      }
    }
    PrintRow("  platform", costs, costs.Total(), events);
    if (!costs.syscalls_missing.empty())
      std::cout << "  system calls and wakes are not measured: " << costs.syscalls_missing << "\n";
    if (!costs.counts_missing.empty())
      std::cout << "  allocations and copies are not measured: " << costs.counts_missing << "\n";
    std::cout << std::flush;
  }

  // A row of each stage, at the end of all.
  void PrintSummary() const {
    std::cout << "\n";
    PrintHead("an event costs");
    for (const Measured& stage : measured_)
      PrintRow(stage.name, stage.costs, stage.costs.Total(), stage.events);
  }

  struct Measured {
    std::string name;
    Costs costs;
    double events;
  };

  const BenchSetting& setting_;
  PlatformBed* const bed_;
  ReceiverProcess* const receiver_;
  CostMeter meter_;
  PathStages path_;
  DoorsStages doors_;
  absl::StatusOr<Costs> costs_ = absl::InternalError("not measured");
  std::vector<Measured> measured_;
  absl::Status status_;  // whether the last measurement could begin
};

absl::Status Run(const BenchSetting& setting, Figures& figures) {
  ASSIGN_OR_RETURN(auto receiver, ReceiverProcess::Start(setting.bin));
  PlatformBed bed({.bin = setting.bin,
                   .folder = setting.folder + "/platform",
                   .separate = absl::GetFlag(FLAGS_separate)});
  std::string counts_folder;
  if (absl::GetFlag(FLAGS_count)) {
    counts_folder = setting.folder + "/counts";
    std::filesystem::create_directories(counts_folder);
    // The platform's processes inherit them.
    const std::string counter =
        std::filesystem::absolute(setting.bin).string() + "/tests/bench/costs/counter.so";
    setenv("LD_PRELOAD", counter.c_str(), 1);
    setenv(kCountsFolder, counts_folder.c_str(), 1);
  }
  const absl::Status started = bed.Start();
  unsetenv("LD_PRELOAD");
  unsetenv(kCountsFolder);
  RETURN_IF_ERROR(started);
  CostsBench(setting, &bed, receiver.get(), counts_folder).Run(figures);
  return absl::OkStatus();
}

}  // namespace
}  // namespace escapement::bench

int main(int argc, char** argv) {
  return escapement::bench::RunBench(
      argc, argv,
      {.name = "event_costs",
       .usage = "what an event costs the platform's processes, by stage",
       .repetitions = 1,
       .run = escapement::bench::Run});
}
