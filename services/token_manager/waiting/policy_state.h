// PolicyState: one policy (or, without one, one schedule) of which something waits or holds tokens:
// its record, its limits, who waits and who holds.
//
// Rows of `waiting` are in memory only in part: of each group (priority, schedule) those before its
// `end`, which is moved down when there are too many of them and up by reading on. Rows stand in
// the order of their due times, but those that were carried over wait for a later window, and those
// of an even window for their place in it: where they are in the way of others they are *left* in
// the store until then. Rows that are in a commit under way, or about to be in one, are *busy* and
// stay in memory, out of the queue.
//
// Threads: one. Pure: what is read and written is the caller's.

#ifndef SERVICES_TOKEN_MANAGER_WAITING_POLICY_STATE_H_
#define SERVICES_TOKEN_MANAGER_WAITING_POLICY_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/kv/kv_store.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/token_manager/granting/rate_limit.h"
#include "services/token_manager/holding/grant_set.h"
#include "services/token_manager/turns/fair_queue.h"

namespace escapement::token_manager {

// The hold timeout of what waits without a policy.
inline constexpr absl::Duration kImplicitHoldTimeout = absl::Seconds(3600);

// Per second, over about the last ten.
class MeasuredRate {
 public:
  void Add(uint64_t n, int64_t now_micros);
  double At(int64_t now_micros) const;

 private:
  double sum_ = 0;  // decays by e in the measuring time
  int64_t at_micros_ = 0;
};

struct WaitingRow {
  std::shared_ptr<const RowSource> source = nullptr;
  uint8_t priority = 5;  // of its key, as are due and first
  absl::Time due = absl::InfinitePast();
  uint64_t first = 0;
  uint64_t count = 0;
  uint64_t taken = 0;
  bool busy = false;
  // If it was read: the snapshot; else (it was watched, or is of an own commit) 0.
  kv::CommitSeq read_seq = 0;
  int64_t closes_micros = 0;   // as it stands in `closings`; 0: it does not
  bool finishes_late = false;  // its window has closed, and there is no other
  bool reading = false;  // busy until it is known how it is in the store (ShardState::to_read)
  // Written anew while it was busy: to be read when what becomes of the commit is known.
  bool told = false;
  bool looked = false;      // judged since its group was brought up, and waits on
  bool raised = false;      // stands in the queue to be judged only
  std::string stored = {};  // its bytes, if it had to be read again and has not changed since

  uint64_t left() const { return count - taken; }
  // As it is in the store.
  storage::v1::EventRecord Record() const;
  std::string Bytes() const { return stored.empty() ? Record().SerializeAsString() : stored; }
};

struct RowGroup {
  std::map<std::string, WaitingRow> rows;  // by key
  // Rows from here on are in the store only; nullopt: all are in memory.
  std::optional<std::string> end;
  uint64_t scan = 0;  // the number of the scan that reads on from there; 0: none
  // Put from `end` on while that is being read.
  std::map<std::string, std::string> arrived;
  // Of the rows that were left: when the first has its time, and a key that is behind all of them.
  absl::Time opens = absl::InfiniteFuture();
  std::string left_before;
  std::shared_ptr<const RowSource> left;     // of one of them that waits long for its window
  absl::Time look = absl::InfiniteFuture();  // as it stands in looks_
  // Rows that wait long are to be judged as they are read, and not left before.
  bool brought_up = false;
  // It is being read on, and has not come to its end, or to enough that can go now.
  bool passing = false;
};
using GroupKey = std::pair<uint8_t, Uid>;  // priority, schedule

class PolicyState {
 public:
  // `grant_lead`: so much ahead of their time events are looked for.
  PolicyState(const Uid& uid, uint16_t policy_shard, absl::Duration undelivered_slack,
              absl::Duration grant_lead, Totals* totals)
      : uid(uid),
        policy_shard(policy_shard),
        grants(undelivered_slack, totals),
        grant_lead_(grant_lead),
        totals_(totals) {}
  ~PolicyState() { totals_->rows -= rows_; }
  PolicyState(const PolicyState&) = delete;
  PolicyState& operator=(const PolicyState&) = delete;

  const Uid uid;
  const uint16_t policy_shard;

  // --- the record ---
  std::string tenant;
  std::string policy_id;  // empty: no policy, no limits
  bool named = false;     // the two are known
  bool known = false;     // record and counts have been read
  bool reading = false;
  bool reading_is_old = false;  // what is being read may be of before a change
  std::optional<storage::v1::PolicyRecord> record;
  std::string record_bytes;
  kv::CommitSeq record_seq = 0;

  bool implicit() const { return policy_id.empty(); }
  // The record that a commit may be conditional on, its limits in force. Older ones than the one
  // that is known are ignored.
  void SetRecord(const std::optional<std::string>& bytes, kv::CommitSeq seq, absl::Time now);
  void SetCounts(const std::optional<std::string>& bytes);
  kv::Condition RecordUnchanged() const;
  bool grants_tokens() const {
    return known && (implicit() || (record.has_value() && !record->paused()));
  }
  // How many more may be out; RateLimit::kUnlimited without a limit.
  uint64_t Free() const;
  Fairness fairness() const {
    return record.has_value() && record->fifo() ? Fairness::kFifo : Fairness::kBySchedule;
  }
  absl::Duration hold_timeout() const;
  bool hold_on_expiry() const { return record.has_value() && record->hold_on_expiry(); }

  // --- who holds ---
  GrantSet grants;
  RateLimit rate;
  storage::v1::PolicyCountsRecord counts;
  MeasuredRate granted_rate;
  MeasuredRate released_rate;
  std::string EncodeCounts(int64_t now_micros);

