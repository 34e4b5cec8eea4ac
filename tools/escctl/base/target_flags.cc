#include "tools/escctl/base/target_flags.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/rest/json_bytes.h"
#include "nlohmann/json.hpp"
#include "tools/escctl/base/flags.h"

namespace escapement::escctl {

void TargetKindFlags::Add(CLI::App& command) {
  auto* http = command.add_option("--http", http_, "deliver by HTTP to this URI");
  command.add_option("--method", method_, "method of the HTTP request: POST, PUT or PATCH")
      ->needs(http);
  command
      .add_option("--header", headers_, "header of the HTTP request, name=value; may be repeated")
      ->needs(http)
      ->allow_extra_args(false);
  command
      .add_option("--secret-header", secret_headers_,
                  "header whose value is a secret, name=value or name=@file; may be repeated")
      ->needs(http)
      ->allow_extra_args(false);
  command
      .add_option(
          "--signing-secret", signing_secrets_,
          "secret that signs the request (whsec_... or whsk_...), or @file; may be repeated")
      ->needs(http)
      ->allow_extra_args(false);
  command.add_option("--grpc", grpc_, "deliver by gRPC to a TriggerReceiver at host:port");
  auto* sqs = command.add_option("--sqs", sqs_, "deliver to the SQS queue with this URL");
  command.add_option("--sqs-region", sqs_region_, "region of the queue")->needs(sqs);
  command
      .add_option("--sqs-credentials", sqs_credentials_,
                  "access key id:secret access key, or @file")
      ->needs(sqs);
  command.add_option("--kafka", kafka_, "deliver to a Kafka topic: host:port,host:port/topic");
  command.add_option("--slack", slack_,
                     "deliver to the incoming webhook of Slack with this URL, or @file");
  auto* email = command.add_option("--email", email_, "send mail to this address; may be repeated")
                    ->allow_extra_args(false);
  command.add_option("--smtp", smtp_, "server for --email: smtp://host:port")->needs(email);
  command.add_option("--from", from_, "sender of --email")->needs(email);
  command.add_option("--subject", subject_, "subject of --email, a template")->needs(email);
  command.add_option("--ping", ping_, "call this URI with GET, without a body");
  command.add_option("--target", json_,
                     "the target as JSON, or @file: for settings that have no flag");
}

absl::StatusOr<std::optional<v1::Target>> TargetKindFlags::Target() const {
  std::vector<std::string> given;
  for (const auto& [flag, set] :
       {std::pair("--http", !http_.empty()), std::pair("--grpc", !grpc_.empty()),
        std::pair("--sqs", !sqs_.empty()), std::pair("--kafka", !kafka_.empty()),
        std::pair("--slack", !slack_.empty()), std::pair("--email", !email_.empty()),
        std::pair("--ping", !ping_.empty()), std::pair("--target", !json_.empty())}) {
    if (set) given.emplace_back(flag);
  }
  if (given.empty()) return std::optional<v1::Target>();
  if (given.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(absl::StrJoin(given, " and "), " exclude each other: give one of them"));
  }
  if (!http_.empty()) return Http();
  if (!sqs_.empty()) return Sqs();
  if (!kafka_.empty()) return Kafka();
  if (!slack_.empty()) return Slack();
  if (!email_.empty()) return Email();
  if (!json_.empty()) return Json();
  v1::Target target;
  if (!grpc_.empty()) {
    target.mutable_grpc()->set_uri(grpc_);
  } else {
    target.mutable_ping()->set_uri(ping_);
  }
  return target;
}

absl::StatusOr<v1::Target> TargetKindFlags::Http() const {
  v1::Target target;
  v1::HttpTarget& http = *target.mutable_http();
  http.set_uri(http_);
  http.set_method(method_);
  ASSIGN_OR_RETURN(auto headers, ParsePairs("--header", headers_));
  for (const auto& [name, value] : headers) (*http.mutable_headers())[name] = value;
  ASSIGN_OR_RETURN(auto secret_headers, ParsePairs("--secret-header", secret_headers_));
  for (const auto& [name, text] : secret_headers) {
    ASSIGN_OR_RETURN(auto value, SecretOrFile(text));
    (*http.mutable_secret_headers())[name] = std::move(value);
  }
  for (const std::string& text : signing_secrets_) {
    ASSIGN_OR_RETURN(auto secret, SecretOrFile(text));
    http.add_signing_secrets(std::move(secret));
  }
  return target;
}

