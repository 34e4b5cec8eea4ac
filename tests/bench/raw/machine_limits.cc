#include <cstdint>

#include "absl/strings/str_cat.h"
#include "tests/bench/raw/raw_limits.h"

namespace escapement::bench {
namespace {

constexpr double kTimersPerSecond = 1000;

void AddTail(const std::string& name, const fixtures::LatencyHistogram& latencies,
             Figures& figures) {
  const std::string row = absl::StrCat(name, ", same time: ");
  figures.Add(row + "p99", "ms", static_cast<double>(latencies.Percentile(0.99)) / 1e3);
  figures.Add(row + "max", "ms", static_cast<double>(latencies.max()) / 1e3);
}

}  // namespace

std::future<MachineLimits> MeasureMachineLimits(const std::string& folder,
                                                absl::Duration duration) {
  return std::async(std::launch::async, [folder, duration] {
    std::future<fixtures::LatencyHistogram> syncs =
        std::async(std::launch::async, RawSyncs, folder, duration);
    MachineLimits limits;
    limits.real_time =
        RawRealTimeTimer(static_cast<uint64_t>(absl::ToDoubleSeconds(duration) * kTimersPerSecond),
                         kTimersPerSecond);
    limits.syncs = syncs.get();
    return limits;
  });
}

void AddMachineLimits(const std::string& name, const MachineLimits& limits, Figures& figures) {
  if (limits.real_time.count() > 0) AddTail(name + "real-time timers", limits.real_time, figures);
  AddTail(name + "bare synced write of 4 KiB", limits.syncs, figures);
}

}  // namespace escapement::bench
