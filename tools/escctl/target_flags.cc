#include "tools/escctl/target_flags.h"

#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace escapement::escctl {

void TargetFlags::Add(CLI::App& command) {
  auto* http = command.add_option("--http", http_, "deliver by HTTP to this URI");
  command.add_option("--method", method_, "method of the HTTP request: POST, PUT or PATCH")
      ->needs(http);
  command
      .add_option("--header", headers_, "header of the HTTP request, name=value; may be repeated")
      ->needs(http)
      ->allow_extra_args(false);
  command.add_option("--grpc", grpc_, "deliver by gRPC to a TriggerReceiver at host:port")
      ->excludes(http);
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
  if (!http_.empty()) {
    auto* http = message.mutable_target()->mutable_http();
    http->set_uri(http_);
    http->set_method(method_);
    auto headers = ParsePairs("--header", headers_);
    if (!headers.ok()) return headers.status();
    for (const auto& [name, value] : *headers) (*http->mutable_headers())[name] = value;
    fields.push_back("target");
  } else if (!grpc_.empty()) {
    message.mutable_target()->mutable_grpc()->set_uri(grpc_);
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

absl::StatusOr<google::protobuf::Duration> ParseDurationFlag(const std::string& name,
                                                             const std::string& text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": '", text, "' is not a duration such as 90s or 1h30m"));
  }
  google::protobuf::Duration message;
  const int64_t seconds = absl::ToInt64Seconds(duration);
  message.set_seconds(seconds);
  message.set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(duration - absl::Seconds(seconds))));
  return message;
}

absl::StatusOr<std::string> TextOrFile(const std::string& text) {
  if (!absl::StartsWith(text, "@")) return text;
  std::ifstream in(text.substr(1), std::ios::binary);
  if (!in) return absl::InvalidArgumentError(absl::StrCat("cannot read ", text.substr(1)));
  return std::string(std::istreambuf_iterator<char>(in), {});
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ParsePairs(
    const std::string& flag, const std::vector<std::string>& pairs) {
  std::vector<std::pair<std::string, std::string>> parsed;
  for (const std::string& pair : pairs) {
    const size_t equals = pair.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat(flag, ": '", pair, "' is not name=value"));
    }
    parsed.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  return parsed;
}

}  // namespace escapement::escctl
