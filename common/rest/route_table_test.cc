#include "common/rest/route_table.h"

#include "escapement/v1/event_service.pb.h"
#include "escapement/v1/schedule_service.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::rest {
namespace route_table_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

RouteTable Table() {
  v1::GetScheduleRequest::descriptor();  // links the file
  v1::GetEventRequest::descriptor();
  return *RouteTable::Build(*google::protobuf::DescriptorPool::generated_pool(),
                            {"escapement.v1.ScheduleService", "escapement.v1.EventService"});
}

RouteTable::Found Find(const RouteTable& table, absl::string_view method, absl::string_view path) {
  return table.Find(method, *RequestPath::Parse(path));
}

TEST(RouteTable, FindsTheMethodOfEachAnnotation) {
  const RouteTable table = Table();
  const auto got = Find(table, "GET", "/v1/tenants/a/schedules/b");
  ASSERT_NE(got.route, nullptr);
  EXPECT_EQ(got.route->grpc_path, "/escapement.v1.ScheduleService/GetSchedule");
  EXPECT_THAT(got.bindings, ElementsAre(Pair("name", "tenants/a/schedules/b")));
  const auto patch = Find(table, "PATCH", "/v1/tenants/a/schedules/b");
  ASSERT_NE(patch.route, nullptr);
  EXPECT_EQ(patch.route->body, "schedule");
  EXPECT_THAT(patch.bindings, ElementsAre(Pair("schedule.name", "tenants/a/schedules/b")));
  const auto preview = Find(table, "POST", "/v1/schedules:preview");
  ASSERT_NE(preview.route, nullptr);
  EXPECT_EQ(preview.route->method->name(), "PreviewSchedule");
}

TEST(RouteTable, KnownPathWithAnotherMethodNamesThoseItHas) {
  const RouteTable table = Table();
  EXPECT_EQ(Find(table, "PUT", "/v1/tenants/a/schedules/b").allowed, "DELETE, GET, PATCH");
  const auto none = Find(table, "GET", "/v1/tenants/a/nothing");
  EXPECT_EQ(none.route, nullptr);
  EXPECT_THAT(none.allowed, IsEmpty());
}

TEST(RouteTable, StreamsHaveNoRoute) {
  const RouteTable table = Table();
  for (const RestRoute& route : table.routes()) {
    EXPECT_FALSE(route.method->client_streaming()) << route.grpc_path;
  }
}

TEST(RouteTable, UnknownServiceIsRefused) {
  EXPECT_FALSE(
      RouteTable::Build(*google::protobuf::DescriptorPool::generated_pool(), {"no.Service"}).ok());
}

}  // namespace route_table_test
}  // namespace escapement::rest
