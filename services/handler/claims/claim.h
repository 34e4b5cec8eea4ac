// Claim: events that this handler is about to send, is sending, or has sent without having
// committed their end.
//
// The durable side is ClaimRecord in `inflight` (common/storage/inflight_table.h). A claim is
// shared by its shard, the send loop and the sends under way; `owner` is null once the shard is
// lost: what comes back then changes nothing.

#ifndef SERVICES_HANDLER_CLAIMS_CLAIM_H_
#define SERVICES_HANDLER_CLAIMS_CLAIM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/grant_table.h"
#include "common/storage/inflight_table.h"
#include "common/storage/one_off_rows.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

class ClaimOwner;
struct SendTarget;

// What granted events hold (docs/design/throttling.md). Of what becomes of them the handler only
// reports to the owner of the policy shard.
struct EntryGrant {
  GrantId id;
  absl::Time send_before;   // of the store's time: nothing is sent later
  bool on_release = false;  // the consumer gives the token back, and is told it
};

struct ClaimedEntry {
  std::string event_key;  // of the row the events were taken from; of granted ones in `waiting`
  EventKey key;           // of granted ones without a lane
  storage::v1::EventRecord event;  // without payload
  std::shared_ptr<const DeliveryContext> context;
  uint64_t claimed_version = 0;
  bool row_stays = false;  // a one-off event: its row is deleted by the end
  std::unique_ptr<const EntryGrant> grant =
      nullptr;  // of granted events; of all of a claim or none
  bool one_off() const { return event.version() == 0; }
  // The same on every attempt.
  std::string EventId(uint64_t index) const {
    if (one_off()) return OneOffEventId(event_key, event);
    if (identity == nullptr)
      identity = std::make_unique<RunIdentity>(event.tenant(), key.uid, key.occurrence);
    return identity->EventId(index);
  }
  mutable std::unique_ptr<RunIdentity> identity;
};

struct Claim {
  ClaimId id;
  uint64_t order = 0;  // of this handler's claims: 1, 2, 3 …
  ClaimOwner* owner = nullptr;
  std::vector<ClaimedEntry> entries;
  uint64_t open = 0;  // events whose end is not committed
  uint32_t ends_written = 0;
  int64_t claim_time_micros = 0;
  // When its schedules' states were known to allow it: no later than its commit.
  absl::Time judged;
  absl::Duration timeout_max = absl::ZeroDuration();
  // Of granted claims: the commit that put it, which had the states of its schedules as conditions;
  // 0: not known.
  uint64_t granted_seq = 0;
};

enum class EndKind : uint8_t {
  kSucceeded,
  kFailed,     // a dead letter
  kRetry,      // becomes a retry row
  kSkipped,    // not sent, for `reason`
  kCancelled,  // of rows that are not claimed: the run has given way to a later one
  kReturn,  // not sent, the schedule has changed or there was no room at the target: a row again,
            // to be judged anew under its state
  kPark,    // of rows that are not claimed: goes to `parked`, under the condition that the schedule
            // is paused
  kMove,    // of rows that are not claimed: waits where the schedule's definition wants it by now
  kResend,  // of granted claims of a former owner: may have been sent, to be claimed again
  kGone,    // of a claim: the one-off's row is not there any more, nothing but the claim's end is
            // written; of a row: another row stands for its events, it is only deleted
};

// What became of events [first, first + count) of a claim's entry.
struct Outcome {
  std::shared_ptr<Claim> claim = nullptr;
  uint32_t entry = 0;
  EndKind kind = EndKind::kSucceeded;
  uint64_t first = 0;
  uint64_t count = 1;
  uint32_t attempts = 0;  // that have begun, this one included
  int64_t dispatch_micros = 0;
  int64_t complete_micros = 0;
  std::string reason = {};  // of skips; the last error of failures and retries
  absl::Time retry_at = absl::InfinitePast();
  // Of granted events.
  DeliveryWork work = DeliveryWork::kGoesOn;
  bool unreachable = false;  // the target did not answer at all, or had no room
};

// The shard that a claim belongs to. On the handler's executor.
class ClaimOwner {
 public:
  enum class Check {
    kSend,
    kWait,   // the lease cannot be trusted at the moment: ask again later
    kEnded,  // not to be sent; the owner has taken care of the range
  };
  virtual ~ClaimOwner() = default;
  // Asked just before events of the claim are sent.
  virtual Check BeforeSend(const std::shared_ptr<Claim>& claim, uint32_t entry, uint64_t first,
                           uint64_t count) = 0;
  // `silent`: the target has answered nothing since the attempt began.
  virtual void OnResult(const std::shared_ptr<Claim>& claim, uint32_t entry, uint64_t index,
                        int64_t dispatch_micros, DeliveryResult result, bool silent) = 0;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_CLAIMS_CLAIM_H_
