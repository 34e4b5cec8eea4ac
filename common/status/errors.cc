#include "common/status/errors.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"
#include "google/rpc/error_details.pb.h"

namespace escapement {
namespace {

constexpr absl::string_view kErrorInfoUrl = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr absl::string_view kBadRequestUrl = "type.googleapis.com/google.rpc.BadRequest";
constexpr absl::string_view kRetryInfoUrl = "type.googleapis.com/google.rpc.RetryInfo";
constexpr absl::string_view kQuotaFailureUrl = "type.googleapis.com/google.rpc.QuotaFailure";

// A client accepts 8 KiB of trailing metadata. The message is in it twice: as grpc-message, where
// each byte that is not ASCII takes three bytes, and in the details, where base64 takes 4 bytes for
// 3. So the worst case is 3 x 800 + 4/3 x (800 + 2048 + 400 + some 200 bytes of names), about 7,000
// bytes.
constexpr size_t kMessageBytesMax = 800;
constexpr size_t kMetadataBytesMax = 400;  // for one value
constexpr size_t kViolationsMax = 100;
constexpr size_t kViolationsBytesMax = 2048;  // for all violations in the details together
constexpr size_t kViolationOverhead = 8;  // bytes of one violation on the wire, beside its texts
constexpr size_t kFieldBytesMax = 200;
constexpr size_t kDescriptionBytesMax = 600;
constexpr size_t kMoreBytesMax = 32;  // bytes of "; and N more"
constexpr absl::string_view kCut = "...";

// Escapes the text, and cuts it between two characters to at most `bytes_max` bytes.
std::string BoundedText(absl::string_view text, size_t bytes_max) {
  // Escaping never shortens text, so text further back does not fit. If this cut divides a
  // character (at most 4 bytes), that character is beyond bytes_max as well.
  std::string escaped = EscapeForTerminal(text.substr(0, bytes_max + 4));
  if (escaped.size() <= bytes_max) return escaped;
  size_t end = bytes_max - kCut.size();
  while (end > 0 && (static_cast<uint8_t>(escaped[end]) & 0xc0) == 0x80) --end;
  escaped.resize(end);
  return absl::StrCat(escaped, kCut);
}

void SetDetail(absl::Status& status, absl::string_view url,
               const google::protobuf::Message& detail) {
  status.SetPayload(url, absl::Cord(detail.SerializeAsString()));
}

template <typename Detail>
std::optional<Detail> GetDetail(const absl::Status& status, absl::string_view url) {
  auto payload = status.GetPayload(url);
  Detail detail;
  if (!payload.has_value() || !detail.ParseFromString(std::string(*payload))) return std::nullopt;
  return detail;
}

void SetRetryDelay(absl::Status& status, absl::Duration retry_delay) {
  google::rpc::RetryInfo retry;
  const absl::Duration delay = std::max(retry_delay, absl::ZeroDuration());
  retry.mutable_retry_delay()->set_seconds(absl::ToInt64Seconds(delay));
  retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(
      absl::ToInt64Nanoseconds(delay - absl::Seconds(absl::ToInt64Seconds(delay)))));
  SetDetail(status, kRetryInfoUrl, retry);
}

}  // namespace

std::string ErrorText(absl::string_view text) { return BoundedText(text, kMessageBytesMax); }

absl::Status MakeError(absl::StatusCode code, absl::string_view reason, absl::string_view message,
                       const ErrorMetadata& metadata) {
  absl::Status status(code, ErrorText(message));
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain(std::string(kErrorDomain));
  for (const auto& [key, value] : metadata)
    (*info.mutable_metadata())[key] = BoundedText(value, kMetadataBytesMax);
  SetDetail(status, kErrorInfoUrl, info);
  return status;
}

absl::Status InvalidField(absl::string_view field, absl::string_view description) {
  FieldViolations violations;
  violations.Add(field, description);
  return violations.ToStatus();
}

absl::Status NotFound(absl::string_view resource) {
  return MakeError(absl::StatusCode::kNotFound, "RESOURCE_NOT_FOUND",
                   absl::StrCat(resource, " does not exist"),
                   {{"resource", std::string(resource)}});
}

absl::Status AlreadyExists(absl::string_view resource) {
  return MakeError(absl::StatusCode::kAlreadyExists, "RESOURCE_EXISTS",
                   absl::StrCat(resource, " already exists"),
                   {{"resource", std::string(resource)}});
}

absl::Status EtagMismatch(absl::string_view resource) {
  return MakeError(
      absl::StatusCode::kAborted, "ETAG_MISMATCH",
      absl::StrCat("the etag is not the current one of ", resource, "; get it and try again"),
      {{"resource", std::string(resource)}});
}

absl::Status Aborted(absl::string_view reason, absl::string_view message) {
  return MakeError(absl::StatusCode::kAborted, reason, message);
}

