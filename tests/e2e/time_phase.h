// The demo's schedules over a downtime of the emitter: a cron expression that fires the latest of
// what was missed, an interval and a list of instants that fire everything, and runs that must not
// overlap. All of them begin and end at given times, so that it is known what they owe.

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
  // Longer than what is emitted ahead (5 s), so that something is missed.
  absl::Duration down = absl::Seconds(11);
  // Of the phase; what has not ended by then is lost.
  absl::Duration timeout = absl::Seconds(90);
  std::function<void(const std::string& words)> show = {};  // progress
  std::function<void(const std::string& words)> say = {};   // what is done
};

// One verdict for each schedule.
absl::StatusOr<std::vector<Verdict>> RunTime(const TimePhase& phase,
                                             integration::Platform& platform,
                                             integration::ApiClient& api, const Consumer& consumer);

}  // namespace escapement::e2e

#endif  // TESTS_E2E_TIME_PHASE_H_
