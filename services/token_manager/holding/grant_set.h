// GrantSet: who holds tokens of one policy: grants, and of each the ranges of its events that still
// hold theirs. A set, never a counter: `held` is the size of it.
//
// It is what the policy's GrantRecords say, plus what the commit being built changes; the caller
// puts (or deletes, if it has no holders) the record of every grant it has touched.
//
// Pure. Threads: one.

#ifndef SERVICES_TOKEN_MANAGER_HOLDING_GRANT_SET_H_
#define SERVICES_TOKEN_MANAGER_HOLDING_GRANT_SET_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/token_manager/holding/further_holds.h"

namespace escapement::token_manager {

// Totals over all policies.
struct Totals {
  std::vector<uint64_t> undelivered_by_shard;  // by queue shard
  uint64_t undelivered = 0;                    // granted and not known to be delivered
  uint64_t held = 0;                           // tokens
  uint64_t rows = 0;                           // rows of `waiting` in memory
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

// Most grants have one range.
using HeldRanges = absl::InlinedVector<HeldRange, 1>;

struct Grant {
  uint64_t epoch = 0;
  uint64_t number = 0;
  std::shared_ptr<const RowSource> source = nullptr;
  storage::v1::GrantRecord record = {};  // without its row (event, uid, occurrence) and holders
  HeldRanges holders = {};               // ascending, disjoint

  std::pair<uint64_t, uint64_t> key() const { return {epoch, number}; }
  // It has no claim until its next attempt; see GrantSet::WakeAt.
  bool sleeps() const { return record.retry_at_micros() != 0; }
};

// Neighbours that say the same become one.
void MergeAlike(HeldRanges& ranges);

// The grant as its record has it; nullopt if that makes no sense.
std::optional<Grant> DecodeGrant(uint16_t policy_shard, uint64_t epoch, uint64_t number,
                                 const std::string& value);
std::string EncodeGrant(const Grant& grant);

class GrantSet {
 public:
  using Key = std::pair<uint64_t, uint64_t>;  // Grant::key()

  // A grant with no report this long after its last possible answer counts as silent. `totals`
  // outlives the set.
  GrantSet(absl::Duration undelivered_slack, Totals* totals)
      : slack_micros_(absl::ToInt64Microseconds(undelivered_slack)), totals_(totals) {}
  ~GrantSet();
  GrantSet(const GrantSet&) = delete;
  GrantSet& operator=(const GrantSet&) = delete;

  // It is not there yet, and has a holder.
  void Add(Grant&& grant);
  // nullptr: there is none. Until the next change.
  const Grant* Find(const Key& key) const;

  // The events of these `count` that hold a token and are not known to be delivered.
  HeldRanges Undelivered(const Key& key, uint64_t first, uint64_t count) const;
  // Ranges that are held; they hold no more. A grant without holders is kept until Forget.
  HeldRanges Remove(const Key& key, uint64_t first, uint64_t count);
  struct Marked {
    uint64_t delivered = 0;  // events that were not known to be delivered before
    bool effect = false;
  };
  // Marks events as delivered, by an attempt of dispatch_micros that was answered with `status`.
  // Events that are delivered already may have been extended before this report, or were sent
  // twice: their hold time ends no sooner than `expire_micros`. Effect: the grant has changed.
  Marked Deliver(const Key& key, uint64_t first, uint64_t count, int64_t delivered_micros,
                 int64_t expire_micros, int64_t dispatch_micros = 0, int32_t status = 0);
  // Sets the end of the hold time. If the consumer extends an event that is not known to be
  // delivered, it counts as delivered, because only its holder can extend it. Other undelivered
  // events have no hold time yet. Effect: one of the events holds.
  Marked Extend(const Key& key, uint64_t first, uint64_t count, int64_t now_micros,
                int64_t expire_micros);
  // The handler that had these undelivered events was lost: EventRecord.lost_claims is at least
  // `lost_claims` from now on.
  void CountLost(const Key& key, uint64_t first, uint64_t count, uint32_t lost_claims);
  // Unmarks all overdue events. Their hold time has passed, so the agenda reports them again.
  void ForgetOverdue();
  // Marks the grant's events whose hold time has passed as overdue; they keep their tokens. Returns
  // how many it marked.
  uint64_t MarkOverdue(const Key& key, int64_t now_micros);
  // The grant has another claim from now on, or sleeps.
  void SetClaim(const Key& key, const storage::v1::GrantRecord& record);
  // Takes a grant that sleeps out of the deadlines, or puts it back: the caller wakes it at this
  // time. 0: the caller is about to have it claimed.
  void WakeAt(const Key& key, int64_t micros);
  // Wakes those that sleep at the time of their next attempt, if WakeAt has put that off.
  void WakeInTime();
  // If it is there.
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
  // When the last grant, in the order of their keys, was made; nullopt: there is none.
  std::optional<int64_t> NewestMicros() const {
    if (entries_.empty()) return std::nullopt;
    return entries_.rbegin()->second.grant.record.grant_time_micros();
  }
  bool empty() const { return entries_.empty(); }

  // When the first hold time, or wait for a report, ends.
  std::optional<int64_t> NextDeadline() const {
    return deadlines_.empty() ? std::nullopt : std::make_optional(deadlines_.begin()->first);
  }
  // At most `grants_max` of the grants of which one has ended.
  std::vector<Key> DueBy(int64_t now_micros, size_t grants_max) const;
  // The ranges of a grant whose hold time has passed (without those marked as overdue already) if
  // `delivered`, else those that are silent.
  HeldRanges Expired(const Key& key, int64_t now_micros, bool delivered) const;

 private:
  struct Entry {
    Grant grant;
    int64_t deadline = 0;  // as it stands in deadlines_; the greatest int64: none
    int64_t wake = 0;      // when a grant that sleeps is to be woken
  };
  // When the hold time, or the wait for a report, of this range of the grant ends.
  int64_t EndOfWait(const Grant& grant, const HeldRange& range) const;
  void Changed(const Key& key, Entry& entry);
  // So many more events hold their token, or are not known to be delivered; negative: fewer.
  void CountHeld(const Grant& grant, int64_t events);
  void CountUndelivered(const Grant& grant, int64_t events);
  // Splits the holders so that [first, first + count) is whole ranges, and calls
  // change(grant, range) for those within it. A range whose count is 0 after that holds no more.
  // Returns how many events fewer are not known to be delivered.
  template <typename Change>
  uint64_t ChangeWithin(const Key& key, uint64_t first, uint64_t count, Change change);

  const int64_t slack_micros_;
  Totals* const totals_;
  std::map<Key, Entry> entries_;
  absl::btree_set<std::pair<int64_t, Key>> deadlines_;
  uint64_t held_ = 0;
  absl::flat_hash_map<std::string, uint64_t> held_of_;  // by key of the policy; none is 0
  bool any_overdue_ = false;                            // or there were
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_HOLDING_GRANT_SET_H_
