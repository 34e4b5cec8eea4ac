// The demo's batches under a policy. The consumer works on each event and gives its token back. It
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
#include "tests/fixtures/caller_channel.h"
#include "tests/integration/api_client.h"
#include "tests/integration/platform.h"

namespace escapement::e2e {

struct ThrottledPhase {
  std::string what;         // "(e) …"
  std::string schedule_id;  // also the id of the policy
  int64_t events = 10'000;
  int64_t concurrent = 50;
  absl::Duration work = absl::Milliseconds(50);
  bool by_http = false;                       // false: by gRPC
  absl::Duration allowed = absl::Seconds(0);  // from the due time to the last end
  absl::Duration delivery_timeout = absl::Seconds(2);
  // Processes that are killed with -9 and started again, one after the other. The first kill is
  // `kill_every` after the first event has come.
  std::vector<std::string> victims = {};
  absl::Duration kill_every = absl::Seconds(3);

  std::string bin = {};              // as DemoOptions
  std::string folder = {};           // as DemoOptions
  fixtures::CallerProof proof = {};  // the demo and its consumer use it
  std::string key_file = {};         // holds the proof's key
  // Length of the phase; events that have not ended by then are lost.
  absl::Duration timeout = absl::Seconds(90);
  std::function<void(const std::string& words)> show = {};  // shows progress
  std::function<void(const std::string& words)> say = {};   // reports steps
};

// Runs the phase on a platform with a token manager.
absl::StatusOr<Verdict> RunThrottled(const ThrottledPhase& phase, integration::Platform& platform,
                                     integration::ApiClient& api);

}  // namespace escapement::e2e

#endif  // TESTS_E2E_THROTTLED_PHASE_H_
