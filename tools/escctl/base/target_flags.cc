#include "tools/escctl/base/target_flags.h"

#include <utility>

#include "tools/escctl/base/flag_values.h"

namespace escapement::escctl {

void TargetFlags::Add(CLI::App& command) {
  kind_.Add(command);
  command.add_option("--payload", payload_, "body of the event: text, or @file");
  command.add_option("--content-type", content_type_, "media type of the payload");
  command.add_option("--delivery-timeout", delivery_timeout_, "time for one attempt, e.g. 10s");
  command.add_option("--max-attempts", max_attempts_, "number of attempts, the first one included")
      ->check(CLI::PositiveNumber);
  command.add_option("--min-backoff", min_backoff_, "bound of the first wait, e.g. 1s");
  command.add_option("--max-backoff", max_backoff_, "bound of every wait, e.g. 300s");
  command.add_option("--priority", priority_, "0 (first) to 9 (last)")->check(CLI::Range(0, 9));
}

template <typename Message>
absl::Status TargetFlags::ApplyTo(Message& message, std::vector<std::string>& fields) const {
  auto target = kind_.Target();
  if (!target.ok()) return target.status();
  if (target->has_value()) {
    *message.mutable_target() = **std::move(target);
    fields.push_back("target");
  }
  if (!payload_.empty()) {
    auto payload = TextOrFile(payload_);
    if (!payload.ok()) return payload.status();
    message.set_payload(*std::move(payload));
    fields.push_back("payload");
  }
  if (!content_type_.empty()) {
    message.set_content_type(content_type_);
    fields.push_back("content_type");
  }
  if (!delivery_timeout_.empty()) {
    auto timeout = ParseDurationFlag("--delivery-timeout", delivery_timeout_);
    if (!timeout.ok()) return timeout.status();
    *message.mutable_delivery_timeout() = *timeout;
    fields.push_back("delivery_timeout");
  }
  if (priority_ >= 0) {
    message.set_priority(priority_);
    fields.push_back("priority");
  }
  return ApplyRetry(message, fields);
}

template <typename Message>
absl::Status TargetFlags::ApplyRetry(Message& message, std::vector<std::string>& fields) const {
  if (max_attempts_ > 0) {
    message.mutable_retry_policy()->set_max_attempts(max_attempts_);
    fields.push_back("retry_policy.max_attempts");
  }
  if (!min_backoff_.empty()) {
    auto backoff = ParseDurationFlag("--min-backoff", min_backoff_);
    if (!backoff.ok()) return backoff.status();
    *message.mutable_retry_policy()->mutable_min_backoff() = *backoff;
    fields.push_back("retry_policy.min_backoff");
  }
  if (!max_backoff_.empty()) {
    auto backoff = ParseDurationFlag("--max-backoff", max_backoff_);
    if (!backoff.ok()) return backoff.status();
    *message.mutable_retry_policy()->mutable_max_backoff() = *backoff;
    fields.push_back("retry_policy.max_backoff");
  }
  if (retry_keep_.has_value()) {
    message.mutable_retry_policy()->set_keep(*retry_keep_);
    fields.push_back("retry_policy.keep");
  }
  return absl::OkStatus();
}

void TargetFlags::AddRetryKeep(CLI::App& command) {
  auto* keep = command.add_flag_callback(
      "--retry-keep", [this] { retry_keep_ = true; },
      "also retry events after the schedule's next occurrence");
  command
      .add_flag_callback(
          "--no-retry-keep", [this] { retry_keep_ = false; },
          "let events end as failed at the next occurrence")
      ->excludes(keep);
}

absl::Status TargetFlags::Apply(v1::Schedule& schedule, std::vector<std::string>& fields) const {
  return ApplyTo(schedule, fields);
}

absl::Status TargetFlags::Apply(v1::Event& event) const {
  std::vector<std::string> fields;
  return ApplyTo(event, fields);
}

}  // namespace escapement::escctl
