// Claim: events that this handler is about to send, is sending, or has sent, and whose end is not
// committed yet.
//
// Its durable form is ClaimRecord in `inflight` (common/storage/waiting_table.h). The shard, the
// send loop and the sends under way share a claim. When the shard is lost, its `owner` becomes
// null, and later results of the claim have no effect.

#ifndef SERVICES_HANDLER_SENDING_CLAIM_H_
#define SERVICES_HANDLER_SENDING_CLAIM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/base/options.h"
#include "services/handler/delivery/delivery_transport.h"
#include "services/handler/sending/event_row.h"

namespace escapement::handler {

class ClaimOwner;
struct SendTarget;

// The token manager's grant of an entry's events (docs/design/throttling.md). The handler reports
// the outcomes of granted events to the owner of the policy shard, and writes nothing else.
struct EntryGrant {
  GrantId id;
  absl::Time send_before;   // in store time; the events are not sent later
  bool on_release = false;  // the consumer gets a token and gives it back
};

struct ClaimedEntry {
  // Keeps the bytes of event_key and event.
  std::shared_ptr<const void> bytes;
  // The key of the row that the events were taken from, in `events`, or in `waiting` if granted.
  absl::string_view event_key;
  EventKey key;  // without a lane if granted
  EventRow event;
  std::shared_ptr<const DeliveryContext> context;
  uint64_t claimed_version = 0;
  bool row_stays = false;  // a one-off event: the row stays until the event ends
  // Whose room the events take, a key of SendLoop::RoomKey. Empty: their target's.
  std::string room = {};
  // Null unless granted. All entries of a claim are granted, or none.
  std::unique_ptr<const EntryGrant> grant = nullptr;
  bool one_off() const { return event.one_off(); }
  const std::string& room_key() const { return room.empty() ? context->target_key : room; }
  void SetEventKey(std::string text) {
    auto kept = std::make_shared<const std::string>(std::move(text));
    event_key = *kept;
    bytes = std::move(kept);
  }
  // The id of an event, equal on every attempt.
  std::string EventId(uint64_t index) const {
    if (one_off()) {
      return context != nullptr && !context->event_id.empty() ? context->event_id
                                                              : OneOffEventId(event_key, event);
    }
    if (!identity.has_value()) identity.emplace(event.tenant(), key.uid, key.occurrence);
    return identity->EventId(index);
  }
  // The same, as the consumer receives it.
  std::string DeliveredId(uint64_t index) const {
    return DeliveredEventId(EventId(index), event.generation());
  }
  mutable std::optional<RunIdentity> identity;
};

// One event of a claim.
struct ClaimedEvent {
  uint32_t entry = 0;  // index in Claim::entries
  uint64_t index = 0;
};

struct Claim {
  ClaimId id;
  uint64_t order = 0;  // numbers the claims of this handler from 1
  ClaimOwner* owner = nullptr;
  std::vector<ClaimedEntry> entries;
  uint64_t open = 0;  // events whose end is not committed
  uint32_t ends_written = 0;
  int64_t claim_time_micros = 0;
  // When the states of its schedules were known to allow the claim: at its commit or before.
  absl::Time judged;
  absl::Duration timeout_max = absl::ZeroDuration();
  // Only for granted claims: the commit that wrote the claim, on condition of its schedules'
  // states. 0: not known.
  uint64_t granted_seq = 0;
  // How many handlers were lost while they had the claim, at most kLostClaimsOfSuspect. It adds to
  // lost_claims of the entries' events.
  uint32_t lost_claims = 0;
  bool has_takeover_row = false;  // a ClaimTakeoverRecord may exist
  // The event that is being sent alone (suspect_loop.h), until its end is committed.
  std::optional<ClaimedEvent> trial = std::nullopt;

  bool IsSuspect(const ClaimedEntry& entry) const {
    return entry.event.lost_claims() + lost_claims >= kLostClaimsOfSuspect;
  }
};

// How events end. A claim's events may end as kSucceeded, kFailed, kRetry, kSkipped, kReturn,
// kResend or kGone. A row without a claim may end as kFailed, kSkipped, kExpired, kCancelled,
// kPark, kMove or kGone.
enum class EndKind : uint8_t {
  kSucceeded,
  kFailed,     // becomes a dead letter
  kRetry,      // becomes a retry row
  kSkipped,    // is not sent, for `reason`
  kExpired,    // was not sent within its max_lateness
  kCancelled,  // its run has been cancelled
  kReturn,     // is not sent now; becomes a row again and is judged again
  kPark,       // goes to `parked`, on condition that the schedule is still paused
  kMove,       // waits under the policy and priority that the definition has now
  kResend,     // a former owner may have sent the granted event; its token manager grants it again
  kGone,       // the row is gone, and only the claim ends; or the row is only deleted
};

// The end of events [first, first + count) of a claim's entry.
struct Outcome {
  std::shared_ptr<Claim> claim = nullptr;
  uint32_t entry = 0;
  EndKind kind = EndKind::kSucceeded;
  uint64_t first = 0;
  uint64_t count = 1;
  uint32_t attempts = 0;  // attempts that have begun, this one included
  int64_t dispatch_micros = 0;
  int64_t complete_micros = 0;
  std::string reason = {};  // why it was skipped, or the last error of a failure or retry
  absl::Time retry_at = absl::InfinitePast();
  // The attempt that ended so. KIND_UNSPECIFIED: there was none.
  storage::v1::AttemptRecord::Kind attempt = storage::v1::AttemptRecord::KIND_UNSPECIFIED;
  int32_t status = 0;       // AttemptRecord.status
  std::string answer = {};  // the target's, at most kDeliveryAnswerBytesMax
  // Only for kFailed: the target is gone for good, and the event's schedule shall be paused for
  // this reason. Empty: it is not gone.
  std::string gone = {};
  // Only for granted events.
  DeliveryWork work = DeliveryWork::kGoesOn;
  bool unreachable = false;  // the target did not answer at all, or had no room
  // The consumer has asked that nothing more be sent until then. InfinitePast: it has not.
  absl::Time paused_until = absl::InfinitePast();
  uint32_t lost_claims = 0;  // only for kResend: EventRecord.lost_claims from now on
};

// How an attempt of a claimed event ended.
struct AttemptEnd {
  uint32_t entry = 0;  // its place in Claim.entries
  uint64_t index = 0;  // the event's
  int64_t dispatch_micros = 0;
  absl::Time time;  // KvClient::NowLow() when it was learned
  DeliveryResult result = {};
  bool silent = false;  // the target has answered no attempt since this one began
};

// The shard that a claim belongs to. Called on the handler's executor.
class ClaimOwner {
 public:
  enum class Check {
    kSend,
    kWait,   // the lease cannot be trusted now: ask again later
    kEnded,  // must not be sent; the owner has ended the range
  };
  virtual ~ClaimOwner() = default;
  // Asked just before events of the claim are sent.
  virtual Check BeforeSend(const std::shared_ptr<Claim>& claim, uint32_t entry, uint64_t first,
                           uint64_t count) = 0;
  virtual void OnResult(const std::shared_ptr<Claim>& claim, AttemptEnd end) = 0;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_SENDING_CLAIM_H_
