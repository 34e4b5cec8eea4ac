// ForecastLoad, compared with what the emitter then fires: a master and an emitter over one store,
// for 72 hours of virtual time around a change of clocks. Nothing holds events back.

#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/proto_time.h"
#include "common/storage/event_table.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/calendar_service.pb.h"
#include "escapement/v1/policy_service.pb.h"
#include "escapement/v1/schedule_service.pb.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "services/emitter/service/emitter_service.h"
#include "services/master/testing/master_world.h"
#include "services/token_manager/waiting/policy_state.h"

namespace escapement::master {
namespace forecast_test {

constexpr int kMinutes = 72 * 60;

// New York's clocks change on 8 March 2026 at 07:00 UTC.
const absl::Time kStart = absl::FromUnixSeconds(1'772'820'000);  // 2026-03-06T18:00:00Z

// id → definition, without a target.
const std::map<std::string, std::string>& Definitions() {
  static const auto* const definitions = new std::map<std::string, std::string>{
      {"minutely", "cron: '* * * * *'"},
      {"new-york", "cron: '30 1,2,3 * * *' time_zone: 'America/New_York' event_count: 5"},
      {"after-gap", R"(cron: '*/20 2 * * *' time_zone: 'America/New_York'
                       dst_policy { gap: FIRE_AFTER })"},
      {"shifted", R"(cron: '10 2 * * *' time_zone: 'America/New_York' dst_policy { gap: SHIFT })"},
      {"kolkata", "cron: '15,45 9-17 * * MON-FRI' time_zone: 'Asia/Kolkata' event_count: 12"},
      {"lord-howe", "cron: '0 */5 * * *' time_zone: 'Australia/Lord_Howe'"},
      {"seconds", R"(cron: '*/7 * * * * *' start_time { seconds: 1772871330 }
                     end_time { seconds: 1772874931 })"},
      {"excluded", R"(cron: '*/5 * * * *' exclusions: '* 3-5 * * *' exclusions: '* * 8 3 *'
                      time_zone: 'Europe/Berlin')"},
      {"days-off", R"(cron: '20 */2 * * *' time_zone: 'America/New_York' calendar: 'c')"},
      {"next-day", R"(cron: '40 5,15 * * *' time_zone: 'Europe/Berlin' calendar: 'c'
                      on_excluded: NEXT event_count: 2)"},
      {"previous-day", R"(cron: '50 20 8,9 3 *' time_zone: 'America/New_York' calendar: 'c'
                          on_excluded: PREVIOUS)"},
      {"interval-days-off", "interval { every { seconds: 700 } } calendar: 'c'"},
      {"interval", "interval { every { seconds: 421 } anchor_time { seconds: 1772323207 } }"},
      {"excluded-interval", "interval { every { seconds: 600 } } exclusions: '0-29 * * * *'"},
      {"times", R"(times { seconds: 1772820000 } times { seconds: 1772880059 nanos: 999000000 }
                   times { seconds: 1772880060 } times { seconds: 1773079199 }
                   times { seconds: 1773079200 })"},
      {"ended", "cron: '3 * * * *' max_runs: 60 event_count: 2"},
      {"jitter", "cron: '0 * * * *' jitter { seconds: 5400 } event_count: 3"},
      {"interval-jitter", "interval { every { seconds: 1800 } } jitter { seconds: 86400 }"},
      {"throttled", "cron: '0 */4 * * *' policy: 'p' event_count: 40"},
      {"even", R"(cron: '30 */3 * * *' event_count: 1000
                  window { duration { seconds: 16200 } pacing: EVEN })"},
      {"even-few", R"(cron: '17 * * * *' event_count: 7 policy: 'p' jitter { seconds: 1000 }
                      window { duration { seconds: 3600 } pacing: EVEN })"},
      {"window", R"(cron: '0 6 * * *' event_count: 500 window { duration { seconds: 3600 } })"},
      {"changed", "cron: '1 1 1 1 *'"},
      {"paused", "cron: '* * * * *' event_count: 99"},
      {"deleted", "cron: '* * * * *' event_count: 99"}};
  return *definitions;
}

class ForecastTest : public ::testing::Test {
 protected:
  ForecastTest() {
    // Far ahead and in long steps, so that days pass soon.
    emitter::EmitterOptions options;
    options.ahead = absl::Minutes(10);
    options.step_every = absl::Minutes(1);
    emitter_ = std::make_unique<emitter::EmitterService>(options, *world_.store, world_.runtime);
    emitter_->Start();
  }

  void Create(const std::string& id, const std::string& definition) {
    v1::CreateScheduleRequest request;
    ASSERT_TRUE(
        google::protobuf::TextFormat::ParseFromString(definition, request.mutable_schedule()))
        << definition;
    request.set_parent("tenants/default");
    request.set_schedule_id(id);
    request.mutable_schedule()->mutable_target()->mutable_http()->set_uri("http://127.0.0.1:9/");
    const auto made = world_.Call(&ScheduleApi::CreateSchedule, request);
    ASSERT_TRUE(made.ok()) << id << ": " << made.status();
  }

  // The events whose time is in each minute from `start` on, by the rows that have been written.
  std::vector<int64_t> Fired(absl::Time start) {
    std::vector<int64_t> counts(kMinutes);
    const auto add = [&](absl::Time at, uint64_t events) {
      const int64_t minute = absl::ToInt64Minutes(absl::Floor(at - start, absl::Minutes(1)));
      if (minute >= 0 && minute < kMinutes)
        counts[static_cast<size_t>(minute)] += static_cast<int64_t>(events);
    };
    for (const auto& [key, row] : world_.Events()) add(key.due_time, row.count());
    for (const auto& [bytes, value] : world_.Rows(kv::ColumnFamily::kWaiting)) {
      const auto key = DecodeWaitingKey(bytes);
      storage::v1::EventRecord row;
      EXPECT_TRUE(key.has_value() && row.ParseFromString(value));
      const token_manager::Pacing pacing = token_manager::PacingOf(row);
      for (uint64_t i = key->first; i < key->first + row.count(); ++i)
        add(std::max(key->due_time, pacing.At(i)), 1);
    }
    return counts;
  }

  MasterWorld world_;
  std::unique_ptr<emitter::EmitterService> emitter_;
};

TEST_F(ForecastTest, EachMinuteIsAsTheEmitterThenFires) {
  world_.runtime.AdvanceBy(kStart - absl::Hours(30) - world_.Now());
  v1::CreatePolicyRequest policy;
  policy.set_parent("tenants/default");
  policy.set_policy_id("p");
  policy.mutable_policy()->set_max_concurrent(1);
  ASSERT_TRUE(world_.Call(&PolicyApi::CreatePolicy, policy).ok());
  v1::CreateCalendarRequest calendar;
  calendar.set_parent("tenants/default");
  calendar.set_calendar_id("c");
  calendar.mutable_calendar()->add_rules("* * SUN");
  calendar.mutable_calendar()->add_dates("2026-03-07");
  ASSERT_TRUE(world_.Call(&CalendarService::CreateCalendar, calendar).ok());
  for (const auto& [id, definition] : Definitions()) Create(id, definition);
  world_.runtime.AdvanceBy(absl::Hours(29));
  v1::UpdateScheduleRequest update;
  update.mutable_schedule()->set_name("tenants/default/schedules/changed");
  update.mutable_schedule()->set_cron("*/3 * * * *");
  update.mutable_schedule()->set_event_count(4);
  ASSERT_TRUE(world_.Call(&ScheduleApi::UpdateSchedule, update).ok());
  v1::PauseScheduleRequest pause;
  pause.set_name("tenants/default/schedules/paused");
  ASSERT_TRUE(world_.Call(&ScheduleApi::PauseSchedule, pause).ok());
  v1::DeleteScheduleRequest gone;
  gone.set_name("tenants/default/schedules/deleted");
  ASSERT_TRUE(world_.Call(&ScheduleApi::DeleteSchedule, gone).ok());
  world_.runtime.AdvanceBy(kStart + absl::Seconds(20) - world_.Now());

  v1::ForecastLoadRequest request;
  request.set_parent("tenants/default");
  request.mutable_duration()->set_seconds(kMinutes * 60);
  const auto forecast = world_.Call(&ScheduleApi::ForecastLoad, request);
  ASSERT_TRUE(forecast.ok()) << forecast.status();
  EXPECT_EQ(forecast->start_time().seconds(), absl::ToUnixSeconds(kStart));
  EXPECT_EQ(forecast->schedule_count(), static_cast<int64_t>(Definitions().size()) - 2);
  EXPECT_EQ(forecast->jittered_schedule_count(), 3);

  world_.runtime.AdvanceBy(absl::Hours(72));
  const std::vector<int64_t> fired = Fired(kStart);
  EXPECT_EQ(forecast->event_count(), std::accumulate(fired.begin(), fired.end(), int64_t{0}));
  ASSERT_EQ(forecast->events_per_minute_size(), kMinutes);
  for (int i = 0; i < kMinutes; ++i) {
    ASSERT_EQ(forecast->events_per_minute(i), fired[static_cast<size_t>(i)])
        << kStart + absl::Minutes(i);
  }
}

}  // namespace forecast_test
}  // namespace escapement::master
