#include "common/rpc/method_access.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/api/annotations.pb.h"

namespace escapement {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string PathOf(const google::api::HttpRule& rule) {
  switch (rule.pattern_case()) {
    case google::api::HttpRule::kGet:
      return rule.get();
    case google::api::HttpRule::kPut:
      return rule.put();
    case google::api::HttpRule::kPost:
      return rule.post();
    case google::api::HttpRule::kDelete:
      return rule.delete_();
    case google::api::HttpRule::kPatch:
      return rule.patch();
    default:
      return {};
  }
}

// The fields from the request to the one that "{schedule.name=tenants/*/schedules/*}" names.
std::vector<const FieldDescriptor*> ResourcePath(const Descriptor& request,
                                                 const std::string& path) {
  const size_t begin = path.find('{');
  const size_t end = path.find('=', begin);
  if (begin == std::string::npos || end == std::string::npos) return {};
  std::vector<const FieldDescriptor*> fields;
  const Descriptor* message = &request;
  for (absl::string_view part : absl::StrSplit(path.substr(begin + 1, end - begin - 1), '.')) {
    const FieldDescriptor* field = message->FindFieldByName(std::string(part));
    if (field == nullptr) return {};
    fields.push_back(field);
    message = field->message_type();
  }
  return fields;
}

}  // namespace

absl::StatusOr<MethodAccess> MethodAccess::Of(const google::protobuf::MethodDescriptor& method) {
  MethodAccess result;
  result.name_ = method.name();
  result.access_ = method.options().GetExtension(v1::access);
  if (result.access_.role() == v1::Access::ROLE_UNSPECIFIED) {
    return absl::FailedPreconditionError(
        absl::StrCat(method.full_name(), " has no role (option escapement.v1.access)"));
  }
  result.resource_path_ =
      ResourcePath(*method.input_type(), PathOf(method.options().GetExtension(google::api::http)));
  return result;
}

MethodAccess MethodAccess::OfDoor(std::string name, v1::Access access) {
  MethodAccess result;
  result.name_ = std::move(name);
  result.access_ = std::move(access);
  return result;
}

std::string MethodAccess::ResourceOf(const Message& request) const {
  if (resource_path_.empty()) return {};
  const Message* message = &request;
  for (size_t i = 0; i + 1 < resource_path_.size(); ++i)
    message = &message->GetReflection()->GetMessage(*message, resource_path_[i]);
  return message->GetReflection()->GetString(*message, resource_path_.back());
}

std::string MethodAccess::RequestIdOf(const Message& request) {
  const FieldDescriptor* field = request.GetDescriptor()->FindFieldByName("request_id");
  if (field == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) return {};
  return request.GetReflection()->GetString(request, field);
}

std::string TenantOf(const std::string& resource) {
  constexpr absl::string_view kTenants = "tenants/";
  if (!absl::StartsWith(resource, kTenants)) return {};
  return resource.substr(kTenants.size(), resource.find('/', kTenants.size()) - kTenants.size());
}

}  // namespace escapement
