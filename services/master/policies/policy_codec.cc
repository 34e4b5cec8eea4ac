#include "services/master/policies/policy_codec.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/status/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/requests/list_filter.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

namespace {

constexpr FilterField kPolicyFields[] = {
    {.name = "name", .collection = "policies", .prefix = true, .part = true},
    {.name = "display_name", .part = true},
    {.name = "state"},
    {.name = "max_concurrent"},
    {.name = "max_per_second"},
    {.name = "burst"},
    {.name = "on_expiry"},
    {.name = "fairness"},
    {.name = "create_time"},
    {.name = "update_time"}};

}  // namespace

absl::StatusOr<ListFilter> ReadPolicyFilter(absl::string_view text, absl::string_view tenant) {
  return ListFilter::Read<v1::ThrottlePolicy>(text, tenant, kPolicyFields);
}

namespace {

// The fields of a message that limit a rate, such as "policy.per_key". Written so that NaN is
// refused.
bool CheckRate(const std::string& message, double rate, absl::string_view range_end,
               FieldViolations& violations) {
  if (rate >= kMaxPerSecondMin && rate <= kMaxPerSecondMax) return true;
  violations.Add(absl::StrCat(message, ".max_per_second"),
                 absl::StrCat("must be from ", kMaxPerSecondMin, " to ",
                              static_cast<int64_t>(kMaxPerSecondMax), range_end));
  return false;
}

// The limits of a policy, or of each of its keys: both have the same three fields.
struct Limits {
  int64_t concurrent = 0;
  double rate = 0;
  int64_t burst = 0;
  bool valid = true;  // the first two
};

template <typename Message>
Limits ReadLimits(const Message& message, const std::string& name, FieldViolations& violations) {
  Limits limits = {.concurrent = message.max_concurrent(),
                   .rate = message.max_per_second(),
                   .burst = message.burst()};
  if (limits.concurrent < 0 || limits.concurrent > kMaxConcurrentMax) {
    violations.Add(absl::StrCat(name, ".max_concurrent"),
                   absl::StrCat("must be from 1 to ", kMaxConcurrentMax, ", or 0 for no limit"));
    limits.valid = false;
  }
  if (limits.rate != 0 && !CheckRate(name, limits.rate, ", or 0 for no limit", violations))
    limits.valid = false;
  if (limits.burst < 0 || limits.burst > kBurstMax) {
    violations.Add(absl::StrCat(name, ".burst"), absl::StrCat("must be from 1 to ", kBurstMax));
  } else if (limits.burst > 0 && limits.rate == 0) {
    violations.Add(absl::StrCat(name, ".burst"), "may only be set together with max_per_second");
  }
  return limits;
}

template <typename Record>
void Keep(const Limits& limits, Record& record) {
  record.set_max_concurrent(static_cast<uint64_t>(limits.concurrent));
  record.set_max_per_second(limits.rate);
  if (limits.rate > 0)
    record.set_burst(static_cast<uint64_t>(limits.burst == 0 ? kBurstDefault : limits.burst));
}

void ReadAllLimits(const v1::ThrottlePolicy& policy, storage::v1::PolicyRecord& record,
                   FieldViolations& violations) {
  const Limits own = ReadLimits(policy, "policy", violations);
  Keep(own, record);
  if (policy.has_per_key()) {
    const Limits keys = ReadLimits(policy.per_key(), "policy.per_key", violations);
    if (keys.valid && keys.concurrent == 0 && keys.rate == 0) {
      violations.Add("policy.per_key.max_concurrent",
                     "is required if per_key.max_per_second is not set");
    }
    Keep(keys, *record.mutable_per_key());
  } else if (own.valid && own.concurrent == 0 && own.rate == 0) {
    violations.Add("policy.max_concurrent",
                   "is required if neither max_per_second nor per_key is set");
  }
}

void ReadRules(const v1::ThrottlePolicy& policy, storage::v1::PolicyRecord& record,
               FieldViolations& violations) {
  const auto hold = policy.has_hold_timeout() ? ToDuration(policy.hold_timeout())
                                              : std::make_optional(kHoldTimeoutDefault);
  if (!hold.has_value() || *hold < kHoldTimeoutMin || *hold > kHoldTimeoutMax) {
    violations.Add("policy.hold_timeout",
                   absl::StrCat("must be from ", absl::FormatDuration(kHoldTimeoutMin), " to ",
                                absl::FormatDuration(kHoldTimeoutMax)));
  } else {
    record.set_hold_timeout_micros(MicrosUp(*hold));
  }
  if (!v1::ThrottlePolicy::OnExpiry_IsValid(policy.on_expiry())) {
    violations.Add("policy.on_expiry", "must be RECLAIM or HOLD");
  }
  record.set_hold_on_expiry(policy.on_expiry() == v1::ThrottlePolicy::HOLD);
  if (!v1::ThrottlePolicy::Fairness_IsValid(policy.fairness())) {
    violations.Add("policy.fairness", "must be BY_SCHEDULE, FIFO or BY_KEY");
  } else if (policy.fairness() == v1::ThrottlePolicy::BY_KEY && !policy.has_per_key()) {
    violations.Add("policy.fairness", "may only be BY_KEY together with per_key");
  }
  record.set_fifo(policy.fairness() == v1::ThrottlePolicy::FIFO);
  record.set_by_key(policy.fairness() == v1::ThrottlePolicy::BY_KEY);
  if (!v1::ThrottlePolicy::Retries_IsValid(policy.retries())) {
    violations.Add("policy.retries", "must be FREE_TOKEN or KEEP_TOKEN");
  } else if (policy.retries() == v1::ThrottlePolicy::KEEP_TOKEN && policy.max_concurrent() == 0 &&
             policy.per_key().max_concurrent() == 0) {
    violations.Add("policy.retries",
                   "may be KEEP_TOKEN only with max_concurrent or per_key.max_concurrent");
  }
  record.set_keep_token(policy.retries() == v1::ThrottlePolicy::KEEP_TOKEN);
}

// Fields that only the server sets, and the name.
void KeepOutputOnly(const v1::ThrottlePolicy& from, v1::ThrottlePolicy& to) {
  to.set_name(from.name());
  to.set_state(from.state());
  to.set_pause_reason(from.pause_reason());
  to.set_etag(from.etag());
  to.set_version(from.version());
  *to.mutable_create_time() = from.create_time();
  *to.mutable_update_time() = from.update_time();
  *to.mutable_overrides() = from.overrides();
}

}  // namespace

