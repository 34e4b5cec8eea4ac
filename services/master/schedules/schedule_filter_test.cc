#include <google/protobuf/text_format.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/status/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/schedules/schedule_search.h"

namespace escapement::master {
namespace schedule_filter_test {

v1::Schedule Example() {
  v1::Schedule schedule;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(name: "tenants/t/schedules/nightly-1" display_name: "The Backup" state: PAUSED
         labels { key: "team" value: "billing" } labels { key: "app.io/a" value: "x y" }
         time_zone: "Asia/Kolkata" policy: "tenants/t/policies/p" calendar: "tenants/t/calendars/c"
         target { grpc { uri: "h:1" } }
         create_time { seconds: 1800000000 } update_time { seconds: 1800000001 })",
      &schedule));
  return schedule;
}

TEST(ScheduleFilter, MatchesByEachField) {
  const std::vector<std::pair<std::string, bool>> cases = {
      {"", true},
      {"name = nightly-1", true},
      {"name = \"tenants/t/schedules/nightly-1\"", true},
      {"name = \"nightly-*\"", true},
      {"name = \"nightly\"", false},
      {"name != \"n*\"", false},
      {"name : ghtly", true},
      {"name : schedules", false},
      {"calendar = c", true},
      {"calendar = \"tenants/t/calendars/c\"", true},
      {"calendar != c", false},
      {"calendar = \"\"", false},
      {"display_name : Back", true},
      {"display_name = \"The Backup\"", true},
      {"display_name = Backup", false},
      {"labels.team = billing", true},
      {"labels.team != billing", false},
      {"labels.other != billing", true},
      {"labels.\"app.io/a\" = \"x y\"", true},
      {"labels:team", true},
      {"labels:Team", false},
      {"state = PAUSED AND NOT state = ENABLED", true},
      {"state != PAUSED", false},
      {"time_zone = \"Asia/Kolkata\"", true},
      {"policy = p", true},
      {"policy = \"tenants/t/policies/p\"", true},
      {"policy = \"\"", false},
      {"target = grpc", true},
      {"target = http", false},
      {"create_time >= \"2027-01-15T08:00:00Z\"", true},
      {"create_time > \"2027-01-15T08:00:00Z\"", false},
      {"update_time = \"2027-01-15T08:00:01Z\"", true},
      {"next_time < \"2100-01-01T00:00:00Z\"", false},
      {"NOT next_time < \"2100-01-01T00:00:00Z\"", true},
      {"(labels.team = a OR state = PAUSED) AND target = grpc", true},
  };
  for (const auto& [text, matches] : cases) {
    const auto filter = ReadScheduleFilter(text, "t");
    ASSERT_TRUE(filter.ok()) << text << ": " << filter.status();
    EXPECT_EQ(filter->Matches(Example()), matches) << text;
  }
}

TEST(ScheduleFilter, PolicyIsEachPolicyOfTheLimits) {
  v1::Schedule schedule = Example();
  schedule.clear_policy();
  for (const char* id : {"p", "q"})
    schedule.add_limits()->set_policy(std::string("tenants/t/policies/") + id);
  const std::vector<std::pair<std::string, bool>> cases = {
      {"policy = p", true},    {"policy = \"tenants/t/policies/q\"", true},
      {"policy = r", false},   {"policy != q", false},
      {"policy != r", true},   {"policy = \"\"", false},
      {"policy != \"\"", true}};
  for (const auto& [text, matches] : cases) {
    const auto filter = ReadScheduleFilter(text, "t");
    ASSERT_TRUE(filter.ok()) << text << ": " << filter.status();
    EXPECT_EQ(filter->Matches(schedule), matches) << text;
  }
}

TEST(ScheduleFilter, RefusesWhatItDoesNotKnow) {
  for (const char* text : {"colour = red", "state = BLUE", "state < PAUSED", "time_zone : a",
                           "labels = a", "target = pigeon", "create_time = yesterday",
                           "create_time : \"2027-01-15T08:00:00Z\"", "name", "team.x = 1"}) {
    const absl::Status status = ReadScheduleFilter(text, "t").status();
    ASSERT_EQ(FieldViolationsOf(status).size(), 1u) << text;
    EXPECT_EQ(FieldViolationsOf(status)[0].first, "filter") << text;
  }
}

TEST(ScheduleFilter, FindsWhatEveryMatchMustHave) {
  struct Wanted {
    std::string prefix;
    std::string label;
  };
  const std::map<std::string, Wanted> cases = {
      {"", {"", ""}},
      {"name = \"nightly-*\"", {"nightly-", ""}},
      {"name = \"tenants/t/schedules/a\" AND state = PAUSED", {"a", ""}},
      {"name = \"tenants/other/schedules/a\"", {"", ""}},
      {"name != a", {"", ""}},
      {"labels.team = a AND (state = PAUSED AND labels.b = c)", {"", "team=a"}},
      {"labels.team = a OR state = PAUSED", {"", ""}},
      {"NOT labels.team = a", {"", ""}},
      {"name = \"a*\" AND labels.x = y", {"a", "x=y"}},
  };
  for (const auto& [text, wanted] : cases) {
    const auto filter = ReadScheduleFilter(text, "t");
    ASSERT_TRUE(filter.ok()) << text << ": " << filter.status();
    EXPECT_EQ(filter->id_prefix(), wanted.prefix) << text;
    const auto& label = filter->label();
    EXPECT_EQ(label.has_value() ? label->first + "=" + label->second : "", wanted.label) << text;
  }
}

}  // namespace schedule_filter_test
}  // namespace escapement::master
