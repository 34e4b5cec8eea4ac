// ForecastLoad through the API. load_forecast_test has the counts.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/status/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"
#include "services/master/testing/master_world.h"
#include "services/master/testing/schedule_world.h"

namespace escapement::master {
namespace schedule_forecast_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ScheduleForecastTest : public ::testing::Test {
 protected:
  ScheduleForecastTest() {
    request_.set_parent("tenants/default");
    request_.mutable_duration()->set_seconds(3600);
  }

  void Make(const std::string& id, const std::string& cron,
            const std::function<void(v1::Schedule&)>& change = nullptr) {
    v1::CreateScheduleRequest request = ValidSchedule(id, cron);
    if (change) change(*request.mutable_schedule());
    const auto made = world_.Call(&ScheduleApi::CreateSchedule, request);
    ASSERT_TRUE(made.ok()) << made.status();
  }
  // Copies of one schedule, with the ids 0, 1 and so on.
  void MakeMany(int count, const v1::Schedule& schedule) {
    for (int i = 0; i < count;) {
      v1::BatchCreateSchedulesRequest batch;
      batch.set_parent("tenants/default");
      for (; i < count && batch.requests_size() < kBatchSchedulesMax; ++i) {
        batch.add_requests()->set_schedule_id(absl::StrCat(i));
        *batch.mutable_requests()->rbegin()->mutable_schedule() = schedule;
      }
      const auto made = world_.Call(&ScheduleApi::BatchCreateSchedules, batch);
      ASSERT_TRUE(made.ok()) << made.status();
      for (const v1::ScheduleResult& result : made->results())
        ASSERT_TRUE(result.has_schedule()) << result.error().message();
    }
  }
  v1::ForecastLoadResponse Forecast() {
    const auto answer = world_.Call(&ScheduleApi::ForecastLoad, request_);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.value_or(v1::ForecastLoadResponse());
  }
  std::vector<std::string> GroupsBy(const std::string& group_by) {
    request_.set_group_by(group_by);
    std::vector<std::string> groups;
    const v1::ForecastLoadResponse forecast = Forecast();
    for (const auto& group : forecast.groups())
      groups.push_back(
          absl::StrCat(group.key(), ":", group.event_count(), "/", group.schedule_count()));
    return groups;
  }

