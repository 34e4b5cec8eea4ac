// WaitingRows: the rows of `waiting` of one policy that are in memory, and their queue. RowGroup:
// those of one priority and schedule. WaitingRow: one of them, with its state.

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

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/kv/kv_store.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/token_manager/holding/grant_set.h"
#include "services/token_manager/turns/fair_queue.h"

namespace escapement::token_manager {

// WaitingRow: a row of `waiting` in memory, with an explicit state.
//
// Only WaitingRows changes a row. This is the whole table of transitions; any other one is a bug
// and ends the process (CHECK).
//
//   state      meaning                                         in the queue
//   kQueued    may be granted when its turn comes              yes, at the time when it may go
//   kToJudge   waits long for its window; is judged now        yes, at its due time
//   kGranting  a grant of the commit that is being built, or   the part that is not granted
//              under way, takes from it
//   kActing    an action (park, skip, move …) waits for, or    no
//              is in, a commit
//   kReading   is being read again from the store              no
//
//   from                 by                    to
//   (not in memory)      Add                   kQueued or kToJudge
//   kQueued, kGranting   Grant                 kGranting
//   kGranting            SettleGrant           kQueued, or gone if nothing is left
//   kGranting, kQueued,  Ungrant               kQueued or kToJudge
//     kToJudge
//   kQueued, kToJudge    BeginAction           kActing
//   kActing              AbortAction           kQueued or kToJudge
//   kActing, kReading    Replace               kQueued or kToJudge
//   kToJudge             PassJudgement         kQueued
//   kQueued, kToJudge    JudgeLongWaiting      kToJudge
//   kQueued, kToJudge,   BeginReading          kReading
//     kActing
//   any but kGranting    Remove                (not in memory)
//
// Threads: one.
class WaitingRow {
 public:
  enum class State : uint8_t { kQueued, kToJudge, kGranting, kActing, kReading };

  // `count` events from index key.first on, the first `taken` of them granted already. `read_seq`:
  // the snapshot from which the row was read; 0 if it came by the watch or by an own commit.
  WaitingRow(const WaitingKey& key, std::shared_ptr<const RowSource> source, uint64_t count,
             uint64_t taken, kv::CommitSeq read_seq)
      : source_(std::move(source)),
        priority_(key.priority),
        due_(key.due_time),
        first_(key.first),
        count_(count),
        taken_(taken),
        read_seq_(read_seq) {}

  State state() const { return state_; }
  // The row belongs to a commit or is being read: it must not be judged or evicted now.
  bool busy() const {
    return state_ == State::kGranting || state_ == State::kActing || state_ == State::kReading;
  }

  const std::shared_ptr<const RowSource>& source() const { return source_; }
  uint8_t priority() const { return priority_; }
  absl::Time due() const { return due_; }
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
  // Its bytes in the store.
  std::string Bytes() const;

 private:
  friend class WaitingRows;

  std::shared_ptr<const RowSource> source_;
  State state_ = State::kQueued;
  uint8_t priority_;
  bool rewritten_ = false;
  bool judged_ = false;         // judged since JudgeLongWaiting, and still waits for its window
  bool finishes_late_ = false;  // its window has closed, and it keeps waiting without another one
  absl::Time due_;
  uint64_t first_;
  uint64_t count_;
  uint64_t taken_;
  kv::CommitSeq read_seq_;
  int64_t closes_micros_ = 0;  // its place in WaitingRows::closings_; 0: none
  std::string stored_ = {};    // its bytes if it was read again and has not changed since
};

// When a waiting row may go, as the queue has to know it.
//
// Pure.

// A row that waits for its window longer than this *waits long*.
inline constexpr absl::Duration kWaitsLong = absl::Seconds(60);
bool WaitsLong(const WaitingRow& row);

// The row's events that are not granted. They may be granted `grant_lead` ahead of the due time,
// but not ahead of their window or of their place in it.
QueuedSlice SliceOf(const std::string& key, const WaitingRow& row, absl::Duration grant_lead);
// The same for a row that waits long and is to be judged at its due time.
QueuedSlice JudgedSliceOf(const std::string& key, const WaitingRow& row, absl::Duration grant_lead);

// When the row's window closes, in microseconds, if the row is dropped or carried over then;
// otherwise 0.
int64_t ActsOnCloseMicros(const WaitingRow& row);

using GroupKey = std::pair<uint8_t, Uid>;  // priority, schedule

// RowGroup: the rows of one priority and schedule (see WaitingRows). A group is read like this:
//
//   extent       meaning                                   becomes so by
//   kWhole       all rows are in memory                    Add, OnRead
//   kCut         rows from `end` on are in the store only  Add, OnRead, OnReadFailed, CutIfFull,
//                                                          TakeOpened
//   kReadingOn   they are being read                       BeginReadOn
//
// Threads: one. Only WaitingRows changes it.
class RowGroup {
 public:
  enum class Extent : uint8_t { kWhole, kCut, kReadingOn };

