// WaitingRows: the rows of `waiting` of one policy that are in memory, and their queue.

#ifndef SERVICES_TOKEN_MANAGER_WAITING_WAITING_ROWS_H_
#define SERVICES_TOKEN_MANAGER_WAITING_WAITING_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/kv/kv_store.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/token_manager/holding/grant_set.h"
#include "services/token_manager/turns/fair_queue.h"

namespace escapement::token_manager {

namespace waiting_rows_test {
class WaitingRowsTest;
}

// WaitingRow: a row of `waiting` in memory, with an explicit state.
//
// Only WaitingRows changes a row. This is the whole table of transitions; any other one is a bug
// and ends the process (CHECK).
//
//   state      meaning                                         in the queue
//   kQueued    may be granted when its turn comes              yes, at the time when it may go
//   kGranting  a grant of the commit that is being built, or   the part that is not granted
//              under way, takes from it
//   kActing    an action (park, skip, move …) waits for, or    no
//              is in, a commit
//
//   from                 by            to
//   (not in memory)      Add           kQueued
//   kQueued, kGranting   Grant         kGranting
//   kGranting            SettleGrant   kQueued, or gone if nothing is left
//   kQueued, kGranting   Ungrant       kQueued
//   kQueued              BeginAction   kActing
//   kActing              AbortAction   kQueued
//   kQueued, kActing     Remove        (not in memory)
//
// Threads: one.
class WaitingRow {
 public:
  enum class State : uint8_t { kQueued, kGranting, kActing };

  // `read_seq`: the snapshot from which the row was read; 0 if it came by the watch or by an own
  // commit.
  WaitingRow(const WaitingKey& key, std::shared_ptr<const RowSource> source, kv::CommitSeq read_seq)
      : source_(std::move(source)),
        priority_(key.priority),
        key_time_(key.due_time),
        first_(key.first),
        count_(source_->event.count()),
        taken_(source_->event.throttle().taken()),
        read_seq_(read_seq) {}

  State state() const { return state_; }
  // The row belongs to a commit: it must not be judged or evicted now.
  bool busy() const { return state_ != State::kQueued; }

  // As long as it is in memory.
  const std::string& key() const { return *key_; }
  const std::shared_ptr<const RowSource>& source() const { return source_; }
  GroupKey group() const { return {priority_, source_->group}; }
  // When its events may go by its key: not before, and not much later (see WaitingRows).
  absl::Time key_time() const { return key_time_; }
  // When they were due, whatever window they wait for. A retry: as key_time, if no window gave it.
  absl::Time due() const;
  // When the first event that is not granted may go: not before its window, or its place in it.
  absl::Time may_go() const;
  uint64_t first() const { return first_; }  // index of the first event, granted or not
  uint64_t count() const { return count_; }  // events, granted or not
  uint64_t taken() const { return taken_; }  // granted events, from the first on
  uint64_t left() const { return count_ - taken_; }
  kv::CommitSeq read_seq() const { return read_seq_; }
  // The watch has reported another version of a busy row. Once the commit is answered, the row must
  // be read again.
  bool rewritten() const { return rewritten_; }

  // The row as it is in the store, or will be after the commit under way.
  storage::v1::EventRecord Record() const;
  // Holds as long as the row is as it was read.
  kv::Condition Unchanged(const std::string& key) const;

 private:
  friend class WaitingRows;
  friend class waiting_rows_test::WaitingRowsTest;

