#include "tools/escctl/commands/top_frame.h"

#include <string>

#include "gtest/gtest.h"

namespace escapement::escctl {
namespace top_frame_test {

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

MetricsReading Reading(absl::Time time, const std::string& text) {
  MetricsReading reading{time, {}};
  reading.samples.Add(text);
  return reading;
}

TEST(TopFrameTest, RateAndLatenessAreSinceTheLastFrame) {
  const auto before = Reading(kNow, R"(escapement_handler_accepted_total 100
escapement_handler_lateness_seconds_bucket{le="0.001"} 100
escapement_handler_lateness_seconds_bucket{le="0.1"} 100
escapement_handler_lateness_seconds_bucket{le="+Inf"} 100
)");
  const auto now = Reading(kNow + absl::Seconds(2), R"(escapement_handler_accepted_total 150
escapement_handler_events_out 3
escapement_emitter_behind_seconds 1.25
escapement_handler_lateness_seconds_bucket{le="0.001"} 150
escapement_handler_lateness_seconds_bucket{le="0.1"} 150
escapement_handler_lateness_seconds_bucket{le="+Inf"} 150
)");
  EXPECT_EQ(MetricsTable(before, now),
            "DELIVERED/S  DELIVERED  LATENESS P50  P99     EVENTS OUT  ROWS IN MEMORY  EMITTER "
            "BEHIND\n"
            "25.0         150        0.5 ms        1.0 ms  3           -               1.2 s\n");
}

TEST(TopFrameTest, FiguresThatNobodyMeasuresAreDashes) {
  EXPECT_EQ(MetricsTable(std::nullopt, Reading(kNow, "other 1\n")),
            "DELIVERED/S  DELIVERED  LATENESS P50  P99  EVENTS OUT  ROWS IN MEMORY  EMITTER "
            "BEHIND\n"
            "-            -          -             -    -           -               -\n");
}

TEST(TopFrameTest, ShowsPoliciesAndTheirSchedules) {
  v1::PolicyUsage usage;
  usage.mutable_policy()->set_name("tenants/default/policies/gentle");
  usage.mutable_policy()->set_max_concurrent(5);
  usage.mutable_policy()->set_state(v1::ThrottlePolicy::ENABLED);
  usage.set_held_count(2);
  usage.set_waiting_count(7);
  usage.set_waiting_truncated(true);
  usage.mutable_oldest_waiter_time()->set_seconds(1'800'000'000 - 90);
  usage.set_grants_per_second(1.5);
  for (int i = 0; i < 2; ++i)
    usage.add_holders()->set_event("tenants/default/schedules/a/runs/x/events/1");
  auto* waiter = usage.add_waiters();
  waiter->set_schedule("tenants/default/schedules/b");
  waiter->set_waiting_count(7);
  waiter->mutable_oldest_due_time()->set_seconds(1'800'000'000 - 90);
  EXPECT_EQ(UsageTables({usage}, kNow),
            "POLICY  STATE    HELD  LIMIT  WAITING  OLDEST  GRANTS/S  RELEASES/S\n"
            "gentle  ENABLED  2     5      7+       1m30s   1.5       0.0\n\n"
            "SCHEDULE  POLICY  HELD  WAITING  OLDEST\n"
            "a         gentle  2     0+       -\n"
            "b         gentle  0     7+       1m30s\n");
}

}  // namespace top_frame_test
}  // namespace escapement::escctl
