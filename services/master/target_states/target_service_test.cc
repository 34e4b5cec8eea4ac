// ListTargets and GetTarget, from the rows that handlers write.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/name_tables.h"
#include "escapement/storage/v1/target_records.pb.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace target_service_test {

using storage::v1::TargetStateRecord;
using v1::TargetStatus;

constexpr char kEndpoint[] = "http:https://a.example";

class TargetServiceTest : public testing::Test {
 protected:
  // A row that was written just now.
  storage::v1::TargetRowRecord Row(const std::string& key, TargetStateRecord::Breaker breaker) {
    storage::v1::TargetRowRecord row;
    row.mutable_state()->set_target_key(key);
    row.mutable_state()->set_breaker(breaker);
    row.mutable_state()->set_update_time_micros(ToMicros(world_.Now()));
    return row;
  }
  void Put(const std::string& tenant, const std::string& key, const std::string& handler,
           const storage::v1::TargetRowRecord& row) {
    world_.Put(
        kv::ColumnFamily::kTargetStates,
        EncodeTargetRowKey({.tenant = tenant, .target = TargetIdOf(key), .handler = handler}),
        row.SerializeAsString());
  }
  std::string NameOf(const std::string& tenant, const std::string& key) {
    return absl::StrCat("tenants/", tenant, "/targets/", TargetIdOf(key).ToHex());
  }
  absl::StatusOr<TargetStatus> Get(const std::string& name) {
    v1::GetTargetRequest request;
    request.set_name(name);
    return world_.Call(&TargetService::GetTarget, request);
  }
  // All pages. Returns "transport endpoint" of each target.
  std::vector<std::string> List(const std::string& tenant, int page_size, int* pages = nullptr) {
    std::vector<std::string> targets;
    v1::ListTargetsRequest request;
    request.set_parent("tenants/" + tenant);
    request.set_page_size(page_size);
    do {
      const auto page = world_.Call(&TargetService::ListTargets, request);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) break;
      for (const TargetStatus& target : page->targets())
        targets.push_back(absl::StrCat(target.transport(), " ", target.endpoint()));
      request.set_page_token(page->next_page_token());
      if (pages != nullptr) ++*pages;
    } while (!request.page_token().empty());
    return targets;
  }

  MasterWorld world_;
};

TEST_F(TargetServiceTest, HandlersAreSummed) {
  storage::v1::TargetRowRecord a = Row(kEndpoint, TargetStateRecord::HALF_OPEN);
  const int64_t now = ToMicros(world_.Now());
  a.set_down_since_micros(now - 50'000'000);
  a.set_in_flight_max(256);
  a.mutable_state()->set_open_until_micros(now - 1'000'000);
  a.mutable_state()->set_in_flight(1);
  a.mutable_state()->set_attempts(30);
  a.mutable_state()->set_failures(30);
  a.mutable_state()->set_measured_micros(45'000'000);
  a.mutable_state()->set_last_error("HTTP 503");
  a.mutable_state()->set_last_error_time_micros(now - 2'000'000);
  Put("default", kEndpoint, "handler-1", a);
  storage::v1::TargetRowRecord b = Row(kEndpoint, TargetStateRecord::CLOSED);
  b.set_in_flight_max(100);
  b.mutable_state()->set_in_flight(9);
  b.mutable_state()->set_attempts(70);
  b.mutable_state()->set_failures(5);
  b.mutable_state()->set_last_error("timeout");
  b.mutable_state()->set_last_error_time_micros(now - 1'000'000);
  Put("default", kEndpoint, "handler-2", b);

  const auto target = Get(NameOf("default", kEndpoint));
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->name(), NameOf("default", kEndpoint));
  EXPECT_EQ(target->transport(), "http");
  EXPECT_EQ(target->endpoint(), "https://a.example");
  EXPECT_EQ(target->state(), TargetStatus::HALF_OPEN);
  EXPECT_EQ(target->in_flight(), 10);
  EXPECT_EQ(target->in_flight_max(), 356);
  EXPECT_EQ(target->attempt_count(), 100);
  EXPECT_EQ(target->failure_count(), 35);
  EXPECT_DOUBLE_EQ(target->error_rate(), 0.35);
  EXPECT_EQ(target->last_error(), "timeout");
  EXPECT_EQ(target->down_since_time().seconds(), (now - 50'000'000) / 1'000'000);
  EXPECT_EQ(target->next_probe_time().seconds(), (now - 1'000'000) / 1'000'000);
  ASSERT_EQ(target->handlers_size(), 2);
  EXPECT_EQ(target->handlers(0).handler(), "handler-1");
  EXPECT_EQ(target->handlers(0).state(), TargetStatus::HALF_OPEN);
  EXPECT_EQ(target->handlers(0).last_error(), "HTTP 503");
  EXPECT_EQ(target->handlers(0).measured_duration().seconds(), 45);
  EXPECT_EQ(target->handlers(1).state(), TargetStatus::CLOSED);
  EXPECT_FALSE(target->handlers(1).has_down_since_time());
  EXPECT_FALSE(target->handlers(1).has_next_probe_time());
  Put("default", kEndpoint, "handler-3", Row(kEndpoint, TargetStateRecord::OPEN));
  EXPECT_EQ(Get(NameOf("default", kEndpoint))->state(), TargetStatus::OPEN);
}

