#include "tests/api_fuzz/request_maker.h"

#include <google/protobuf/descriptor.pb.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace escapement::api_fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr int kDepthMax = 5;
constexpr char kTenant[] = "tenants/default";

bool BindsTenant(const FieldDescriptor& field) {
  return field.containing_type()->name() == "Quotas" ||
         field.full_name() == "escapement.v1.Tenant.state";
}

}  // namespace

std::unique_ptr<Message> RequestMaker::Make(const Method& method) {
  method_ = &method;
  name_.clear();
  const uint64_t kind = values_.Below(10);
  hostility_ = kind < 5 ? 0 : kind < 8 ? 5 : 50;
  auto request = api_.New(method.descriptor->input_type());
  Fill(request.get(), "", 0);
  return request;
}

uint64_t RequestMaker::ChanceOf(const FieldDescriptor& field, int depth) {
  const std::string& name = field.name();
  if (hostility_ == 50 && values_.Chance(30)) return 50;
  // A request of a batch must not have it.
  if (name == "validate_only") return depth == 0 ? 10 : 1;
  if (depth == 0) {
    if (name == "page_token" || name == "etag" || name == "filter") return 20;
    if (name == "request_id" || name == "update_mask") return 40;
    if (absl::EndsWith(name, "_count")) return 30;
    // The request itself is a resource, as in a preview.
    if (field.containing_type()->field_count() > 10) return 10;
    return hostility_ == 0 ? 98 : 90;
  }
  const bool needed = name == "target" || name == "uri" || name == "parent" || name == "every" ||
                      name == "outcome" || name == "due_time";
  if (needed || field.containing_type()->options().map_entry()) return 95;
  if (absl::EndsWith(name, "max_concurrent") || name == "token") return 80;
  if (field.containing_type()->field_count() > 10) return 8;
  if (name == "overrides") return 15;
  return 60;
}

void RequestMaker::Fill(Message* message, const std::string& path, int depth) {
  const auto* type = message->GetDescriptor();
  if (type->name() == "FieldMask") return;  // filled when the rest of the request is complete
  for (int i = 0; i < type->real_oneof_decl_count(); ++i) {
    const auto* oneof = type->oneof_decl(i);
    if (!values_.Chance(hostility_ == 50 ? 70 : 97)) continue;
    // Half of all schedules use cron, as users' schedules do.
    const int member =
        values_.Chance(50) ? 0 : static_cast<int>(values_.Below(oneof->field_count()));
    Set(message, oneof->field(member), path, depth);
  }
  const FieldDescriptor* mask = nullptr;
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    if (field->real_containing_oneof() != nullptr) continue;
    const bool names = absl::StrCat(path, field->name()) == method_->name_field;
    if (!values_.Chance(names ? 98 : ChanceOf(*field, depth))) continue;
    // A bound of the tenant, or its suspension, would refuse most of the calls that follow.
    if (BindsTenant(*field)) continue;
    if (field->message_type() != nullptr && field->message_type()->name() == "FieldMask")
      mask = field;
    Set(message, field, path, depth);
  }
  if (mask != nullptr && !mask->is_repeated())
    FillMask(*message, message->GetReflection()->MutableMessage(message, mask));
}

