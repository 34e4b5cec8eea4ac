// GrantedLoop: adopts the claims that token managers write for one queue shard. GrantedPiece: a
// part of such a claim. HeldRowEnd: how long rows may wait while their target takes none.

#ifndef SERVICES_HANDLER_CLAIMS_GRANTED_LOOP_H_
#define SERVICES_HANDLER_CLAIMS_GRANTED_LOOP_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/kv/client/watched_range.h"
#include "services/handler/claims/suspect_loop.h"
#include "services/handler/claims/takeover.h"
#include "services/handler/ends/end_batch.h"
#include "services/handler/ends/end_loop.h"
#include "services/handler/sending/claim.h"
#include "services/handler/shard/row_resolver.h"
#include "services/handler/shard/shard_state.h"

namespace escapement::handler {

// Turns the record of a granted claim into a Claim, and parts of it into outcomes.
//
// Pure.

// A range of open events of one entry of a granted claim.
struct GrantedPiece {
  std::shared_ptr<Claim> claim;
  uint32_t entry = 0;
  uint64_t first = 0;
  uint64_t count = 0;

  ClaimedEntry& claimed() const { return claim->entries[entry]; }
};

// Returns the claim with its entries and its count of open events, but without contexts, order and
// owner. Null if an entry cannot be read. Moves the records out of `left`.
std::shared_ptr<Claim> MakeGrantedClaim(LeftClaim& left);

// The open ranges of the claim.
std::vector<GrantedPiece> OpenPieces(const std::shared_ptr<Claim>& claim, const LeftClaim& left);

// The outcome of events that were not sent and go back to their token manager. `unreachable`: their
// target is the reason.
Outcome ReturnOutcome(const GrantedPiece& piece, absl::Time now, bool unreachable);

// How long a row may wait while its target is down or asks for pauses, and how it ends.
//
// Pure.

// When the events of the row reach their retry policy's max_age. `held_for` is how long their
// target has been down or has been asking for pauses. The age of an event that was never tried
// begins at the beginning of this time, or at its due time if that is later. `row` is judged kSend.
absl::Time HeldRowEnd(const ResolvedRow& row, absl::Duration held_for, absl::Time now);

// The end of a row that has waited until then: its first events fail, at most 1,000. `down`: else
// the target has asked for pauses. Moves from `row`.
RowEnd EndOfHeldRow(ResolvedRow& row, bool down);

// GrantedLoop: adopts the claims that token managers write for one queue shard
// (docs/design/throttling.md) and hands their events to the send loop as their targets have room,
// in the order of their arrival.
//
// A watch over the shard's `inflight` opens before the shard's claims are scanned, so each claim is
// seen by the watch, by the scan, or by both. GrantedClaims keeps a claim from being adopted twice.
// If the watch lags, the loop opens another one and scans the shard again.
//
// The token managers bound the backlog: they keep at most 1,000 undelivered events out per queue
// shard. An event that has no room by its send_before is returned to its token manager.
//
// Threads: one, the handler's executor.
class GrantedLoop {
 public:
  // All arguments must outlive it.
  GrantedLoop(QueueShardState& state, EndLoop& ends, SuspectLoop& suspects);

  // Opens the watch, then calls `watched`. The caller must then scan the shard and call OnScanned.
  // If the watch lags before that, `watched` is called again.
  void Start(std::function<void()> watched);
  // Ends the first scan, made at `seq`. GrantedClaims must know every claim that the scan has
  // found.
  void OnScanned(kv::CommitSeq seq);

  // Takes a claim whose events were never sent. GrantedClaims must know its id. `seq`: of the
  // commit that wrote the claim; 0 if not known.
  void Adopt(LeftClaim left, kv::CommitSeq seq);

  void Step(absl::Time now);

  // The cache has read the records that were missing.
  void OnFetched();

  // True if events wait for a target.
  bool blocked() const { return !blocked_.empty(); }

  // Adopts no further claims, and returns events that are not with the send loop yet.
  void Stop();
  // After Stop: returns the events of claims that have arrived since. Works once; false if it has
  // returned nothing.
  bool ReturnLate();

 private:
  struct WatchedClaim {
    ClaimId id;
    std::string value;
    bool omitted = false;  // the watch left the value out; it must be read
    kv::CommitSeq seq = 0;
  };
  void StartWatch();
  void OnBatch(const kv::WatchBatch& batch);
  void AdoptWatched(std::vector<WatchedClaim> claims);
  void ReadOmitted(std::vector<WatchedClaim> claims);
  void AdoptRecord(const WatchedClaim& watched);
  void ScanAgain();

  void ReadRows(std::vector<GrantedPiece> pieces);
  void Resolve(GrantedPiece piece);
  bool ResolveOneOff(const GrantedPiece& piece, ClaimedEntry& entry);
  void QueueForTarget(GrantedPiece piece);
  void HandToSendLoop(const GrantedPiece& piece);
  void Unblock(absl::Time now);

  QueueShardState& state_;
  EndLoop& ends_;
  SuspectLoop& suspects_;
  std::function<void()> on_watching_;  // null after the first scan
  kv::WatchedRange watch_;
  uint64_t generation_ = 0;  // counts watches; scans of an earlier watch are ignored
  // True from the opening of a watch until its scan has ended. Claims of the watch are kept here
  // until then.
  bool scanning_ = true;
  std::vector<WatchedClaim> watched_claims_;
  kv::CommitSeq scanned_seq_ = 0;
  bool stopped_ = false;
  bool returned_late_ = false;
  std::vector<LeftClaim> arrived_late_;                      // after Stop
  std::vector<GrantedPiece> awaiting_records_;               // the cache is reading their records
  std::map<std::string, std::deque<GrantedPiece>> blocked_;  // by room key; all have a context
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_CLAIMS_GRANTED_LOOP_H_