  const std::map<std::string, WaitingRow>& rows() const { return rows_; }  // by key
  Extent extent() const { return extent_; }
  bool has_more() const { return extent_ != Extent::kWhole; }
  // Whether a row of this key may have been left in the store.
  bool MayBeLeft(const std::string& key) const { return key < left_before_; }

 private:
  friend class WaitingRows;

  std::map<std::string, WaitingRow> rows_;
  Extent extent_ = Extent::kWhole;
  std::string end_;    // rows from here on are in the store only; unless kWhole
  uint64_t scan_ = 0;  // number of the scan that reads on; only for kReadingOn
  // Rows with keys from `end_` on that were written while the scan is under way: key → value.
  std::map<std::string, std::string> arrived_;
  // The earliest time at which a left row may be granted.
  absl::Time opens_ = absl::InfiniteFuture();
  std::string left_before_;                   // all left rows have smaller keys
  std::shared_ptr<const RowSource> left_;     // source of a left row that waits long; null: none
  absl::Time look_ = absl::InfiniteFuture();  // its place in WaitingRows::looks_
  // JudgeLongWaiting was called: rows that wait long are judged as they are read, and are not left
  // before that.
  bool judges_long_waiting_ = false;
  // The reading goes on: it has reached neither the group's end nor enough rows that may be granted
  // now.
  bool passing_ = false;
};

// WaitingRows: the rows of `waiting` of one policy (or of one schedule without a policy), as far as
// they are in memory, and the queue in which they take turns.
//
// The rows of one priority and schedule are a *group*. A group has in memory the rows before its
// `end`; the rows from there on are only in the store. The end moves down when there are too many
// rows, and up when the loader reads on. Rows are ordered by due time, but some wait longer: a row
// that was carried over waits for a later window, and a row of an even window waits for its place
// in it. If such rows are in the way of others, they are *left*: evicted from the midst of the
// group, and the whole group is read again when the first of them may go.
//
// WaitingRow has a row's states and transitions, and RowGroup those of a group.
//
// Threads: one. Pure: the caller reads and writes the store.
class WaitingRows {
 public:
  // A row may be granted `grant_lead` ahead of its time. `totals` counts the rows of all policies
  // and outlives this object.
  WaitingRows(const Uid& policy, uint16_t policy_shard, absl::Duration grant_lead, Totals& totals)
      : policy_(policy), policy_shard_(policy_shard), grant_lead_(grant_lead), totals_(totals) {}
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
  // When time alone makes the shard act for a row: a window closes, left rows may go, or rows that
  // wait long are to be judged.
  absl::Time NextTime() const;

  // --- rows come and go ---
  enum class Added { kKept, kBeyond, kBroken };
  // Adds a row as it is in the store (`value`, read at `read_seq`, or 0). kBeyond: this row, or
  // another one for it, is not in memory; its group's reading on finds it. A row that is in memory
  // already stays as it is: only a change back to a former definition writes a waiting row again
  // (RowActions). `on_new` is called with the event of a row that is new and makes sense.
  Added Add(const std::string& key, const WaitingKey& decoded, const std::string& value,
            kv::CommitSeq read_seq, size_t group_rows_max,
            absl::FunctionRef<void(const storage::v1::EventRecord& event)> on_new);
  void Remove(const std::string& key);
  void DropEmptyGroup(const GroupKey& key);

  // --- a row's transitions ---
  // Takes the first `count` events that are left for a grant of the commit being built.
  void Grant(const std::string& key, WaitingRow& row, uint64_t count);
  // Gives `count` of the last granted events back, because the store refused the grant.
  void Ungrant(const std::string& key, uint64_t count);
  // The commit with the row's grants is answered. True: the row was rewritten during the commit, so
  // the caller has it read again.
  bool SettleGrant(const std::string& key);
  void BeginAction(const std::string& key, WaitingRow& row);
  void AbortAction(const std::string& key, WaitingRow& row);
  void BeginReading(const std::string& key, WaitingRow& row);
  // The row's newer version: carried over to another window, or read again. If it was read
  // again, `stored` has its bytes and `read_seq` is the snapshot from which it was read.
  void Replace(const std::string& key, const storage::v1::EventRecord& record,
               std::string stored = {}, kv::CommitSeq read_seq = 0);
  // A row in kToJudge has been judged, and keeps waiting for its window.
  void PassJudgement(const std::string& key, WaitingRow& row);
  // The watch has reported another version of a busy row.
  void NoteRewritten(WaitingRow& row);
  // The row's turn comes again at `until`, unless it changes before.
  void Postpone(const std::string& key, const WaitingRow& row, absl::Time until);
  // The row's window has closed, and it keeps waiting.
  void FinishLate(const std::string& key, WaitingRow& row);
  // Keys of up to `max` rows whose windows have closed by `micros`, except those that finish late.
  std::vector<std::string> ClosedBy(int64_t micros, size_t max) const;