absl::StatusOr<storage::v1::PolicyRecord> ReadPolicy(const v1::ThrottlePolicy& policy) {
  FieldViolations violations;
  storage::v1::PolicyRecord record;
  CheckShownText("policy.display_name", policy.display_name(), kDisplayNameCharsMax, violations);
  record.set_display_name(policy.display_name());
  ReadAllLimits(policy, record, violations);
  ReadRules(policy, record, violations);
  if (!violations.empty()) return violations.ToStatus();
  return record;
}

storage::v1::OverrideRecord ReadOverride(const v1::PolicyOverride& override,
                                         FieldViolations& violations) {
  storage::v1::OverrideRecord record;
  if (override.has_policy_key()) {
    record.set_policy_key(ReadPolicyKey(override.policy_key(), "override.policy_key", violations));
  }
  if (override.has_max_concurrent()) {
    if (override.max_concurrent() < 0 || override.max_concurrent() > kMaxConcurrentMax) {
      violations.Add("override.max_concurrent",
                     absl::StrCat("must be from 0 to ", kMaxConcurrentMax));
    }
    record.set_max_concurrent(static_cast<uint64_t>(override.max_concurrent()));
  } else if (!override.has_max_per_second()) {
    violations.Add("override.max_concurrent", "is required if max_per_second is not set");
  }
  if (override.has_burst() && (override.burst() < 1 || override.burst() > kBurstMax)) {
    violations.Add("override.burst", absl::StrCat("must be from 1 to ", kBurstMax));
  } else if (override.has_burst() && !override.has_max_per_second()) {
    violations.Add("override.burst", "may only be set together with max_per_second");
  }
  if (override.has_max_per_second()) {
    CheckRate("override", override.max_per_second(), "", violations);
    record.set_max_per_second(override.max_per_second());
    record.set_burst(
        static_cast<uint64_t>(override.has_burst() ? override.burst() : kBurstDefault));
  }
  if (override.reason().empty()) violations.Add("override.reason", "is required");
  CheckShownText("override.reason", override.reason(), kOverrideReasonCharsMax, violations);
  record.set_reason(override.reason());
  const std::optional<int64_t> expires = TimestampMicros(override.expire_time());
  if (!override.has_expire_time() || !expires.has_value()) {
    violations.Add("override.expire_time",
                   override.has_expire_time() ? "is not a valid time" : "is required");
  }
  record.set_expire_time_micros(expires.value_or(0));
  return record;
}

