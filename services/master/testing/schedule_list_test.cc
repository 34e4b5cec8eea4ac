// ListSchedules with filter and order_by, through the API.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status/errors.h"
#include "common/storage/schedule_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace schedule_list_test {

using kv::ColumnFamily;
using testing::ElementsAre;
using testing::IsEmpty;
using Ids = std::vector<std::string>;

class ScheduleListTest : public testing::Test {
 protected:
  void Make(const std::string& id, const std::map<std::string, std::string>& labels = {}) {
    v1::CreateScheduleRequest request = ValidSchedule(id);
    for (const auto& [key, value] : labels)
      (*request.mutable_schedule()->mutable_labels())[key] = value;
    const auto made = world_.Call(&ScheduleApi::CreateSchedule, request);
    ASSERT_TRUE(made.ok()) << made.status();
  }
  void SetLabels(const std::string& id, const std::map<std::string, std::string>& labels) {
    v1::UpdateScheduleRequest request;
    request.mutable_schedule()->set_name("tenants/default/schedules/" + id);
    for (const auto& [key, value] : labels)
      (*request.mutable_schedule()->mutable_labels())[key] = value;
    request.mutable_update_mask()->add_paths("labels");
    const auto updated = world_.Call(&ScheduleApi::UpdateSchedule, request);
    ASSERT_TRUE(updated.ok()) << updated.status();
  }
  // The ids of all pages.
  Ids List(const std::string& filter, const std::string& order_by = "", int page_size = 2) {
    v1::ListSchedulesRequest request;
    request.set_parent("tenants/default");
    request.set_page_size(page_size);
    request.set_filter(filter);
    request.set_order_by(order_by);
    Ids ids;
    pages_ = 0;
    do {
      const auto page = world_.Call(&ScheduleApi::ListSchedules, request);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) break;
      EXPECT_LE(page->schedules_size(), page_size);
      for (const v1::Schedule& schedule : page->schedules()) {
        absl::string_view id = schedule.name();
        absl::ConsumePrefix(&id, "tenants/default/schedules/");
        ids.emplace_back(id);
      }
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty() && ++pages_ < 1000);
    return ids;
  }
  size_t LabelRows() const { return world_.Rows(ColumnFamily::kLabels).size(); }

  MasterWorld world_;
  int pages_ = 0;
};

TEST_F(ScheduleListTest, OrdersByNameBothWays) {
  for (const char* id : {"c", "a", "e", "b", "d"}) Make(id);
  EXPECT_THAT(List(""), ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_THAT(List("", "name"), ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_THAT(List("", "name desc"), ElementsAre("e", "d", "c", "b", "a"));
  EXPECT_THAT(List("", "name desc", 5), ElementsAre("e", "d", "c", "b", "a"));
  EXPECT_EQ(pages_, 0);
  EXPECT_THAT(List("NOT name = c", "name desc"), ElementsAre("e", "d", "b", "a"));
}

TEST_F(ScheduleListTest, FindsNamesByTheirBegin) {
  for (const char* id : {"n", "night", "night-1", "night-2", "nightly", "noon", "nz"}) Make(id);
  EXPECT_THAT(List("name = \"night*\""), ElementsAre("night", "night-1", "night-2", "nightly"));
  EXPECT_THAT(List("name = \"night-*\"", "name desc"), ElementsAre("night-2", "night-1"));
  EXPECT_THAT(List("name = night"), ElementsAre("night"));
  EXPECT_THAT(List("name = \"zz*\""), IsEmpty());
}

TEST_F(ScheduleListTest, FindsLabelsByTheirIndex) {
  Make("a", {{"team", "x"}, {"env", "prod"}});
  Make("b", {{"team", "y"}});
  Make("c", {{"team", "x"}});
  Make("d");
  EXPECT_EQ(LabelRows(), 4u);
  EXPECT_THAT(List("labels.team = x"), ElementsAre("a", "c"));
  EXPECT_THAT(List("labels.team = x", "name desc", 1), ElementsAre("c", "a"));
  EXPECT_THAT(List("labels.team = x AND labels.env = prod"), ElementsAre("a"));
  EXPECT_THAT(List("labels.team = x AND name = \"c*\""), ElementsAre("c"));
  EXPECT_THAT(List("labels.team = x OR labels.team = y"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(List("labels:team AND NOT labels.team = y"), ElementsAre("a", "c"));
  EXPECT_THAT(List("labels.team = z"), IsEmpty());
}

TEST_F(ScheduleListTest, TheIndexFollowsChangesAndDeletion) {
  Make("a", {{"team", "x"}, {"env", "prod"}});
  SetLabels("a", {{"team", "y"}, {"tier", "1"}});
  EXPECT_EQ(LabelRows(), 2u);
  EXPECT_THAT(List("labels.team = x"), IsEmpty());
  EXPECT_THAT(List("labels.env = prod"), IsEmpty());
  EXPECT_THAT(List("labels.team = y"), ElementsAre("a"));
  EXPECT_THAT(List("labels.tier = 1"), ElementsAre("a"));
  SetLabels("a", {});
  EXPECT_EQ(LabelRows(), 0u);
  SetLabels("a", {{"team", "x"}});
  v1::DeleteScheduleRequest request;
  request.set_name("tenants/default/schedules/a");
  ASSERT_TRUE(world_.Call(&ScheduleApi::DeleteSchedule, request).ok());
  EXPECT_EQ(LabelRows(), 0u);
}

// Rows without state or definition cost a search as much as others.
TEST_F(ScheduleListTest, APageExaminesABoundedNumber) {
  storage::v1::ScheduleRecord record;
  record.set_uid(std::string(16, 'u'));
  for (size_t i = 0; i < kListExaminedMax + 100; ++i) {
    world_.Put(ColumnFamily::kSchedules, ScheduleKey("default", absl::StrCat("g", 100'000 + i)),
               record.SerializeAsString());
  }
  Make("z");
  v1::ListSchedulesRequest request;
  request.set_parent("tenants/default");
  request.set_filter("state = ENABLED");
  const auto first = world_.Call(&ScheduleApi::ListSchedules, request);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->schedules_size(), 0);
  EXPECT_NE(first->next_page_token(), "");
  EXPECT_THAT(List("state = ENABLED"), ElementsAre("z"));
  EXPECT_EQ(pages_, 1);
}

TEST_F(ScheduleListTest, RefusesOthersTokensFiltersAndOrders) {
  for (const char* id : {"a", "b", "c"}) Make(id);
  v1::ListSchedulesRequest request;
  request.set_parent("tenants/default");
  request.set_page_size(1);
  request.set_filter("state = ENABLED");
  const auto page = world_.Call(&ScheduleApi::ListSchedules, request);
  ASSERT_TRUE(page.ok()) << page.status();
  request.set_page_token(page->next_page_token());
  const auto refused = [&](const char* field) {
    const absl::Status status = world_.Call(&ScheduleApi::ListSchedules, request).status();
    ASSERT_EQ(FieldViolationsOf(status).size(), 1u) << status;
    EXPECT_EQ(FieldViolationsOf(status)[0].first, field);
  };
  request.set_filter("state = PAUSED");
  refused("page_token");
  request.set_filter("state = ENABLED");
  request.set_order_by("name desc");
  refused("page_token");
  request.clear_page_token();
  request.set_order_by("next_time");
  refused("order_by");
  request.clear_order_by();
  request.set_filter("state =");
  refused("filter");
}

}  // namespace schedule_list_test
}  // namespace escapement::master
