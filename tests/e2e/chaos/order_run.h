// One run with events whose order their keys keep: a policy with one event out for each key, and
// retries that keep their token (docs/design/throttling.md). Real processes deliver the events to a
// consumer that refuses every tenth event once, while handler, token manager and store are killed
// with -9 in turn and started again at once. CheckOrder judges what the consumer saw.
//
// Threads: the main thread, which starts and ends the processes.

#ifndef TESTS_E2E_CHAOS_ORDER_RUN_H_
#define TESTS_E2E_CHAOS_ORDER_RUN_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/e2e/chaos/check_order.h"

namespace escapement::chaos {

struct OrderOptions {
  std::string bin;     // holds services/…
  std::string folder;  // exists and is empty; data and logs stay there
  size_t keys = 100;
  // Due one millisecond after another.
  size_t events_of_key = 20;
  // Each comes when the consumer has accepted another 1 / (kills + 1) of the events.
  size_t kills = 0;
  // How long the consumer has an event before it answers.
  absl::Duration work = absl::Milliseconds(2);
  // How long the consumer may accept nothing until the run ends with an error.
  absl::Duration standstill_max = absl::Seconds(90);
};

struct OrderResult {
  // Two further rules: "process", if a process ended by itself or did not start again, and
  // "outcome", if the platform does not say of each event that it succeeded, or a token is still
  // held.
  OrderVerdict verdict;
  size_t kills = 0;
  absl::Duration took;  // from the first due time until all events had ended
};

// Returns an error if the run could not be made.
absl::StatusOr<OrderResult> RunOrder(const OrderOptions& options);

// One line. If the run failed, also what is wrong and where its logs are.
std::string Report(const OrderOptions& options, const OrderResult& result);

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_ORDER_RUN_H_
