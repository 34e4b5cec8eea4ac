#include "common/status/errors.h"

#include <algorithm>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"

namespace escapement {
namespace {

constexpr absl::string_view kErrorInfoUrl = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr absl::string_view kBadRequestUrl = "type.googleapis.com/google.rpc.BadRequest";
constexpr absl::string_view kRetryInfoUrl = "type.googleapis.com/google.rpc.RetryInfo";

// A message of the wire must stay below the 8 KiB that clients accept as trailing metadata.
constexpr size_t kViolationsMax = 100;
constexpr size_t kDetailsBytesMax = 4096;

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

}  // namespace

absl::Status MakeError(absl::StatusCode code, absl::string_view reason, absl::string_view message,
                       const ErrorMetadata& metadata) {
  absl::Status status(code, message);
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain(std::string(kErrorDomain));
  for (const auto& [key, value] : metadata) (*info.mutable_metadata())[key] = value;
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
                   absl::StrCat(resource, " exists already"),
                   {{"resource", std::string(resource)}});
}

absl::Status EtagMismatch(absl::string_view resource) {
  return MakeError(absl::StatusCode::kAborted, "ETAG_MISMATCH",
                   absl::StrCat("the etag given is not the current one of ", resource),
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
  google::rpc::RetryInfo retry;
  const absl::Duration delay = std::max(retry_delay, absl::ZeroDuration());
  retry.mutable_retry_delay()->set_seconds(absl::ToInt64Seconds(delay));
  retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(
      absl::ToInt64Nanoseconds(delay - absl::Seconds(absl::ToInt64Seconds(delay)))));
  SetDetail(status, kRetryInfoUrl, retry);
  return status;
}

void FieldViolations::Add(absl::string_view field, absl::string_view description) {
  violations_.emplace_back(field, description);
}

void FieldViolations::AddStatus(absl::string_view prefix, const absl::Status& status) {
  if (status.ok()) return;
  const auto inner = FieldViolationsOf(status);
  if (inner.empty()) Add(prefix, status.message());
  for (const auto& [field, description] : inner) {
    violations_.emplace_back(prefix.empty() ? field : absl::StrCat(prefix, ".", field),
                             description);
  }
}

absl::Status FieldViolations::ToStatus() const {
  if (violations_.empty()) return absl::OkStatus();
  std::string message;
  google::rpc::BadRequest bad_request;
  size_t bytes = 0;
  const size_t count = std::min(violations_.size(), kViolationsMax);
  for (size_t i = 0; i < count; ++i) {
    const auto& [field, description] = violations_[i];
    bytes += field.size() + description.size() + 8;
    if (i > 0 && bytes > kDetailsBytesMax) break;
    absl::StrAppend(&message, i == 0 ? "" : "; ", field, ": ", description);
    auto* violation = bad_request.add_field_violations();
    violation->set_field(field);
    violation->set_description(description);
  }
  const int left_out = static_cast<int>(violations_.size()) - bad_request.field_violations_size();
  if (left_out > 0) absl::StrAppend(&message, "; and ", left_out, " more");
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
  absl::Status result(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload([&result](absl::string_view url, const absl::Cord& payload) {
    result.SetPayload(url, payload);
  });
  return result;
}

}  // namespace escapement
