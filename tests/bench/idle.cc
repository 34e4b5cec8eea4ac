// The platform's cost when many schedules are stored and nothing is due. It measures the processor
// time of all processes in each second of wall time, beside a platform without schedules.
//
//   tools/dev bench idle [--schedules=1000000] [--seconds=60] [and the flags of bench_run.h]
//
// The schedules are made through the master's own API over the data folder, with all kinds of
// LaunchExpressions and two zones. None fires within three hours. Standalone and five processes,
// each with and without the schedules, run and are measured at the same time.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "tests/bench/beds/platform_bed.h"
#include "tests/bench/beds/stored_schedules.h"
#include "tests/bench/figures/bench_run.h"

ABSL_FLAG(int64_t, schedules, 1'000'000, "stored");
ABSL_FLAG(int, seconds, 60, "of one repetition");

namespace escapement::bench {
namespace {

constexpr int kQuietHours = 3;
constexpr double kMiB = 1 << 20;
// Part of a core. Below this, the processes' start no longer matters.
constexpr double kSettled = 0.05;
constexpr absl::Duration kSettleMax = absl::Minutes(5);

struct Candidate {
  std::string name;
  bool full = false;  // it has the schedules
  std::unique_ptr<PlatformBed> bed;
};

absl::Status Store(const std::string& folder, int64_t schedules, Figures& figures) {
  const int hour = absl::ToCivilHour(absl::Now(), absl::UTCTimeZone()).hour();
  ASSIGN_OR_RETURN(auto stored,
                   StoredSchedules::Make({.folder = folder,
                                          .schedules = schedules,
                                          .due_per_window = 0,
                                          .windows = 0,
                                          .other_hours_begin = (hour + kQuietHours + 1) % 24}));
  const absl::Time begin = absl::Now();
  if (const auto created = stored->Create(); !created.ok()) return created.status();
  figures.Add(absl::StrCat("creating ", schedules, " schedules"), "/s",
              static_cast<double>(schedules) / absl::ToDoubleSeconds(absl::Now() - begin));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Candidate>> StartAll(const BenchSetting& setting, int64_t schedules,
                                                Figures& figures) {
  const std::string made = setting.folder + "/made";
  RETURN_IF_ERROR(Store(made, schedules, figures));
  std::vector<Candidate> candidates;
  for (const bool separate : {false, true}) {
    for (const bool full : {true, false}) {
      auto bed = std::make_unique<PlatformBed>(
          PlatformBed::Options{.bin = setting.bin,
                               .folder = absl::StrCat(setting.folder, "/", candidates.size()),
                               .separate = separate});
      if (full)
        std::filesystem::copy(made, bed->data_folder(), std::filesystem::copy_options::recursive);
      RETURN_IF_ERROR(bed->Start());
      const std::string name = absl::StrCat(bed->mode(), ", ", full ? schedules : 0, " stored: ");
      candidates.push_back({name, full, std::move(bed)});
    }
  }
  return candidates;
}

// Processor seconds that each process has used so far.
std::vector<std::vector<double>> Used(const std::vector<Candidate>& candidates) {
  std::vector<std::vector<double>> used;
  for (const Candidate& candidate : candidates) {
    std::vector<double>& of = used.emplace_back();
    for (const std::string& name : candidate.bed->names())
      of.push_back(candidate.bed->CpuSeconds(name));
  }
  return used;
}

void Measure(const std::vector<Candidate>& candidates, int seconds, Figures& figures) {
  const auto before = Used(candidates);
  const absl::Time begin = absl::Now();
  absl::SleepFor(absl::Seconds(seconds));
  const auto after = Used(candidates);
  const double wall = absl::ToDoubleSeconds(absl::Now() - begin);
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    const std::vector<std::string>& names = candidate.bed->names();
    double sum = 0;
    for (size_t j = 0; j < names.size(); ++j) {
      const double share = 100 * (after[i][j] - before[i][j]) / wall;
      sum += share;
      if (names.size() > 1 && candidate.full)
        figures.Add(candidate.name + names[j], "% core", share);
    }
    const Bound bound = candidate.full ? Bound{.at_most = 1} : Bound{};
    figures.Add(candidate.name + "all processes", "% core", sum, bound);
    if (!candidate.full)
      figures.AddRaw(candidates[i - 1].name + "all processes", "% core", "the same, 0 stored", sum);
  }
}

absl::Status Run(const BenchSetting& setting, Figures& figures) {
  const int64_t schedules = absl::GetFlag(FLAGS_schedules) / (setting.quick ? 20 : 1);
  ASSIGN_OR_RETURN(const auto candidates, StartAll(setting, schedules, figures));
  for (const Candidate& candidate : candidates) {
    // If a platform never settles, the figures should show that.
    candidate.bed->AwaitIdle(kSettled, kSettleMax).IgnoreError();
  }
  for (int i = 0; i < setting.repetitions; ++i)
    Measure(candidates, absl::GetFlag(FLAGS_seconds) / (setting.quick ? 6 : 1), figures);
  for (const Candidate& candidate : candidates) {
    figures.Add(candidate.name + "resident, all processes", "MiB",
                static_cast<double>(candidate.bed->ResidentBytes()) / kMiB);
    // Checks that the platform was really idle.
    ASSIGN_OR_RETURN(const auto emitted,
                     candidate.bed->Metric("emitter", "escapement_emitter_occurrences_total"));
    if (emitted > 0) {
      figures.AddFailure(candidate.name,
                         absl::InternalError(absl::StrCat(emitted, " occurrences were emitted")));
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace escapement::bench

int main(int argc, char** argv) {
  return escapement::bench::RunBench(argc, argv,
                                     {.name = "idle",
                                      .usage = "what stored schedules cost while nothing is due",
                                      .repetitions = 3,
                                      .run = escapement::bench::Run});
}
