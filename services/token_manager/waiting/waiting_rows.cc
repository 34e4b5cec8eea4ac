#include "services/token_manager/waiting/waiting_rows.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "services/token_manager/waiting/policy_state.h"

namespace escapement::token_manager {

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
  // Its bytes may be another program's, which ours are not equal to.
  if (read_again_) {
    return {.cf = kv::ColumnFamily::kWaiting,
            .key = key,
            .kind = kv::Condition::Kind::kUnchangedSince,
            .since = read_seq_};
  }
  return {.cf = kv::ColumnFamily::kWaiting,
          .key = key,
          .kind = kv::Condition::Kind::kValueEquals,
          .value = Record().SerializeAsString()};
}

bool WaitsLong(const WaitingRow& row) { return row.may_go() > row.due() + kWaitsLong; }

namespace {

// The handler knows the due time of a one-off event, but not when it is retried.
bool NotAhead(const WaitingRow& row) {
  return row.source()->one_off() &&
         ToMicros(row.key_time()) != row.source()->event.launch_time_micros();
}

}  // namespace

QueuedSlice SliceOf(const std::string& key, const WaitingRow& row, absl::Duration grant_lead) {
  // The handler waits for the time in the row's key, but it does not know about windows. So a row
  // that waits for its window to open, or for its place in it, must not be granted ahead.
  const absl::Time opens = OpensAt(row.source()->event);
  Pacing pacing = PacingOf(row.source()->event);
  pacing.begin += grant_lead;
  return {.key = key,
          .priority = row.priority(),
          .group = row.source()->group,
          .due = opens > row.key_time() || NotAhead(row)
                     ? std::max(opens, row.key_time()) + grant_lead
                     : row.key_time(),
          .first = row.first() + row.taken(),
          .end = row.first() + row.count(),
          .pacing = pacing,
          .policy_key = row.source()->key(),
          .several = row.source()->several()};
}

int64_t ActsOnCloseMicros(const WaitingRow& row) {
  const absl::Time closes = ClosesAt(row.source()->event);
  if (closes == absl::InfiniteFuture()) return 0;
  const storage::v1::WindowRecord& window = row.source()->event.throttle().window();
  if (window.on_close() != storage::v1::ON_CLOSE_KIND_DROP &&
      window.on_close() != storage::v1::ON_CLOSE_KIND_CARRY_OVER)
    return 0;
  return std::max<int64_t>(ToMicros(closes), 1);
}

namespace {

using State = WaitingRow::State;
using Extent = RowGroup::Extent;

// A row that may go this much later than its key says, and than now, gets another key.
constexpr absl::Duration kMisplacedBy = absl::Milliseconds(20);

// Fewer rows than this in memory: the group is read on.
size_t EnoughRows(size_t group_rows_max) { return group_rows_max / 2 + 1; }

}  // namespace

RowGroup* WaitingRows::MutableGroup(const std::string& row_key) {
  const std::optional<GroupKey> key = WaitingGroupIn(row_key);
  if (!key.has_value()) return nullptr;
  const auto group = groups_.find(*key);
  return group == groups_.end() ? nullptr : &group->second;
}

std::vector<const RowGroup*> WaitingRows::GroupsOf(const Uid& schedule) const {
  std::vector<const RowGroup*> of_schedule;
  for (uint8_t priority = 0; priority < kLaneRetry; ++priority) {
    if (const RowGroup* group = GroupOf({priority, schedule})) of_schedule.push_back(group);
  }
  return of_schedule;
}

WaitingRows::~WaitingRows() {
  totals_.rows -= rows_;
  if (totals_.further.empty()) return;
  for (const auto& [key, group] : groups_) {
    for (const auto& [row_key, row] : group.rows_) totals_.further.TakeRow(*row.source_);
  }
}

WaitingRow* WaitingRows::RowOf(const std::string& key) {
  RowGroup* group = MutableGroup(key);
  if (group == nullptr) return nullptr;
  const auto row = group->rows_.find(key);
  return row == group->rows_.end() ? nullptr : &row->second;
}

