// DeliveryTransport: how events reach consumers, with its attempts (DeliveryAttempt) and their
// results (DeliveryResult, DeliverySink). Also the flag --delivery_allowed_addresses,
// RedactingSink, and times of the monotonic clock.

#ifndef SERVICES_HANDLER_DELIVERY_DELIVERY_TRANSPORT_H_
#define SERVICES_HANDLER_DELIVERY_DELIVERY_TRANSPORT_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/net/address_rule.h"

namespace escapement::storage::v1 {
class DefinitionRecord;
}  // namespace escapement::storage::v1

namespace escapement {
struct CachedDefinition;
}  // namespace escapement

namespace escapement::handler {

// The flag --delivery_allowed_addresses: to which addresses transports may connect.

// Appends a sentence if the flag has a malformed range.
void ValidateAddressFlags(std::vector<std::string>& errors);

// `on_loopback`: the process can be reached from its own machine only. Then loopback addresses are
// allowed, too, unless the flag is set; a log line says so. Call it after the validation.
std::shared_ptr<const AddressRule> AddressRuleFromFlags(bool on_loopback);

// The data that all events of one queue row share. Immutable once shared.
struct DeliveryContext {
  // Has the target, the content type and the headers: definition->delivery().
  std::shared_ptr<const storage::v1::DefinitionRecord> definition;
  // The cached definition that `definition` is a part of; for the handler's thread only. May be
  // null.
  const CachedDefinition* cached = nullptr;
  // The definition's payload, or the one-off event's own. Valid as long as the context.
  absl::string_view payload;
  // Keeps the bytes of `payload` and `tenant`, unless they are the definition's.
  std::shared_ptr<const void> bytes = nullptr;
  // Equal for targets that share connections and bounds (common/records/row_judge.h).
  std::string target_key;
  // Not empty: the target cannot be used, for this reason, until an operator mends it (its secrets
  // cannot be opened). Attempts fail.
  std::string closed;
  // For a schedule's events: /tenants/{tenant}/schedules/{schedule}. Empty for one-off events.
  std::string source;
  // Only for one-off events, which have the source /tenants/{tenant}/events/{event_id}.
  absl::string_view tenant = {};
  std::string event_id = {};  // without the generation
  std::string occurrence;     // empty for one-off events
  absl::Time nominal_time;
  absl::Time launch_time;
  uint64_t run_count = 1;         // how many events the run has
  std::string trace_parent = {};  // as EventRecord.trace_parent
  absl::Duration timeout;         // for one attempt, counted from Send

