// GrantedLoop: takes the claims that token managers put into one queue shard
// (docs/design/throttling.md), and gives their events to the send loop as their targets have room,
// first come first served.
//
// A watch over the shard's `inflight` is open before the shard's claims are scanned, so that each
// claim is told or found; GrantedClaims keeps those apart that are both. When the watch lags, a new
// one is opened and the shard scanned again.
//
// What has no room is bounded by the token managers: they keep no more than 1,000 undelivered
// events out for each queue shard. What has no room by its send_before is returned.
//
// Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_GRANTED_GRANTED_LOOP_H_
#define SERVICES_HANDLER_GRANTED_GRANTED_LOOP_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "services/handler/claims/takeover.h"
#include "services/handler/ends/end_loop.h"
#include "services/handler/granted/granted_entry.h"
#include "services/handler/shard_state.h"

namespace escapement::handler {

class GrantedLoop {
 public:
  // `ends` outlives it.
  GrantedLoop(ShardState& state, EndLoop& ends) : state_(state), ends_(ends) {}

  // Opens the watch, then calls `watched`: the shard is to be scanned, and OnScanned to be called.
  void Start(std::function<void()> watched);
  // Of the first scan: claims that are handed to Adopt, or taken care of otherwise, are known.
  void OnScanned(kv::CommitSeq seq);

  // Takes a claim of which nothing was ever sent. Its id is known to GrantedClaims.
  void Adopt(LeftClaim left, kv::CommitSeq seq);

  void Step(absl::Time now);

  // The cache has read what was not known.
  void OnFetched();

  // Events wait for a target.
  bool blocked() const { return !blocked_.empty(); }

  // Takes no further claims; what was not given to the send loop is returned.
  void Stop();
  // After Stop: returns what has come since, once; false if there is nothing.
  bool ReturnLate();

 private:
  struct Told {
    ClaimId id;
    std::string value;
    bool omitted = false;  // the value is to be read
    kv::CommitSeq seq = 0;
  };
  void Watch();
  void OpenWatch(kv::CommitSeq from);
  void OnBatch(const kv::WatchBatch& batch);
  void TakeTold(std::vector<Told> told);
  void ReadOmitted(std::vector<Told> told);
  void Parse(const Told& told);
  void ScanAgain();

  void Resolve(GrantedPiece piece);
  void Place(GrantedPiece piece);
  void Give(const GrantedPiece& piece);
  void Unblock(absl::Time now);

  ShardState& state_;
  EndLoop& ends_;
  std::function<void()> watched_;  // until the first scan has been made
  std::unique_ptr<kv::Watch> watch_;
  uint64_t generation_ = 0;  // of the watch
  // Until the scan that follows the opening of the watch has been made: what the watch has told.
  bool scanning_ = true;
  std::vector<Told> told_;
  kv::CommitSeq scanned_seq_ = 0;
  bool stopped_ = false;
  bool returned_late_ = false;
  std::vector<LeftClaim> late_;                              // came after Stop
  std::vector<GrantedPiece> unknown_;                        // wait for the cache
  std::map<std::string, std::deque<GrantedPiece>> blocked_;  // by target
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_GRANTED_GRANTED_LOOP_H_