absl::Time WaitingRows::NextTime() const {
  absl::Time next = absl::InfiniteFuture();
  if (!closings_.empty()) next = std::min(next, FromMicros(closings_.begin()->first));
  if (!misplaced_.empty()) next = absl::InfinitePast();
  if (!looks_.empty()) next = std::min(next, looks_.begin()->first);
  return next;
}

WaitingRows::Added WaitingRows::Add(
    const std::string& key, const WaitingKey& decoded, const std::string& value,
    kv::CommitSeq read_seq, size_t group_rows_max,
    absl::FunctionRef<void(const storage::v1::EventRecord& event)> on_new) {
  const GroupKey group_key{decoded.priority, decoded.uid};
  if (const auto at = groups_.find(group_key); at != groups_.end()) {
    RowGroup& group = at->second;
    if (group.has_more() && key >= group.end_) {
      if (group.extent_ == Extent::kReadingOn) {
        group.arrived_[key] = value;
        // Too many rows arrive to be kept: a later scan reads them with the others.
        if (group.arrived_.size() > group_rows_max) {
          group.arrived_.clear();
          group.extent_ = Extent::kCut;
        }
      }
      return Added::kBeyond;
    }
    if (group.rows_.contains(key)) return Added::kKept;
  }
  storage::v1::EventRecord event;
  if (!event.ParseFromString(value)) return Added::kBroken;
  const uint64_t count = event.count();
  const uint64_t taken = event.throttle().taken();
  if (count <= taken || decoded.first + count < decoded.first) return Added::kBroken;
  WaitingOwner owner = WaitingOwnerOf(decoded);
  on_new(event);
  WaitingRow row(
      decoded, RowSourceOf(std::move(event), owner.uid, std::move(owner.occurrence), policy_shard_),
      count, taken, read_seq);
  RowGroup& group = groups_[group_key];
  WaitingRow& kept = group.rows_.emplace(key, std::move(row)).first->second;
  ++rows_;
  ++totals_.rows;
  totals_.further.AddRow(*kept.source_);
  Enqueue(key, kept);
  if (group.rows_.size() <= 2 * group_rows_max) return Added::kKept;
  EvictBeyond(group, group_rows_max);
  return Added::kBeyond;
}

// Evicts the last rows, but none before a busy one.
void WaitingRows::EvictBeyond(RowGroup& group, size_t group_rows_max) {
  while (group.rows_.size() > group_rows_max) {
    const auto last = std::prev(group.rows_.end());
    if (last->second.busy()) return;
    group.end_ = last->first;
    group.extent_ = Extent::kCut;
    group.arrived_.clear();
    Remove(std::string(last->first));
  }
}

void WaitingRows::CutAt(RowGroup& group, const std::string& end) {
  group.end_ = end;
  group.extent_ = Extent::kCut;
  while (!group.rows_.empty() && group.rows_.rbegin()->first >= end)
    Remove(std::string(group.rows_.rbegin()->first));
}

void WaitingRows::Remove(const std::string& key) {
  RowGroup* group = MutableGroup(key);
  if (group == nullptr) return;
  const auto row = group->rows_.find(key);
  if (row == group->rows_.end()) return;
  CHECK(row->second.state_ != State::kGranting) << "a row is removed while a grant takes from it";
  Withhold(key, row->second);
  totals_.further.TakeRow(*row->second.source_);
  group->rows_.erase(row);
  CHECK_GT(rows_, 0u);
  --rows_;
  --totals_.rows;
}

void WaitingRows::DropEmptyGroup(const GroupKey& key) {
  const auto group = groups_.find(key);
  if (group == groups_.end() || !group->second.rows_.empty() || group->second.has_more()) return;
  Reschedule(looks_, key, group->second.look_, absl::InfiniteFuture());
  groups_.erase(group);
}

void WaitingRows::Enqueue(const std::string& key, WaitingRow& row) {
  row.state_ = State::kQueued;
  AddClosing(key, row);
  CheckPlace(key, row);
  queue_.Add(SliceOf(key, row, grant_lead_));
  if (!WaitsLong(row)) return;
  const GroupKey group_key{row.priority_, row.source_->group};
  RowGroup& group = groups_.at(group_key);
  if (group.look_ == absl::InfiniteFuture())
    Reschedule(looks_, group_key, group.look_, row.due() + kWaitsLong);
}