  std::string Source() const;
  // Sets `payload`, and keeps it.
  void SetPayload(std::string text);
};

// One attempt to deliver one event.
struct DeliveryAttempt {
  uint64_t tag = 0;  // identifies the result; unique among the handler's outstanding attempts
  std::shared_ptr<const DeliveryContext> context;
  std::string event_id;    // the same on every attempt
  uint64_t index = 0;      // in the run, from 0
  uint32_t attempt = 1;    // from 1
  std::string token = {};  // empty unless the consumer must give a token back
};

enum class DeliveryStatus : uint8_t {
  kAccepted,
  kFailed,    // is retried by the retry policy
  kRejected,  // is never retried
  kUnknown,   // timeout or reset: it may have arrived; is retried like kFailed
  kUnsent,    // waited too long behind others of its target; nothing was written: no attempt
};

// The result of work that the consumer did at once. The answer then gives the token back.
enum class DeliveryWork : uint8_t {
  kGoesOn,  // the consumer gives the token back later
  kSucceeded,
  kFailed,
};

struct DeliveryResult {
  DeliveryStatus status = DeliveryStatus::kUnknown;
  // Only for kFailed and kRejected: the event was not sent, because there was no connection or the
  // target cannot be used. The target has not answered.
  bool not_sent = false;
  // Why it was not accepted, or why the work failed. The transport cuts it to
  // kDeliveryMessageBytesMax.
  std::string message;
  absl::Duration retry_after = absl::ZeroDuration();  // only for kFailed: wait at least this long
  DeliveryWork work = DeliveryWork::kGoesOn;          // only for kAccepted, with a token
  // The target's answer: escapement.v1.Attempt.status_code, and the first bytes of its text, at
  // most kDeliveryAnswerBytesMax.
  int32_t status_code = 0;
  std::string answer = {};
  // Only for kRejected: the target is gone for good and says so. Its schedule is paused.
  bool gone = false;
};

// A kept connection that is older carries no further event, in every transport, so that a changed
// address of its host is noticed.
inline constexpr absl::Duration kConnectionAgeMax = absl::Seconds(60);

inline constexpr size_t kDeliveryMessageBytesMax = 1024;
inline constexpr size_t kDeliveryAnswerBytesMax = 4096;
// A longer Retry-After of a consumer is cut to this.
inline constexpr absl::Duration kRetryAfterMax = absl::Hours(24);

// The result of the attempt with this tag.
struct TaggedResult {
  uint64_t tag = 0;
  DeliveryResult result;
};

// Takes results. Both methods may be called from any thread, also from within Send. They return
// quickly and do not call the transport.
class DeliverySink {
 public:
  virtual ~DeliverySink() = default;
  virtual void OnResult(uint64_t tag, DeliveryResult result) = 0;
  // The same for several results, which may cost less: the handler is woken once.
  virtual void OnResults(std::vector<TaggedResult> results) {
    for (TaggedResult& each : results) OnResult(each.tag, std::move(each.result));
  }
};

// DeliveryTransport: how events reach consumers; one implementation for each kind of target.
//
// It is built for 100,000 deliveries a second: the events of one queue row share one
// DeliveryContext, an attempt adds its id, index and number, and all results go to one sink without
// an allocation per event.
//
// Implementations: http_transport and grpc_transport (real consumers), the transport of all kinds
// (transport_table), fakes in tests.
class DeliveryTransport {
 public:
  virtual ~DeliveryTransport() = default;

  // Starts all attempts now, in order. All must have one target_key. Never blocks and never fails:
  // errors are results. Calls `sink` exactly once per attempt, at its timeout at the latest (plus
  // scheduling), and never after the transport is destroyed. The caller bounds the outstanding
  // attempts, in all and per target_key.
  virtual void Send(std::vector<DeliveryAttempt> attempts, std::shared_ptr<DeliverySink> sink) = 0;
};

// RedactingSink: takes the target's secrets out of what results say. A careless consumer may repeat
// in its answer what it was sent.
//
// Threads: as DeliverySink.

// The texts to look for: each secret, and those parts of it that are long enough to be recognized
// ("Bearer {token}", "{key id}:{secret}", the path of a URL). The longest come first.
std::vector<std::string> SecretParts(const std::vector<std::string>& secrets);

// Replaces each part by "(secret)". Also cuts the end of a text that was cut within a part.
void Redact(const std::vector<std::string>& parts, std::string* text);

// A sink that redacts message and answer of each result and passes it to `sink`. Returns `sink`
// itself if the targets of the attempts are of a kind, or have settings, without secrets. Secrets
// are opened already. They are looked up once, at the first result with a text: most batches are
// accepted and have none.
std::shared_ptr<DeliverySink> RedactingSink(const std::vector<DeliveryAttempt>& attempts,
                                            std::shared_ptr<DeliverySink> sink);

// Times of the monotonic clock, for timeouts of transports: microseconds since some moment in the
// past.
using MonotonicMicros = int64_t;
inline constexpr MonotonicMicros kNeverMicros = std::numeric_limits<int64_t>::max();

MonotonicMicros MonotonicNow();

// A timeout in microseconds, from 0 to 20 days: libcurl counts milliseconds in an int.
MonotonicMicros TimeoutMicros(absl::Duration timeout);

// Milliseconds to wait until `at`, rounded up; from 0 to a minute.
int PollMillis(MonotonicMicros at);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_DELIVERY_TRANSPORT_H_