TEST_F(TargetServiceTest, TenantsSeeOnlyTheirOwnTargets) {
  Put("default", kEndpoint, "h", Row(kEndpoint, TargetStateRecord::CLOSED));
  Put("acme", "grpc:theirs", "h", Row("grpc:theirs", TargetStateRecord::OPEN));
  EXPECT_EQ(List("default", 0), std::vector<std::string>{"http https://a.example"});
  EXPECT_EQ(List("acme", 0), std::vector<std::string>{"grpc theirs"});
  EXPECT_TRUE(Get(NameOf("acme", "grpc:theirs")).ok());
  EXPECT_TRUE(absl::IsNotFound(Get(NameOf("default", "grpc:theirs")).status()));
}

TEST_F(TargetServiceTest, PagesGoThroughAllTargetsOnce) {
  for (int i = 0; i < 25; ++i) {
    const std::string key = absl::StrCat("ping:http://host-", i);
    Put("default", key, "a", Row(key, TargetStateRecord::CLOSED));
    Put("default", key, "b", Row(key, TargetStateRecord::CLOSED));
  }
  const std::vector<std::string> all = List("default", 0);
  EXPECT_EQ(all.size(), 25u);
  int pages = 0;
  EXPECT_EQ(List("default", 4, &pages), all);
  EXPECT_EQ(pages, 7);
  pages = 0;
  EXPECT_EQ(List("default", 25, &pages), all);
  EXPECT_EQ(pages, 1);
}

TEST_F(TargetServiceTest, RowsOfDeadHandlersVanish) {
  Put("default", kEndpoint, "dead", Row(kEndpoint, TargetStateRecord::OPEN));
  world_.runtime.AdvanceBy(kTargetRowValidFor - absl::Seconds(10));
  Put("default", kEndpoint, "alive", Row(kEndpoint, TargetStateRecord::CLOSED));
  EXPECT_EQ(Get(NameOf("default", kEndpoint))->state(), TargetStatus::OPEN);
  world_.runtime.AdvanceBy(absl::Seconds(20));
  const auto target = Get(NameOf("default", kEndpoint));
  EXPECT_EQ(target->state(), TargetStatus::CLOSED);
  ASSERT_EQ(target->handlers_size(), 1);
  EXPECT_EQ(target->handlers(0).handler(), "alive");
  // The sweep deletes them, once all are old.
  world_.runtime.AdvanceBy(absl::Minutes(11));
  EXPECT_TRUE(absl::IsNotFound(Get(NameOf("default", kEndpoint)).status()));
  EXPECT_TRUE(List("default", 0).empty());
  EXPECT_TRUE(world_.Rows(kv::ColumnFamily::kTargetStates).empty());
}

TEST_F(TargetServiceTest, ResetIsARowOfTheTargetForAllTenants) {
  Put("default", kEndpoint, "h", Row(kEndpoint, TargetStateRecord::OPEN));
  v1::ResetTargetRequest request;
  request.set_name(NameOf("default", kEndpoint));
  const auto target = world_.Call(&TargetService::ResetTarget, request);
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->state(), TargetStatus::OPEN);
  const std::string key =
      EncodeTargetRowKey({.tenant = "", .target = TargetIdOf(kEndpoint), .handler = ""});
  storage::v1::TargetRowRecord row;
  ASSERT_TRUE(row.ParseFromString(world_.Rows(kv::ColumnFamily::kTargetStates).at(key)));
  EXPECT_NEAR(static_cast<double>(row.state().update_time_micros()),
              static_cast<double>(ToMicros(world_.Now())), 1000.0);
  // No list shows it.
  EXPECT_EQ(List("default", 0).size(), 1u);
  // A target of somebody else is none.
  request.set_name(NameOf("acme", kEndpoint));
  EXPECT_TRUE(absl::IsNotFound(world_.Call(&TargetService::ResetTarget, request).status()));
}

TEST_F(TargetServiceTest, WrongNamesAndTokensAreRefused) {
  for (const char* name : {"", "tenants/default", "tenants/default/targets/x",
                           "tenants/default/targets/ABCDEFABCDEFABCDEFABCDEFABCDEFAB"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Get(name).status())) << name;
  }
  v1::ListTargetsRequest request;
  request.set_parent("tenants/default");
  request.set_page_token("AAAA");
  request.set_page_size(-1);
  const auto refused = world_.Call(&TargetService::ListTargets, request);
  EXPECT_EQ(FieldViolationsOf(refused.status()).size(), 2u);
}

}  // namespace target_service_test
}  // namespace escapement::master