void CheckOverrideTime(const storage::v1::OverrideRecord& override, absl::Time now,
                       FieldViolations& violations) {
  const absl::Time end = FromMicros(override.expire_time_micros());
  if (end > now && end <= now + kOverrideMax) return;
  violations.Add("override.expire_time", absl::StrCat("must be later than now, by at most ",
                                                      absl::FormatDuration(kOverrideMax)));
}

bool InForce(const storage::v1::OverrideRecord& override, absl::Time now) {
  return FromMicros(override.expire_time_micros()) > now;
}

absl::StatusOr<v1::ThrottlePolicy> ApplyPolicyMask(const v1::ThrottlePolicy& current,
                                                   const v1::ThrottlePolicy& patch,
                                                   const google::protobuf::FieldMask& mask) {
  ASSIGN_OR_RETURN(const google::protobuf::FieldMask fields, ReadUpdateMask(patch, mask));
  v1::ThrottlePolicy result = patch;
  if (!ReplacesAll(fields)) {
    result = current;
    ReplaceFields(patch, fields, result);
    if (result.max_per_second() == 0 && !HasPath(fields, "burst")) result.clear_burst();
    if (result.has_per_key() && !HasPath(fields, "per_key")) {
      v1::ThrottlePolicy::PerKey& keys = *result.mutable_per_key();
      if (keys.max_per_second() == 0 && !HasPath(fields, "per_key.burst")) keys.clear_burst();
      // The last limit of keys has been taken away.
      if (keys.ByteSizeLong() == 0) result.clear_per_key();
    }
  }
  KeepOutputOnly(current, result);
  return result;
}

namespace {

template <typename Record, typename Message>
void ShowLimits(const Record& record, Message& message) {
  message.set_max_concurrent(static_cast<int64_t>(record.max_concurrent()));
  message.set_max_per_second(record.max_per_second());
  message.set_burst(static_cast<int64_t>(record.burst()));
}

v1::ThrottlePolicy::Fairness ShowFairness(const storage::v1::PolicyRecord& record) {
  if (record.by_key()) return v1::ThrottlePolicy::BY_KEY;
  return record.fifo() ? v1::ThrottlePolicy::FIFO : v1::ThrottlePolicy::BY_SCHEDULE;
}

}  // namespace

v1::ThrottlePolicy ShowPolicy(const storage::v1::PolicyRecord& record, absl::Time now) {
  v1::ThrottlePolicy policy;
  policy.set_name(PolicyName{record.tenant(), record.policy_id()}.ToString());
  policy.set_display_name(record.display_name());
  ShowLimits(record, policy);
  if (record.has_per_key()) ShowLimits(record.per_key(), *policy.mutable_per_key());
  SetDuration(record.hold_timeout_micros(), *policy.mutable_hold_timeout());
  policy.set_on_expiry(record.hold_on_expiry() ? v1::ThrottlePolicy::HOLD
                                               : v1::ThrottlePolicy::RECLAIM);
  policy.set_fairness(ShowFairness(record));
  policy.set_retries(record.keep_token() ? v1::ThrottlePolicy::KEEP_TOKEN
                                         : v1::ThrottlePolicy::FREE_TOKEN);
  policy.set_state(record.paused() ? v1::ThrottlePolicy::PAUSED : v1::ThrottlePolicy::ENABLED);
  policy.set_pause_reason(record.pause_reason());
  policy.set_etag(PolicyEtag(record));
  policy.set_version(static_cast<int64_t>(record.version()));
  SetTimestamp(record.create_time_micros(), *policy.mutable_create_time());
  SetTimestamp(record.update_time_micros(), *policy.mutable_update_time());
  for (const storage::v1::OverrideRecord& override : record.overrides())
    if (InForce(override, now)) *policy.add_overrides() = ShowOverride(override);
  return policy;
}

v1::PolicyOverride ShowOverride(const storage::v1::OverrideRecord& record) {
  v1::PolicyOverride override;
  if (record.has_policy_key()) override.set_policy_key(record.policy_key());
  if (record.has_max_concurrent())
    override.set_max_concurrent(static_cast<int64_t>(record.max_concurrent()));
  if (record.has_max_per_second()) {
    override.set_max_per_second(record.max_per_second());
    override.set_burst(static_cast<int64_t>(record.burst()));
  }
  override.set_reason(record.reason());
  SetTimestamp(record.expire_time_micros(), *override.mutable_expire_time());
  SetTimestamp(record.create_time_micros(), *override.mutable_create_time());
  return override;
}

std::string PolicyEtag(const storage::v1::PolicyRecord& record) {
  return absl::StrCat("\"", record.version(), "-", absl::Hex(record.create_time_micros()), "\"");
}

}  // namespace escapement::master