  MasterWorld world_;
  v1::ForecastLoadRequest request_;
};

TEST_F(ScheduleForecastTest, GroupsByPolicyTargetAndLabel) {
  const std::string policy = PutPolicy(world_, "gentle");
  Make("a", "20 * * * *", [&](v1::Schedule& schedule) {
    schedule.set_policy(policy);
    schedule.set_event_count(50);
    (*schedule.mutable_labels())["team"] = "red";
  });
  Make("b", "21,22 * * * *", [](v1::Schedule& schedule) {
    schedule.mutable_target()->mutable_http()->set_uri("https://example.org/path?secret=1");
    (*schedule.mutable_labels())["team"] = "blue";
    (*schedule.mutable_labels())["team.of"] = "x";
  });
  Make("c", "23 * * * *", [](v1::Schedule& schedule) {
    schedule.mutable_target()->mutable_grpc()->set_uri("dns:///example.org:50051");
    schedule.set_event_count(3);
  });
  EXPECT_THAT(GroupsBy("policy"), ElementsAre("gentle:50/1", ":5/2"));
  EXPECT_THAT(GroupsBy("target"),
              ElementsAre("http:http://127.0.0.1:8080:50/1", "grpc:dns:///example.org:50051:3/1",
                          "http:https://example.org:2/1"));
  EXPECT_THAT(GroupsBy("labels.team"), ElementsAre("red:50/1", ":3/1", "blue:2/1"));
  EXPECT_THAT(GroupsBy("labels.team.of"), ElementsAre(":53/2", "x:2/1"));
  EXPECT_THAT(GroupsBy(""), IsEmpty());
  EXPECT_EQ(Forecast().event_count(), 55);
}

TEST_F(ScheduleForecastTest, CountsEnabledSchedulesThatTheFilterMatches) {
  Make("on", "20 * * * *");
  Make("other", "20 * * * *", [](v1::Schedule& s) { (*s.mutable_labels())["team"] = "red"; });
  Make("paused", "20 * * * *");
  v1::PauseScheduleRequest pause;
  pause.set_name("tenants/default/schedules/paused");
  ASSERT_TRUE(world_.Call(&ScheduleApi::PauseSchedule, pause).ok());
  EXPECT_EQ(Forecast().schedule_count(), 2);
  for (const char* filter : {"labels.team = red", "name = \"ot*\"", "NOT name = on"}) {
    request_.set_filter(filter);
    EXPECT_EQ(Forecast().schedule_count(), 1) << filter;
  }
  request_.set_filter("state = PAUSED");
  EXPECT_EQ(Forecast().schedule_count(), 0);
}

TEST_F(ScheduleForecastTest, CountsAllOfManySchedules) {
  MakeMany(2300, ValidSchedule("", "10 * * * *").schedule());
  const std::string before = world_.Dump();
  const auto all = Forecast();
  EXPECT_EQ(all.schedule_count(), 2300);
  EXPECT_EQ(all.events_per_minute(10), 2300);
  ASSERT_EQ(all.busy_minutes_size(), 1);
  EXPECT_EQ(all.busy_minutes(0).sources(0).schedule(), "tenants/default/schedules/0");
  request_.set_filter("name = \"1*\"");
  EXPECT_EQ(Forecast().schedule_count(), 1 + 10 + 100 + 1000);
  EXPECT_EQ(world_.Dump(), before);
}

TEST_F(ScheduleForecastTest, RefusesWrongRequests) {
  request_.set_group_by("size");
  request_.mutable_duration()->set_seconds(1);
  const auto refused = world_.Call(&ScheduleApi::ForecastLoad, request_);
  std::vector<std::string> fields;
  for (const auto& [field, description] : FieldViolationsOf(refused.status()))
    fields.push_back(field);
  EXPECT_THAT(fields, ElementsAre("duration", "group_by"));
  request_.set_parent("tenants");
  EXPECT_EQ(world_.Call(&ScheduleApi::ForecastLoad, request_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ScheduleForecastTest, RefusesMoreThanSomeAtOnce) {
  Make("a", "20 * * * *");
  int answered = 0;
  std::vector<absl::Status> refused;
  for (int i = 0; i < kForecastsAtOnceMax + 2; ++i) {
    world_.master->schedules().ForecastLoad(
        request_, [&](const absl::StatusOr<v1::ForecastLoadResponse>& answer) {
          answer.ok() ? void(++answered) : refused.push_back(answer.status());
        });
  }
  world_.runtime.AdvanceBy(absl::Seconds(5));
  EXPECT_EQ(answered, kForecastsAtOnceMax);
  ASSERT_EQ(refused.size(), 2u);
  EXPECT_EQ(ErrorReason(refused[0]), "TOO_MANY_FORECASTS");
  EXPECT_TRUE(RetryDelayOf(refused[0]).has_value());
  EXPECT_EQ(Forecast().schedule_count(), 1);  // there is room again
}

// Each second of the interval is a step, though none of them fires before 2027.
TEST_F(ScheduleForecastTest, RefusesTooMuchWorkAndAnswersLess) {
  v1::Schedule schedule = ValidSchedule("", "").schedule();
  schedule.mutable_interval()->mutable_every()->set_seconds(1);
  schedule.add_exclusions("* * * * * * 2026");
  MakeMany(800, schedule);
  request_.mutable_duration()->set_seconds(72 * 3600);
  const auto refused = world_.Call(&ScheduleApi::ForecastLoad, request_);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReason(refused.status()), "FORECAST_TOO_LARGE");
  request_.mutable_duration()->set_seconds(3600);
  EXPECT_EQ(Forecast().event_count(), 0);
}

}  // namespace schedule_forecast_test
}  // namespace escapement::master
