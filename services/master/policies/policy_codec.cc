#include "services/master/policies/policy_codec.h"

#include <cmath>
#include <cstdint>
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

void ReadLimits(const v1::ThrottlePolicy& policy, storage::v1::PolicyRecord& record,
                FieldViolations& violations) {
  const int64_t concurrent = policy.max_concurrent();
  const double rate = policy.max_per_second();
  const int64_t burst = policy.burst();
  const size_t before = violations.size();
  if (concurrent < 0 || concurrent > kMaxConcurrentMax) {
    violations.Add("policy.max_concurrent",
                   absl::StrCat("must be from 1 to ", kMaxConcurrentMax, ", or 0 for no limit"));
  }
  // Written so that NaN is refused.
  const bool rate_valid = rate == 0 || (rate >= kMaxPerSecondMin && rate <= kMaxPerSecondMax);
  if (!rate_valid) {
    violations.Add("policy.max_per_second",
                   absl::StrCat("must be from ", kMaxPerSecondMin, " to ",
                                static_cast<int64_t>(kMaxPerSecondMax), ", or 0 for no limit"));
  }
  if (policy.has_per_key() && (policy.per_key().max_concurrent() < 1 ||
                               policy.per_key().max_concurrent() > kMaxConcurrentMax)) {
    violations.Add("policy.per_key.max_concurrent",
                   absl::StrCat("must be from 1 to ", kMaxConcurrentMax));
  }
  if (violations.size() == before && concurrent == 0 && rate == 0 && !policy.has_per_key()) {
    violations.Add("policy.max_concurrent",
                   "is required if neither max_per_second nor per_key is set");
  }
  if (burst < 0 || burst > kBurstMax) {
    violations.Add("policy.burst", absl::StrCat("must be from 1 to ", kBurstMax));
  } else if (burst > 0 && rate == 0) {
    violations.Add("policy.burst", "may only be set together with max_per_second");
  }
  if (violations.size() > before) return;
  record.set_max_concurrent(static_cast<uint64_t>(concurrent));
  record.set_max_per_second(rate);
  if (policy.has_per_key()) {
    record.mutable_per_key()->set_max_concurrent(
        static_cast<uint64_t>(policy.per_key().max_concurrent()));
  }
  if (rate > 0) record.set_burst(static_cast<uint64_t>(burst == 0 ? kBurstDefault : burst));
}

void ReadHold(const v1::ThrottlePolicy& policy, storage::v1::PolicyRecord& record,
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
    violations.Add("policy.fairness", "must be BY_SCHEDULE or FIFO");
  }
  record.set_fifo(policy.fairness() == v1::ThrottlePolicy::FIFO);
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
}

}  // namespace

absl::StatusOr<storage::v1::PolicyRecord> ReadPolicy(const v1::ThrottlePolicy& policy) {
  FieldViolations violations;
  storage::v1::PolicyRecord record;
  CheckShownText("policy.display_name", policy.display_name(), kDisplayNameCharsMax, violations);
  record.set_display_name(policy.display_name());
  ReadLimits(policy, record, violations);
  ReadHold(policy, record, violations);
  if (!violations.empty()) return violations.ToStatus();
  return record;
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
  }
  KeepOutputOnly(current, result);
  return result;
}

v1::ThrottlePolicy ShowPolicy(const storage::v1::PolicyRecord& record) {
  v1::ThrottlePolicy policy;
  policy.set_name(PolicyName{record.tenant(), record.policy_id()}.ToString());
  policy.set_display_name(record.display_name());
  policy.set_max_concurrent(static_cast<int64_t>(record.max_concurrent()));
  policy.set_max_per_second(record.max_per_second());
  policy.set_burst(static_cast<int64_t>(record.burst()));
  if (record.has_per_key()) {
    policy.mutable_per_key()->set_max_concurrent(
        static_cast<int64_t>(record.per_key().max_concurrent()));
  }
  SetDuration(record.hold_timeout_micros(), *policy.mutable_hold_timeout());
  policy.set_on_expiry(record.hold_on_expiry() ? v1::ThrottlePolicy::HOLD
                                               : v1::ThrottlePolicy::RECLAIM);
  policy.set_fairness(record.fifo() ? v1::ThrottlePolicy::FIFO : v1::ThrottlePolicy::BY_SCHEDULE);
  policy.set_state(record.paused() ? v1::ThrottlePolicy::PAUSED : v1::ThrottlePolicy::ENABLED);
  policy.set_pause_reason(record.pause_reason());
  policy.set_etag(PolicyEtag(record));
  policy.set_version(static_cast<int64_t>(record.version()));
  SetTimestamp(record.create_time_micros(), *policy.mutable_create_time());
  SetTimestamp(record.update_time_micros(), *policy.mutable_update_time());
  return policy;
}

std::string PolicyEtag(const storage::v1::PolicyRecord& record) {
  return absl::StrCat("\"", record.version(), "-", absl::Hex(record.create_time_micros()), "\"");
}

}  // namespace escapement::master