void RequestMaker::Set(Message* message, const FieldDescriptor* field, const std::string& path,
                       int depth) {
  if (depth >= kDepthMax) return;
  const auto* reflection = message->GetReflection();
  int count = 1;
  if (field->is_repeated()) {
    count = static_cast<int>(1 + values_.Below(3));
    if (values_.Chance(3)) count = values_.OneOf<int>({31, 65, 1001});
    if (depth > 0 && count > 3) count = 3;
  }
  const std::string full = absl::StrCat(path, field->name());
  for (int i = 0; i < count; ++i) {
    const bool hostile = Hostile();
    const bool add = field->is_repeated();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING: {
        const std::string text = field->type() == FieldDescriptor::TYPE_BYTES
                                     ? values_.Bytes(hostile)
                                     : Text(*field, full);
        if (add) reflection->AddString(message, field, text);
        if (!add) reflection->SetString(message, field, text);
        break;
      }
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        Message* part = add ? reflection->AddMessage(message, field)
                            : reflection->MutableMessage(message, field);
        const std::string& type = field->message_type()->name();
        if (type == "Timestamp" || type == "Duration") {
          values_.Time(*field, hostile, part);
        } else {
          Fill(part, absl::StrCat(full, "."), depth + 1);
        }
        break;
      }
      case FieldDescriptor::CPPTYPE_ENUM: {
        const auto* type = field->enum_type();
        const int value = hostile ? values_.OneOf<int>({-1, 99}) : TameEnum(*type);
        if (add) reflection->AddEnumValue(message, field, value);
        if (!add) reflection->SetEnumValue(message, field, value);
        break;
      }
      case FieldDescriptor::CPPTYPE_BOOL:
        if (!add) reflection->SetBool(message, field, true);
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        if (!add) reflection->SetDouble(message, field, values_.Real(hostile));
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        if (!add)
          reflection->SetInt32(message, field,
                               static_cast<int32_t>(values_.Integer(*field, hostile)));
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        if (!add) reflection->SetInt64(message, field, values_.Integer(*field, hostile));
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        if (!add)
          reflection->SetUInt64(message, field,
                                static_cast<uint64_t>(values_.Integer(*field, hostile)));
        break;
      default:
        break;
    }
  }
}

int RequestMaker::TameEnum(const google::protobuf::EnumDescriptor& type) {
  const bool unset = type.value_count() == 1 || values_.Chance(10);
  return type.value(unset ? 0 : static_cast<int>(1 + values_.Below(type.value_count() - 1)))
      ->number();
}

std::string RequestMaker::Name(const std::string& pattern) {
  const std::vector<std::string> names = model_.Names(pattern);
  if (!names.empty() && values_.Chance(80)) return values_.OneOf(names);
  for (const std::string& gone : model_.gone()) {
    if (Matches(gone, pattern) && values_.Chance(20)) return gone;
  }
  return absl::StrReplaceAll(pattern,
                             {{"tenants/*", values_.Chance(90) ? kTenant : "tenants/none"},
                              {"*", values_.Chance(70) ? values_.Id() : values_.HostileText()}});
}

std::string RequestMaker::Text(const FieldDescriptor& field, const std::string& path) {
  const bool hostile = Hostile();
  if (hostile) return values_.Text(field, true);
  const std::string& name = field.name();
  if (path == method_->name_field || (method_->name_field.empty() && name == "name"))
    return name_ = Name(method_->pattern);
  if (name == "parent") return kTenant;
  if (name == "request_id") {
    if (!request_ids_.empty() && values_.Chance(20)) return values_.OneOf(request_ids_);
    request_ids_.push_back(absl::StrCat("request-", request_ids_.size()));
    return request_ids_.back();
  }
  if (name == "policy") {
    const auto policies = model_.Names("tenants/*/policies/*");
    return policies.empty() ? "" : values_.OneOf(policies);
  }
  if (name == "calendar" || name == "calendars") {
    const auto calendars = model_.Names("tenants/*/calendars/*");
    return calendars.empty() ? "" : values_.OneOf(calendars);
  }
  if (absl::StartsWith(name, "token") && !model_.tokens().empty())
    return values_.OneOf(model_.tokens());
  if (name == "page_token" && !model_.page_tokens().empty() && values_.Chance(50))
    return values_.OneOf(model_.page_tokens());
  if (name == "etag") {
    const Message* known = model_.Find(name_);
    if (known != nullptr && values_.Chance(80)) return StringOf(*known, "etag");
    return values_.Chance(50) ? "" : "1-stale";
  }
  return values_.Text(field, false);
}

void RequestMaker::FillMask(const Message& request, Message* mask) {
  const auto* paths = mask->GetDescriptor()->FindFieldByName("paths");
  std::vector<std::string> fields = {"*"};
  for (int i = 0; i < request.GetDescriptor()->field_count(); ++i) {
    const auto* resource = request.GetDescriptor()->field(i)->message_type();
    if (resource == nullptr || resource == mask->GetDescriptor()) continue;
    for (int k = 0; k < resource->field_count(); ++k) fields.push_back(resource->field(k)->name());
  }
  for (uint64_t i = 1 + values_.Below(4); i > 0; --i)
    mask->GetReflection()->AddString(mask, paths,
                                     Hostile() ? values_.HostileText() : values_.OneOf(fields));
}

}  // namespace escapement::api_fuzz
