// Overload on this machine: a spike of ten times the load, a backlog after an outage, a flood of
// one schedule; goodput beside the capacity that was measured just before, the memory of the
// processes, and how late the events of others are.
//
//   bazel run -c opt //tests/bench:overload -- [--quick] [--repetitions=3] [--only=spike] [--json]
//
// Consumers, platform and disk share the machine. Every stage has a platform of its own, with ports
// of its own choice and data in a temporary folder, which is removed at its end. Exit code: 0, or 1
// if something could not be measured.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/bench/figures.h"
#include "tests/bench/overload_bed.h"
#include "tests/bench/overload_stages.h"

ABSL_FLAG(std::string, bin, ".", "the folder that holds services/ and tests/ as built");
ABSL_FLAG(int, repetitions, 1, "medians of so many, interleaved");
ABSL_FLAG(uint64_t, events, 1'000'000, "of the backlog and of the flood");
ABSL_FLAG(bool, quick, false, "a tenth of everything: the stages work, their figures are coarse");
ABSL_FLAG(std::string, only, "",
          "only stages whose name contains this: spike, outage-before, outage-late, flood-fast, "
          "flood-slow, flood-dead, flood-throttled");
ABSL_FLAG(bool, json, false, "print JSON instead of a table");

namespace escapement::bench {
namespace {

OverloadSizes Sizes() {
  OverloadSizes sizes;
  sizes.backlog_events = sizes.flood_events = absl::GetFlag(FLAGS_events);
  if (absl::GetFlag(FLAGS_quick)) {
    sizes.capacity_events /= 4;
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

absl::Status RunStage(const Measure& measure, Figures& figures) {
  const char* tmp = std::getenv("TMPDIR");
  std::string folder = absl::StrCat(tmp == nullptr ? "/tmp" : tmp, "/escapement-overload-XXXXXX");
  if (mkdtemp(folder.data()) == nullptr)
    return absl::InternalError(absl::StrCat("cannot make ", folder));
  absl::Status status;
  {
    OverloadBed bed({.bin = absl::GetFlag(FLAGS_bin), .folder = folder});
    status = bed.Start();
    if (status.ok()) status = measure(bed, Sizes(), figures);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return status;
}

int Main() {
  const std::vector<std::pair<std::string, Measure>> stages = {
      {"spike", MeasureSpike},
      {"outage-before", Outage(Backlog::kStoredBefore)},
      {"outage-late", Outage(Backlog::kStoredLate)},
      {"flood-fast", FloodOf(Flood::kFast)},
      {"flood-slow", FloodOf(Flood::kSlow)},
      {"flood-dead", FloodOf(Flood::kDead)},
      {"flood-throttled", FloodOf(Flood::kThrottled)}};
  Figures figures;
  for (int i = 0; i < absl::GetFlag(FLAGS_repetitions); ++i) {
    for (const auto& [name, measure] : stages) {
      if (!absl::StrContains(name, absl::GetFlag(FLAGS_only))) continue;
      if (absl::Status status = RunStage(measure, figures); !status.ok())
        figures.AddFailure(name, status);
    }
  }
  std::cout << (absl::GetFlag(FLAGS_json) ? figures.Json() : figures.Table()) << std::endl;
  return figures.complete() ? 0 : 1;
}

}  // namespace
}  // namespace escapement::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("measures the platform under overload on this machine");
  absl::ParseCommandLine(argc, argv);
  return escapement::bench::Main();
}
