#include "tests/api_fuzz/judge.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"
#include "common/rpc/status_conversion.h"
#include "common/status/errors.h"
#include "google/rpc/status.pb.h"

namespace escapement::api_fuzz {
namespace {

using google::protobuf::FieldDescriptor;

bool MayEnd(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
      return true;
    default:
      return false;
  }
}

// Tabs are allowed between fields of cron expressions and in values of HTTP headers.
bool IsPlain(const FieldDescriptor& field, std::string text) {
  if (field.full_name() == "escapement.v1.HttpTarget.HeadersEntry.value" ||
      field.name() == "cron" || field.name() == "exclusions" ||
      field.containing_type()->name() == "CronFields")
    std::erase(text, '\t');
  return !HasControlCharacters(text);
}

}  // namespace

std::string JudgeStatus(const grpc::Status& wire) {
  if (wire.ok()) return "";
  const absl::Status status = FromGrpcStatus(wire);
  if (!MayEnd(status.code()))
    return absl::StrCat("the call ended with ", absl::StatusCodeToString(status.code()));
  const std::string reason = ErrorReason(status);
  if (reason.empty()) return "the error has no ErrorInfo";
  if (HasControlCharacters(status.message())) return "the error's message is not plain";
  for (const char* key : {"resource", "field", "state"}) {
    if (HasControlCharacters(ErrorMetadataValue(status, key)))
      return absl::StrCat("the error's ", key, " is not plain");
  }
  const auto violations = FieldViolationsOf(status);
  if (status.code() == absl::StatusCode::kInvalidArgument && violations.empty() &&
      reason != "UNREADABLE_MESSAGE")
    return "the error names no field";
  for (const auto& [field, description] : violations) {
    if (HasControlCharacters(field) || HasControlCharacters(description))
      return "a violation is not plain";
  }
  return "";
}

std::string JudgeTexts(const google::protobuf::Message& answer) {
  const auto* reflection = answer.GetReflection();
  std::vector<const FieldDescriptor*> set;
  reflection->ListFields(answer, &set);
  for (const FieldDescriptor* field : set) {
    const int count = field->is_repeated() ? reflection->FieldSize(answer, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->message_type() != nullptr) {
        const auto& part = field->is_repeated() ? reflection->GetRepeatedMessage(answer, field, i)
                                                : reflection->GetMessage(answer, field);
        if (std::string wrong = JudgeTexts(part); !wrong.empty()) return wrong;
      } else if (field->type() == FieldDescriptor::TYPE_STRING) {
        const std::string text = field->is_repeated()
                                     ? reflection->GetRepeatedString(answer, field, i)
                                     : reflection->GetString(answer, field);
        if (!IsPlain(*field, text))
          return absl::StrCat("the answer's ", field->full_name(), " is not plain");
      } else if (field->name() == "error_code" &&
                 !MayEnd(static_cast<absl::StatusCode>(reflection->GetInt32(answer, field)))) {
        return absl::StrCat("the answer's error_code is ", reflection->GetInt32(answer, field));
      }
    }
  }
  return "";
}

}  // namespace escapement::api_fuzz
