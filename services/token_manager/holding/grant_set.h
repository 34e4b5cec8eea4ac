// GrantSet: who holds tokens of one policy: grants, and of each the ranges of its events that still
// hold theirs. A set, never a counter: `held` is the size of it.
//
// It is what the policy's GrantRecords say, plus what the commit being built changes; the caller
// puts (or, of a grant without holders, deletes) the record of every grant it has touched.
//
// Pure. Threads: one.

#ifndef SERVICES_TOKEN_MANAGER_HOLDING_GRANT_SET_H_
#define SERVICES_TOKEN_MANAGER_HOLDING_GRANT_SET_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/token_manager/holding/further_holds.h"

namespace escapement::token_manager {

// Totals over all policies.
struct Totals {
  std::vector<uint64_t>
      undelivered_by_shard;  // granted and not known to be delivered; by queue shard
  uint64_t undelivered = 0;
  uint64_t held = 0;  // tokens
  uint64_t rows = 0;  // rows of `waiting` in memory
  FurtherHolds further = {};
};

// Events [first, first + count) that hold their token.
struct HeldRange {
  uint64_t first = 0;
  uint64_t count = 0;
  int64_t delivered_micros = 0;  // 0: not (known to be) delivered
  int64_t expire_micros = 0;     // for delivered events: the end of their hold time
  bool overdue = false;          // it has passed, and they hold on
  // The attempt that was delivered, if a handler has reported it: when it began, and its status.
  int64_t dispatch_micros = 0;
  int32_t status = 0;        // AttemptRecord.status
  uint32_t lost_claims = 0;  // EventRecord.lost_claims

  friend bool operator==(const HeldRange&, const HeldRange&) = default;
};

struct Grant {
  uint64_t epoch = 0;
  uint64_t number = 0;
  std::shared_ptr<const RowSource> source = nullptr;
  uint64_t claimed_version = 0;
  int64_t grant_micros = 0;
  int64_t send_before_micros = 0;
  int64_t delivery_timeout_micros = 0;
  int64_t return_due_micros = 0;
  int64_t retry_micros = 0;  // not 0: it sleeps until its next attempt; see GrantSet::Wake
  uint16_t queue_shard = 0;  // queue shard of the claim under which a handler last got the events
  uint64_t claim_epoch = 0;
  uint64_t claim_number = 0;
  std::vector<HeldRange> holders = {};  // ascending, disjoint
};

// The grant as its record has it, for one of policy shard `policy_shard`; nullopt if that makes no
// sense.
std::optional<Grant> DecodeGrant(uint16_t policy_shard, uint64_t epoch, uint64_t number,
                                 const std::string& value);
std::string EncodeGrant(const Grant& grant);

class GrantSet {
 public:
  using Key = std::pair<uint64_t, uint64_t>;  // epoch, number

  // A grant with no report this long after its last possible answer counts as silent. `totals`
  // outlives the set.
  GrantSet(absl::Duration undelivered_slack, Totals* totals)
      : slack_micros_(absl::ToInt64Microseconds(undelivered_slack)), totals_(totals) {}
  ~GrantSet();
  GrantSet(const GrantSet&) = delete;
  GrantSet& operator=(const GrantSet&) = delete;

  // It is not there yet, and has a holder.
  void Add(Grant grant);
  // nullptr: there is none. Until the next change.
  const Grant* Find(const Key& key) const;