  const std::string* key_ = nullptr;  // in RowGroup::rows
  std::shared_ptr<const RowSource> source_;
  State state_ = State::kQueued;
  uint8_t priority_;
  bool rewritten_ = false;
  bool read_again_ = false;     // alone, after the store refused to change it as it was in memory
  bool finishes_late_ = false;  // its window has closed, and it keeps waiting without another one
  absl::Time key_time_;
  uint64_t first_;
  uint64_t count_;
  uint64_t taken_;
  kv::CommitSeq read_seq_;
  absl::Time closes_ = absl::InfiniteFuture();  // its place in WaitingRows::closings_
};

// A row that waits for its window, or for its place in it, longer than this *waits long*.
inline constexpr absl::Duration kWaitsLong = absl::Seconds(60);

// Keys by the time at which something is to be done for them.
template <typename Key>
using Times = absl::btree_set<std::pair<absl::Time, Key>>;
// InfiniteFuture: there is none.
template <typename Key>
absl::Time FirstOf(const Times<Key>& times) {
  return times.empty() ? absl::InfiniteFuture() : times.begin()->first;
}
// At most `max` of those whose time has come by `now`.
template <typename Key>
std::vector<Key> DueBy(const Times<Key>& times, absl::Time now, size_t max) {
  std::vector<Key> due;
  for (const auto& [time, key] : times) {
    if (time > now || due.size() >= max) break;
    due.push_back(key);
  }
  return due;
}
// Moves `key` from `time` to `to`, and sets `time`. A key whose time is InfiniteFuture is not
// there.
template <typename Key>
void Reschedule(Times<Key>& times, const Key& key, absl::Time& time, absl::Time to) {
  if (to == time) return;
  if (time != absl::InfiniteFuture()) times.erase({time, key});
  if (to != absl::InfiniteFuture()) times.insert({to, key});
  time = to;
}

// The rows of one priority and schedule: a *group*. Only WaitingRows changes it.
struct RowGroup {
  std::map<std::string, WaitingRow> rows = {};  // in memory, by key
  std::string end = {};  // rows from here on are in the store only; empty: there are none
  uint64_t scan = 0;     // number of the scan that reads on from `end`; 0: none
  // Rows with keys from `end` on that were written while the scan is under way: key → value.
  std::map<std::string, std::string> arrived = {};
  absl::Time look = absl::InfiniteFuture();  // its place in WaitingRows::looks_

  bool has_more() const { return !end.empty(); }
  // Whether a row with this key is, or would be, only in the store.
  bool IsBeyond(const std::string& key) const { return has_more() && key >= end; }
  void DropScan() {
    scan = 0;
    arrived.clear();
  }
};

// WaitingRows: the rows of `waiting` of one policy (or of one schedule without a policy), as far as
// they are in memory, and the queue in which they take turns.
//
// A group has in memory the rows before its `end`. The end moves down when there are too many rows,
// and up when the loader reads on. Rows are ordered by when they may go, so that none is in the way
// of others: one whose key says an earlier time than its window, or its place in it, gets a key
// with that time (TakeMisplaced).
//
// Threads: one. Pure: the caller reads and writes the store.
class WaitingRows {
 public:
  // `group_rows_max`: as TokenManagerOptions'. `totals` counts the rows of all policies and
  // outlives this object.
  WaitingRows(size_t group_rows_max, Totals& totals)
      : group_rows_max_(group_rows_max), totals_(totals) {}
  ~WaitingRows();
  WaitingRows(const WaitingRows&) = delete;
  WaitingRows& operator=(const WaitingRows&) = delete;

  // --- reading ---
  bool empty() const { return groups_.empty(); }
  const std::map<GroupKey, RowGroup>& groups() const { return groups_; }
  // nullptr: no row of the group is in memory, or known to be in the store.
  const RowGroup* GroupOf(const GroupKey& key) const {
    const auto group = groups_.find(key);
    return group == groups_.end() ? nullptr : &group->second;
  }
  // The schedule's groups, by priority.
  std::vector<const RowGroup*> GroupsOf(const Uid& schedule) const;
  // nullptr: not in memory.
  WaitingRow* RowOf(const std::string& key);
  // For turns: Next, NextEligible, BeginRound, Reconsider. Only this class adds and removes slices.
  FairQueue& queue() { return queue_; }
  const FairQueue& queue() const { return queue_; }
  // When time alone makes the shard act for a row: a window closes, a key is to be changed, or a
  // group is to be judged (LooksBy).
  absl::Time NextTime() const;

