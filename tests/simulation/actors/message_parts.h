// What the users of the simulation put into schedules and one-off events alike.

#ifndef TESTS_SIMULATION_ACTORS_MESSAGE_PARTS_H_
#define TESTS_SIMULATION_ACTORS_MESSAGE_PARTS_H_

#include "absl/time/time.h"

namespace escapement::simulation {

inline constexpr absl::Duration kDeliveryTimeout = absl::Seconds(2);
// Longer than a lease: who takes a shard over has to wait for attempts of the one before it.
inline constexpr absl::Duration kLongDeliveryTimeout = absl::Seconds(8);
inline constexpr int kMaxAttempts = 5;

// Of the n-th message of a user: most are short.
inline absl::Duration DeliveryTimeoutOf(int64_t n) {
  return n % 4 == 3 ? kLongDeliveryTimeout : kDeliveryTimeout;
}

// Target, timeout and retries: short, so that a run ends soon. `Message` is a v1::Schedule or a
// v1::Event.
template <typename Message>
void SetDelivery(Message* message, absl::Duration timeout = kDeliveryTimeout) {
  message->mutable_target()->mutable_http()->set_uri("http://consumer.test/events");
  message->mutable_delivery_timeout()->set_seconds(absl::ToInt64Seconds(timeout));
  auto& retry = *message->mutable_retry_policy();
  retry.set_max_attempts(kMaxAttempts);
  retry.mutable_min_backoff()->set_nanos(200'000'000);
  retry.mutable_max_backoff()->set_seconds(1);
}

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_ACTORS_MESSAGE_PARTS_H_
