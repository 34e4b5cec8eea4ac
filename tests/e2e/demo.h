// The demo: a platform of separate processes, a consumer, real schedules and events, kills; and a
// judge at the end. Half-way the platform is started again with TLS, client certificates between
// the services, and API keys.

#ifndef TESTS_E2E_DEMO_H_
#define TESTS_E2E_DEMO_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace escapement::e2e {

struct DemoOptions {
  std::string bin;     // holds services/… and tests/fixtures/receiver
  std::string folder;  // exists; receives data and logs
  int64_t one_off_events = 1000;
  int64_t batch_events = 100'000;
  int64_t throttled_events = 10'000;
  int kills = 3;
  absl::Duration kill_every = absl::Seconds(3);
  // Length of each phase; events that have not come by then are lost.
  absl::Duration phase_timeout = absl::Seconds(90);
};

// Shows progress on stderr and the table on stdout. Returns true if everything held.
absl::StatusOr<bool> RunDemo(const DemoOptions& options);

}  // namespace escapement::e2e

#endif  // TESTS_E2E_DEMO_H_
