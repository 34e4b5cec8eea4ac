// A change of a calendar, with a master, an emitter and a handler in virtual time: what has not
// been claimed moves, and what has been claimed stays.

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/explain/explain_world.h"

namespace escapement::calendars {
namespace retiming_test {

using explain::ExplainWorld;
using handler::DeliveryAttempt;
using handler::DeliveryResult;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kSchedule[] = "tenants/default/schedules/s";

class RetimingTest : public testing::Test {
 protected:
  RetimingTest() {
    v1::CreateCalendarRequest request;
    request.set_parent("tenants/default");
    request.set_calendar_id("off");
    request.mutable_calendar();
    const auto made = world_.Call(&master::CalendarService::CreateCalendar, request);
    EXPECT_TRUE(made.ok()) << made.status();
  }

  absl::CivilDay DayOf(absl::Time time) const {
    return absl::ToCivilDay(time, absl::UTCTimeZone());
  }

  // Once a year, at this time (whole seconds).
  void MakeSchedule(absl::Time time, v1::OnExcluded::Rule rule) {
    const absl::CivilSecond at = absl::ToCivilSecond(time, absl::UTCTimeZone());
    v1::CreateScheduleRequest request;
    request.set_parent("tenants/default");
    request.set_schedule_id("s");
    v1::Schedule& schedule = *request.mutable_schedule();
    schedule.set_cron(absl::StrCat(at.second(), " ", at.minute(), " ", at.hour(), " ", at.day(),
                                   " ", at.month(), " *"));
    schedule.set_calendar("off");
    schedule.set_on_excluded(rule);
    schedule.mutable_target()->mutable_http()->set_uri("http://x.example/");
    const auto made = world_.Call(&master::ScheduleApi::CreateSchedule, request);
    ASSERT_TRUE(made.ok()) << made.status();
  }

  void SetDays(const std::vector<absl::CivilDay>& days) {
    v1::UpdateCalendarRequest request;
    request.mutable_calendar()->set_name("tenants/default/calendars/off");
    for (const absl::CivilDay day : days)
      request.mutable_calendar()->add_dates(absl::FormatCivilTime(day));
    request.mutable_update_mask()->add_paths("dates");
    const auto updated = world_.Call(&master::CalendarService::UpdateCalendar, request);
    ASSERT_TRUE(updated.ok()) << updated.status();
    EXPECT_EQ(updated->schedule_count(), 1);
    for (int i = 0; Outdated() != 0 && i < 30; ++i) Run(absl::Milliseconds(100));
    EXPECT_EQ(Outdated(), 0);
  }
  // -1 while it cannot be read.
  int64_t Outdated() {
    v1::GetCalendarRequest request;
    request.set_name("tenants/default/calendars/off");
    const auto calendar = world_.Call(&master::CalendarService::GetCalendar, request);
    return calendar.ok() ? calendar->outdated_schedule_count() : -1;
  }
  v1::Schedule Get() {
    v1::GetScheduleRequest request;
    request.set_name(kSchedule);
    const auto got = world_.Call(&master::ScheduleApi::GetSchedule, request);
    EXPECT_TRUE(got.ok()) << got.status();
    return got.value_or(v1::Schedule());
  }
  absl::Time SecondsAhead(int seconds) const {
    return absl::FromUnixSeconds(absl::ToUnixSeconds(world_.Now()) + seconds);
  }
  // Seconds after `start` of what has arrived.
  std::vector<int64_t> ArrivedSince(absl::Time start) const {
    std::vector<int64_t> seconds;
    for (const ExplainWorld::Arrival& arrival : world_.arrivals)
      seconds.push_back(absl::ToInt64Seconds(arrival.time - start));
    return seconds;
  }
  void Run(absl::Duration duration) {
    world_.RunUntil([] { return false; }, duration);
  }

  ExplainWorld world_;
};

TEST_F(RetimingTest, EmittedOccurrenceMovesAway) {
  const absl::Time due = SecondsAhead(4);
  MakeSchedule(due, v1::OnExcluded::NEXT);
  // The emitter has written its row by now.
  ASSERT_FALSE(world_.Rows(kv::ColumnFamily::kEvents).empty());
  SetDays({DayOf(due)});
  EXPECT_EQ(Get().version(), 2);
  EXPECT_EQ(Get().next_time().seconds(), absl::ToUnixSeconds(due + absl::Hours(24)));
  Run(absl::Seconds(20));
  EXPECT_THAT(world_.arrivals, IsEmpty());
}

TEST_F(RetimingTest, OccurrenceOfALaterDayMovesToTheNextSeconds) {
  const absl::Time due = SecondsAhead(5);
  MakeSchedule(due + absl::Hours(24), v1::OnExcluded::PREVIOUS);
  SetDays({DayOf(due + absl::Hours(24))});
  Run(absl::Seconds(20));
  EXPECT_THAT(ArrivedSince(due), ElementsAre(0));
}

TEST_F(RetimingTest, OccurrenceComesBack) {
  const absl::Time due = SecondsAhead(6);
  MakeSchedule(due, v1::OnExcluded::SKIP);
  SetDays({DayOf(due)});
  SetDays({});
  EXPECT_EQ(Get().version(), 3);
  Run(absl::Seconds(20));
  EXPECT_THAT(ArrivedSince(due), ElementsAre(0));
}

TEST_F(RetimingTest, ClaimedOccurrenceStays) {
  world_.answer = [](const DeliveryAttempt&) { return std::nullopt; };
  const absl::Time due = SecondsAhead(3);
  MakeSchedule(due, v1::OnExcluded::NEXT);
  ASSERT_TRUE(world_.RunUntil([&] { return world_.arrivals.size() == 1; }, absl::Seconds(10)));
  SetDays({DayOf(due)});
  world_.AnswerHanging();
  Run(absl::Seconds(20));
  EXPECT_THAT(ArrivedSince(due), ElementsAre(0));
  v1::ListRunsRequest request;
  request.set_parent(kSchedule);
  const auto runs = world_.Call(&master::RunApi::ListRuns, request);
  ASSERT_TRUE(runs.ok()) << runs.status();
  std::vector<std::string> succeeded;
  for (const v1::Run& run : runs->runs()) {
    if (run.succeeded_count() == 1) succeeded.push_back(run.name());
  }
  EXPECT_EQ(succeeded.size(), 1u) << runs->DebugString();
}

}  // namespace retiming_test
}  // namespace escapement::calendars
