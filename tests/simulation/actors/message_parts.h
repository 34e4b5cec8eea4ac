// Parts of messages that schedules and one-off events of the simulation's users share.

#ifndef TESTS_SIMULATION_ACTORS_MESSAGE_PARTS_H_
#define TESTS_SIMULATION_ACTORS_MESSAGE_PARTS_H_

#include "absl/time/time.h"

namespace escapement::simulation {

inline constexpr absl::Duration kDeliveryTimeout = absl::Seconds(2);
// Longer than a lease, so a process that takes over a shard must wait for attempts of the former
// owner.
inline constexpr absl::Duration kLongDeliveryTimeout = absl::Seconds(8);
inline constexpr int kMaxAttempts = 5;

// The delivery timeout of a user's n-th message: most are short.
inline absl::Duration DeliveryTimeoutOf(int64_t n) {
  return n % 4 == 3 ? kLongDeliveryTimeout : kDeliveryTimeout;
}

// Sets target, timeout and retries, all short, so that a run ends soon. `Message` is a v1::Schedule
// or a v1::Event.
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
