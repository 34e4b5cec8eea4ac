// Overload on this machine: a spike of ten times the load, a backlog after an outage, a flood from
// one schedule. It measures goodput beside the capacity of just before, the memory of the
// processes, and how late others' events are.
//
//   tools/dev bench overload [--events=1000000] [and the flags of bench_run.h]
//
// Stages: spike, outage-before, outage-late, flood-fast, flood-slow, flood-dead, flood-throttled.
// Consumers, platform and disk share the machine. Every stage has a platform of its own.

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "tests/bench/beds/overload_bed.h"
#include "tests/bench/figures/bench_run.h"
#include "tests/bench/figures/figures.h"
#include "tests/bench/stages/overload_stages.h"

ABSL_FLAG(uint64_t, events, 1'000'000, "of the backlog and of the flood");

namespace escapement::bench {
namespace {

OverloadSizes Sizes(bool quick) {
  OverloadSizes sizes;
  sizes.backlog_events = sizes.flood_events = absl::GetFlag(FLAGS_events);
  if (quick) {
    sizes.capacity_events /= 10;
    sizes.spike_seconds = 1;
    sizes.backlog_events /= 10;
    sizes.missing_schedules /= 4;
    sizes.flood_events /= 10;
    sizes.steady = absl::Seconds(2);
    sizes.flood = absl::Seconds(3);
  }
  return sizes;
}

using Measure = std::function<absl::Status(OverloadBed&, const OverloadSizes&, Figures&)>;

Measure Outage(Backlog backlog) {
  return [backlog](OverloadBed& bed, const OverloadSizes& sizes, Figures& figures) {
    return MeasureOutage(bed, sizes, backlog, figures);
  };
}

Measure FloodOf(Flood flood) {
  return [flood](OverloadBed& bed, const OverloadSizes& sizes, Figures& figures) {
    return MeasureFlood(bed, sizes, flood, figures);
  };
}

absl::Status RunStage(const BenchSetting& setting, const Measure& measure, Figures& figures) {
  const std::string folder = setting.folder + "/stage";
  std::filesystem::create_directory(folder);
  absl::Status status;
  {
    OverloadBed bed({.bin = setting.bin, .folder = folder});
    status = bed.Start();
    if (status.ok()) status = measure(bed, Sizes(setting.quick), figures);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return status;
}

absl::Status Run(const BenchSetting& setting, Figures& figures) {
  const std::vector<std::pair<std::string, Measure>> stages = {
      {"spike", MeasureSpike},
      {"outage-before", Outage(Backlog::kStoredBefore)},
      {"outage-late", Outage(Backlog::kStoredLate)},
      {"flood-fast", FloodOf(Flood::kFast)},
      {"flood-slow", FloodOf(Flood::kSlow)},
      {"flood-dead", FloodOf(Flood::kDead)},
      {"flood-throttled", FloodOf(Flood::kThrottled)}};
  for (int i = 0; i < setting.repetitions; ++i) {
    for (const auto& [name, measure] : stages) {
      setting.Measure(name, figures,
                      [&, &stage = measure] { return RunStage(setting, stage, figures); });
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace escapement::bench

int main(int argc, char** argv) {
  return escapement::bench::RunBench(
      argc, argv,
      {.name = "overload",
       .usage = "measures the platform under overload on this machine",
       .run = escapement::bench::Run});
}
