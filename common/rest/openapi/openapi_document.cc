#include "common/rest/openapi/openapi_document.h"

#include <google/protobuf/descriptor.h>

#include <map>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/rest/openapi/json_schema.h"
#include "common/rest/route_table.h"

namespace escapement::rest {

namespace {

using google::protobuf::DescriptorPool;

// The errors that ErrorAnswer writes (request_reader.h).
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

// Every operation takes a key, or none where the installation requires none.
void AddSecurity(Json& document) {
  document["security"] = Json::array({{{"apiKey", Json::array()}}, Json::object()});
  document["components"]["securitySchemes"]["apiKey"] = {
      {"type", "http"},
      {"scheme", "bearer"},
      {"description",
       "An API key of Escapement, or a token of an identity provider that the installation trusts. "
       "An installation that requires no credentials takes requests without one."}};
}

// Adds the examples of an operation's parameters and body. `left` are those of operations to come,
// by their id; "" has values of path parameters.
absl::Status AddExample(std::map<std::string, Json>& left, Json& operation) {
  const std::string id = operation["operationId"];
  const auto found = left.find(id);
  const Json example = found == left.end() ? Json::object() : found->second;
  Json values = example.value("parameters", Json::object());
  const Json& common = left[""];
  if (operation.contains("parameters")) {
    for (Json& parameter : operation["parameters"]) {
      const std::string name = parameter["name"];
      if (values.contains(name)) {
        parameter["example"] = values[name];
        values.erase(name);
      } else if (parameter["in"] == "path" && common.contains(name)) {
        parameter["example"] = common[name];
      }
    }
  }
  if (!values.empty())
    return absl::InvalidArgumentError(absl::StrCat(id, ": the example fits no parameter"));
  if (example.contains("body")) {
    if (!operation.contains("requestBody"))
      return absl::InvalidArgumentError(absl::StrCat(id, ": the example fits no body"));
    for (auto& [type, content] : operation["requestBody"]["content"].items())
      content["example"] = example["body"];
  }
  left.erase(id);
  return absl::OkStatus();
}

// OpenApiInfo::examples by the id of the operation; "" is there in any case.
absl::StatusOr<std::map<std::string, Json>> ExamplesById(const Json& examples) {
  std::map<std::string, Json> by_id = {{"", Json::object()}};
  if (!examples.is_array()) return absl::InvalidArgumentError("the examples are no list");
  for (const Json& example : examples) {
    if (!example.is_object()) return absl::InvalidArgumentError("an example is no object");
    const std::string id = example.value("operation", "");
    by_id[id] = id.empty() ? example.value("parameters", Json::object()) : example;
  }
  return by_id;
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
  ASSIGN_OR_RETURN(const auto table, RouteTable::Build(pool, services));

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
  JsonSchemas schemas(table.routes());
  std::set<std::string> operation_ids;
  ASSIGN_OR_RETURN(auto examples, ExamplesById(info.examples));
  for (const RestRoute& route : table.routes()) {
    ASSIGN_OR_RETURN(auto operation, OperationOf(route, schemas));
    MakeUnique(operation, operation_ids);
    RETURN_IF_ERROR(AddExample(examples, operation));
    document["paths"][OpenApiPath(route.path)][absl::AsciiStrToLower(route.http_method)] =
        std::move(operation);
  }
  for (const RestRoute& route : table.line_routes()) {
    const auto line = info.line_messages.find(route.method->full_name());
    const auto* message =
        line == info.line_messages.end() ? nullptr : pool.FindMessageTypeByName(line->second);
    if (message == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(route.method->full_name(), ": no message for its lines"));
    }
    Json operation = LineOperationOf(route, *message, schemas);
    MakeUnique(operation, operation_ids);
    RETURN_IF_ERROR(AddExample(examples, operation));
    document["paths"][OpenApiPath(route.path)][absl::AsciiStrToLower(route.http_method)] =
        std::move(operation);
  }
  examples.erase("");
  if (!examples.empty())
    return absl::InvalidArgumentError(absl::StrCat(examples.begin()->first, ": no such operation"));
  AddSecurity(document);
  document["components"]["responses"]["Error"] = ErrorResponse();
  Json& components = document["components"]["schemas"];
  for (const auto& [name, schema] : schemas.components()) components[name] = schema;
  if (components.contains("Error"))
    return absl::InvalidArgumentError("the name Error is taken by the schema of errors");
  components["Error"] = ErrorSchema();
  return document.dump(2);
}

namespace {

constexpr const char* kLines = "application/x-ndjson";

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// One thing of a collection: "policies" is of "policy".
std::string Singular(absl::string_view collection) {
  if (absl::ConsumeSuffix(&collection, "ies")) return absl::StrCat(collection, "y");
  absl::ConsumeSuffix(&collection, "s");
  return std::string(collection);
}

// The segments of a path with its parameters in braces.
std::vector<std::string> OpenApiSegments(const PathTemplate& path) {
  std::vector<std::string> segments = path.Segments();
  std::string before = "name";
  for (std::string& segment : segments) {
    if (segment.empty()) segment = absl::StrCat("{", Singular(before), "}");
    before = segment;
  }
  return segments;
}

// "CreateSchedule" as "Create schedule".
std::string Words(absl::string_view name) {
  std::string words;
  for (const char c : name) {
    if (absl::ascii_isupper(c) && !words.empty()) {
      absl::StrAppend(&words, " ");
      words.push_back(absl::ascii_tolower(c));
    } else {
      words.push_back(c);
    }
  }
  return words;
}

bool HasString(const Descriptor* message, const std::string& name) {
  const FieldDescriptor* field = message == nullptr ? nullptr : message->FindFieldByName(name);
  return field != nullptr && field->type() == FieldDescriptor::TYPE_STRING && !field->is_repeated();
}

// Whether a query parameter can hold a value of this field; see request_reader.h.
bool FitsQuery(const FieldDescriptor* field) {
  if (field->type() == FieldDescriptor::TYPE_BYTES || field->is_map()) return false;
  if (field->message_type() == nullptr) return true;
  const std::string& type = field->message_type()->full_name();
  return type == "google.protobuf.Timestamp" || type == "google.protobuf.Duration" ||
         type == "google.protobuf.FieldMask";
}

Json Parameter(absl::string_view in, absl::string_view name, bool required, const std::string& text,
               Json schema) {
  Json parameter = {{"name", std::string(name)}, {"in", std::string(in)}};
  Describe(parameter, text);
  if (required) parameter["required"] = true;
  parameter["schema"] = std::move(schema);
  return parameter;
}

Json Text() { return {{"type", "string"}}; }

void AddPathParameters(const RestRoute& route, Json& parameters) {
  std::vector<std::string> name;  // the resource's name, without "v1"
  for (const std::string& segment : OpenApiSegments(route.path)) {
    if (!name.empty() || segment != "v1") name.push_back(segment);
    if (segment[0] != '{') continue;
    const std::string text =
        absl::StrCat("Last part of the name `", absl::StrJoin(name, "/"), "`.");
    parameters.push_back(
        Parameter("path", segment.substr(1, segment.size() - 2), true, text, Text()));
  }
}

absl::Status AddQueryParameters(const RestRoute& route, JsonSchemas& schemas, Json& parameters) {
  if (route.body == "*") return absl::OkStatus();
  std::set<std::string> elsewhere = {route.body};
  for (const std::string& variable : route.path.Variables())
    elsewhere.insert(variable.substr(0, variable.find('.')));
  const Descriptor* input = route.method->input_type();
  for (int i = 0; i < input->field_count(); ++i) {
    const FieldDescriptor* field = input->field(i);
    if (elsewhere.contains(field->name())) continue;
    if (!FitsQuery(field)) {
      return absl::InvalidArgumentError(
          absl::StrCat(field->full_name(), " cannot be given in the query"));
    }
    const std::string text = FieldComment(field);
    Json parameter =
        Parameter("query", field->json_name(), SaysRequired(text), text, schemas.OfField(field));
    if (field->is_repeated()) {
      parameter["style"] = "form";
      parameter["explode"] = true;
    }
    parameters.push_back(std::move(parameter));
  }
  return absl::OkStatus();
}

void AddHeaders(const RestRoute& route, Json& parameters) {
  const Descriptor* input = route.method->input_type();
  if (HasString(input, "request_id")) {
    parameters.push_back(
        Parameter("header", "Idempotency-Key", false, "Another way to give `requestId`.", Text()));
  }
  // A new resource has no etag yet.
  const FieldDescriptor* body = input->FindFieldByName(route.body);
  const bool changes_body = body != nullptr && route.http_method != "POST";
  if (HasString(input, "etag") || (changes_body && HasString(body->message_type(), "etag"))) {
    parameters.push_back(Parameter("header", "If-Match", false,
                                   "Another way to give `etag`. The answer is 412 if it is not the "
                                   "current one.",
                                   Text()));
  }
  if (route.http_method == "GET" && HasString(route.method->output_type(), "etag")) {
    parameters.push_back(
        Parameter("header", "If-None-Match", false,
                  "The answer is 304, without a body, if this is the current etag.", Text()));
  }
}

Json Responses(const RestRoute& route, JsonSchemas& schemas) {
  Json success = {{"description", "Success."}};
  const bool has_etag = HasString(route.method->output_type(), "etag");
  if (has_etag) {
    success["headers"]["ETag"] = {{"description", "The etag of the resource, in quotes."},
                                  {"schema", Text()}};
  }
  success["content"]["application/json"]["schema"] = schemas.OfMessage(route.method->output_type());
  Json responses = {{"200", std::move(success)}};
  if (has_etag && route.http_method == "GET")
    responses["304"] = {{"description", "The resource still has the etag of If-None-Match."}};
  responses["default"] = {{"$ref", "#/components/responses/Error"}};
  return responses;
}

// Id, tag, summary and description.
Json Begin(const RestRoute& route) {
  const std::string& name = route.method->name();
  Json operation = {
      {"operationId", absl::StrCat(absl::AsciiStrToLower(name.substr(0, 1)), name.substr(1))},
      {"tags", Json::array({TagOf(route.method->service())})},
      {"summary", Words(name)}};
  Describe(operation, CommentOf(route.method));
  return operation;
}

}  // namespace

std::string OpenApiPath(const PathTemplate& path) {
  return absl::StrCat("/", absl::StrJoin(OpenApiSegments(path), "/"),
                      path.verb().empty() ? "" : ":", path.verb());
}

std::string TagOf(const google::protobuf::ServiceDescriptor* service) {
  return std::string(absl::StripSuffix(service->name(), "Service"));
}

Json LineOperationOf(const RestRoute& route, const google::protobuf::Descriptor& line,
                     JsonSchemas& schemas) {
  Json operation = Begin(route);
  Json parameters = Json::array();
  AddPathParameters(route, parameters);
  operation["parameters"] = std::move(parameters);
  operation["requestBody"] = {{"description", absl::StrCat("One ", line.name(), " on each line.")},
                              {"required", true}};
  operation["requestBody"]["content"][kLines]["schema"] = schemas.OfMessage(&line);
  const Json answer = {
      {"type", "object"},
      {"properties",
       {{"line", {{"type", "integer"}, {"description", "Number of the line; the first is 1."}}},
        {"name", {{"type", "string"}, {"description", "The resource of the line."}}},
        {"existing", {{"type", "boolean"}, {"description", "True if it existed already."}}},
        {"error", {{"$ref", "#/components/schemas/Error/properties/error"}}}}},
      {"required", Json::array({"line"})}};
  Json success = {{"description", "One line for each line of the body, in the same order."}};
  success["content"][kLines]["schema"] = answer;
  operation["responses"] = {{"200", std::move(success)},
                            {"default", {{"$ref", "#/components/responses/Error"}}}};
  return operation;
}

absl::StatusOr<Json> OperationOf(const RestRoute& route, JsonSchemas& schemas) {
  const FieldDescriptor* body = route.method->input_type()->FindFieldByName(route.body);
  if (body != nullptr && body->message_type() == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(route.method->full_name(), ": the body is no message"));
  }
  Json operation = Begin(route);
  Json parameters = Json::array();
  AddPathParameters(route, parameters);
  const absl::Status added = AddQueryParameters(route, schemas, parameters);
  if (!added.ok()) return added;
  AddHeaders(route, parameters);
  if (!parameters.empty()) operation["parameters"] = std::move(parameters);
  if (!route.body.empty()) {
    Json request;
    if (body != nullptr) Describe(request, CommentOf(body));
    request["required"] = schemas.BodyIsRequired(route);
    request["content"]["application/json"]["schema"] = schemas.OfBody(route);
    operation["requestBody"] = std::move(request);
  }
  operation["responses"] = Responses(route, schemas);
  return operation;
}

