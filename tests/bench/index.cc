// Checks that the cost of emission follows the due occurrences, not the stored schedules. Also
// measures the cost of storing schedules and of forecasts.
//
//   tools/dev bench index [--sizes=10000,100000,1000000] [--due=600] [--windows=12]
//                         [--forecast=100000] [--burst=100000] [and the flags of bench_run.h]
//
// Stages:
// - stored: makes one store for each size through the master's API, in this process. Then it emits
//   the same windows over all of them in turn. Each window has the same number of due occurrences.
//   The windows begin when compaction is over. Beside each window it measures the bare scan of the
//   same index ranges. The windows are the repetitions.
// - forecast: makes a store of 100,000 schedules that fire at different hours, and one of as many
//   that fire every second, and forecasts their load of 72 hours. Beside it: the bare scan of their
//   rows.
// - burst: queue rows due at evenly spread instants of one second, delivered by standalone over a
//   gRPC stream.

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "tests/bench/beds/delivery_peers.h"
#include "tests/bench/beds/platform_bed.h"
#include "tests/bench/beds/stored_schedules.h"
#include "tests/bench/figures/bench_run.h"
#include "tests/bench/figures/machine.h"
#include "tests/bench/raw/raw_limits.h"
#include "tests/bench/stages/path_stages.h"
#include "tests/integration/api_client.h"

ABSL_FLAG(std::vector<std::string>, sizes, std::vector<std::string>({"10000", "100000", "1000000"}),
          "stored schedules, ascending");
