#include "services/token_manager/waiting/policy_state.h"

#include <algorithm>
#include <cmath>

#include "absl/status/statusor.h"
#include "common/base/proto_time.h"
#include "common/cron/evaluator.h"
#include "common/storage/children_table.h"
#include "common/storage/schedule_table.h"

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

void PolicyState::SetRecord(const std::optional<std::string>& bytes, kv::CommitSeq seq,
                            absl::Time now) {
  if (seq < record_seq) return;
  const auto key_limits = [this] {
    return by_key() ? record->per_key().SerializeAsString() : std::string();
  };
  const std::string former_key_limits = key_limits();
  record_seq = seq;
  record_bytes = bytes.value_or(std::string());
  record.reset();
  if (bytes.has_value()) {
    record.emplace();
    // A record that cannot be read counts as absent: nothing is granted.
    if (!record->ParseFromString(*bytes)) record.reset();
  }
  if (record.has_value()) {
    rate.SetLimits(record->max_per_second(), record->burst(), now);
  } else {
    rate.SetLimits(0, 1, now);
  }
  if (!hold_on_expiry()) grants.ForgetOverdue();
  if (key_limits() != former_key_limits) waiting.queue().ReconsiderAll();
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

uint64_t PolicyState::FreeTokens() const {
  if (!record.has_value() || record->max_concurrent() == 0) return RateLimit::kUnlimited;
  // More may be held than the limit allows: it may have been lowered.
  return record->max_concurrent() - std::min(record->max_concurrent(), grants.held());
}

uint64_t PolicyState::FreeTokensOf(const std::string& policy_key) const {
  if (!by_key()) return RateLimit::kUnlimited;
  const uint64_t limit = record->per_key().max_concurrent();
  return limit - std::min(limit, grants.HeldOf(policy_key));
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

void PolicyState::SetName(const storage::v1::EventRecord& event) {
  if (named) return;
  tenant = event.tenant();
  policy_id = event.throttle().policy_id();
  named = true;
  known = implicit();
}

WaitingRows::Added PolicyState::AddRow(const std::string& key, const WaitingKey& decoded,
                                       const std::string& value, kv::CommitSeq read_seq,
                                       size_t group_rows_max) {
  return waiting.Add(key, decoded, value, read_seq, group_rows_max,
                     [this](const storage::v1::EventRecord& event) { SetName(event); });
}

void PolicyState::OnRead(const GroupKey& group, const kv::ScanResult& rows, size_t group_rows_max) {
  waiting.OnRead(group, rows, group_rows_max,
                 [this](const storage::v1::EventRecord& event) { SetName(event); });
}

absl::Time PolicyState::NextTime() const {
  absl::Time next = std::min(grant_next, waiting.NextTime());
  const std::optional<int64_t> deadline = grants.NextDeadline();
  if (deadline.has_value()) next = std::min(next, FromMicros(*deadline));
  return next;
}

namespace {

using storage::v1::EventRecord;
using storage::v1::ThrottleRecord;

bool HasWindow(const EventRecord& row) {
  return row.throttle().has_window() && row.throttle().window().duration_micros() > 0;
}

absl::Duration DurationOf(const storage::v1::WindowRecord& window) {
  return absl::Microseconds(window.duration_micros());
}

}  // namespace

Pacing PacingOf(const EventRecord& row) {
  Pacing pacing;
  if (!HasWindow(row) || !row.throttle().window().even()) return pacing;
  pacing.begin = OpensAt(row);
  pacing.duration = DurationOf(row.throttle().window());
  pacing.first = row.throttle().pace_first();
  pacing.count = row.throttle().pace_count();
  return pacing;
}

absl::Time OpensAt(const EventRecord& row) {
  if (!HasWindow(row)) return absl::InfinitePast();
  return FromMicros(row.throttle().window_begin_micros());
}

absl::Time ClosesAt(const EventRecord& row) {
  if (!HasWindow(row)) return absl::InfiniteFuture();
  return OpensAt(row) + DurationOf(row.throttle().window());
}

WindowClose CloseAction(const EventRecord& row, absl::Time now) {
  if (now < ClosesAt(row)) return WindowClose::kOpen;
  switch (row.throttle().window().on_close()) {
    case storage::v1::ON_CLOSE_KIND_DROP:
      return WindowClose::kDrop;
    case storage::v1::ON_CLOSE_KIND_CARRY_OVER:
      return WindowClose::kCarryOver;
    default:
      return WindowClose::kFinishLate;
  }
}

std::optional<EventRecord> CarryOver(const EventRecord& row, uint64_t first,
                                     const storage::v1::DefinitionRecord& definition,
                                     absl::Time finish, absl::Time now) {
  if (!HasWindow(row) || !definition.throttle().has_window()) return std::nullopt;
  const storage::v1::WindowRecord& window = definition.throttle().window();
  if (window.duration_micros() <= 0) return std::nullopt;
  const absl::StatusOr<cron::Timetable> timetable = TimetableOf(definition, finish);
  if (!timetable.ok()) return std::nullopt;
  // Open at `now`: begin + duration > now.
  const absl::Time after = std::max(OpensAt(row), now - DurationOf(window));
  const std::optional<cron::Occurrence> next = timetable->FirstAfter(after);
  if (!next.has_value()) return std::nullopt;
  EventRecord carried = row;
  ThrottleRecord& throttle = *carried.mutable_throttle();
  *throttle.mutable_window() = window;
  throttle.set_window_begin_micros(ToMicros(next->instant));
  throttle.clear_pace_first();
  throttle.clear_pace_count();
  if (window.even()) {
    const uint64_t taken = std::min<uint64_t>(throttle.taken(), row.count());
    throttle.set_pace_first(first + taken);
    throttle.set_pace_count(row.count() - taken);
  }
  return carried;
}

}  // namespace escapement::token_manager
