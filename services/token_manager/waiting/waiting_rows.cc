#include "services/token_manager/waiting/waiting_rows.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/storage/event_table.h"
#include "common/storage/schedule_table.h"
#include "services/token_manager/base/options.h"
#include "services/token_manager/waiting/policy_state.h"

namespace escapement::token_manager {
namespace {

using State = WaitingRow::State;

// A row that may go this much later than its key says, and than now, gets another key.
constexpr absl::Duration kMisplacedBy = absl::Milliseconds(20);
// So long after it is due, a row that waits behind rows with other limits is judged: it may be of a
// former version, which ends then (SupersededEndsAt).
constexpr absl::Duration kLookSoon = absl::Seconds(1);

// The row's events that are not granted.
QueuedSlice SliceOf(const std::string& key, WaitingRow& row) {
  // Its events may be granted kGrantLead ahead of the key's time, for which the handler waits. But
  // the handler knows neither windows nor retries of one-off events.
  const RowSource& source = *row.source();
  const absl::Time opens = OpensAt(source.event);
  const bool not_ahead =
      opens > row.key_time() ||
      (source.one_off() && ToMicros(row.key_time()) != source.event.launch_time_micros());
  Pacing pacing = PacingOf(source.event);
  pacing.begin += kGrantLead;
  return {.key = key,
          .group = row.group(),
          .due = not_ahead ? std::max(opens, row.key_time()) + kGrantLead : row.key_time(),
          .first = row.first() + row.taken(),
          .end = row.first() + row.count(),
          .pacing = pacing,
          .policy_key = source.key(),
          .row = &row};
}

}  // namespace

storage::v1::EventRecord WaitingRow::Record() const {
  storage::v1::EventRecord record = source_->event;
  record.set_count(count_);
  if (taken_ > 0 || record.has_throttle()) record.mutable_throttle()->set_taken(taken_);
  return record;
}

absl::Time WaitingRow::due() const {
  const storage::v1::EventRecord& event = source_->event;
  const bool by_window = std::max(OpensAt(event), PacingOf(event).At(first_)) == key_time_;
  return event.attempts() > 0 && !by_window ? key_time_ : FromMicros(event.launch_time_micros());
}

absl::Time WaitingRow::may_go() const {
  const storage::v1::EventRecord& event = source_->event;
  return std::max({key_time_, OpensAt(event), PacingOf(event).At(first_ + taken_)});
}

kv::Condition WaitingRow::Unchanged(const std::string& key) const {
  if (!read_again_)
    return kv::ValueIs(kv::ColumnFamily::kWaiting, key, Record().SerializeAsString());
  // Its bytes may be another program's, which ours are not equal to.
  return {.cf = kv::ColumnFamily::kWaiting,
          .key = key,
          .kind = kv::Condition::Kind::kUnchangedSince,
          .since = read_seq_};
}

WaitingRows::Groups::iterator WaitingRows::GroupOfRow(const std::string& row_key) {
  const std::optional<GroupKey> key = WaitingGroupIn(row_key);
  return key.has_value() ? groups_.find(*key) : groups_.end();
}

std::vector<const RowGroup*> WaitingRows::GroupsOf(const Uid& schedule) const {
  std::vector<const RowGroup*> of_schedule;
  for (uint8_t priority = 0; priority < kLaneRetry; ++priority) {
    if (const RowGroup* group = GroupOf({priority, schedule})) of_schedule.push_back(group);
  }
  return of_schedule;
}

WaitingRows::~WaitingRows() {
  for (const auto& [key, group] : groups_) {
    totals_.rows -= group.rows.size();
    for (const auto& [row_key, row] : group.rows) totals_.further.CountRows(*row.source_, -1);
  }
}

WaitingRow* WaitingRows::RowOf(const std::string& key) {
  const auto group = GroupOfRow(key);
  if (group == groups_.end()) return nullptr;
  const auto row = group->second.rows.find(key);
  return row == group->second.rows.end() ? nullptr : &row->second;
}

absl::Time WaitingRows::NextTime() const {
  if (!misplaced_.empty()) return absl::InfinitePast();
  return std::min(FirstOf(closings_), FirstOf(looks_));
}

bool WaitingRows::Add(const std::string& key, const WaitingKey& decoded, const std::string& value,
                      kv::CommitSeq read_seq) {
  const GroupKey group_key{decoded.priority, decoded.uid};
  const auto at = groups_.find(group_key);
  const RowSource* neighbour = nullptr;
  bool behind = true;  // all rows of the group, as most are when they come
  if (at != groups_.end()) {
    RowGroup& group = at->second;
    if (group.IsBeyond(key)) {
      if (group.scan == 0) return true;
      group.arrived[key] = value;
      // Too many rows arrive to be kept: a later scan reads them with the others.
      if (group.arrived.size() > group_rows_max_) group.DropScan();
      return true;
    }
    if (!group.rows.empty()) {
      const auto& [last_key, last] = *group.rows.rbegin();
      neighbour = last.source_.get();
      behind = last_key < key;
      if (!behind && group.rows.contains(key)) return true;
    }
  }
  storage::v1::EventRecord event;
  if (!event.ParseFromString(value)) return false;
  if (event.count() <= event.throttle().taken() || decoded.first + event.count() < decoded.first)
    return false;
  WaitingOwner owner = WaitingOwnerOf(decoded);
  WaitingRow row(decoded,
                 RowSourceOf(std::move(event), owner.uid, std::move(owner.occurrence),
                             decoded.policy_shard, neighbour, value),
                 read_seq);
  RowGroup& group = at == groups_.end() ? groups_[group_key] : at->second;
  const auto place = behind ? group.rows.end() : group.rows.lower_bound(key);
  const auto added = group.rows.emplace_hint(place, key, std::move(row));
  WaitingRow& kept = added->second;
  kept.key_ = &added->first;
  ++totals_.rows;
  totals_.further.CountRows(*kept.source_, 1);
  Enqueue(key, kept);
  if (group.rows.size() > 2 * group_rows_max_) EvictBeyond(group);
  return true;
}

// Evicts the last rows, but none before a busy one.
void WaitingRows::EvictBeyond(RowGroup& group) {
  while (group.rows.size() > group_rows_max_ && !group.rows.rbegin()->second.busy()) {
    group.end = group.rows.rbegin()->first;
    group.DropScan();
    Remove(group.end);
  }
}

void WaitingRows::Remove(const std::string& key) {
  const auto group = GroupOfRow(key);
  if (group == groups_.end()) return;
  const auto row = group->second.rows.find(key);
  if (row == group->second.rows.end()) return;
  CHECK(row->second.state_ != State::kGranting) << "a row is removed while a grant takes from it";
  Withhold(key, row->second);
  Erase(group, row);
}

void WaitingRows::Erase(Groups::iterator group, std::map<std::string, WaitingRow>::iterator row) {
  totals_.further.CountRows(*row->second.source_, -1);
  group->second.rows.erase(row);
  --totals_.rows;
  DropIfEmpty(group);
}

void WaitingRows::DropIfEmpty(Groups::iterator group) {
  if (!group->second.rows.empty() || group->second.has_more()) return;
  Reschedule(looks_, group->first, group->second.look, absl::InfiniteFuture());
  groups_.erase(group);
}

void WaitingRows::Enqueue(const std::string& key, WaitingRow& row) {
  row.state_ = State::kQueued;
  if (!row.finishes_late_) Reschedule(closings_, key, row.closes_, ClosesAt(row.source_->event));
  CheckPlace(key, row);
  queue_.Add(SliceOf(key, row));
  RowGroup& group = groups_.at(row.group());
  absl::Time look = group.look;
  if (!SameLimits(group.rows.begin()->second.source_->event.throttle(),
                  row.source_->event.throttle())) {
    look = std::min(look, row.due() + kLookSoon);
  } else if (look == absl::InfiniteFuture() && row.may_go() > row.due() + kWaitsLong) {
    look = row.due() + kWaitsLong;
  }
  Reschedule(looks_, row.group(), group.look, look);
}

void WaitingRows::Withhold(const std::string& key, WaitingRow& row) {
  queue_.Remove(key);
  Unlist(key, row);
}

void WaitingRows::Unlist(const std::string& key, WaitingRow& row) {
  Reschedule(closings_, key, row.closes_, absl::InfiniteFuture());
  misplaced_.erase(key);
}

void WaitingRows::CheckPlace(const std::string& key, const WaitingRow& row) {
  if (row.may_go() > row.key_time_ + kMisplacedBy) misplaced_.insert(key);
}

void WaitingRows::Grant(const std::string& key, WaitingRow& row, uint64_t count) {
  CHECK(row.state_ == State::kQueued || row.state_ == State::kGranting);
  CHECK_LE(count, row.left());
  row.state_ = State::kGranting;
  row.taken_ += count;
  queue_.Advance(key, count);
}

void WaitingRows::Ungrant(const std::string& key, uint64_t count) {
  WaitingRow* row = RowOf(key);
  CHECK(row != nullptr) << "a granted row is not in memory";
  CHECK(row->state_ == State::kGranting || row->state_ == State::kQueued);
  CHECK_GE(row->taken_, count);
  row->taken_ -= count;
  Enqueue(key, *row);
}

bool WaitingRows::SettleGrant(const std::string& key, WaitingRow& row) {
  if (row.state_ == State::kGranting) row.state_ = State::kQueued;
  const bool rewritten = row.rewritten_;
  if (row.left() == 0) {  // the queue has nothing of it
    Unlist(key, row);
    const auto group = groups_.find(row.group());
    Erase(group, group->second.rows.find(key));
  } else {
    CheckPlace(key, row);
  }
  return rewritten;
}

void WaitingRows::BeginAction(const std::string& key, WaitingRow& row) {
  CHECK(row.state_ == State::kQueued);
  Withhold(key, row);
  row.state_ = State::kActing;
}

void WaitingRows::AbortAction(const std::string& key, WaitingRow& row) {
  CHECK(row.state_ == State::kActing);
  Enqueue(key, row);
}

void WaitingRows::NoteRewritten(WaitingRow& row) {
  CHECK(row.busy());
  row.rewritten_ = true;
}

void WaitingRows::Postpone(const std::string& key, WaitingRow& row, absl::Time until) {
  CHECK(row.state_ != State::kActing);
  QueuedSlice slice = SliceOf(key, row);
  slice.due = until + kGrantLead;
  queue_.Add(std::move(slice));
}

void WaitingRows::FinishLate(const std::string& key, WaitingRow& row) {
  Reschedule(closings_, key, row.closes_, absl::InfiniteFuture());
  row.finishes_late_ = true;
}

std::vector<std::string> WaitingRows::TakeMisplaced(absl::Time now, size_t max) {
  std::vector<std::string> taken;
  while (taken.size() < max && !misplaced_.empty()) {
    std::string key = std::move(misplaced_.extract(misplaced_.begin()).value());
    const WaitingRow& row = *RowOf(key);
    if (!row.busy() && row.may_go() > now + kMisplacedBy) taken.push_back(std::move(key));
  }
  return taken;
}

bool WaitingRows::CutIfFull(const GroupKey& key, const std::string& end) {
  const auto at = groups_.find(key);
  if (at == groups_.end()) return false;
  RowGroup& group = at->second;
  if (group.has_more() || group.rows.size() < group_rows_max_) return false;
  group.end = end;
  while (!group.rows.empty() && group.rows.rbegin()->first >= end)
    Remove(std::string(group.rows.rbegin()->first));
  return true;
}

std::optional<std::string> WaitingRows::BeginReadOn(const GroupKey& key, uint64_t scan) {
  const auto at = groups_.find(key);
  if (at == groups_.end()) return std::nullopt;
  RowGroup& group = at->second;
  if (!group.has_more() || group.scan != 0 || group.rows.size() > group_rows_max_ / 2)
    return std::nullopt;
  group.scan = scan;
  return group.end;
}

bool WaitingRows::OnRead(const GroupKey& key, uint64_t scan,
                         const absl::StatusOr<kv::ScanResult>& result) {
  const auto at = groups_.find(key);
  if (at == groups_.end() || at->second.scan != scan) return false;
  RowGroup& group = at->second;
  const std::map<std::string, std::string> arrived = std::exchange(group.arrived, {});
  group.DropScan();
  if (!result.ok()) return true;  // a later scan reads them
  if (!result->more) {
    group.end.clear();
  } else if (!result->entries.empty()) {
    group.end = KeyAfter(result->entries.back().key);
  }
  const auto add = [&](const std::string& row_key, const std::string& value,
                       kv::CommitSeq read_seq) {
    const std::optional<WaitingKey> decoded = DecodeWaitingKey(row_key);
    if (decoded.has_value()) Add(row_key, *decoded, value, read_seq);
  };
  for (const kv::Entry& row : result->entries) add(row.key, row.value, result->seq);
  for (const auto& [row_key, value] : arrived) add(row_key, value, 0);
  DropIfEmpty(at);
  return true;
}

void WaitingRows::LookLater(const GroupKey& key, absl::Time at) {
  const auto group = groups_.find(key);
  if (group != groups_.end()) Reschedule(looks_, key, group->second.look, at);
}

}  // namespace escapement::token_manager