  // --- rows come and go ---
  // Adds a row as it is in the store (`value`, read at `read_seq`, or 0); false if it makes no
  // sense. If it is beyond the group's end, the group's reading on finds it. A row that is in
  // memory already stays as it is: only a change back to a former definition writes a waiting row
  // again (RowActions).
  bool Add(const std::string& key, const WaitingKey& decoded, const std::string& value,
           kv::CommitSeq read_seq);
  void Remove(const std::string& key);  // if it is in memory

  // --- a row's transitions ---
  // Takes the first `count` events that are left for a grant of the commit being built.
  void Grant(const std::string& key, WaitingRow& row, uint64_t count);
  // Gives `count` of the last granted events back, because the store refused the grant.
  void Ungrant(const std::string& key, uint64_t count);
  // The commit with the row's grants is answered. True: the row was rewritten during the commit, so
  // the caller has it read again.
  bool SettleGrant(const std::string& key, WaitingRow& row);
  void BeginAction(const std::string& key, WaitingRow& row);
  void AbortAction(const std::string& key, WaitingRow& row);
  void NoteRewritten(WaitingRow& row);
  static void NoteReadAgain(WaitingRow& row) { row.read_again_ = true; }
  // The row's turn comes again at `until`, unless it changes before.
  void Postpone(const std::string& key, WaitingRow& row, absl::Time until);
  // The row's window has closed, and it keeps waiting.
  void FinishLate(const std::string& key, WaitingRow& row);
  // Up to `max` rows, of no commit, that may go later than their key says: each is to get another
  // key. Not those that may go soon after `now`.
  std::vector<std::string> TakeMisplaced(absl::Time now, size_t max);
  // Keys of up to `max` rows whose windows have closed by `now`, except those that finish late.
  std::vector<std::string> ClosedBy(absl::Time now, size_t max) const {
    return DueBy(closings_, now, max);
  }

  // --- a group's reading ---
  // Cuts a group at `end` if all its rows are in memory, and as many as may be there.
  bool CutIfFull(const GroupKey& key, const std::string& end);
  bool IsBeyond(const GroupKey& group_key, const std::string& key) const {
    const RowGroup* group = GroupOf(group_key);
    return group != nullptr && group->IsBeyond(key);
  }
  // Begins to read on if the group has few rows in memory and more in the store. Returns the key
  // from which to read; nullopt: there is no need.
  std::optional<std::string> BeginReadOn(const GroupKey& key, uint64_t scan);
  // The rows that the scan has read. It began while no commit was under way. False: the group does
  // not wait for it any more.
  bool OnRead(const GroupKey& key, uint64_t scan, const absl::StatusOr<kv::ScanResult>& result);

  // The groups whose rows are to be judged because their schedule may have changed: some wait long,
  // or wait behind rows with other limits. Each must be followed by LookLater.
  std::vector<GroupKey> LooksBy(absl::Time now) const { return DueBy(looks_, now, looks_.size()); }
  void LookLater(const GroupKey& key, absl::Time at);

 private:
  friend class waiting_rows_test::WaitingRowsTest;

  // Puts the row into the queue as kQueued, and into the other lists; and back.
  void Enqueue(const std::string& key, WaitingRow& row);
  void Withhold(const std::string& key, WaitingRow& row);
  void Unlist(const std::string& key, WaitingRow& row);
  void EvictBeyond(RowGroup& group);
  // Lists the row if its key says too early a time.
  void CheckPlace(const std::string& key, const WaitingRow& row);
  using Groups = std::map<GroupKey, RowGroup>;
  // The row is in no list.
  void Erase(Groups::iterator group, std::map<std::string, WaitingRow>::iterator row);
  Groups::iterator GroupOfRow(const std::string& row_key);
  void DropIfEmpty(Groups::iterator group);

  const size_t group_rows_max_;
  Totals& totals_;
  FairQueue queue_;
  Groups groups_;
  Times<std::string> closings_;      // windows that do not finish late
  std::set<std::string> misplaced_;  // rows whose key says too early a time
  Times<GroupKey> looks_;            // see LooksBy
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_WAITING_WAITING_ROWS_H_
