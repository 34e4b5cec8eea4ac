#include "common/rest/request_reader.h"

#include "common/base/status_macros.h"
#include "common/status/errors.h"
#include "escapement/v1/run_service.pb.h"
#include "escapement/v1/schedule_service.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::rest {
namespace request_reader_test {

using testing::ElementsAre;
using testing::HasSubstr;

struct Call {
  std::string method;
  std::string path;
  std::string query = {};
  std::string body = {};
  std::string idempotency_key = {};
  std::string if_match = {};
};

template <typename Request>
absl::StatusOr<Request> Read(const Call& call) {
  static const RouteTable table =
      *RouteTable::Build(*google::protobuf::DescriptorPool::generated_pool(),
                         {"escapement.v1.ScheduleService", "escapement.v1.RunService"});
  auto found = table.Find(call.method, *RequestPath::Parse(call.path));
  EXPECT_NE(found.route, nullptr) << call.path;
  ASSIGN_OR_RETURN(auto message, ReadRequest(*found.route, {.bindings = found.bindings,
                                                            .query = call.query,
                                                            .body = call.body,
                                                            .idempotency_key = call.idempotency_key,
                                                            .if_match = call.if_match}));
  Request request;
  EXPECT_TRUE(request.ParseFromString(message));
  return request;
}

template <typename Request>
std::string BadField(const Call& call) {
  const auto request = Read<Request>(call);
  EXPECT_EQ(request.status().code(), absl::StatusCode::kInvalidArgument);
  const auto violations = FieldViolationsOf(request.status());
  return violations.empty() ? std::string() : violations[0].first;
}

const Call kCreate = {.method = "POST", .path = "/v1/tenants/a/schedules"};

TEST(ReadRequest, CreateTakesBodyQueryAndPath) {
  Call call = kCreate;
  call.query = "scheduleId=nightly&validate_only=true";
  call.body =
      R"({"displayName":"N","time_zone":"Europe/Berlin","eventCount":"7","labels":{"a":"b"}})";
  const auto request = Read<v1::CreateScheduleRequest>(call);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->parent(), "tenants/a");
  EXPECT_EQ(request->schedule_id(), "nightly");
  EXPECT_TRUE(request->validate_only());
  EXPECT_EQ(request->schedule().display_name(), "N");
  EXPECT_EQ(request->schedule().time_zone(), "Europe/Berlin");
  EXPECT_EQ(request->schedule().event_count(), 7);
}

TEST(ReadRequest, QueryTakesNumbersAndText) {
  const auto request = Read<v1::ListRunsRequest>(
      {.method = "GET",
       .path = "/v1/tenants/a/schedules/b/runs",
       .query = "pageSize=10&filter=state+%3D+FAILED&order_by=nominal_time%20desc"});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->page_size(), 10);
  EXPECT_EQ(request->filter(), "state = FAILED");
  EXPECT_EQ(request->order_by(), "nominal_time desc");
}

TEST(ReadRequest, UpdateMaskIsUnderstoodInBothSpellings) {
  const auto request = Read<v1::UpdateScheduleRequest>({.method = "PATCH",
                                                        .path = "/v1/tenants/a/schedules/b",
                                                        .query = "updateMask=displayName,time_zone",
                                                        .body = "{}"});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_THAT(request->update_mask().paths(), ElementsAre("display_name", "time_zone"));
  EXPECT_EQ(request->schedule().name(), "tenants/a/schedules/b");
}

TEST(ReadRequest, BodyThatContradictsThePathIsRefused) {
  Call update = {.method = "PATCH", .path = "/v1/tenants/a/schedules/b"};
  Call pause = {.method = "POST", .path = "/v1/tenants/a/schedules/b:pause"};
  update.body = pause.body = R"({"name":"tenants/a/schedules/b"})";
  EXPECT_EQ(Read<v1::UpdateScheduleRequest>(update)->schedule().name(), "tenants/a/schedules/b");
  EXPECT_EQ(Read<v1::PauseScheduleRequest>(pause)->name(), "tenants/a/schedules/b");
  update.body = pause.body = R"({"name":"tenants/a/schedules/c"})";
  EXPECT_EQ(BadField<v1::UpdateScheduleRequest>(update), "schedule.name");
  EXPECT_EQ(BadField<v1::PauseScheduleRequest>(pause), "name");
}

TEST(ReadRequest, RefusesByFieldName) {
  Call call = kCreate;
  call.body = R"({"nope":1})";
  EXPECT_EQ(BadField<v1::CreateScheduleRequest>(call), "body");
  for (const char* bad : {"[]", "{", "{} {}", "\"x\"", R"({"eventCount":"x"})", "{\"a\xff\":1}"}) {
    call.body = bad;
    EXPECT_EQ(BadField<v1::CreateScheduleRequest>(call), "body") << bad;
  }
  call.body = "{}";
  for (const auto& [query, field] :
       std::vector<std::pair<std::string, std::string>>{{"nope=1", "nope"},
                                                        {"parent=tenants/b", "parent"},
                                                        {"schedule.cron=x", "schedule.cron"},
                                                        {"validateOnly=yes", "validateOnly"},
                                                        {"scheduleId=a&scheduleId=b", "scheduleId"},
                                                        {"scheduleId=%zz", "query"}}) {
    call.query = query;
    EXPECT_EQ(BadField<v1::CreateScheduleRequest>(call), field) << query;
  }
}

TEST(ReadRequest, MethodWithoutBodyRefusesOne) {
  EXPECT_EQ(BadField<v1::GetScheduleRequest>(
                {.method = "GET", .path = "/v1/tenants/a/schedules/b", .body = "{}"}),
            "body");
}

TEST(ReadRequest, IdempotencyKeyIsTheRequestId) {
  Call call = kCreate;
  call.idempotency_key = "k1";
  EXPECT_EQ(Read<v1::CreateScheduleRequest>(call)->request_id(), "k1");
  call.query = "requestId=k1";
  EXPECT_EQ(Read<v1::CreateScheduleRequest>(call)->request_id(), "k1");
  call.query = "requestId=k2";
  EXPECT_EQ(BadField<v1::CreateScheduleRequest>(call), "request_id");
}

TEST(ReadRequest, IfMatchIsTheEtag) {
  EXPECT_EQ(
      Read<v1::UpdateScheduleRequest>(
          {.method = "PATCH", .path = "/v1/tenants/a/schedules/b", .body = "{}", .if_match = "e1"})
          ->schedule()
          .etag(),
      "e1");
  EXPECT_EQ(Read<v1::DeleteScheduleRequest>(
                {.method = "DELETE", .path = "/v1/tenants/a/schedules/b", .if_match = "e1"})
                ->etag(),
            "e1");
  EXPECT_EQ(BadField<v1::GetScheduleRequest>(
                {.method = "GET", .path = "/v1/tenants/a/schedules/b", .if_match = "e1"}),
            "If-Match");
}

}  // namespace request_reader_test
}  // namespace escapement::rest
