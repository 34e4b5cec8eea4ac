#include "common/secrets/record_secrets.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/status_macros.h"
#include "escapement/storage/v1/sealed.pb.h"

namespace escapement {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr absl::string_view kPlaceholderBegin = "sealed:";

// The fields of a message that are secrets, or messages that have secrets.
using SecretFields = std::vector<const FieldDescriptor*>;

// Looks into kDepthMax messages within each other, since a message may contain itself.
SecretFields FindSecretFields(const Descriptor& type, int depth) {
  constexpr int kDepthMax = 8;
  SecretFields found;
  for (int i = 0; i < type.field_count() && depth < kDepthMax; ++i) {
    const FieldDescriptor* field = type.field(i);
    const bool secret = field->options().GetExtension(storage::v1::sealed);
    const bool inside = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_map() &&
                        !FindSecretFields(*field->message_type(), depth + 1).empty();
    if (secret || inside) found.push_back(field);
  }
  return found;
}

const SecretFields& SecretFieldsOf(const Descriptor& type) {
  static absl::Mutex mutex(absl::kConstInit);
  static auto* const known = new std::map<const Descriptor*, SecretFields>();
  absl::MutexLock lock(&mutex);
  const auto found = known->find(&type);
  if (found != known->end()) return found->second;
  return known->emplace(&type, FindSecretFields(type, 0)).first->second;
}

absl::Status Visit(Message& record, const std::string& prefix,
                   const std::function<absl::Status(RecordSecret&)>& visit);

absl::Status VisitValue(Message& record, const FieldDescriptor* field, int index,
                        const std::string& path,
                        const std::function<absl::Status(RecordSecret&)>& visit) {
  const Reflection& reflection = *record.GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    Message* inner = index < 0 ? reflection.MutableMessage(&record, field)
                               : reflection.MutableRepeatedMessage(&record, field, index);
    return Visit(*inner, path, visit);
  }
  RecordSecret secret{.path = path,
                      .field = field->full_name(),
                      .value = index < 0 ? reflection.GetString(record, field)
                                         : reflection.GetRepeatedString(record, field, index)};
  if (secret.value.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(visit(secret));
  if (index < 0) {
    reflection.SetString(&record, field, std::move(secret.value));
  } else {
    reflection.SetRepeatedString(&record, field, index, std::move(secret.value));
  }
  return absl::OkStatus();
}

absl::Status Visit(Message& record, const std::string& prefix,
                   const std::function<absl::Status(RecordSecret&)>& visit) {
  const Reflection& reflection = *record.GetReflection();
  for (const FieldDescriptor* field : SecretFieldsOf(*record.GetDescriptor())) {
    if (!field->is_repeated() && !reflection.HasField(record, field)) continue;
    const std::string path =
        prefix.empty() ? field->name() : absl::StrCat(prefix, ".", field->name());
    if (!field->is_repeated()) {
      RETURN_IF_ERROR(VisitValue(record, field, -1, path, visit));
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(record, field); ++i)
      RETURN_IF_ERROR(VisitValue(record, field, i, absl::StrCat(path, "[", i, "]"), visit));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VisitSecrets(Message& record,
                          const std::function<absl::Status(RecordSecret&)>& visit) {
  return Visit(record, "", visit);
}

std::vector<RecordSecret> SecretsOf(const Message& record) {
  std::vector<RecordSecret> secrets;
  const std::unique_ptr<Message> copy(record.New());
  copy->CopyFrom(record);
  Visit(*copy, "", [&secrets](RecordSecret& secret) {
    secrets.push_back(secret);
    return absl::OkStatus();
  }).IgnoreError();
  return secrets;
}

std::string SecretPlace(absl::string_view tenant, const RecordSecret& secret) {
  return absl::StrCat("tenants/", tenant, "/", secret.field);
}

absl::Status OpenSecrets(const Sealer& sealer, absl::string_view tenant, Message& record) {
  return VisitSecrets(record, [&](RecordSecret& secret) {
    ASSIGN_OR_RETURN(SecretText opened, sealer.Open(secret.value, SecretPlace(tenant, secret)));
    secret.value = std::string(opened.Reveal());
    return absl::OkStatus();
  });
}

std::string SecretPlaceholder(absl::string_view sealed) {
  const absl::StatusOr<std::string> mark = Sealer::Mark(sealed);
  return absl::StrCat(kPlaceholderBegin, mark.ok() ? absl::BytesToHexString(*mark) : "");
}

bool IsSecretPlaceholder(absl::string_view text) {
  return absl::StartsWith(text, kPlaceholderBegin);
}

}  // namespace escapement