  // --- who waits ---
  FairQueue queue;
  std::map<GroupKey, RowGroup> groups;
  std::set<std::pair<int64_t, std::string>> closings;  // of windows that do not finish late

  enum class Added { kKept, kBeyond, kBroken };
  // A row as it is in the store (`value`; read at `read_seq`, or 0). kBeyond: it, or another for
  // it, is not in memory (its group's reading on finds it). Of one that is in memory already
  // nothing changes: nobody else writes rows that wait, but a change back to a former definition,
  // which writes anew what waits under the same key (RowActions).
  Added AddRow(const std::string& key, const WaitingKey& decoded, const std::string& value,
               kv::CommitSeq read_seq, size_t group_rows_max);
  // The group's rows from `end` on, none of which is in a commit, are in the store only.
  void CutAt(RowGroup& group, const std::string& end);
  // nullptr: nothing of it is in memory, or known to be in the store.
  RowGroup* GroupOf(const WaitingKey& key);
  RowGroup* GroupOf(const std::string& key);
  // The schedule's groups, by priority.
  std::vector<RowGroup*> GroupsOf(const Uid& schedule);
  // nullptr: not in memory.
  WaitingRow* RowOf(const std::string& key);
  void RemoveRow(const std::string& key);
  // A row that is no longer busy (or has changed) takes its place in the queue again.
  void Queue(const std::string& key, WaitingRow& row);
  // It comes up again at this instant, unless it changes before.
  void Postpone(const std::string& key, const WaitingRow& row, absl::Time until);
  // The row is busy: nobody looks at it.
  void Withhold(const std::string& key, WaitingRow& row);
  // The commit that has taken from it (and made it busy) has applied.
  void Settle(const std::string& key);
  // `count` of its last taken events are not granted after all.
  void Untake(const std::string& key, uint64_t count);
  // Its window has closed and it goes on.
  void FinishLate(const std::string& key, WaitingRow& row);
  // The group has little left in memory and more in the store.
  static bool Hungry(const RowGroup& group, size_t group_rows_max) {
    return group.end.has_value() && group.scan == 0 && group.rows.size() < group_rows_max / 2 + 1;
  }
  // What was read of the group from its `end` on; the reading began while no commit was under way.
  void OnRead(const GroupKey& group, const kv::ScanResult& rows, size_t group_rows_max);
  // Leaves what is in the way, if anything is: between commits, while the group is not being read.
  // What waits for longer than a second is; if that is not enough, whatever waits. Their keys.
  std::vector<std::string> LeaveWaiting(const GroupKey& group, absl::Time now,
                                        size_t group_rows_max);
  // The groups with rows that were left whose time has come: they are to be read anew, from their
  // beginning.
  std::vector<GroupKey> TakeOpened(absl::Time now);
  // The groups in which rows wait long for a window that are to be looked at: their schedule may
  // have changed. Each has an end: LookLater.
  std::vector<GroupKey> TakeLooks(absl::Time now);
  // One of the rows that wait so; nullptr: there is none any more.
  std::shared_ptr<const RowSource> LongWaiting(const GroupKey& group) const;
  void LookLater(const GroupKey& group, absl::Time at);
  // They come up now, once, rather than when their window opens (NoteLooked).
  void BringUp(const GroupKey& group, absl::Time now);
  // The row has been judged, and waits on.
  void NoteLooked(const std::string& key, WaitingRow& row);
  // The newer state of a row that is in memory: carried over to another window, or written by
  // somebody else.
  void ReplaceRow(const std::string& key, const storage::v1::EventRecord& record);
  void DropEmptyGroup(const GroupKey& group);
  bool idle() const { return groups.empty() && grants.empty(); }
  size_t rows() const { return rows_; }

  // --- of the shard's lists ---
  bool ready = false;                              // is in the list of those that may be granted
  absl::Time planned = absl::InfiniteFuture();     // as it stands in the agenda
  absl::Time grant_next = absl::InfiniteFuture();  // when time alone lets it be granted something
  absl::Time NextTime() const;
  // While it grants nothing: when its groups are looked at again, and the last one that was.
  absl::Time judge_next = absl::InfinitePast();
  GroupKey judged_to;
  std::set<Uid> fetching;  // schedules whose records are being read
  std::set<Uid> changed;   // schedules whose rows are to be judged, granted or not

 private:
  // What waits longer than that for its window waits long.
  static constexpr absl::Duration kWaitsLong = absl::Seconds(60);
  static bool WaitsLong(const WaitingRow& row);
  absl::Time MayGoAt(const RowGroup& group, const WaitingRow& row) const;
  // Each with the time at which it may go. They are read again at the first of these, not before
  // `opens_from`. Their keys.
  std::vector<std::string> Leave(const GroupKey& group_key, RowGroup& group,
                                 std::vector<std::pair<absl::Time, std::string>> rows,
                                 absl::Time opens_from);
  void SetOpens(const GroupKey& key, RowGroup& group, absl::Time opens);
  void SetLook(const GroupKey& key, RowGroup& group, absl::Time look);
  QueuedSlice SliceOf(const std::string& key, const WaitingRow& row) const;
  QueuedSlice RaisedSliceOf(const std::string& key, const WaitingRow& row) const;
  void Close(const std::string& key, WaitingRow& row);
  void Unclose(const std::string& key, WaitingRow& row);
  void Trim(RowGroup& group, size_t group_rows_max);
  std::set<std::pair<absl::Time, GroupKey>> openings_;  // of the groups that have left rows
  std::set<std::pair<absl::Time, GroupKey>> looks_;     // of those with rows that wait long

  const absl::Duration grant_lead_;
  Totals* const totals_;
  size_t rows_ = 0;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_WAITING_POLICY_STATE_H_
