#include "common/rest/route_table.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "google/api/annotations.pb.h"

namespace escapement::rest {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::MethodDescriptor;

// Whether `path` ("schedule.name") names a field of `message`.
bool HasField(const Descriptor* message, absl::string_view path) {
  for (const absl::string_view name : absl::StrSplit(path, '.')) {
    if (message == nullptr) return false;
    const FieldDescriptor* field = message->FindFieldByName(std::string(name));
    if (field == nullptr || field->is_repeated()) return false;
    message = field->message_type();
  }
  return true;
}

struct Pattern {
  std::string http_method;
  std::string path;
};

Pattern PatternOf(const google::api::HttpRule& rule) {
  switch (rule.pattern_case()) {
    case google::api::HttpRule::kGet:
      return {"GET", rule.get()};
    case google::api::HttpRule::kPut:
      return {"PUT", rule.put()};
    case google::api::HttpRule::kPost:
      return {"POST", rule.post()};
    case google::api::HttpRule::kDelete:
      return {"DELETE", rule.delete_()};
    case google::api::HttpRule::kPatch:
      return {"PATCH", rule.patch()};
    default:
      return {};
  }
}

absl::StatusOr<RestRoute> MakeRoute(const MethodDescriptor* method,
                                    const google::api::HttpRule& rule) {
  const auto bad = [method](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(method->full_name(), ": ", why));
  };
  const Pattern pattern = PatternOf(rule);
  if (pattern.path.empty()) return bad("an http annotation without a path");
  auto path = PathTemplate::Parse(pattern.path);
  if (!path.ok()) return bad(path.status().message());
  for (const std::string& field : path->Variables()) {
    if (!HasField(method->input_type(), field)) return bad(absl::StrCat("no field ", field));
  }
  if (!rule.body().empty() && rule.body() != "*" && !HasField(method->input_type(), rule.body()))
    return bad(absl::StrCat("no field ", rule.body(), " for the body"));
  return RestRoute{
      .method = method,
      .grpc_path = absl::StrCat("/", method->service()->full_name(), "/", method->name()),
      .http_method = pattern.http_method,
      .path = *std::move(path),
      .body = rule.body()};
}

}  // namespace

absl::StatusOr<RouteTable> RouteTable::Build(const google::protobuf::DescriptorPool& pool,
                                             const std::vector<std::string>& services) {
  RouteTable table;
  std::set<std::pair<std::string, std::string>> seen;
  for (const std::string& name : services) {
    const auto* service = pool.FindServiceByName(name);
    if (service == nullptr) return absl::InvalidArgumentError(absl::StrCat("no service ", name));
    for (int i = 0; i < service->method_count(); ++i) {
      const MethodDescriptor* method = service->method(i);
      const bool streams = method->client_streaming() || method->server_streaming();
      if (!method->options().HasExtension(google::api::http)) continue;
      const auto& http = method->options().GetExtension(google::api::http);
      std::vector<google::api::HttpRule> rules = {http};
      for (const auto& more : http.additional_bindings()) rules.push_back(more);
      for (const auto& rule : rules) {
        ASSIGN_OR_RETURN(auto route, MakeRoute(method, rule));
        if (!seen.emplace(route.http_method, route.path.text()).second) {
          return absl::InvalidArgumentError(
              absl::StrCat("two RPCs for ", route.http_method, " ", route.path.text()));
        }
        (streams ? table.line_routes_ : table.routes_).push_back(std::move(route));
      }
    }
  }
  return table;
}

RouteTable::Found RouteTable::Find(absl::string_view http_method, const RequestPath& path) const {
  std::set<std::string> allowed;
  for (const RestRoute& route : routes_) {
    auto bindings = route.path.Match(path);
    if (!bindings.has_value()) continue;
    if (route.http_method == http_method)
      return {.route = &route, .bindings = *std::move(bindings), .allowed = {}};
    allowed.insert(route.http_method);
  }
  return {.route = nullptr, .bindings = {}, .allowed = absl::StrJoin(allowed, ", ")};
}

}  // namespace escapement::rest
