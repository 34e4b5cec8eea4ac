#include "services/token_manager/waiting/policy_state.h"

#include <algorithm>
#include <cmath>

#include "common/base/key_codec.h"
#include "common/base/micros.h"
#include "common/storage/event_table.h"
#include "common/storage/policy_table.h"
#include "common/storage/run_table.h"
#include "services/token_manager/waiting/window_plan.h"

namespace escapement::token_manager {
namespace {

constexpr double kMeasureSeconds = 10;

double DecayOver(int64_t micros) {
  return micros <= 0 ? 1 : std::exp(-static_cast<double>(micros) / (kMeasureSeconds * 1e6));
}

}  // namespace

void MeasuredRate::Add(uint64_t n, int64_t now_micros) {
  sum_ = sum_ * DecayOver(now_micros - at_micros_) + static_cast<double>(n);
  at_micros_ = std::max(at_micros_, now_micros);
}

double MeasuredRate::At(int64_t now_micros) const {
  const double rate = sum_ * DecayOver(now_micros - at_micros_) / kMeasureSeconds;
  return rate < 1e-3 ? 0 : rate;
}

storage::v1::EventRecord WaitingRow::Record() const {
  storage::v1::EventRecord record = source->event;
  record.set_count(count);
  if (taken > 0 || record.has_throttle()) record.mutable_throttle()->set_taken(taken);
  return record;
}

void PolicyState::SetRecord(const std::optional<std::string>& bytes, kv::CommitSeq seq,
                            absl::Time now) {
  if (seq < record_seq) return;
  record_seq = seq;
  record_bytes = bytes.value_or(std::string());
  record.reset();
  if (bytes.has_value()) {
    record.emplace();
    // A record that cannot be read counts as one that is not there: nothing is granted.
    if (!record->ParseFromString(*bytes)) record.reset();
  }
  if (record.has_value()) {
    rate.SetLimits(record->max_per_second(), record->burst(), now);
  } else {
    rate.SetLimits(0, 1, now);
  }
  if (!hold_on_expiry()) grants.ForgetOverdue();
}

void PolicyState::SetCounts(const std::optional<std::string>& bytes) {
  if (!bytes.has_value() || !counts.ParseFromString(*bytes)) counts.Clear();
  const double per_second = record.has_value() ? record->max_per_second() : 0;
  rate = RateLimit(per_second, record.has_value() ? record->burst() : 1,
                   RateTimeOf(counts.rate_time_micros()));
}

kv::Condition PolicyState::RecordUnchanged() const {
  return {.cf = kv::ColumnFamily::kPolicies,
          .key = PolicyKey(tenant, policy_id),
          .kind = kv::Condition::Kind::kValueEquals,
          .value = record_bytes,
          .since = record_seq};
}

uint64_t PolicyState::Free() const {
  if (!record.has_value() || record->max_concurrent() == 0) return RateLimit::kUnlimited;
  return record->max_concurrent() - std::min(record->max_concurrent(), grants.held());
}

absl::Duration PolicyState::hold_timeout() const {
  if (!record.has_value() || record->hold_timeout_micros() <= 0) return kImplicitHoldTimeout;
  return absl::Microseconds(record->hold_timeout_micros());
}

std::string PolicyState::EncodeCounts(int64_t now_micros) {
  counts.set_held(grants.held());
  counts.set_rate_time_micros(RateTimeMicros(rate.tat()));
  counts.set_measure_time_micros(now_micros);
  counts.set_grants_per_second(granted_rate.At(now_micros));
  counts.set_releases_per_second(released_rate.At(now_micros));
  return counts.SerializeAsString();
}

PolicyState::Added PolicyState::AddRow(const std::string& key, const WaitingKey& decoded,
                                       const std::string& value, kv::CommitSeq read_seq,
                                       size_t group_rows_max) {
  const GroupKey group_key{decoded.priority, decoded.uid};
  const auto at = groups.find(group_key);
  if (at != groups.end()) {
    RowGroup& group = at->second;
    if (group.end.has_value() && key >= *group.end) {
      if (group.scan != 0) group.arrived[key] = value;
      // More arrive than are kept: they are read with the others, anew.
      if (group.arrived.size() > group_rows_max) {
        group.arrived.clear();
        group.scan = 0;
      }
      return Added::kBeyond;
    }
    if (group.rows.contains(key)) return Added::kKept;
  }
  storage::v1::EventRecord event;
  if (!event.ParseFromString(value)) return Added::kBroken;
  WaitingRow row{.priority = decoded.priority,
                 .due = decoded.due_time,
                 .first = decoded.first,
                 .count = event.count(),
                 .taken = event.throttle().taken(),
                 .read_seq = read_seq};
  if (row.count <= row.taken || row.first + row.count < row.first) return Added::kBroken;
  if (!named) {
    tenant = event.tenant();
    policy_id = event.throttle().policy_id();
    named = true;
    known = implicit();
  }
  row.source = RowSourceOf(std::move(event), decoded.uid, decoded.occurrence, policy_shard);
  RowGroup& group = groups[group_key];
  WaitingRow& kept = group.rows[key] = std::move(row);
  ++rows_;
  ++totals_->rows;
  Queue(key, kept);
  if (group.rows.size() <= 2 * group_rows_max) return Added::kKept;
  Trim(group, group_rows_max);
  return Added::kBeyond;
}

// The latter half of the rows is forgotten, but none before a busy one.
void PolicyState::Trim(RowGroup& group, size_t group_rows_max) {
  while (group.rows.size() > group_rows_max) {
    const auto last = std::prev(group.rows.end());
    if (last->second.busy) return;
    group.end = last->first;
    const std::string key = last->first;
    RemoveRow(key);
    group.arrived.clear();
    group.scan = 0;
  }
}

void PolicyState::CutAt(RowGroup& group, const std::string& end) {
  group.end = end;
  while (!group.rows.empty() && group.rows.rbegin()->first >= end)
    RemoveRow(std::string(group.rows.rbegin()->first));
}

std::vector<RowGroup*> PolicyState::GroupsOf(const Uid& schedule) {
  std::vector<RowGroup*> of_schedule;
  for (uint8_t priority = 0; priority < kLaneRetry; ++priority) {
    const auto group = groups.find({priority, schedule});
    if (group != groups.end()) of_schedule.push_back(&group->second);
  }
  return of_schedule;
}

RowGroup* PolicyState::GroupOf(const WaitingKey& key) {
  const auto group = groups.find({key.priority, key.uid});
  return group == groups.end() ? nullptr : &group->second;
}

RowGroup* PolicyState::GroupOf(const std::string& key) {
  const std::optional<WaitingKey> decoded = DecodeWaitingKey(key);
  return decoded.has_value() ? GroupOf(*decoded) : nullptr;
}

WaitingRow* PolicyState::RowOf(const std::string& key) {
  RowGroup* group = GroupOf(key);
  if (group == nullptr) return nullptr;
  const auto row = group->rows.find(key);
  return row == group->rows.end() ? nullptr : &row->second;
}

void PolicyState::RemoveRow(const std::string& key) {
  RowGroup* group = GroupOf(key);
  if (group == nullptr) return;
  const auto row = group->rows.find(key);
  if (row == group->rows.end()) return;
  queue.Remove(key);
  Unclose(key, row->second);
  group->rows.erase(row);
  --rows_;
  --totals_->rows;
}

void PolicyState::Queue(const std::string& key, WaitingRow& row) {
  row.busy = false;
  row.raised = false;
  Close(key, row);
  if (!WaitsLong(row)) return queue.Add(SliceOf(key, row));
  const GroupKey group_key{row.priority, row.source->uid};
  RowGroup& group = groups.at(group_key);
  row.raised = group.brought_up && !row.looked;
  queue.Add(row.raised ? RaisedSliceOf(key, row) : SliceOf(key, row));
  if (group.look == absl::InfiniteFuture()) SetLook(group_key, group, row.due + kWaitsLong);
}

void PolicyState::Postpone(const std::string& key, const WaitingRow& row, absl::Time until) {
  QueuedSlice slice = SliceOf(key, row);
  slice.due = until + grant_lead_;
  queue.Add(std::move(slice));
}

QueuedSlice PolicyState::RaisedSliceOf(const std::string& key, const WaitingRow& row) const {
  QueuedSlice slice = SliceOf(key, row);
  slice.due = row.due;
  slice.pacing = Pacing();
  return slice;
}

QueuedSlice PolicyState::SliceOf(const std::string& key, const WaitingRow& row) const {
  // The handler waits for a row's due time, but knows of no window: what waits for its window to
  // open, or for its place in it, must not be granted ahead.
  const absl::Time opens = OpensAt(row.source->event);
  Pacing pacing = PacingOf(row.source->event);
  pacing.begin += grant_lead_;
  return {.key = key,
          .priority = row.priority,
          .group = row.source->uid,
          .due = opens > row.due ? opens + grant_lead_ : row.due,
          .first = row.first + row.taken,
          .end = row.first + row.count,
          .pacing = pacing};
}

void PolicyState::Withhold(const std::string& key, WaitingRow& row) {
  row.busy = true;
  queue.Remove(key);
  Unclose(key, row);
}

void PolicyState::Settle(const std::string& key) {
  WaitingRow* row = RowOf(key);
  if (row == nullptr) return;
  row->busy = false;
  if (row->left() > 0) return;
  const GroupKey group{row->priority, row->source->uid};
  RemoveRow(key);
  DropEmptyGroup(group);
}

void PolicyState::Untake(const std::string& key, uint64_t count) {
  WaitingRow* row = RowOf(key);
  if (row == nullptr) return;
  row->taken -= std::min(row->taken, count);
  Queue(key, *row);
}

void PolicyState::FinishLate(const std::string& key, WaitingRow& row) {
  Unclose(key, row);
  row.finishes_late = true;
}

void PolicyState::OnRead(const GroupKey& group_key, const kv::ScanResult& rows,
                         size_t group_rows_max) {
  const auto at = groups.find(group_key);
  if (at == groups.end() || !at->second.end.has_value()) return;
  RowGroup& group = at->second;
  group.scan = 0;
  const std::map<std::string, std::string> arrived = std::move(group.arrived);
  group.arrived.clear();
  if (!rows.more) {
    group.end.reset();
    group.passing = false;
  } else if (!rows.entries.empty()) {
    group.end = KeyAfter(rows.entries.back().key);
  }
  const auto add = [&](const std::string& key, const std::string& value, kv::CommitSeq read_seq) {
    const std::optional<WaitingKey> decoded = DecodeWaitingKey(key);
    if (decoded.has_value()) AddRow(key, *decoded, value, read_seq, group_rows_max);
  };
  for (const kv::Entry& row : rows.entries) add(row.key, row.value, rows.seq);
  for (const auto& [key, value] : arrived) add(key, value, 0);
  group.brought_up = group.brought_up && group.end.has_value();
  DropEmptyGroup(group_key);
}

void PolicyState::ReplaceRow(const std::string& key, const storage::v1::EventRecord& record) {
  WaitingRow* row = RowOf(key);
  if (row == nullptr) return;
  // What it was before may have been of another run record, or of none.
  row->source = RowSourceOf(record, row->source->uid, row->source->occurrence, policy_shard);
  row->count = record.count();
  row->taken = record.throttle().taken();
  row->reading = false;
  row->told = false;
  row->stored.clear();
  Queue(key, *row);
}

void PolicyState::Close(const std::string& key, WaitingRow& row) {
  if (row.closes_micros != 0 || row.finishes_late) return;
  const absl::Time closes = ClosesAt(row.source->event);
  if (closes == absl::InfiniteFuture()) return;
  const storage::v1::WindowRecord& window = row.source->event.throttle().window();
  if (window.on_close() != storage::v1::ON_CLOSE_KIND_DROP &&
      window.on_close() != storage::v1::ON_CLOSE_KIND_CARRY_OVER)
    return;
  row.closes_micros = std::max<int64_t>(ToMicros(closes), 1);
  closings.insert({row.closes_micros, key});
}

void PolicyState::Unclose(const std::string& key, WaitingRow& row) {
  if (row.closes_micros != 0) closings.erase({row.closes_micros, key});
  row.closes_micros = 0;
}

void PolicyState::DropEmptyGroup(const GroupKey& key) {
  const auto group = groups.find(key);
  if (group != groups.end() && group->second.rows.empty() && !group->second.end.has_value() &&
      group->second.opens == absl::InfiniteFuture()) {
    SetLook(key, group->second, absl::InfiniteFuture());
    groups.erase(group);
  }
}

absl::Time PolicyState::NextTime() const {
  absl::Time next = grant_next;
  const std::optional<int64_t> deadline = grants.NextDeadline();
  if (deadline.has_value()) next = std::min(next, FromMicros(*deadline));
  if (!closings.empty()) next = std::min(next, FromMicros(closings.begin()->first));
  if (!openings_.empty()) next = std::min(next, openings_.begin()->first - grant_lead_);
  if (!looks_.empty()) next = std::min(next, looks_.begin()->first);
  return next;
}

}  // namespace escapement::token_manager