absl::StatusOr<v1::Target> TargetKindFlags::Sqs() const {
  v1::Target target;
  target.mutable_sqs()->set_queue_url(sqs_);
  target.mutable_sqs()->set_region(sqs_region_);
  ASSIGN_OR_RETURN(auto credentials, SecretOrFile(sqs_credentials_));
  target.mutable_sqs()->set_credentials(std::move(credentials));
  return target;
}

absl::StatusOr<v1::Target> TargetKindFlags::Kafka() const {
  const size_t slash = kafka_.rfind('/');
  if (slash == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("--kafka: '", kafka_, "' is not host:port,host:port/topic"));
  }
  v1::Target target;
  target.mutable_kafka()->set_brokers(kafka_.substr(0, slash));
  target.mutable_kafka()->set_topic(kafka_.substr(slash + 1));
  return target;
}

absl::StatusOr<v1::Target> TargetKindFlags::Slack() const {
  ASSIGN_OR_RETURN(auto url, SecretOrFile(slack_));
  v1::Target target;
  target.mutable_slack()->set_webhook_url(std::move(url));
  return target;
}

absl::StatusOr<v1::Target> TargetKindFlags::Email() const {
  if (smtp_.empty() || from_.empty())
    return absl::InvalidArgumentError("--email needs --smtp and --from");
  v1::Target target;
  v1::EmailTarget& email = *target.mutable_email();
  for (const std::string& address : email_) email.add_to(address);
  email.set_smtp_uri(smtp_);
  email.set_from(from_);
  email.set_subject(subject_);
  return target;
}

absl::StatusOr<v1::Target> TargetKindFlags::Json() const {
  ASSIGN_OR_RETURN(auto json, TextOrFile(json_));
  v1::Target target;
  const absl::Status read = rest::MessageFromJson(json, target);
  if (read.ok()) return target;
  return absl::InvalidArgumentError(absl::StrCat("--target: ", read.message()));
}

absl::StatusOr<std::string> SecretOrFile(const std::string& text) {
  auto value = TextOrFile(text);
  if (!value.ok() || !absl::StartsWith(text, "@")) return value;
  return std::string(absl::StripTrailingAsciiWhitespace(*value));
}

absl::Status CheckPayload(absl::string_view payload, absl::string_view content_type) {
  const bool json = content_type.empty() || absl::StartsWith(content_type, "application/json");
  if (!json || payload.empty() || nlohmann::json::accept(payload)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--payload: is not JSON; --content-type says what else it is, such as text/plain");
}

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
  ASSIGN_OR_RETURN(auto target, kind_.Target());
  if (target.has_value()) {
    *message.mutable_target() = *std::move(target);
    fields.push_back("target");
  }
  if (!payload_.empty()) {
    ASSIGN_OR_RETURN(auto payload, TextOrFile(payload_));
    message.set_payload(std::move(payload));
    fields.push_back("payload");
  }
  if (!content_type_.empty()) {
    message.set_content_type(content_type_);
    fields.push_back("content_type");
  }
  if (!delivery_timeout_.empty()) {
    ASSIGN_OR_RETURN(auto timeout, ParseDurationFlag("--delivery-timeout", delivery_timeout_));
    *message.mutable_delivery_timeout() = timeout;
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
    ASSIGN_OR_RETURN(auto backoff, ParseDurationFlag("--min-backoff", min_backoff_));
    *message.mutable_retry_policy()->mutable_min_backoff() = backoff;
    fields.push_back("retry_policy.min_backoff");
  }
  if (!max_backoff_.empty()) {
    ASSIGN_OR_RETURN(auto backoff, ParseDurationFlag("--max-backoff", max_backoff_));
    *message.mutable_retry_policy()->mutable_max_backoff() = backoff;
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
