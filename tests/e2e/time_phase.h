// The demo's schedules over a downtime of the emitter. A cron expression fires the latest of its
// missed occurrences; an interval and a list of instants fire all of them; and one schedule's runs
// must not overlap. All begin and end at given times, so their occurrences are known.

#ifndef TESTS_E2E_TIME_PHASE_H_
#define TESTS_E2E_TIME_PHASE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/e2e/consumer.h"
#include "tests/e2e/judge.h"
#include "tests/integration/api_client.h"
#include "tests/integration/platform.h"

namespace escapement::e2e {

struct TimePhase {
  absl::Duration length = absl::Seconds(20);  // from the schedules' start to their end
  absl::Duration kill_after = absl::Seconds(3);
  // Longer than emitters plan ahead (5 s), so that occurrences are missed.
  absl::Duration down = absl::Seconds(11);
  // Length of the phase; events that have not ended by then are lost.
  absl::Duration timeout = absl::Seconds(90);
  std::function<void(const std::string& words)> show = {};  // shows progress
  std::function<void(const std::string& words)> say = {};   // reports steps
};

// Returns one verdict for each schedule.
absl::StatusOr<std::vector<Verdict>> RunTime(const TimePhase& phase,
                                             integration::Platform& platform,
                                             integration::ApiClient& api, const Consumer& consumer);

}  // namespace escapement::e2e

#endif  // TESTS_E2E_TIME_PHASE_H_