  // Those of [first, first + count) that are held, as they are.
  std::vector<HeldRange> Held(const Key& key, uint64_t first, uint64_t count) const;
  // The same, and they hold no more. A grant without holders is kept until Sweep.
  std::vector<HeldRange> Remove(const Key& key, uint64_t first, uint64_t count);
  // Marks events that are not delivered yet as delivered, by an attempt of dispatch_micros that was
  // answered with `status`. Events that are delivered already may
  // have been extended before this report, or were sent twice: their hold time ends no sooner than
  // `expire_micros`.
  struct Delivered {
    uint64_t events = 0;   // by this
    bool changed = false;  // the grant is to be written
  };
  Delivered Deliver(const Key& key, uint64_t first, uint64_t count, int64_t delivered_micros,
                    int64_t expire_micros, int64_t dispatch_micros = 0, int32_t status = 0);
  // Sets the end of the hold time. If the consumer extends an event that is not known to be
  // delivered, it counts as delivered, because only its holder can extend it. Other undelivered
  // events have no hold time yet.
  struct Extended {
    uint64_t events = 0;     // that hold
    uint64_t delivered = 0;  // events that this call marks as delivered
  };
  Extended Extend(const Key& key, uint64_t first, uint64_t count, int64_t now_micros,
                  int64_t expire_micros);
  // The handler that had these undelivered events was lost: EventRecord.lost_claims is at least
  // `lost_claims` from now on.
  void CountLost(const Key& key, uint64_t first, uint64_t count, uint32_t lost_claims);
  // Unmarks all overdue events. Their hold time has passed, so the agenda reports them again.
  void ForgetOverdue();
  // Marks the grant's events whose hold time has passed as overdue; they keep their tokens. Returns
  // how many it marked.
  uint64_t MarkOverdue(const Key& key, int64_t now_micros);
  // A handler has claimed the grant's holders again. A grant that slept is as if made at
  // grant_micros.
  void Reclaim(const Key& key, uint16_t queue_shard, uint64_t claim_epoch, uint64_t claim_number,
               int64_t send_before_micros, int64_t grant_micros);
  // Takes a grant that sleeps out of the deadlines, or puts it back: the caller wakes it at this
  // time. 0: the caller is about to have it claimed.
  void WakeAt(const Key& key, int64_t micros);
  // It was not claimed after all: its claim and its sleep are as in `former`.
  void Unclaim(const Key& key, const Grant& former);
  // Forgets the grant if it has no holder; true if so (or if it is not there).
  bool Sweep(const Key& key);
  // It was not made after all.
  void Forget(const Key& key);

  // Tokens of the policy, as the events weigh.
  uint64_t held() const { return held_; }
  // How many of them count under this key of the policy.
  uint64_t HeldOf(const std::string& policy_key) const {
    const auto held = held_of_.find(policy_key);
    return held == held_of_.end() ? 0 : held->second;
  }
  // How many events still hold although their hold time has passed. Visits every holder.
  uint64_t Overdue(int64_t now_micros) const;
  // When the latest of the grants that hold was made, in the order of their keys; nullopt: none
  // holds.
  std::optional<int64_t> NewestMicros() const;
  bool empty() const { return entries_.empty(); }
  // Calls visit(const Grant&) for each, in the order of their keys.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const auto& [key, entry] : entries_) visit(entry.grant);
  }

  // When the first hold time, or wait for a word, ends.
  std::optional<int64_t> NextDeadline() const;
  // At most `grants_max` of the grants of which one has ended.
  std::vector<Key> DueBy(int64_t now_micros, size_t grants_max) const;
  // The ranges of a grant whose hold time has passed (without those reported as overdue already),
  // and those that are silent.
  std::vector<HeldRange> HoldsOver(const Key& key, int64_t now_micros) const;
  std::vector<HeldRange> Silent(const Key& key, int64_t now_micros) const;

 private:
  struct Entry {
    Grant grant;
    int64_t deadline = 0;  // as it stands in deadlines_; the greatest int64: none
    int64_t wake = 0;      // of a grant that sleeps
  };
  int64_t SilentFrom(const Grant& grant) const;
  int64_t DeadlineOf(const Entry& entry) const;
  void Changed(const Key& key, Entry& entry);
  void AddHeld(const Grant& grant, uint64_t events) {
    const uint64_t tokens = events * grant.source->weight;
    held_ += tokens;
    totals_->held += tokens;
    held_of_[grant.source->key()] += tokens;
    totals_->further.Add(*grant.source, events);
  }
  void TakeHeld(const Grant& grant, uint64_t events) {
    if (events == 0) return;
    const uint64_t tokens = events * grant.source->weight;
    held_ -= tokens;
    totals_->held -= tokens;
    const auto of_key = held_of_.find(grant.source->key());
    of_key->second -= tokens;
    if (of_key->second == 0) held_of_.erase(of_key);
    totals_->further.Take(*grant.source, events);
  }
  void AddUndelivered(const Grant& grant, uint64_t count);
  void TakeUndelivered(const Grant& grant, uint64_t count);
  // Splits the holders so that [first, first + count) is whole ranges, and calls visit(range) for
  // those within it.
  template <typename Visit>
  void VisitWithin(Grant& grant, uint64_t first, uint64_t count, Visit visit);

  const int64_t slack_micros_;
  Totals* const totals_;
  std::map<Key, Entry> entries_;
  std::set<std::pair<int64_t, Key>> deadlines_;
  uint64_t held_ = 0;
  absl::flat_hash_map<std::string, uint64_t> held_of_;  // by key of the policy; none is 0
  bool any_overdue_ = false;                            // or there were
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_HOLDING_GRANT_SET_H_
