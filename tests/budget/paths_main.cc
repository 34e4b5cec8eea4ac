// paths_main PATH EVENTS: runs one path under callgrind (README.md).

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "common/cron/zone.h"
#include "tests/budget/paths.h"

int main(int argc, char** argv) {
  using namespace escapement::budget;
  namespace cron = escapement::cron;
  constexpr std::pair<const char*, void (*)(uint64_t)> kPaths[] = {
      {"store", RunStorePath},
      {"ingest", RunIngestPath},
      {"emission", RunEmissionPath},
      {"delivery", RunDeliveryPath},
      {"occurrences", RunOccurrencesPath},
      {"throttle", RunThrottlePath},
      {"throttled_rows", RunThrottledRowsPath},
      {"limited", RunLimitedPath},
      {"several_limits", RunSeveralLimitsPath}};
  // The platform's processes do the same.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // The zone is loaded once; otherwise its cost would count for the first event.
  if (!cron::Zone::Load("UTC").ok()) return 1;
  const std::string wanted = argc == 3 ? argv[1] : "";
  const uint64_t events = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 0;
  for (const auto& [name, run] : kPaths) {
    if (wanted != name || events == 0) continue;
    run(events);
    return 0;
  }
  std::fprintf(stderr, "paths PATH EVENTS\n");
  return 2;
}
