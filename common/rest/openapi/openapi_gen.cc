// openapi_gen <descriptors> <out> <service>... [<streaming RPC>=<message of a line>]...: writes the
// OpenAPI document of services.

#include <google/protobuf/descriptor.pb.h>

#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "common/rest/openapi/openapi_document.h"

namespace {

constexpr const char* kDescription =
    "The API of Escapement as REST/JSON. The same calls exist as gRPC (package escapement.v1).\n\n"
    "Descriptions name fields as the protos do: `page_size` is `pageSize` in JSON. Requests may "
    "have either spelling; unknown fields and fields that are given twice are refused. Answers "
    "have "
    "numbers, booleans, texts and lists even if they are 0, false or empty; messages and enums "
    "without a value are left out. 64-bit integers are strings in answers, and strings or numbers "
    "in requests. "
    "Times are RFC 3339 instants with at most 9 digits after the second. A body may be packed by "
    "gzip. It has at most 12 MiB. The header Request-Timeout limits a call to that many seconds.";

// Examples of bodies; the path gives the rest of the request.
const std::map<std::string, std::string>& Examples() {
  static const auto* const examples = new std::map<std::string, std::string>{
      {"escapement.v1.ScheduleService.CreateSchedule",
       R"({"cron": "0 9 * * MON-FRI", "timeZone": "Europe/Berlin",
           "target": {"http": {"uri": "https://service.example/reports"}},
           "payloadJson": {"report": "daily"},
           "retryPolicy": {"maxAttempts": 8, "minBackoff": "5s"}})"},
      {"escapement.v1.ScheduleService.UpdateSchedule", R"({"cron": "30 8 * * MON-FRI"})"},
      {"escapement.v1.ScheduleService.BatchCreateSchedules",
       R"({"requests": [{"scheduleId": "report-1", "schedule": {"cron": "0 9 * * *",
           "target": {"http": {"uri": "https://service.example/reports"}}}}]})"},
      {"escapement.v1.ScheduleService.BatchDeleteSchedules",
       R"({"requests": [{"name": "tenants/default/schedules/report-1"}]})"},
      {"escapement.v1.ScheduleService.PreviewSchedule",
       R"({"cron": "0 9 * * MON-FRI", "timeZone": "Europe/Berlin", "count": 5})"},
      {"escapement.v1.PolicyService.CreatePolicy",
       R"({"maxConcurrent": "10", "maxPerSecond": 5, "holdTimeout": "600s"})"},
      {"escapement.v1.EventService.CreateEvent",
       R"({"dueTime": "2030-01-31T09:00:00Z",
           "target": {"http": {"uri": "https://service.example/reminders"}},
           "payloadText": "Call back", "contentType": "text/plain"})"},
      {"escapement.v1.EventService.BatchCreateEvents",
       R"({"requests": [{"eventId": "reminder-1", "event": {"dueTime": "2030-01-31T09:00:00Z",
           "target": {"http": {"uri": "https://service.example/reminders"}},
           "payloadJson": {"user": 1}}}]})"},
      {"escapement.v1.EventService.BatchCancelEvents",
       R"({"filter": "name = \"reminder-*\" AND due_time < \"2030-02-01T00:00:00Z\""})"},
      {"escapement.v1.EventService.Ingest",
       R"({"dueTime": "2030-01-31T09:00:00Z",
           "target": {"http": {"uri": "https://service.example/reminders"}},
           "payloadJson": {"user": 1}})"},
      {"escapement.v1.TokenService.CompleteTokens",
       R"({"completions": [{"token": "the header Escapement-Token of the event",
                             "outcome": "SUCCEEDED"}]})"}};
  return *examples;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: openapi_gen <descriptors> <out> <service>... [<RPC>=<message>]...\n";
    return 2;
  }
  std::ifstream in(argv[1], std::ios::binary);
  google::protobuf::FileDescriptorSet files;
  if (!in || !files.ParseFromIstream(&in)) {
    std::cerr << "openapi_gen: cannot read " << argv[1] << "\n";
    return 1;
  }
  escapement::rest::OpenApiInfo info = {
      .title = "Escapement", .version = "v1", .description = kDescription, .examples = Examples()};
  std::vector<std::string> services;
  for (int i = 3; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    if (equals == std::string::npos) {
      services.push_back(argument);
    } else {
      info.line_messages.emplace(argument.substr(0, equals), argument.substr(equals + 1));
    }
  }
  const auto document = escapement::rest::OpenApiDocument(files, services, info);
  if (!document.ok()) {
    std::cerr << "openapi_gen: " << document.status() << "\n";
    return 1;
  }
  std::ofstream out(argv[2], std::ios::binary);
  out << *document << "\n";
  out.close();
  if (!out) {
    std::cerr << "openapi_gen: cannot write " << argv[2] << "\n";
    return 1;
  }
  return 0;
}