absl::Status FailedPrecondition(absl::string_view reason, absl::string_view message,
                                const ErrorMetadata& metadata) {
  return MakeError(absl::StatusCode::kFailedPrecondition, reason, message, metadata);
}

absl::Status ResourceExhausted(absl::string_view reason, absl::string_view message,
                               absl::Duration retry_delay) {
  absl::Status status = MakeError(absl::StatusCode::kResourceExhausted, reason, message);
  SetRetryDelay(status, retry_delay);
  return status;
}

absl::Status QuotaExceeded(absl::string_view subject, absl::string_view quota,
                           absl::string_view description, absl::Duration retry_delay) {
  absl::Status status =
      MakeError(absl::StatusCode::kResourceExhausted, "QUOTA_EXCEEDED",
                absl::StrCat(subject, ": ", description),
                {{"subject", std::string(subject)}, {"quota", std::string(quota)}});
  SetRetryDelay(status, retry_delay);
  google::rpc::QuotaFailure failure;
  auto* violation = failure.add_violations();
  violation->set_subject(std::string(subject));
  violation->set_description(ErrorText(description));
  SetDetail(status, kQuotaFailureUrl, failure);
  return status;
}

void FieldViolations::Add(absl::string_view field, absl::string_view description) {
  violations_.emplace_back(BoundedText(field, kFieldBytesMax),
                           BoundedText(description, kDescriptionBytesMax));
}

void FieldViolations::AddStatus(absl::string_view prefix, const absl::Status& status) {
  if (status.ok()) return;
  const auto inner = FieldViolationsOf(status);
  if (inner.empty()) Add(prefix, status.message());
  for (const auto& [field, description] : inner) {
    Add(prefix.empty() ? field : absl::StrCat(prefix, ".", field), description);
  }
}

absl::Status FieldViolations::ToStatus() const {
  if (violations_.empty()) return absl::OkStatus();
  google::rpc::BadRequest bad_request;
  std::string message;
  size_t named = 0;  // violations that fit into the message
  size_t bytes = 0;
  const size_t count = std::min(violations_.size(), kViolationsMax);
  for (size_t i = 0; i < count; ++i) {
    const auto& [field, description] = violations_[i];
    bytes += field.size() + description.size() + kViolationOverhead;
    if (bytes > kViolationsBytesMax) break;
    auto* violation = bad_request.add_field_violations();
    violation->set_field(field);
    violation->set_description(description);
    const std::string words = absl::StrCat(i == 0 ? "" : "; ", field, ": ", description);
    if (named == i &&
        (i == 0 || message.size() + words.size() <= kMessageBytesMax - kMoreBytesMax)) {
      message += words;
      ++named;
    }
  }
  if (named < violations_.size()) {
    message = absl::StrCat(BoundedText(message, kMessageBytesMax - kMoreBytesMax), "; and ",
                           violations_.size() - named, " more");
  }
  absl::Status status = MakeError(absl::StatusCode::kInvalidArgument, "INVALID_FIELD", message,
                                  {{"field", violations_.front().first}});
  SetDetail(status, kBadRequestUrl, bad_request);
  return status;
}

std::string ErrorReason(const absl::Status& status) {
  const auto info = GetDetail<google::rpc::ErrorInfo>(status, kErrorInfoUrl);
  return info.has_value() ? info->reason() : "";
}

std::string ErrorMetadataValue(const absl::Status& status, absl::string_view key) {
  const auto info = GetDetail<google::rpc::ErrorInfo>(status, kErrorInfoUrl);
  if (!info.has_value()) return "";
  const auto found = info->metadata().find(std::string(key));
  return found == info->metadata().end() ? "" : found->second;
}

std::vector<std::pair<std::string, std::string>> FieldViolationsOf(const absl::Status& status) {
  std::vector<std::pair<std::string, std::string>> result;
  const auto bad_request = GetDetail<google::rpc::BadRequest>(status, kBadRequestUrl);
  if (!bad_request.has_value()) return result;
  for (const auto& violation : bad_request->field_violations()) {
    result.emplace_back(violation.field(), violation.description());
  }
  return result;
}

std::optional<absl::Duration> RetryDelayOf(const absl::Status& status) {
  const auto retry = GetDetail<google::rpc::RetryInfo>(status, kRetryInfoUrl);
  if (!retry.has_value()) return std::nullopt;
  return absl::Seconds(retry->retry_delay().seconds()) +
         absl::Nanoseconds(retry->retry_delay().nanos());
}

absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  absl::Status result(status.code(), ErrorText(absl::StrCat(context, ": ", status.message())));
  status.ForEachPayload([&result](absl::string_view url, const absl::Cord& payload) {
    result.SetPayload(url, payload);
  });
  return result;
}

}  // namespace escapement
