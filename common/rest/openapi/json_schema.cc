#include "common/rest/openapi/json_schema.h"

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/rest/openapi/openapi_document.h"
#include "google/api/field_behavior.pb.h"

namespace escapement::rest {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::OneofDescriptor;

// Text that a comment and `more` make together.
std::string Joined(const std::string& text, const std::string& more) {
  return text.empty() || more.empty() ? text + more : absl::StrCat(text, "\n\n", more);
}

Json Integer(absl::string_view format) {
  return {{"type", "integer"}, {"format", std::string(format)}};
}
Json IntegerText(absl::string_view format) {
  return {{"type", "string"}, {"format", std::string(format)}};
}
Json Number(absl::string_view format) {
  return {{"type", "number"}, {"format", std::string(format)}};
}
Json Bytes() { return {{"type", "string"}, {"contentEncoding", "base64"}}; }

// The google.protobuf types that JSON writes in their own way.
std::optional<Json> WellKnown(const Descriptor* message) {
  if (message->file()->package() != "google.protobuf") return std::nullopt;
  const std::string& name = message->name();
  if (name == "Timestamp") return Json{{"type", "string"}, {"format", "date-time"}};
  if (name == "Duration") {
    return Json{{"type", "string"},
                {"pattern", "^-?[0-9]+(\\.[0-9]{1,9})?s$"},
                {"examples", Json::array({"1.5s"})}};
  }
  if (name == "FieldMask") {
    return Json{{"type", "string"}, {"examples", Json::array({"displayName,eventCount"})}};
  }
  if (name == "Empty" || name == "Struct") return Json{{"type", "object"}};
  if (name == "Value") return Json::object();
  if (name == "ListValue") return Json{{"type", "array"}, {"items", Json::object()}};
  if (name == "Any") {
    return Json{{"type", "object"},
                {"properties", {{"@type", {{"type", "string"}}}}},
                {"required", Json::array({"@type"})},
                {"additionalProperties", true}};
  }
  if (name == "BoolValue") return Json{{"type", "boolean"}};
  if (name == "StringValue") return Json{{"type", "string"}};
  if (name == "BytesValue") return Bytes();
  if (name == "Int32Value") return Integer("int32");
  if (name == "UInt32Value") return Integer("uint32");
  if (name == "Int64Value") return IntegerText("int64");
  if (name == "UInt64Value") return IntegerText("uint64");
  if (name == "FloatValue") return Number("float");
  if (name == "DoubleValue") return Number("double");
  return std::nullopt;
}

// Whether answers have the field even at its default; see json_bytes.h.
bool IsAlwaysWritten(const FieldDescriptor* field) {
  if (field->is_repeated()) return true;
  return field->message_type() == nullptr && field->enum_type() == nullptr &&
         field->type() != FieldDescriptor::TYPE_BYTES && field->containing_oneof() == nullptr;
}

// As its options say, even if its comment is that of the whole message.
bool IsOutputOnly(const FieldDescriptor* field) {
  const auto& options = field->options();
  for (int i = 0; i < options.ExtensionSize(google::api::field_behavior); ++i) {
    if (options.GetExtension(google::api::field_behavior, i) == google::api::OUTPUT_ONLY)
      return true;
  }
  return false;
}

// Bytes that a client gives in a form of its own. They are not required: `payload` can be.
void AddOtherForms(const FieldDescriptor* field, Json& properties) {
  const std::string& name = field->json_name();
  Json text = {{"type", "string"}, {"writeOnly", true}};
  Describe(text, absl::StrCat("Another way to give `", name, "`: as text."));
  properties[absl::StrCat(name, "Text")] = std::move(text);
  Json json = {{"writeOnly", true}};
  Describe(json, absl::StrCat("Another way to give `", name,
                              "`: as JSON of any kind, which becomes the bytes as it is written."));
  properties[absl::StrCat(name, "Json")] = std::move(json);
}

void CollectReached(const Descriptor* message, std::set<const Descriptor*>& reached) {
  if (!reached.insert(message).second) return;
  for (int i = 0; i < message->field_count(); ++i) {
    if (message->field(i)->message_type() != nullptr)
      CollectReached(message->field(i)->message_type(), reached);
  }
}

// Says which fields exclude each other.
std::string OneofText(const OneofDescriptor* oneof) {
  std::vector<std::string> names;
  for (int i = 0; i < oneof->field_count(); ++i)
    names.push_back(absl::StrCat("`", oneof->field(i)->json_name(), "`"));
  const std::string last = std::move(names.back());
  names.pop_back();
  const std::string comment = CommentOf(oneof);
  return absl::StrCat(absl::StrJoin(names, ", "), names.empty() ? "" : " and ", last,
                      " exclude each other.", comment.empty() ? "" : " ", comment);
}

}  // namespace

