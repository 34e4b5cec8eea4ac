// How long it takes until events are delivered again: after everything was down for an hour of the
// store's time, after the store was killed under load, and after one of two handlers was killed.
//
//   tools/dev bench recovery [--overdue=1000000] [--per_second=2000] [flags of bench_run.h]
//
// Stages: overdue-standalone, overdue-separate, store, takeover; each has platforms of its own.
// Leases last 5 s, and kills are SIGKILL. Client, receiver, platform and disk share the machine.

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "tests/bench/figures/bench_run.h"
#include "tests/bench/stages/recovery_stages.h"

ABSL_FLAG(uint64_t, overdue, 1'000'000, "events that fall due while everything is down");
ABSL_FLAG(double, per_second, 2000, "events a second while something is killed");

namespace escapement::bench {
namespace {

using Measure = std::function<absl::Status(const RecoveryOptions&, Figures&)>;

absl::Status Run(const BenchSetting& setting, Figures& figures) {
  RecoveryOptions options = {.bin = setting.bin,
                             .overdue_events = absl::GetFlag(FLAGS_overdue),
                             .per_second = absl::GetFlag(FLAGS_per_second)};
  if (setting.quick) {
    options.overdue_events /= 10;
    options.per_second /= 2;
    options.before = absl::Seconds(2);
  }
  const auto overdue = [](bool separate) -> Measure {
    return [separate](const RecoveryOptions& of, Figures& into) {
      return MeasureOverdue(of, separate, into);
    };
  };
  const std::vector<std::pair<std::string, Measure>> stages = {
      {"overdue-standalone", overdue(false)},
      {"overdue-separate", overdue(true)},
      {"store", MeasureStoreRestart},
      {"takeover", MeasureTakeover}};
  for (int i = 0; i < setting.repetitions; ++i) {
    for (const auto& [name, measure] : stages) {
      if (!setting.Wanted(name)) continue;
      if (setting.quick) options.after = absl::Seconds(name == "takeover" ? 12 : 4);
      options.folder = absl::StrCat(setting.folder, "/", name, "-", i);
      if (absl::Status status = measure(options, figures); !status.ok())
        figures.AddFailure(name, status);
      std::error_code ignored;
      std::filesystem::remove_all(options.folder, ignored);
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace escapement::bench

int main(int argc, char** argv) {
  return escapement::bench::RunBench(argc, argv,
                                     {.name = "recovery",
                                      .usage = "how long it takes until events are delivered again",
                                      .repetitions = 3,
                                      .run = escapement::bench::Run});
}