  // --- a group's reading ---
  // Cuts a group that has all its rows in memory, and as many as may be there, at `end`. False if
  // it is not so.
  bool CutIfFull(const GroupKey& key, const std::string& end, size_t group_rows_max);
  // Whether rows from `key` on are only in the store.
  bool IsBeyond(const GroupKey& group_key, const std::string& key) const {
    const RowGroup* group = GroupOf(group_key);
    return group != nullptr && group->has_more() && key >= group->end_;
  }
  // Begins to read on if the group has few rows in memory and more in the store. Returns the key
  // from which to read; nullopt: there is no need.
  std::optional<std::string> BeginReadOn(const GroupKey& key, uint64_t scan, size_t group_rows_max);
  // Whether the group still waits for this scan.
  bool AwaitsScan(const GroupKey& key, uint64_t scan) const {
    const RowGroup* group = GroupOf(key);
    return group != nullptr && group->extent() == RowGroup::Extent::kReadingOn &&
           group->scan_ == scan;
  }
  void OnReadFailed(const GroupKey& key);
  // The rows that were read from the group's end on. The reading began while no commit was under
  // way.
  void OnRead(const GroupKey& key, const kv::ScanResult& rows, size_t group_rows_max,
              absl::FunctionRef<void(const storage::v1::EventRecord& event)> on_new);

  // --- rows that wait for a window, or for their place in it ---
  // Leaves rows that are in the way of others, if there are any. First those that wait for longer
  // than a second; if that is not enough, all that wait. Only between commits and while the group
  // is not being read. `tokens_free`: some row could be granted now. Returns their keys.
  std::vector<std::string> LeaveWaiting(const GroupKey& key, absl::Time now, size_t group_rows_max,
                                        bool tokens_free);
  // The groups of which a left row may go now. They have been cut at their beginning and are to be
  // read again from there.
  std::vector<GroupKey> TakeOpened(absl::Time now);
  // The groups whose rows that wait long are to be judged: their schedule may have changed. Each
  // must be followed by LookLater.
  std::vector<GroupKey> TakeLooks(absl::Time now);
  void LookLater(const GroupKey& key, absl::Time at);
  // One of the group's rows that wait long; nullptr: none is left.
  std::shared_ptr<const RowSource> LongWaiting(const GroupKey& key) const;
  // Puts the group's rows that wait long back into the queue, so that the caller judges each of
  // them once now and not only when its window opens.
  void JudgeLongWaiting(const GroupKey& key, absl::Time now);

  // Ends the process if rows, queue and indices disagree. For tests: it visits every row.
  void CheckInvariants() const;

 private:
  // Puts the row into the queue as kQueued or kToJudge.
  void Enqueue(const std::string& key, WaitingRow& row);
  // Takes the row out of the queue and of the list of closing windows.
  void Withhold(const std::string& key, WaitingRow& row);
  void CutAt(RowGroup& group, const std::string& end);
  void EvictBeyond(RowGroup& group, size_t group_rows_max);
  absl::Time MayGoAt(const RowGroup& group, const WaitingRow& row) const;
  // `rows`: each with the time at which it may go. The group is read again at the first of these,
  // not before `opens_from`. Returns their keys.
  std::vector<std::string> Leave(const GroupKey& key, RowGroup& group,
                                 std::vector<std::pair<absl::Time, std::string>> rows,
                                 absl::Time opens_from);
  using GroupTimes = std::set<std::pair<absl::Time, GroupKey>>;
  // Moves the group from `time` to `to` in an index of groups by time, and sets `time`. A group at
  // InfiniteFuture is in no index.
  static void Reschedule(GroupTimes& index, const GroupKey& key, absl::Time& time, absl::Time to);
  void AddClosing(const std::string& key, WaitingRow& row);
  void RemoveClosing(const std::string& key, WaitingRow& row);
  RowGroup* MutableGroup(const std::string& row_key);

  const Uid policy_;
  const uint16_t policy_shard_;
  const absl::Duration grant_lead_;
  Totals& totals_;
  FairQueue queue_;
  std::map<GroupKey, RowGroup> groups_;
  size_t rows_ = 0;
  std::set<std::pair<int64_t, std::string>> closings_;  // windows that do not finish late
  GroupTimes openings_;                                 // groups with left rows
  GroupTimes looks_;                                    // groups with rows that wait long
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_WAITING_WAITING_ROWS_H_