void WaitingRows::Withhold(const std::string& key, WaitingRow& row) {
  queue_.Remove(key);
  RemoveClosing(key, row);
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

bool WaitingRows::SettleGrant(const std::string& key) {
  WaitingRow* row = RowOf(key);
  CHECK(row != nullptr) << "a granted row is not in memory";
  if (row->state_ == State::kGranting) row->state_ = State::kQueued;
  const bool rewritten = row->rewritten_;
  if (row->left() == 0) {
    const GroupKey group{row->priority_, row->source_->group};
    Remove(key);
    DropEmptyGroup(group);
  } else {
    CheckPlace(key, *row);
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

void WaitingRows::Postpone(const std::string& key, const WaitingRow& row, absl::Time until) {
  CHECK(row.state_ != State::kActing);
  QueuedSlice slice = SliceOf(key, row, grant_lead_);
  slice.due = until + grant_lead_;
  queue_.Add(std::move(slice));
}

void WaitingRows::FinishLate(const std::string& key, WaitingRow& row) {
  RemoveClosing(key, row);
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

std::vector<std::string> WaitingRows::ClosedBy(int64_t micros, size_t max) const {
  std::vector<std::string> closed;
  for (const auto& [closes_micros, key] : closings_) {
    if (closes_micros > micros || closed.size() >= max) break;
    closed.push_back(key);
  }
  return closed;
}

bool WaitingRows::CutIfFull(const GroupKey& key, const std::string& end, size_t group_rows_max) {
  const auto group = groups_.find(key);
  if (group == groups_.end() || group->second.has_more() ||
      group->second.rows_.size() < group_rows_max)
    return false;
  CutAt(group->second, end);
  return true;
}

std::optional<std::string> WaitingRows::BeginReadOn(const GroupKey& key, uint64_t scan,
                                                    size_t group_rows_max) {
  const auto at = groups_.find(key);
  if (at == groups_.end()) return std::nullopt;
  RowGroup& group = at->second;
  if (group.extent_ != Extent::kCut || group.rows_.size() >= EnoughRows(group_rows_max))
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

void WaitingRows::OnRead(const GroupKey& key, const kv::ScanResult& rows, size_t group_rows_max,
                         absl::FunctionRef<void(const storage::v1::EventRecord& event)> on_new) {
  RowGroup& group = groups_.at(key);
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
    if (decoded.has_value()) Add(row_key, *decoded, value, read_seq, group_rows_max, on_new);
  };
  for (const kv::Entry& row : rows.entries) add(row.key, row.value, rows.seq);
  for (const auto& [row_key, value] : arrived) add(row_key, value, 0);
  DropEmptyGroup(key);
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

void WaitingRows::Reschedule(GroupTimes& index, const GroupKey& key, absl::Time& time,
                             absl::Time to) {
  index.erase({time, key});
  time = to;
  if (to != absl::InfiniteFuture()) index.insert({to, key});
}

void WaitingRows::AddClosing(const std::string& key, WaitingRow& row) {
  if (row.closes_micros_ != 0 || row.finishes_late_) return;
  row.closes_micros_ = ActsOnCloseMicros(row);
  if (row.closes_micros_ != 0) closings_.insert({row.closes_micros_, key});
}

void WaitingRows::RemoveClosing(const std::string& key, WaitingRow& row) {
  if (row.closes_micros_ != 0) closings_.erase({row.closes_micros_, key});
  row.closes_micros_ = 0;
}

using State = WaitingRow::State;

void WaitingRows::CheckInvariants() const {
  size_t rows = 0;
  size_t closings = 0;
  size_t looks = 0;
  size_t slices = 0;
  for (const auto& [group_key, group] : groups_) {
    rows += group.rows_.size();
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
      CHECK_EQ(row.closes_micros_ != 0, closings_.contains({row.closes_micros_, key}));
      closings += row.closes_micros_ != 0 ? 1 : 0;
    }
  }
  CHECK_EQ(rows, rows_);
  CHECK_EQ(closings, closings_.size());
  for (const std::string& key : misplaced_) CHECK(queue_.Find(key) != nullptr);
  CHECK_EQ(looks, looks_.size());
  CHECK_EQ(slices, queue_.rows());
}

}  // namespace escapement::token_manager