std::string CommentText(absl::string_view comment) {
  std::string text;
  absl::string_view separator;
  for (absl::string_view line : absl::StrSplit(comment, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) {
      if (!text.empty()) separator = "\n\n";
      continue;
    }
    if (separator == " " && absl::StartsWith(line, "- ")) separator = "\n";
    text.append(separator.data(), separator.size());
    text.append(line.data(), line.size());
    separator = " ";
  }
  return text;
}

std::string FieldComment(const google::protobuf::FieldDescriptor* field) {
  const std::string text = CommentOf(field);
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, "As in ")) return text;
  const size_t end = rest.find('.');
  if (end == absl::string_view::npos) return text;
  const auto* message = field->file()->pool()->FindMessageTypeByName(
      absl::StrCat(field->file()->package(), ".", rest.substr(0, end)));
  const auto* other = message == nullptr ? nullptr : message->FindFieldByName(field->name());
  if (other == nullptr || other == field) return text;
  return absl::StrCat(CommentOf(other), rest.substr(end + 1));
}

bool SaysRequired(absl::string_view text) {
  constexpr absl::string_view kRequired = "Required.";
  for (size_t at = text.find(kRequired); at != absl::string_view::npos;
       at = text.find(kRequired, at + 1)) {
    const bool opens = at == 0 || absl::EndsWith(text.substr(0, at), ". ") || text[at - 1] == '\n';
    const size_t end = at + kRequired.size();
    if (opens && (end == text.size() || absl::ascii_isspace(text[end]))) return true;
  }
  return false;
}

bool SaysOutputOnly(absl::string_view text) { return absl::StartsWith(text, "Output only"); }

}  // namespace escapement::rest