void Describe(Json& schema, const std::string& text) {
  if (!text.empty()) schema["description"] = text;
}

JsonSchemas::JsonSchemas(const std::vector<RestRoute>& routes) {
  if (!routes.empty()) package_prefix_ = absl::StrCat(routes[0].method->file()->package(), ".");
  std::set<const Message*> reached;
  for (const RestRoute& route : routes) {
    CollectReached(route.method->output_type(), in_answers_);
    CollectReached(route.method->input_type(), reached);
  }
  for (const RestRoute& route : routes) {
    const Message* input = route.method->input_type();
    const Field* field = input->FindFieldByName(route.body);
    if (route.http_method == "PATCH" && field != nullptr) patches_.insert(field->message_type());
    if (route.body != "*" || in_answers_.contains(input)) continue;
    std::set<const Field*>& in_path = whole_bodies_[input];
    for (const std::string& variable : route.path.Variables()) {
      if (const Field* field = input->FindFieldByName(variable); field != nullptr)
        in_path.insert(field);
    }
  }
  // A message that is also a field of another one keeps its fields.
  for (const Message* message : reached) {
    for (int i = 0; i < message->field_count(); ++i)
      whole_bodies_.erase(message->field(i)->message_type());
  }
}

std::string JsonSchemas::ComponentName(absl::string_view full_name) const {
  absl::ConsumePrefix(&full_name, package_prefix_);
  return std::string(full_name);
}

Json JsonSchemas::Reference(const std::string& name) const {
  return {{"$ref", absl::StrCat("#/components/schemas/", name)}};
}

Json JsonSchemas::OfField(const Field* field) {
  if (field->is_map()) {
    return {{"type", "object"},
            {"additionalProperties", OfValue(field->message_type()->FindFieldByNumber(2))}};
  }
  if (field->is_repeated()) return {{"type", "array"}, {"items", OfValue(field)}};
  return OfValue(field);
}

Json JsonSchemas::OfValue(const Field* field) {
  switch (field->type()) {
    case FieldDescriptor::TYPE_BOOL:
      return {{"type", "boolean"}};
    case FieldDescriptor::TYPE_STRING:
      return {{"type", "string"}};
    case FieldDescriptor::TYPE_BYTES:
      return Bytes();
    case FieldDescriptor::TYPE_FLOAT:
      return Number("float");
    case FieldDescriptor::TYPE_DOUBLE:
      return Number("double");
    case FieldDescriptor::TYPE_ENUM:
      return OfEnum(field->enum_type());
    case FieldDescriptor::TYPE_MESSAGE:
    case FieldDescriptor::TYPE_GROUP:
      return OfMessage(field->message_type());
    default:
      break;
  }
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return Integer("int32");
    case FieldDescriptor::CPPTYPE_UINT32:
      return Integer("uint32");
    case FieldDescriptor::CPPTYPE_INT64:
      return IntegerText("int64");
    default:
      return IntegerText("uint64");
  }
}

