#include "tests/doors/schema_check.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace escapement::doors {
namespace {

using nlohmann::json;

bool HasType(const std::string& type, const json& value) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  return false;
}

std::string ObjectMismatch(const json& document, const json& schema, const json& value,
                           const std::string& place) {
  static const json* const none = new json(json::object());
  const json& properties = schema.contains("properties") ? schema["properties"] : *none;
  for (const auto& name : schema.value("required", json::array())) {
    if (!value.contains(name.get<std::string>()))
      return absl::StrCat(place, ": has no ", name.get<std::string>());
  }
  for (const auto& [name, member] : value.items()) {
    const std::string inner = absl::StrCat(place, ".", name);
    const json* member_schema = nullptr;
    if (properties.contains(name)) {
      member_schema = &properties[name];
    } else if (schema.value("additionalProperties", json()) == json(true)) {
      continue;
    } else if (schema.contains("additionalProperties") &&
               schema["additionalProperties"].is_object()) {
      member_schema = &schema["additionalProperties"];
    } else {
      return absl::StrCat(inner, ": is not in the schema");
    }
    if (std::string wrong = SchemaMismatch(document, *member_schema, member, inner); !wrong.empty())
      return wrong;
  }
  return {};
}

}  // namespace

std::string SchemaMismatch(const json& document, const json& schema, const json& value,
                           const std::string& place) {
  if (schema.contains("$ref")) {
    const std::string ref = schema["$ref"];
    if (!absl::StartsWith(ref, "#")) return absl::StrCat(place, ": refers to ", ref);
    return SchemaMismatch(document, document.at(json::json_pointer(ref.substr(1))), value, place);
  }
  if (!schema.contains("type")) return absl::StrCat(place, ": the schema has no type");
  const std::string type = schema["type"];
  if (!HasType(type, value)) return absl::StrCat(place, ": is no ", type, ": ", value.dump());
  if (schema.contains("enum") &&
      std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
    return absl::StrCat(place, ": is not in the enum: ", value.dump());
  if (type == "object") return ObjectMismatch(document, schema, value, place);
  if (type == "array") {
    for (size_t i = 0; i < value.size(); ++i) {
      if (std::string wrong = SchemaMismatch(document, schema.at("items"), value[i],
                                             absl::StrCat(place, "[", i, "]"));
          !wrong.empty())
        return wrong;
    }
  }
  return {};
}

}  // namespace escapement::doors
