// TakeoverLoop: after a queue shard is acquired, finds the events that its former owner has claimed
// and not ended, and sends them again once no attempt of the former owner can be under way.
//
// The former owner has begun no attempt after the end of its lease (or its release of the shard),
// and each claim says how long its attempts may take. If the former owner is proven to be dead,
// none is under way any more. The loop first notes for each claim that its former owner is gone. So
// the wait does not start over if the shard moves on before the claim is adopted. Claims keep their
// ids: their new ends are written beside those of the former owner.
//
// Granted claims (docs/design/throttling.md) that were written after the former owner's end are new
// to everybody and go to the GrantedLoop. The other granted claims wait as long as the
// others, but are not sent again: they are reported to the owners of their policy shards, who grant
// the events again.
//
// If the former owner was lost, the claims it has left count that. Events of claims that count two
// go to the SuspectLoop, which sends them alone. An event that a lost owner was sending so becomes
// a dead letter.
//
// Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_CLAIMS_TAKEOVER_LOOP_H_
#define SERVICES_HANDLER_CLAIMS_TAKEOVER_LOOP_H_

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "services/handler/claims/granted_loop.h"
#include "services/handler/claims/suspect_loop.h"
#include "services/handler/claims/takeover.h"
#include "services/handler/ends/end_loop.h"
#include "services/handler/shard/row_resolver.h"
#include "services/handler/shard/shard_state.h"

namespace escapement::handler {

class TakeoverLoop {
 public:
  // All arguments must outlive it.
  TakeoverLoop(QueueShardState& state, EndLoop& ends, GrantedLoop& granted, SuspectLoop& suspects)
      : state_(state), ends_(ends), granted_(granted), suspects_(suspects) {}

  // Reads the shard's claims, holds the keys of claimed one-off events, then calls `ready`. A
  // second call before `ready` starts over: claims that the first watch has missed must not count
  // as new.
  void Start(std::function<void()> ready);

  void Step(absl::Time now);

  // The store time at which the next claim may be sent again.
  std::optional<absl::Time> NextDue() const;

  void Stop() { left_.clear(); }

 private:
  // A claim that waits for its time.
  struct Left {
    LeftClaim claim;
    absl::Time not_before;
    bool asked = false;  // the reading of its rows and states has begun
    bool reading = false;
    absl::Time asked_at;  // the states of its judgement were read after this
    std::vector<kv::Key> unread;
    // The rows of one-off events, by key; never iterated.
    absl::flat_hash_map<std::string, std::string> rows;
    bool read() const { return asked && !reading && unread.empty(); }
    bool announcing = false;  // the commit that says that attempts may begin is under way
    bool announced = false;
    bool ready() const { return read() && !announcing; }
  };
  void ReadMark();
  void Scan(bool marked);
  void OnScanned(bool marked, std::vector<kv::Entry> inflight, kv::CommitSeq seq);
  // Writes the notes of these claims, and that this owner has noted all that were left.
  void CommitNotes(std::vector<std::shared_ptr<Left>> changed);
  absl::Time NotBefore(const LeftClaim& claim) const;
  // Attempts of granted claims begin under new claims.
  bool MustAnnounce(const Left& left) const { return !left.announced && !IsGranted(left.claim.id); }
  void Announce(std::vector<std::shared_ptr<Left>> lefts);
  // The parts of the slice that are not quarantined. Ends the event that is.
  std::vector<IndexSlice> Quarantine(const LeftClaim& left, const std::shared_ptr<Claim>& claim,
                                     uint32_t entry, IndexSlice slice, absl::Time now);
  void SendAgain(const std::shared_ptr<Claim>& claim, uint32_t entry, IndexSlice slice,
                 absl::Time now);
  // Ends events of the claim unsent: they must not be sent now, or never again.
  void EndUnsent(const std::shared_ptr<Claim>& claim, uint32_t entry, IndexSlice slice,
                 const ResolvedRow& row, absl::Time now);
  bool ResendGranted(Left& left, absl::Time now);
  void AskForRows(Left& left, absl::Time now);
  void ReadRows(const std::shared_ptr<Left>& left);
  // Returns false if a record is not known yet.
  bool Adopt(Left& left, absl::Time now);
  // Returns nullopt if a record is not known yet.
  std::optional<std::vector<ResolvedRow>> ResolveAll(Left& left);
  // If entry `i` has an event that is to be quarantined and its row is to be kept for later, gives
  // the row what its end needs. Returns false if a record is not known yet.
  bool CompleteIfQuarantined(const Left& left, size_t i, ResolvedRow& row);

  QueueShardState& state_;
  EndLoop& ends_;
  GrantedLoop& granted_;
  SuspectLoop& suspects_;
  uint64_t scan_ = 0;  // counts scans; the answer of an earlier scan is ignored
  std::function<void()> ready_;
  std::list<std::shared_ptr<Left>> left_;  // in the order of claim keys
  bool noted_ = false;                     // the commit of CommitNotes has been made
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_CLAIMS_TAKEOVER_LOOP_H_
