#include "services/token_manager/waiting/waiting_rows.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/storage/event_table.h"
#include "services/token_manager/base/options.h"
#include "services/token_manager/waiting/policy_state.h"

namespace escapement::token_manager {
namespace {

using State = WaitingRow::State;
using Extent = RowGroup::Extent;

// A row that may go this much later than its key says, and than now, gets another key.
constexpr absl::Duration kMisplacedBy = absl::Milliseconds(20);

}  // namespace

storage::v1::EventRecord WaitingRow::Record() const {
  storage::v1::EventRecord record = source_->event;
  record.set_count(count_);
  if (taken_ > 0 || record.has_throttle()) record.mutable_throttle()->set_taken(taken_);
  return record;
}

absl::Time WaitingRow::due() const {
  const storage::v1::EventRecord& event = source_->event;
  return event.attempts() > 0 ? key_time_ : FromMicros(event.launch_time_micros());
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

QueuedSlice WaitingRows::SliceOf(const std::string& key, WaitingRow& row) {
  // Its events may be granted kGrantLead ahead of the time in the row's key, for which the handler
  // waits. But the handler does not know about windows, nor when a one-off event is retried: a row
  // that waits for its window to open, for its place in it, or for such a retry must not be granted
  // ahead.
  const storage::v1::EventRecord& event = row.source_->event;
  const absl::Time opens = OpensAt(event);
  const bool not_ahead =
      opens > row.key_time_ ||
      (row.source_->one_off() && ToMicros(row.key_time_) != event.launch_time_micros());
  Pacing pacing = PacingOf(event);
  pacing.begin += kGrantLead;
  return {.key = key,
          .priority = row.priority_,
          .group = row.source_->group,
          .due = not_ahead ? std::max(opens, row.key_time_) + kGrantLead : row.key_time_,
          .first = row.first_ + row.taken_,
          .end = row.first_ + row.count_,
          .pacing = pacing,
          .policy_key = row.source_->key(),
          .row = &row};
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
    totals_.rows -= group.rows_.size();
    if (totals_.further.empty()) continue;
    for (const auto& [row_key, row] : group.rows_) totals_.further.TakeRow(*row.source_);
  }
}

template <typename Key>
void WaitingRows::Reschedule(Times<Key>& index, const Key& key, absl::Time& time, absl::Time to) {
  if (time != absl::InfiniteFuture()) index.erase({time, key});
  time = to;
  if (to != absl::InfiniteFuture()) index.insert({to, key});
}

WaitingRow* WaitingRows::RowOf(const std::string& key) {
  const auto group = GroupOfRow(key);
  if (group == groups_.end()) return nullptr;
  const auto row = group->second.rows_.find(key);
  return row == group->second.rows_.end() ? nullptr : &row->second;
}

absl::Time WaitingRows::NextTime() const {
  if (!misplaced_.empty()) return absl::InfinitePast();
  absl::Time next = absl::InfiniteFuture();
  if (!closings_.empty()) next = std::min(next, closings_.begin()->first);
  if (!looks_.empty()) next = std::min(next, looks_.begin()->first);
  return next;
}

bool WaitingRows::Add(const std::string& key, const WaitingKey& decoded, const std::string& value,
                      kv::CommitSeq read_seq) {
  const GroupKey group_key{decoded.priority, decoded.uid};
  if (const auto at = groups_.find(group_key); at != groups_.end()) {
    RowGroup& group = at->second;
    if (group.IsBeyond(key)) {
      if (group.extent_ == Extent::kReadingOn) {
        group.arrived_[key] = value;
        // Too many rows arrive to be kept: a later scan reads them with the others.
        if (group.arrived_.size() > group_rows_max_) {
          group.arrived_.clear();
          group.extent_ = Extent::kCut;
        }
      }
      return true;
    }
    if (group.rows_.contains(key)) return true;
  }
  storage::v1::EventRecord event;
  if (!event.ParseFromString(value)) return false;
  const uint64_t count = event.count();
  const uint64_t taken = event.throttle().taken();
  if (count <= taken || decoded.first + count < decoded.first) return false;
  WaitingOwner owner = WaitingOwnerOf(decoded);
  WaitingRow row(
      decoded, RowSourceOf(std::move(event), owner.uid, std::move(owner.occurrence), policy_shard_),
      count, taken, read_seq);
  RowGroup& group = groups_[group_key];
  WaitingRow& kept = group.rows_.emplace(key, std::move(row)).first->second;
  ++totals_.rows;
  totals_.further.AddRow(*kept.source_);
  Enqueue(key, kept);
  if (group.rows_.size() > 2 * group_rows_max_) EvictBeyond(group);
  return true;
}

// Evicts the last rows, but none before a busy one.
void WaitingRows::EvictBeyond(RowGroup& group) {
  while (group.rows_.size() > group_rows_max_) {
    const auto last = std::prev(group.rows_.end());
    if (last->second.busy()) return;
    group.end_ = last->first;
    group.extent_ = Extent::kCut;
    group.arrived_.clear();
    Remove(std::string(last->first));
  }
}

void WaitingRows::Remove(const std::string& key) {
  const auto group = GroupOfRow(key);
  if (group == groups_.end()) return;
  const auto row = group->second.rows_.find(key);
  if (row == group->second.rows_.end()) return;
  CHECK(row->second.state_ != State::kGranting) << "a row is removed while a grant takes from it";
  Withhold(key, row->second);
  totals_.further.TakeRow(*row->second.source_);
  group->second.rows_.erase(row);
  --totals_.rows;
  DropIfEmpty(group);
}

void WaitingRows::DropIfEmpty(Groups::iterator group) {
  if (!group->second.rows_.empty() || group->second.has_more()) return;
  Reschedule(looks_, group->first, group->second.look_, absl::InfiniteFuture());
  groups_.erase(group);
}

void WaitingRows::Enqueue(const std::string& key, WaitingRow& row) {
  row.state_ = State::kQueued;
  const storage::v1::EventRecord& event = row.source_->event;
  if (!row.finishes_late_ && CloseAction(event, absl::InfiniteFuture()) != WindowClose::kGoesOn)
    Reschedule(closings_, key, row.closes_, ClosesAt(event));
  CheckPlace(key, row);
  queue_.Add(SliceOf(key, row));
  if (row.may_go() <= row.due() + kWaitsLong) return;
  RowGroup& group = groups_.at(row.group());
  if (group.look_ == absl::InfiniteFuture())
    Reschedule(looks_, row.group(), group.look_, row.due() + kWaitsLong);
}

void WaitingRows::Withhold(const std::string& key, WaitingRow& row) {
  queue_.Remove(key);
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
  if (row.left() == 0) {
    Remove(key);
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

std::vector<std::string> WaitingRows::ClosedBy(absl::Time now, size_t max) const {
  std::vector<std::string> closed;
  for (const auto& [closes, key] : closings_) {
    if (closes > now || closed.size() >= max) break;
    closed.push_back(key);
  }
  return closed;
}

bool WaitingRows::CutIfFull(const GroupKey& key, const std::string& end) {
  const auto at = groups_.find(key);
  if (at == groups_.end()) return false;
  RowGroup& group = at->second;
  if (group.has_more() || group.rows_.size() < group_rows_max_) return false;
  group.end_ = end;
  group.extent_ = Extent::kCut;
  while (!group.rows_.empty() && group.rows_.rbegin()->first >= end)
    Remove(std::string(group.rows_.rbegin()->first));
  return true;
}

std::optional<std::string> WaitingRows::BeginReadOn(const GroupKey& key, uint64_t scan) {
  const auto at = groups_.find(key);
  if (at == groups_.end()) return std::nullopt;
  RowGroup& group = at->second;
  if (group.extent_ != Extent::kCut || group.rows_.size() > group_rows_max_ / 2)
    return std::nullopt;
  group.extent_ = Extent::kReadingOn;
  group.scan_ = scan;
  return group.end_;
}

void WaitingRows::OnReadFailed(const GroupKey& key) {
  RowGroup& group = groups_.at(key);
  CHECK(group.extent_ == Extent::kReadingOn);
  group.extent_ = Extent::kCut;
}

void WaitingRows::OnRead(const GroupKey& key, const kv::ScanResult& rows) {
  const auto at = groups_.find(key);
  CHECK(at != groups_.end());
  RowGroup& group = at->second;
  CHECK(group.extent_ == Extent::kReadingOn);
  const std::map<std::string, std::string> arrived = std::exchange(group.arrived_, {});
  if (!rows.more) {
    group.extent_ = Extent::kWhole;
    group.end_.clear();
  } else {
    group.extent_ = Extent::kCut;
    if (!rows.entries.empty()) group.end_ = KeyAfter(rows.entries.back().key);
  }
  const auto add = [&](const std::string& row_key, const std::string& value,
                       kv::CommitSeq read_seq) {
    const std::optional<WaitingKey> decoded = DecodeWaitingKey(row_key);
    if (decoded.has_value()) Add(row_key, *decoded, value, read_seq);
  };
  for (const kv::Entry& row : rows.entries) add(row.key, row.value, rows.seq);
  for (const auto& [row_key, value] : arrived) add(row_key, value, 0);
  DropIfEmpty(at);
}

std::vector<GroupKey> WaitingRows::TakeLooks(absl::Time now) {
  std::vector<GroupKey> due;
  while (!looks_.empty() && looks_.begin()->first <= now) {
    due.push_back(looks_.begin()->second);
    Reschedule(looks_, due.back(), groups_.at(due.back()).look_, absl::InfiniteFuture());
  }
  return due;
}

void WaitingRows::LookLater(const GroupKey& key, absl::Time at) {
  const auto group = groups_.find(key);
  if (group != groups_.end()) Reschedule(looks_, key, group->second.look_, at);
}

void WaitingRows::CheckInvariants() const {
  size_t closings = 0;
  size_t looks = 0;
  size_t slices = 0;
  for (const auto& [group_key, group] : groups_) {
    CHECK(group.has_more() || group.end_.empty());
    CHECK(group.has_more() || group.arrived_.empty());
    CHECK(group.has_more() || !group.rows_.empty()) << "an empty group stays";
    CHECK_EQ(group.look_ != absl::InfiniteFuture(), looks_.contains({group.look_, group_key}));
    looks += group.look_ != absl::InfiniteFuture() ? 1 : 0;
    for (const auto& [key, row] : group.rows_) {
      CHECK(!group.has_more() || key < group.end_) << "a row behind its group's end";
      CHECK_LE(row.taken_, row.count_);
      CHECK(!row.rewritten_ || row.busy() || row.state_ == State::kQueued);
      const QueuedSlice* slice = queue_.Find(key);
      const bool queued =
          row.state_ == State::kQueued || (row.state_ == State::kGranting && row.left() > 0);
      CHECK_EQ(queued, slice != nullptr);
      if (slice != nullptr) CHECK_EQ(slice->first, row.first_ + row.taken_);
      slices += slice != nullptr ? 1 : 0;
      CHECK_EQ(row.closes_ != absl::InfiniteFuture(), closings_.contains({row.closes_, key}));
      closings += row.closes_ != absl::InfiniteFuture() ? 1 : 0;
    }
  }
  CHECK_EQ(closings, closings_.size());
  for (const std::string& key : misplaced_) CHECK(queue_.Find(key) != nullptr);
  CHECK_EQ(looks, looks_.size());
  CHECK_EQ(slices, queue_.rows());
}

}  // namespace escapement::token_manager
