// The demo's batches under a policy: the consumer works on each event and gives its token back; it
// counts itself how many distinct events are out.

#ifndef TESTS_E2E_THROTTLED_PHASE_H_
#define TESTS_E2E_THROTTLED_PHASE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/e2e/judge.h"
#include "tests/integration/api_client.h"
#include "tests/integration/platform.h"

namespace escapement::e2e {

struct ThrottledPhase {
  std::string what;         // "(e) …"
  std::string schedule_id;  // also the policy's
  int64_t events = 10'000;
  int64_t concurrent = 50;
  absl::Duration work = absl::Milliseconds(50);
  bool by_http = false;                       // else by gRPC
  absl::Duration allowed = absl::Seconds(0);  // from the due time until all have ended
  absl::Duration delivery_timeout = absl::Seconds(2);
  // Killed with -9 and started again, one after the other, the first one `kill_every` after the
  // first event has come.
  std::vector<std::string> victims = {};
  absl::Duration kill_every = absl::Seconds(3);

  std::string bin = {};     // as DemoOptions
  std::string folder = {};  // as DemoOptions
  // Of the phase; what has not ended by then is lost.
  absl::Duration timeout = absl::Seconds(90);
  std::function<void(const std::string& words)> show = {};  // progress
  std::function<void(const std::string& words)> say = {};   // what is done
};

// Runs it on a platform with a token manager.
absl::StatusOr<Verdict> RunThrottled(const ThrottledPhase& phase, integration::Platform& platform,
                                     integration::ApiClient& api);

}  // namespace escapement::e2e

#endif  // TESTS_E2E_THROTTLED_PHASE_H_
