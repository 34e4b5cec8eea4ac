// DeliveryTransport: how events reach consumers; one implementation for each kind of target.
//
// Built for 100,000 deliveries a second: what the events of one queue row have in common is one
// shared DeliveryContext; an attempt adds its id, index and number; results come back through one
// sink, without an allocation per event.
//
// Implementations: http_transport, grpc_transport (real consumers), target_transport (chooses
// by the target's kind), fakes in tests.

#ifndef SERVICES_HANDLER_DELIVERY_DELIVERY_TRANSPORT_H_
#define SERVICES_HANDLER_DELIVERY_DELIVERY_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace escapement::storage::v1 {
class DefinitionRecord;
}  // namespace escapement::storage::v1

namespace escapement::cron {
class Timetable;
}  // namespace escapement::cron

namespace escapement::handler {

// What all events of one queue row have in common. Immutable once shared.
struct DeliveryContext {
  // Holds the target, content type and headers: definition->delivery().target() …
  std::shared_ptr<const storage::v1::DefinitionRecord> definition;
  // Of a schedule's definition, when it fires; else null.
  std::shared_ptr<const cron::Timetable> timetable = nullptr;
  // Never null. Of a schedule it is the definition's payload (an alias, no copy), of a one-off
  // event its own.
  std::shared_ptr<const std::string> payload;
  std::string target_key;  // equal for targets that share connections: "grpc:" uri, or "http:"
                           // scheme://host:port
  // /tenants/{tenant}/schedules/{schedule} or /tenants/{tenant}/events/{event}.
  std::string source;
  std::string occurrence;  // empty for one-off events
  absl::Time nominal_time;
  absl::Time launch_time;
  uint64_t run_count = 1;  // n of the run
  absl::Duration timeout;  // of one attempt, counted from Send
};

// One attempt to deliver one event.
struct DeliveryAttempt {
  uint64_t tag = 0;  // given back with the result; unique among the handler's outstanding attempts
  std::shared_ptr<const DeliveryContext> context;
  std::string event_id;    // the same on every attempt
  uint64_t index = 0;      // in the run, from 0
  uint32_t attempt = 1;    // from 1
  std::string token = {};  // of events that hold one until the consumer gives it back
};

enum class DeliveryStatus : uint8_t {
  kAccepted,
  kFailed,    // retry by the policy
  kRejected,  // never again
  kUnknown,   // timeout, reset, no connection: it may have arrived. Retried as kFailed
  kUnsent,    // it waited too long behind others of the same target: nothing was written, so it was
              // no attempt
};

// How work that the consumer did at once ended: the token is given back with the answer.
enum class DeliveryWork : uint8_t {
  kGoesOn,  // the token is given back later
  kSucceeded,
  kFailed,
};

struct DeliveryResult {
  DeliveryStatus status = DeliveryStatus::kUnknown;
  // Why it was not accepted, or what is said of work that failed; the transport cuts it to
  // kDeliveryMessageBytesMax.
  std::string message;
  absl::Duration retry_after = absl::ZeroDuration();  // of kFailed: not before this has passed
  DeliveryWork work = DeliveryWork::kGoesOn;          // of kAccepted, of attempts with a token
};

inline constexpr size_t kDeliveryMessageBytesMax = 1024;
// A consumer that asks for more is asked again after this.
inline constexpr absl::Duration kRetryAfterMax = absl::Hours(24);

// Takes results. OnResult may be called from any thread, also from within Send; it is quick and
// does not call the transport.
class DeliverySink {
 public:
  virtual ~DeliverySink() = default;
  virtual void OnResult(uint64_t tag, DeliveryResult result) = 0;
};

class DeliveryTransport {
 public:
  virtual ~DeliveryTransport() = default;

  // Starts all attempts now, in order; they have one target_key. Never blocks; does not fail:
  // errors are results. `sink` is called exactly once for each attempt, no later than its timeout
  // (plus scheduling), and never after the transport is destroyed. The caller bounds how many
  // attempts are outstanding, in all and for each target_key.
  virtual void Send(std::vector<DeliveryAttempt> attempts, std::shared_ptr<DeliverySink> sink) = 0;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_DELIVERY_TRANSPORT_H_
