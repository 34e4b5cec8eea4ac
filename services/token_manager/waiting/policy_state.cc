#include "services/token_manager/waiting/policy_state.h"

#include <algorithm>
#include <cmath>

#include "absl/status/statusor.h"
#include "common/base/proto_time.h"
#include "common/cron/evaluator.h"
#include "common/kv/group_parts.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"
#include "common/storage/schedule_table.h"

namespace escapement::token_manager {

namespace {

using storage::v1::EventRecord;
using storage::v1::ThrottleRecord;

constexpr double kMeasureSeconds = 10;
constexpr absl::Duration kSampleEvery = absl::Minutes(1);
constexpr int kSamplesMax = 60;

double DecayOver(int64_t micros) {
  return micros <= 0 ? 1 : std::exp(-static_cast<double>(micros) / (kMeasureSeconds * 1e6));
}

Limits Overridden(Limits limits, const storage::v1::OverrideRecord& override) {
  if (override.has_max_concurrent()) limits.max_concurrent = override.max_concurrent();
  if (override.has_max_per_second()) {
    limits.per_second = override.max_per_second();
    limits.burst = override.burst();
  }
  return limits;
}

template <typename Record>
Limits LimitsIn(const Record& record) {
  return {.max_concurrent =
              record.max_concurrent() == 0 ? RateLimit::kUnlimited : record.max_concurrent(),
          .per_second = record.max_per_second(),
          .burst = std::max<uint64_t>(record.burst(), 1)};
}

// More may be held than the limit allows: it may have been lowered.
uint64_t Free(uint64_t limit, uint64_t held) {
  return limit == RateLimit::kUnlimited ? limit : limit - std::min(limit, held);
}

bool HasWindow(const EventRecord& row) { return row.throttle().window().duration_micros() > 0; }

absl::Duration DurationOf(const storage::v1::WindowRecord& window) {
  return absl::Microseconds(window.duration_micros());
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

void KeyRates::Set(const std::string& key, const std::optional<RateLimit>& rate) {
  if (const auto found = keys_.find(key); found != keys_.end()) {
    full_.erase({found->second.tat(), key});
    keys_.erase(found);
  }
  if (!rate.has_value()) return;
  keys_.emplace(key, *rate);
  full_.insert({rate->tat(), key});
}

void KeyRates::Load(const storage::v1::KeyRateRecord& record) {
  Set(record.policy_key(), RateLimit(0, 1, RateTimeOf(record.rate_time_micros())));
}

void KeyRates::SetLimits(absl::FunctionRef<Limits(const std::string& key)> limits, absl::Time now) {
  for (const auto& [full, key] : std::exchange(full_, {})) {
    RateLimit& rate = keys_.at(key);
    const Limits of_key = limits(key);
    if (of_key.per_second <= 0) {
      rate = RateLimit(0, 1, now);  // its row is to be deleted
    } else if (!rate.limited()) {   // loaded
      rate = RateLimit(of_key.per_second, of_key.burst, rate.tat());
    } else {
      rate.SetLimits(of_key.per_second, of_key.burst, now);
    }
    full_.insert({rate.tat(), key});
  }
}

std::optional<RateLimit> KeyRates::Find(const std::string& key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? std::nullopt : std::make_optional(found->second);
}

storage::v1::KeyRateRecord KeyRates::RecordOf(const std::string& key) const {
  storage::v1::KeyRateRecord record;
  record.set_policy_key(key);
  record.set_rate_time_micros(RateTimeMicros(keys_.at(key).tat()));
  return record;
}

std::vector<std::string> KeyRates::TakeFull(absl::Time now, size_t max) {
  std::vector<std::string> full = DueBy(full_, now, max);
  for (const std::string& key : full) Set(key, std::nullopt);
  return full;
}

void PolicyState::SetRecord(const std::optional<std::string>& bytes, kv::CommitSeq seq,
                            absl::Time now) {
  if (seq < record_seq) return;
  record_seq = seq;
  record_bytes = bytes.value_or(std::string());
  record.emplace();
  // A record that cannot be read counts as absent: nothing is granted.
  if (!bytes.has_value() || !record->ParseFromString(*bytes)) record.reset();
  SetLimits(now);
  if (!hold_on_expiry()) grants.ForgetOverdue();
}

void PolicyState::SetLimits(absl::Time now) {
  const bool had_keys = !key_overridden_.empty();
  limits_ = LimitsIn(rules());
  const Limits former = std::exchange(key_limits_, LimitsIn(rules().per_key()));
  key_overridden_.clear();
  override_ends_ = absl::InfiniteFuture();
  for (const storage::v1::OverrideRecord& override : rules().overrides()) {
    const absl::Time ends = FromMicros(override.expire_time_micros());
    if (ends <= now) continue;
    override_ends_ = std::min(override_ends_, ends);
    if (!override.has_policy_key()) {
      limits_ = Overridden(limits_, override);
    } else if (by_key()) {
      key_overridden_[override.policy_key()] = Overridden(key_limits_, override);
    }
  }
  rate.SetLimits(limits_.per_second, limits_.burst, now);
  key_rates.SetLimits([this](const std::string& key) { return LimitsOf(key); }, now);
  if (former != key_limits_ || had_keys || !key_overridden_.empty())
    waiting.queue().ReconsiderAll();
}

void PolicyState::SetCounts(const std::optional<std::string>& counts_bytes,
                            const std::optional<std::string>& history_bytes, absl::Time now) {
  if (!counts_bytes.has_value() || !counts.ParseFromString(*counts_bytes)) counts.Clear();
  if (!history_bytes.has_value() || !history.ParseFromString(*history_bytes)) history.Clear();
  rate = RateLimit(limits_.per_second, limits_.burst, RateTimeOf(counts.rate_time_micros()));
  sample_next =
      absl::UnixEpoch() + absl::Floor(now - absl::UnixEpoch(), kSampleEvery) + kSampleEvery;
}

bool PolicyState::TakeSample(absl::Time now) {
  if (now < sample_next) return false;
  sample_next += absl::Floor(now - sample_next, kSampleEvery) + kSampleEvery;
  if (waiting.empty() && held() == 0) return false;
  auto& samples = *history.mutable_samples();
  storage::v1::PolicyHistoryRecord::Sample& sample = *samples.Add();
  sample.set_time_micros(ToMicros(now));
  sample.set_held(held());
  sample.set_waiting(waiting.queue().EligibleEvents(now));
  if (limits_.max_concurrent != RateLimit::kUnlimited)
    sample.set_max_concurrent(limits_.max_concurrent);
  if (samples.size() > kSamplesMax) samples.DeleteSubrange(0, samples.size() - kSamplesMax);
  return true;
}

kv::Condition PolicyState::RecordUnchanged() const {
  return kv::ValueIs(kv::ColumnFamily::kPolicies, PolicyKey(tenant, policy_id), record_bytes,
                     record_seq);
}

uint64_t PolicyState::FreeTokens() const { return Free(limits_.max_concurrent, held()); }

const Limits& PolicyState::LimitsOf(const std::string& policy_key) const {
  const auto overridden = key_overridden_.find(policy_key);
  return overridden == key_overridden_.end() ? key_limits_ : overridden->second;
}

RateLimit PolicyState::RateOf(const std::string& policy_key) const {
  const Limits& limits = LimitsOf(policy_key);
  if (limits.per_second <= 0) return RateLimit();
  return key_rates.Find(policy_key).value_or(RateLimit(limits.per_second, limits.burst));
}

uint64_t PolicyState::FreeTokensOf(const std::string& policy_key) const {
  if (!by_key()) return RateLimit::kUnlimited;
  return Free(LimitsOf(policy_key).max_concurrent,
              grants.HeldOf(policy_key) + further_.HeldOf(uid, policy_key));
}

Fairness PolicyState::fairness() const {
  if (rules().by_key()) return Fairness::kByKey;
  return rules().fifo() ? Fairness::kFifo : Fairness::kBySchedule;
}

absl::Duration PolicyState::hold_timeout() const {
  const int64_t micros = rules().hold_timeout_micros();
  return micros <= 0 ? kImplicitHoldTimeout : absl::Microseconds(micros);
}

std::string PolicyState::EncodeCounts(int64_t now_micros) {
  counts.set_held(held());
  counts.set_rate_time_micros(RateTimeMicros(rate.tat()));
  counts.set_measure_time_micros(now_micros);
  counts.set_grants_per_second(granted_rate.At(now_micros));
  counts.set_releases_per_second(released_rate.At(now_micros));
  return counts.SerializeAsString();
}

void PolicyState::SetName(const std::string& of_tenant, const std::string& id) {
  if (named) return;
  tenant = of_tenant;
  policy_id = id;
  named = true;
  known = implicit();
}

absl::Time PolicyState::NextTime() const {
  absl::Time next = std::min(
      {grant_next, waiting.NextTime(), override_ends_, key_rates.NextFull(), FirstOf(closed)});
  if (!waiting.empty() || held() > 0) next = std::min(next, sample_next);
  if (const auto deadline = grants.NextDeadline()) next = std::min(next, FromMicros(*deadline));
  return next;
}

Pacing PacingOf(const EventRecord& row) {
  const ThrottleRecord& throttle = row.throttle();
  if (!HasWindow(row) || !throttle.window().even()) return {};
  return {.begin = OpensAt(row),
          .duration = DurationOf(throttle.window()),
          .first = throttle.pace_first(),
          .count = throttle.pace_count()};
}

absl::Time OpensAt(const EventRecord& row) {
  if (!HasWindow(row)) return absl::InfinitePast();
  return FromMicros(row.throttle().window_begin_micros());
}

bool Drops(const EventRecord& row) {
  return row.throttle().window().on_close() == storage::v1::ON_CLOSE_KIND_DROP;
}

absl::Time ClosesAt(const EventRecord& row) {
  const storage::v1::WindowRecord& window = row.throttle().window();
  const bool closes = Drops(row) || window.on_close() == storage::v1::ON_CLOSE_KIND_CARRY_OVER;
  return HasWindow(row) && closes ? OpensAt(row) + DurationOf(window) : MissedAt(row);
}

std::optional<EventRecord> CarryOver(const EventRecord& row, uint64_t first,
                                     const storage::v1::DefinitionRecord& definition,
                                     absl::Time finish, absl::Time now) {
  const storage::v1::WindowRecord& window = definition.throttle().window();
  if (!HasWindow(row) || window.duration_micros() <= 0) return std::nullopt;
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
