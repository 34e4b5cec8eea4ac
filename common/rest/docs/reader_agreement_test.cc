// Compares the OpenAPI document with the reader of requests: the reader takes each parameter and
// each body field that the document names, one at a time.

#include <google/protobuf/descriptor.h>

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/rest/docs/docs_page.h"
#include "common/rest/request_reader.h"
#include "common/rest/route_table.h"
#include "escapement/v1/audit_service.pb.h"
#include "escapement/v1/calendar_service.pb.h"
#include "escapement/v1/cell_service.pb.h"
#include "escapement/v1/dead_letter_service.pb.h"
#include "escapement/v1/event_service.pb.h"
#include "escapement/v1/key_service.pb.h"
#include "escapement/v1/notification_service.pb.h"
#include "escapement/v1/operation_service.pb.h"
#include "escapement/v1/policy_service.pb.h"
#include "escapement/v1/run_service.pb.h"
#include "escapement/v1/schedule_service.pb.h"
#include "escapement/v1/store_service.pb.h"
#include "escapement/v1/target_service.pb.h"
#include "escapement/v1/tenant_service.pb.h"
#include "escapement/v1/token_service.pb.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace escapement::rest {
namespace reader_agreement_test {

using nlohmann::json;

const RouteTable& Routes() {
  v1::GetScheduleRequest::descriptor();  // links the files
  v1::GetPolicyRequest::descriptor();
  v1::GetEventRequest::descriptor();
  v1::GetRunRequest::descriptor();
  v1::CompleteTokensRequest::descriptor();
  v1::GetClockRequest::descriptor();
  v1::GetTenantRequest::descriptor();
  v1::GetKeyRequest::descriptor();
  v1::ListAuditEntriesRequest::descriptor();
  v1::GetTargetRequest::descriptor();
  v1::GetDeadLetterRequest::descriptor();
  v1::GetOperationRequest::descriptor();
  v1::GetCalendarRequest::descriptor();
  v1::GetSubscriptionRequest::descriptor();
  v1::GetCellRequest::descriptor();
  static const RouteTable table = *RouteTable::Build(
      *google::protobuf::DescriptorPool::generated_pool(),
      {"escapement.v1.ScheduleService", "escapement.v1.PolicyService", "escapement.v1.EventService",
       "escapement.v1.RunService", "escapement.v1.TokenService", "escapement.v1.StoreService",
       "escapement.v1.TenantService", "escapement.v1.KeyService", "escapement.v1.AuditService",
       "escapement.v1.TargetService", "escapement.v1.DeadLetterService",
       "escapement.v1.OperationService", "escapement.v1.CalendarService",
       "escapement.v1.StatisticsService", "escapement.v1.NotificationService",
       "escapement.v1.CellService"});
  return table;
}

// The path with "x" for each parameter.
std::string Filled(const std::string& path) {
  std::string filled;
  bool in_braces = false;
  for (const char c : path) {
    if (c == '{') filled.push_back('x');
    if (c == '{' || c == '}') in_braces = c == '{';
    if (!in_braces && c != '}') filled.push_back(c);
  }
  return filled;
}

std::string Sample(const json& schema) {
  const std::string type = schema.at("type");
  if (type == "boolean") return "true";
  if (schema.contains("pattern")) return "1.5s";
  const std::string format = schema.value("format", "");
  if (format == "date-time") return "2026-11-25T10:00:00Z";
  return type == "string" && format.empty() ? "name" : "1";
}

absl::Status Read(const std::string& method, const std::string& path, RestRequest request) {
  auto found = Routes().Find(absl::AsciiStrToUpper(method), *RequestPath::Parse(Filled(path)));
  if (found.route == nullptr) return absl::NotFoundError(Filled(path));
  request.bindings = found.bindings;
  return ReadRequest(*found.route, request).status();
}

TEST(OpenApiJson, ReaderTakesAllThatItNames) {
  const json document = json::parse(OpenApiJson());
  int parameters = 0;
  int fields = 0;
  int examples = 0;
  for (const auto& [path, operations] : document.at("paths").items()) {
    for (const auto& [method, operation] : operations.items()) {
      SCOPED_TRACE(absl::StrCat(method, " ", path));
      // Lines of JSON are read by services/master/ingest.
      if (operation.at("operationId") == "ingest") continue;
      EXPECT_TRUE(Read(method, path, {}).ok()) << Read(method, path, {});
      for (const json& parameter : operation.value("parameters", json::array())) {
        const std::string name = parameter.at("name");
        RestRequest request;
        std::string query;
        if (parameter.at("in") == "query")
          query = absl::StrCat(name, "=", Sample(parameter.at("schema")));
        request.query = query;
        if (name == "Idempotency-Key") request.idempotency_key = "k";
        if (name == "If-Match") request.if_match = "e";
        EXPECT_TRUE(Read(method, path, request).ok()) << name << Read(method, path, request);
        ++parameters;
      }
      if (!operation.contains("requestBody")) continue;
      if (const json::json_pointer to_example("/requestBody/content/application~1json/example");
          operation.contains(to_example)) {
        const std::string body = operation.at(to_example).dump();
        RestRequest request;
        request.body = body;
        EXPECT_TRUE(Read(method, path, request).ok()) << body << Read(method, path, request);
        ++examples;
      }
      const json::json_pointer to_ref("/requestBody/content/application~1json/schema/$ref");
      const std::string ref = operation.at(to_ref);
      const json schema = document.at(json::json_pointer(ref.substr(1)));
      for (const auto& property : schema.at("properties").items()) {
        // JSON null is an unset field of any type, and refused for an unknown name.
        const std::string body = json{{property.key(), nullptr}}.dump();
        RestRequest request;
        request.body = body;
        EXPECT_TRUE(Read(method, path, request).ok()) << body << Read(method, path, request);
        ++fields;
      }
    }
  }
  EXPECT_GT(parameters, 80);
  EXPECT_GT(fields, 100);
  EXPECT_GT(examples, 5);
  RestRequest unknown;
  unknown.body = R"({"nothing":null})";
  EXPECT_FALSE(Read("post", "/v1/schedules:preview", unknown).ok());
}

}  // namespace reader_agreement_test
}  // namespace escapement::rest