Json JsonSchemas::OfEnum(const EnumDescriptor* type) {
  const std::string name = ComponentName(type->full_name());
  if (!components_.contains(name)) {
    Json schema = {{"type", "string"}, {"enum", Json::array()}};
    std::vector<std::string> lines;
    for (int i = 0; i < type->value_count(); ++i) {
      const EnumValueDescriptor* value = type->value(i);
      if (value->number() == 0 && absl::EndsWith(value->name(), "_UNSPECIFIED")) continue;
      schema["enum"].push_back(value->name());
      const std::string comment = CommentOf(type->value(i));
      if (!comment.empty()) {
        lines.push_back(absl::StrCat("- `", type->value(i)->name(),
                                     "`: ", absl::StrJoin(absl::StrSplit(comment, "\n\n"), " ")));
      }
    }
    Describe(schema, Joined(CommentOf(type), absl::StrJoin(lines, "\n")));
    components_[name] = std::move(schema);
  }
  return Reference(name);
}

Json JsonSchemas::OfMessage(const Message* message) {
  if (auto schema = WellKnown(message)) return *std::move(schema);
  const std::string name = ComponentName(message->full_name());
  // The name first: a message may contain itself.
  if (components_.try_emplace(name).second) components_[name] = Component(message);
  return Reference(name);
}

Json JsonSchemas::Component(const Message* message) {
  Json schema = {{"type", "object"}};
  std::string text = CommentOf(message);
  for (int i = 0; i < message->real_oneof_decl_count(); ++i)
    text = Joined(text, OneofText(message->oneof_decl(i)));
  Describe(schema, text);
  Json properties = Json::object();
  Json required = Json::array();
  for (int i = 0; i < message->field_count(); ++i) {
    const Field* field = message->field(i);
    if (!IsInBody(field)) continue;
    Json property = OfField(field);
    const std::string comment = FieldComment(field);
    Describe(property, comment);
    const bool output_only = SaysOutputOnly(comment) || IsOutputOnly(field);
    if (output_only) property["readOnly"] = true;
    if (IsRequired(field)) required.push_back(field->json_name());
    properties[field->json_name()] = std::move(property);
    const bool bytes = field->type() == FieldDescriptor::TYPE_BYTES && !field->is_repeated();
    if (bytes && !output_only) AddOtherForms(field, properties);
  }
  schema["properties"] = std::move(properties);
  if (!required.empty()) schema["required"] = std::move(required);
  if (!in_answers_.contains(message)) schema["additionalProperties"] = false;
  return schema;
}

bool JsonSchemas::IsRequired(const Field* field) const {
  const Message* message = field->containing_type();
  if (patches_.contains(message) || !SaysRequired(FieldComment(field))) return false;
  return in_answers_.contains(message) ? IsAlwaysWritten(field) : whole_bodies_.contains(message);
}

bool JsonSchemas::IsInBody(const Field* field) const {
  const auto body = whole_bodies_.find(field->containing_type());
  return body == whole_bodies_.end() || !body->second.contains(field);
}

Json JsonSchemas::OfBody(const RestRoute& route) {
  const Message* body = route.method->input_type();
  if (route.body != "*") body = body->FindFieldByName(route.body)->message_type();
  Json schema = OfMessage(body);
  if (in_answers_.contains(body)) schema["unevaluatedProperties"] = false;
  if (!patches_.contains(body) || route.http_method == "PATCH") return schema;
  // The component is that of the PATCH.
  Json required = Json::array();
  for (int i = 0; i < body->field_count(); ++i) {
    if (SaysRequired(FieldComment(body->field(i)))) required.push_back(body->field(i)->json_name());
  }
  if (!required.empty()) schema["required"] = std::move(required);
  return schema;
}

bool JsonSchemas::BodyIsRequired(const RestRoute& route) const {
  const Message* input = route.method->input_type();
  if (route.body != "*") return SaysRequired(CommentOf(input->FindFieldByName(route.body)));
  if (!whole_bodies_.contains(input)) return false;
  for (int i = 0; i < input->field_count(); ++i) {
    if (IsInBody(input->field(i)) && SaysRequired(CommentOf(input->field(i)))) return true;
  }
  return false;
}

}  // namespace escapement::rest