ABSL_FLAG(int64_t, due, 600, "occurrences in each window");
ABSL_FLAG(int, windows, 12, "so many, a minute each");
ABSL_FLAG(int64_t, forecast, 100'000, "stored schedules of a forecast");
ABSL_FLAG(uint64_t, burst, 100'000, "queue rows due in one second");

namespace escapement::bench {
namespace {

constexpr double kMiB = 1 << 20;
constexpr size_t kPayloadBytes = 500;
constexpr absl::Duration kIdleMax = absl::Minutes(5);

struct Stored {
  int64_t size = 0;
  std::unique_ptr<StoredSchedules> schedules;
};

absl::Status Create(Stored& stored, const std::string& folder, Figures& figures) {
  const uint64_t resident_before = ResidentBytesOf(getpid());
  ASSIGN_OR_RETURN(const std::vector<double> tenths, stored.schedules->Create());
  double seconds = 0;
  for (const double tenth : tenths) seconds += tenth;
  const auto size = static_cast<double>(stored.size);
  const std::string name = absl::StrCat("creating ", stored.size);
  figures.Add(name, "/s", size / seconds);
  figures.Add(name + ": last tenth / second tenth", "x", tenths.back() / tenths[1],
              {.at_most = 1.5});
  const uint64_t resident = ResidentBytesOf(getpid());
  figures.Add(name + ": resident memory more, with the database's buffers", "MiB",
              (static_cast<double>(resident) - static_cast<double>(resident_before)) / kMiB);
  figures.Add(name + ": disk, log included, each", "B",
              static_cast<double>(FolderBytes(folder)) / size);
  return absl::OkStatus();
}

absl::StatusOr<StoredSchedules::Emitted> Emit(Stored& stored, int window, Figures& figures) {
  absl::StatusOr<StoredSchedules::Emitted> emitted = stored.schedules->Emit(window);
  if (!emitted.ok()) return emitted;
  const double due = static_cast<double>(absl::GetFlag(FLAGS_due));
  if (emitted->occurrences != absl::GetFlag(FLAGS_due)) {
    return absl::InternalError(absl::StrCat("window ", window, " of ", stored.size,
                                            " schedules: ", emitted->occurrences, " occurrences"));
  }
  const std::string name = absl::StrCat(stored.size, " stored: ");
  figures.Add(name + "rows read per row emitted", "", static_cast<double>(emitted->rows_read) / due,
              {.at_most = 1.2});
  figures.Add(name + "a window", "ms", emitted->seconds * 1e3);
  figures.AddRaw(name + "a window", "ms", "bare scan of its ranges", emitted->raw_seconds * 1e3);
  return emitted;
}

absl::Status MeasureStored(const BenchSetting& setting, Figures& figures) {
  std::vector<Stored> all;
  for (const std::string& text : absl::GetFlag(FLAGS_sizes)) {
    Stored stored;
    if (!absl::SimpleAtoi(text, &stored.size)) return absl::InvalidArgumentError(text);
    // Quick runs leave larger sizes out.
    if (setting.quick && stored.size > 100'000) continue;
    const std::string folder = absl::StrCat(setting.folder, "/", text);
    ASSIGN_OR_RETURN(auto made, StoredSchedules::Make({.folder = folder,
                                                       .schedules = stored.size,
                                                       .due_per_window = absl::GetFlag(FLAGS_due),
                                                       .windows = absl::GetFlag(FLAGS_windows)}));
    stored.schedules = std::move(made);
    RETURN_IF_ERROR(Create(stored, folder, figures));
    all.push_back(std::move(stored));
  }
  // Waits for the compaction of the largest store.
  const auto cpu_seconds = [] { return CpuSecondsOf(getpid()); };
  RETURN_IF_ERROR(AwaitIdle(cpu_seconds, kQuietShare, kIdleMax));
  for (int window = 0; window < absl::GetFlag(FLAGS_windows); ++window) {
    StoredSchedules::Emitted first;
    for (Stored& stored : all) {
      ASSIGN_OR_RETURN(const auto emitted, Emit(stored, window, figures));
      // The first window also warms caches.
      if (&stored == &all.front()) {
        first = emitted;
      } else if (window > 0) {
        const std::string name = absl::StrCat(stored.size, " stored: ");
        const std::string with_first = absl::StrCat(" / with ", all.front().size, " stored");
        figures.Add(name + "bare scan" + with_first, "x", emitted.raw_seconds / first.raw_seconds,
                    {.at_most = 1.3});
        figures.Add(name + "a window" + with_first, "x", emitted.seconds / first.seconds,
                    {.at_most = 1.3});
      }
    }
  }
  return absl::OkStatus();
}

absl::Status MeasureForecast(const BenchSetting& setting, Figures& figures) {
  struct Kind {
    const char* name;
    std::string cron;
    Bound bound;
  };
  for (const Kind& kind : {Kind{"of different hours", "", {.at_most = 2}},
                           Kind{"that fire every second", "* * * * * *", {}}}) {
    const int64_t size = absl::GetFlag(FLAGS_forecast) / (setting.quick ? 10 : 1);
    ASSIGN_OR_RETURN(auto stored,
                     StoredSchedules::Make(
                         {.folder = absl::StrCat(setting.folder, "/forecast", kind.cron.size()),
                          .schedules = size,
                          .cron = kind.cron}));
    if (const auto created = stored->Create(); !created.ok()) return created.status();
    RETURN_IF_ERROR(AwaitIdle([] { return CpuSecondsOf(getpid()); }, kQuietShare, kIdleMax));
    for (int i = 0; i < setting.repetitions; ++i) {
      ASSIGN_OR_RETURN(const auto forecast, stored->Forecast(absl::Hours(72)));
      if (!kind.cron.empty() && forecast.schedules != size)
        return absl::InternalError(
            absl::StrCat("a forecast of ", forecast.schedules, " schedules"));
      const std::string name = absl::StrCat(size, " schedules ", kind.name, ": 72 h");
      figures.Add(name, "s", forecast.seconds, kind.bound);
      figures.AddRaw(name, "s", "bare scan of their rows", forecast.raw_seconds);
    }
  }
  return absl::OkStatus();
}

absl::Status MeasureBurst(const BenchSetting& setting, Figures& figures) {
  const uint64_t rows = absl::GetFlag(FLAGS_burst) / (setting.quick ? 5 : 1);
  const std::string name = absl::StrCat(rows, " rows due in one second: ");
  ASSIGN_OR_RETURN(auto receiver, ReceiverProcess::Start(setting.bin));
  PlatformBed bed({.bin = setting.bin, .folder = setting.folder + "/burst"});
  RETURN_IF_ERROR(bed.Start());
  PathStages stages({.payload_bytes = kPayloadBytes}, &bed, receiver.get());
  const v1::Target target = integration::GrpcTo(receiver->grpc_target());
  // A new platform is slower than one that has worked for a while.
  if (const auto warm = stages.OneOffRate(target, rows / 4); !warm.ok()) return warm.status();
  for (int i = 0; i < setting.repetitions; ++i) {
    const double raw = RawGrpcStream(receiver->grpc_target(), rows, kPayloadBytes);
    ASSIGN_OR_RETURN(const auto late, stages.LatenessAt(target, static_cast<double>(rows), rows));
    figures.Add(name + "lateness of the last", "ms", late.last / 1e3);
    figures.AddRaw(name + "lateness of the last", "ms",
                   "bare gRPC stream that begins with the first",
                   std::max(0.0, static_cast<double>(rows) / raw - 1) * 1e3);
    AddLateness(name, late, {}, figures);
  }
  return absl::OkStatus();
}

absl::Status Run(const BenchSetting& setting, Figures& figures) {
  setting.Measure("stored", figures, [&] { return MeasureStored(setting, figures); });
  setting.Measure("forecast", figures, [&] { return MeasureForecast(setting, figures); });
  setting.Measure("burst", figures, [&] { return MeasureBurst(setting, figures); });
  return absl::OkStatus();
}

}  // namespace
}  // namespace escapement::bench

int main(int argc, char** argv) {
  return escapement::bench::RunBench(
      argc, argv,
      {.name = "index",
       .usage = "emission over few and many stored schedules; a forecast of them; many rows due in "
                "one second",
       .repetitions = 3,
       .run = escapement::bench::Run});
}
