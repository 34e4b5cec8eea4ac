// Parts of messages that schedules and one-off events of the simulation's users share.

#ifndef TESTS_SIMULATION_ACTORS_MESSAGE_PARTS_H_
#define TESTS_SIMULATION_ACTORS_MESSAGE_PARTS_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "escapement/v1/resources.pb.h"

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

// One of few keys of a policy, the empty one among them.
inline std::string PolicyKeyOf(uint64_t n) {
  return n % 5 == 0 ? std::string() : absl::StrCat("customer-", n % 5);
}

inline constexpr int64_t kWeightMax = 4;

// Limits of `policies` (not empty) for a schedule or event, by the random number `n`: one as
// `policy`, or several, of which some weigh more than one.
template <typename Message>
void SetLimits(const std::vector<std::string>& policies, bool several, uint64_t n,
               Message* message) {
  const size_t first = n % policies.size();
  n /= policies.size();
  const size_t count = several && n % 2 == 0 ? 1 + n / 2 % std::min<size_t>(policies.size(), 4) : 0;
  n /= 16;
  if (count == 0) {
    message->set_policy(policies[first]);
    message->set_policy_key(PolicyKeyOf(n));
    return;
  }
  for (size_t i = 0; i < count; ++i, n /= 20) {
    v1::Limit& limit = *message->add_limits();
    limit.set_policy(policies[(first + i) % policies.size()]);
    limit.set_policy_key(PolicyKeyOf(n));
    limit.set_weight(1 + static_cast<int64_t>(n / 5 % kWeightMax));
  }
}

// Kinds of targets that need no secret: HTTP, gRPC, SQS, Kafka, e-mail, ping.
inline constexpr int64_t kTargetKinds = 6;

// The n-th kind of target, at this authority ("consumer.test").
inline v1::Target TargetOfKind(int64_t n, absl::string_view authority) {
  v1::Target target;
  switch (n % kTargetKinds) {
    case 0:
      target.mutable_http()->set_uri(absl::StrCat("http://", authority, "/events"));
      break;
    case 1:
      target.mutable_sqs()->set_queue_url(absl::StrCat("http://", authority, "/1/queue"));
      target.mutable_sqs()->set_region("eu-central-1");
      break;
    case 2:
      target.mutable_kafka()->set_brokers(absl::StrCat(authority, ":9092"));
      target.mutable_kafka()->set_topic("topic");
      break;
    case 3:
      target.mutable_grpc()->set_uri(absl::StrCat(authority, ":7000"));
      break;
    case 4:
      target.mutable_email()->set_smtp_uri(absl::StrCat("smtp://", authority));
      target.mutable_email()->set_from("jobs@example.com");
      target.mutable_email()->add_to("ann@example.org");
      break;
    default:
      target.mutable_ping()->set_uri(absl::StrCat("http://", authority, "/ping"));
  }
  return target;
}

// Sets target, timeout and retries, all short, so that a run ends soon. `Message` is a v1::Schedule
// or a v1::Event.
template <typename Message>
void SetDelivery(Message* message, absl::Duration timeout = kDeliveryTimeout, int64_t kind = 0) {
  *message->mutable_target() = TargetOfKind(kind, "consumer.test");
  message->mutable_delivery_timeout()->set_seconds(absl::ToInt64Seconds(timeout));
  auto& retry = *message->mutable_retry_policy();
  retry.set_max_attempts(kMaxAttempts);
  retry.mutable_min_backoff()->set_nanos(200'000'000);
  retry.mutable_max_backoff()->set_seconds(1);
}

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_ACTORS_MESSAGE_PARTS_H_
