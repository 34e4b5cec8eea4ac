#include "tests/doors/rest_call.h"

#include <google/protobuf/util/json_util.h>

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

namespace escapement::doors {
namespace {

using nlohmann::json;

json JsonOf(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) return {};
  return json::parse(text);
}

std::string Encoded(absl::string_view text, absl::string_view kept = "") {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || absl::StrContains("-_.~", c) || absl::StrContains(kept, c)) {
      out.push_back(c);
    } else {
      absl::StrAppend(&out, "%", absl::Hex(byte, absl::kZeroPad2));
    }
  }
  return out;
}

// Removes the value at "a.b" and returns its text; "" if there is none.
std::string Take(json& object, absl::string_view path) {
  const std::vector<std::string> parts = absl::StrSplit(path, '.');
  json* owner = &object;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    if (!owner->contains(parts[i])) return {};
    owner = &(*owner)[parts[i]];
  }
  const std::string text = owner->value(parts.back(), std::string());
  owner->erase(parts.back());
  return text;
}

void AddQuery(const json& value, const std::string& name, std::vector<std::string>& query) {
  if (value.is_object()) {
    for (const auto& [key, member] : value.items())
      AddQuery(member, name.empty() ? key : absl::StrCat(name, ".", key), query);
  } else if (value.is_array()) {
    for (const json& element : value) AddQuery(element, name, query);
  } else {
    query.push_back(absl::StrCat(
        name, "=", Encoded(value.is_string() ? value.get<std::string>() : value.dump())));
  }
}

}  // namespace

integration::HttpCall RestCallOf(const rest::RestRoute& route,
                                 const google::protobuf::Message& request) {
  json fields = JsonOf(request);
  integration::HttpCall call{.method = route.http_method};
  absl::string_view rest = route.path.text();
  while (!rest.empty()) {
    const size_t open = rest.find('{');
    absl::StrAppend(&call.path, rest.substr(0, open));
    if (open == absl::string_view::npos) break;
    const size_t close = rest.find('}');
    absl::string_view variable = rest.substr(open + 1, close - open - 1);
    variable = variable.substr(0, variable.find('='));
    absl::StrAppend(&call.path, Encoded(Take(fields, variable), "/"));
    rest.remove_prefix(close + 1);
  }
  if (route.body == "*") {
    call.body = fields.dump();
  } else {
    if (!route.body.empty() && fields.contains(route.body)) {
      call.body = fields[route.body].dump();
      fields.erase(route.body);
    }
    std::vector<std::string> query;
    AddQuery(fields, "", query);
    if (!query.empty()) absl::StrAppend(&call.path, "?", absl::StrJoin(query, "&"));
  }
  return call;
}

}  // namespace escapement::doors
