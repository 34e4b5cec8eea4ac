#include "common/rest/openapi/openapi_document.h"

#include <google/protobuf/descriptor.h>

#include <set>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/rest/openapi/comment_text.h"
#include "common/rest/openapi/json_schema.h"
#include "common/rest/openapi/operation.h"
#include "common/rest/route_table.h"

namespace escapement::rest {
namespace {

using google::protobuf::DescriptorPool;

// The errors that ErrorAnswer writes (answer_writer.h).
Json ErrorSchema() {
  Json codes = Json::array();
  for (int code = 1; code <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++code)
    codes.push_back(absl::StatusCodeToString(static_cast<absl::StatusCode>(code)));
  const Json detail = {{"type", "object"},
                       {"description", "A message of google.rpc, such as ErrorInfo or BadRequest."},
                       {"additionalProperties", true},
                       {"properties", {{"@type", {{"type", "string"}}}}},
                       {"required", Json::array({"@type"})}};
  const Json error = {
      {"type", "object"},
      {"properties",
       {{"code", {{"type", "integer"}, {"description", "The HTTP status."}}},
        {"message", {{"type", "string"}, {"description", "Text for people."}}},
        {"status",
         {{"type", "string"}, {"enum", codes}, {"description", "The name of the gRPC code."}}},
        {"details", {{"type", "array"}, {"items", detail}}}}},
      {"required", Json::array({"code", "message", "status", "details"})}};
  return {
      {"type", "object"}, {"properties", {{"error", error}}}, {"required", Json::array({"error"})}};
}

Json ErrorResponse() {
  Json response = {{"description", "The request was refused or failed."}};
  response["headers"]["Retry-After"] = {
      {"description", "With 429 and 503: try again after this many seconds."},
      {"schema", {{"type", "integer"}}}};
  response["content"]["application/json"]["schema"] = {{"$ref", "#/components/schemas/Error"}};
  return response;
}

// Text that a tool would print for a file that does not build.
class FirstError : public DescriptorPool::ErrorCollector {
 public:
  void AddError(const std::string& file, const std::string& element,
                const google::protobuf::Message*, ErrorLocation,
                const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat(file, ": ", element, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Makes the operation ids of a document differ.
void MakeUnique(Json& operation, std::set<std::string>& taken) {
  const std::string name = operation["operationId"];
  for (int i = 2; !taken.insert(operation["operationId"]).second; ++i)
    operation["operationId"] = absl::StrCat(name, i);
}

}  // namespace

absl::StatusOr<std::string> OpenApiDocument(const google::protobuf::FileDescriptorSet& files,
                                            const std::vector<std::string>& services,
                                            const OpenApiInfo& info) {
  DescriptorPool pool;
  for (const auto& file : files.file()) {
    FirstError error;
    if (pool.BuildFileCollectingErrors(file, &error) == nullptr)
      return absl::InvalidArgumentError(error.text());
  }
  const auto table = RouteTable::Build(pool, services);
  if (!table.ok()) return table.status();

  Json document = {
      {"openapi", "3.1.0"},
      {"info",
       {{"title", info.title}, {"version", info.version}, {"description", info.description}}},
      {"servers", Json::array({{{"url", "/"}}})},
      {"tags", Json::array()},
      {"paths", Json::object()}};
  for (const std::string& name : services) {
    const auto* service = pool.FindServiceByName(name);
    Json tag = {{"name", TagOf(service)}};
    Describe(tag, CommentOf(service));
    document["tags"].push_back(std::move(tag));
  }
  JsonSchemas schemas(table->routes());
  std::set<std::string> operation_ids;
  for (const RestRoute& route : table->routes()) {
    auto operation = OperationOf(route, schemas);
    if (!operation.ok()) return operation.status();
    MakeUnique(*operation, operation_ids);
    document["paths"][OpenApiPath(route.path)][absl::AsciiStrToLower(route.http_method)] =
        *std::move(operation);
  }
  for (const RestRoute& route : table->line_routes()) {
    const auto line = info.line_messages.find(route.method->full_name());
    const auto* message =
        line == info.line_messages.end() ? nullptr : pool.FindMessageTypeByName(line->second);
    if (message == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(route.method->full_name(), ": no message for its lines"));
    }
    Json operation = LineOperationOf(route, *message, schemas);
    MakeUnique(operation, operation_ids);
    document["paths"][OpenApiPath(route.path)][absl::AsciiStrToLower(route.http_method)] =
        std::move(operation);
  }
  document["components"]["responses"]["Error"] = ErrorResponse();
  Json& components = document["components"]["schemas"];
  for (const auto& [name, schema] : schemas.components()) components[name] = schema;
  if (components.contains("Error"))
    return absl::InvalidArgumentError("the name Error is taken by the schema of errors");
  components["Error"] = ErrorSchema();
  return document.dump(2);
}

}  // namespace escapement::rest
