#include "services/master/codec/delivery_codec.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/printable_text.h"
#include "common/base/proto_time.h"
#include "services/master/base/limits.h"
#include "services/master/codec/target_codec.h"

namespace escapement::master {
namespace {

constexpr absl::string_view kContentTypeDefault = "application/json";

struct DurationRule {
  absl::Duration min, max, fallback;
};

std::string Field(absl::string_view prefix, absl::string_view name) {
  return prefix.empty() ? std::string(name) : absl::StrCat(prefix, ".", name);
}

int64_t ReadDuration(bool set, const google::protobuf::Duration& duration, const std::string& field,
                     const DurationRule& rule, FieldViolations& violations) {
  if (!set) return absl::ToInt64Microseconds(rule.fallback);
  const auto value = ToDuration(duration);
  if (!value.has_value() || *value < rule.min || *value > rule.max) {
    violations.Add(field, absl::StrCat("must be from ", absl::FormatDuration(rule.min), " to ",
                                       absl::FormatDuration(rule.max)));
    return absl::ToInt64Microseconds(rule.fallback);
  }
  return MicrosUp(*value);
}

void ReadRetry(const v1::RetryPolicy& policy, const std::string& field,
               storage::v1::RetryRecord& record, FieldViolations& violations) {
  const int32_t attempts = policy.max_attempts() == 0 ? kMaxAttemptsDefault : policy.max_attempts();
  if (attempts < 1 || attempts > kMaxAttemptsMax) {
    violations.Add(absl::StrCat(field, ".max_attempts"),
                   absl::StrCat("must be from 1 to ", kMaxAttemptsMax));
  }
  const double multiplier = policy.multiplier() == 0 ? kMultiplierDefault : policy.multiplier();
  if (!(multiplier >= kMultiplierMin && multiplier <= kMultiplierMax)) {
    violations.Add(absl::StrCat(field, ".multiplier"),
                   absl::StrCat("must be from ", kMultiplierMin, " to ", kMultiplierMax));
  }
  record.set_max_attempts(static_cast<uint32_t>(std::clamp(attempts, 1, kMaxAttemptsMax)));
  record.set_multiplier(multiplier);
  record.set_min_backoff_micros(ReadDuration(
      policy.has_min_backoff(), policy.min_backoff(), absl::StrCat(field, ".min_backoff"),
      {kMinBackoffMin, kMaxBackoffMax, kMinBackoffDefault}, violations));
  // A default that is below a min_backoff that was given would be nobody's wish.
  const absl::Duration max_default =
      std::max(kMaxBackoffDefault, absl::Microseconds(record.min_backoff_micros()));
  record.set_max_backoff_micros(ReadDuration(
      policy.has_max_backoff(), policy.max_backoff(), absl::StrCat(field, ".max_backoff"),
      {kMinBackoffMin, kMaxBackoffMax, max_default}, violations));
  if (record.max_backoff_micros() < record.min_backoff_micros()) {
    violations.Add(absl::StrCat(field, ".max_backoff"), "must be at least min_backoff");
  }
  record.set_max_age_micros(ReadDuration(policy.has_max_age(), policy.max_age(),
                                         absl::StrCat(field, ".max_age"),
                                         {kMaxAgeMin, kMaxAgeMax, kMaxAgeDefault}, violations));
  record.set_keep(policy.keep());
}

void CheckContentType(absl::string_view type, const std::string& field,
                      FieldViolations& violations) {
  const bool printable =
      std::all_of(type.begin(), type.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
  if (!printable || type.size() > kContentTypeBytesMax || !absl::StrContains(type, "/")) {
    violations.Add(field, absl::StrCat("must be a media type of at most ", kContentTypeBytesMax,
                                       " characters"));
  }
}

template <typename Message>
storage::v1::DeliveryRecord Read(const Message& message, absl::string_view prefix,
                                 FieldViolations& violations) {
  storage::v1::DeliveryRecord record;
  *record.mutable_target() = ReadTarget(message.target(), Field(prefix, "target"), violations);
  record.set_content_type(message.content_type().empty() ? std::string(kContentTypeDefault)
                                                         : message.content_type());
  CheckContentType(record.content_type(), Field(prefix, "content_type"), violations);
  record.set_delivery_timeout_micros(ReadDuration(
      message.has_delivery_timeout(), message.delivery_timeout(), Field(prefix, "delivery_timeout"),
      {kDeliveryTimeoutMin, kDeliveryTimeoutMax, kDeliveryTimeoutDefault}, violations));
  ReadRetry(message.retry_policy(), Field(prefix, "retry_policy"), *record.mutable_retry(),
            violations);
  return record;
}

template <typename Message>
void Write(const storage::v1::DeliveryRecord& record, Message& message) {
  WriteTarget(record.target(), *message.mutable_target());
  message.set_content_type(record.content_type());
  SetDuration(record.delivery_timeout_micros(), *message.mutable_delivery_timeout());
  v1::RetryPolicy* policy = message.mutable_retry_policy();
  policy->set_max_attempts(static_cast<int32_t>(record.retry().max_attempts()));
  SetDuration(record.retry().min_backoff_micros(), *policy->mutable_min_backoff());
  SetDuration(record.retry().max_backoff_micros(), *policy->mutable_max_backoff());
  policy->set_multiplier(record.retry().multiplier());
  SetDuration(record.retry().max_age_micros(), *policy->mutable_max_age());
  policy->set_keep(record.retry().keep());
}

template <typename Message>
uint32_t Priority(const Message& message, absl::string_view prefix, FieldViolations& violations) {
  if (!message.has_priority()) return kPriorityDefault;
  if (message.priority() < 0 || message.priority() > kPriorityMax) {
    violations.Add(Field(prefix, "priority"), absl::StrCat("must be from 0 to ", kPriorityMax));
    return kPriorityDefault;
  }
  return static_cast<uint32_t>(message.priority());
}

}  // namespace

storage::v1::DeliveryRecord ReadDelivery(const v1::Schedule& schedule, absl::string_view prefix,
                                         FieldViolations& violations) {
  return Read(schedule, prefix, violations);
}
storage::v1::DeliveryRecord ReadDelivery(const v1::Event& event, absl::string_view prefix,
                                         absl::string_view tenant, const TargetSecrets& secrets,
                                         FieldViolations& violations,
                                         const storage::v1::TargetRecord* before) {
  storage::v1::DeliveryRecord record = Read(event, prefix, violations);
  secrets.Seal(tenant, Field(prefix, "target"), before, *record.mutable_target(), violations);
  return record;
}

void CheckDeliveryDefaults(const v1::TenantDefaults& defaults, absl::string_view prefix,
                           FieldViolations& violations) {
  storage::v1::RetryRecord retry;
  ReadDuration(defaults.has_delivery_timeout(), defaults.delivery_timeout(),
               Field(prefix, "delivery_timeout"),
               {kDeliveryTimeoutMin, kDeliveryTimeoutMax, kDeliveryTimeoutDefault}, violations);
  ReadRetry(defaults.retry_policy(), Field(prefix, "retry_policy"), retry, violations);
  v1::Event event;
  if (defaults.has_max_lateness()) *event.mutable_max_lateness() = defaults.max_lateness();
  ReadMaxLateness(event, prefix, violations);
}

storage::v1::DeliveryRecord ReadDeliveryTo(const v1::Target& target, absl::string_view field,
                                           FieldViolations& violations) {
  storage::v1::DeliveryRecord record;
  *record.mutable_target() = ReadTarget(target, field, violations);
  record.set_content_type(std::string(kContentTypeDefault));
  record.set_delivery_timeout_micros(absl::ToInt64Microseconds(kDeliveryTimeoutDefault));
  ReadRetry(v1::RetryPolicy(), absl::StrCat(field, ".retry_policy"), *record.mutable_retry(),
            violations);
  return record;
}

void WriteDelivery(const storage::v1::DeliveryRecord& record, v1::Schedule& schedule) {
  Write(record, schedule);
}
void WriteDelivery(const storage::v1::DeliveryRecord& record, v1::Event& event) {
  Write(record, event);
}

uint32_t ReadPriority(const v1::Schedule& schedule, absl::string_view prefix,
                      FieldViolations& violations) {
  return Priority(schedule, prefix, violations);
}
uint32_t ReadPriority(const v1::Event& event, absl::string_view prefix,
                      FieldViolations& violations) {
  return Priority(event, prefix, violations);
}

int64_t ReadMaxLateness(const v1::Event& event, absl::string_view prefix,
                        FieldViolations& violations) {
  return ReadDuration(event.has_max_lateness(), event.max_lateness(), Field(prefix, "max_lateness"),
                      {kMaxLatenessMin, kMaxLatenessMax, absl::ZeroDuration()}, violations);
}

void CheckPayload(absl::string_view payload, absl::string_view field, FieldViolations& violations) {
  if (payload.size() > kPayloadBytesMax) {
    violations.Add(field, absl::StrCat("has ", payload.size(), " bytes, at most ", kPayloadBytesMax,
                                       " are allowed"));
  }
}

void CheckPayloadFits(const storage::v1::DeliveryRecord& delivery, absl::string_view payload,
                      absl::string_view field, FieldViolations& violations) {
  if (!delivery.target().has_sqs() || payload.size() > kPayloadBytesMax) return;
  // Three bytes become four of base64.
  const size_t encoded = (payload.size() + 2) / 3 * 4;
  if (encoded <= kSqsBodyBytesMax) return;
  const bool text = IsXmlText(payload);
  const size_t bytes = text ? payload.size() : encoded;
  if (bytes <= kSqsBodyBytesMax) return;
  violations.Add(field, absl::StrCat("has ", bytes, " bytes", text ? "" : " as base64",
                                     "; at most ", kSqsBodyBytesMax, " fit into an SQS message"));
}

void CheckRequestId(absl::string_view request_id, FieldViolations& violations) {
  const bool printable = std::all_of(request_id.begin(), request_id.end(), absl::ascii_isgraph);
  if (request_id.size() > kRequestIdBytesMax || !printable) {
    violations.Add("request_id", absl::StrCat("must be at most ", kRequestIdBytesMax,
                                              " printable ASCII characters without blanks"));
  }
}

}  // namespace escapement::master
