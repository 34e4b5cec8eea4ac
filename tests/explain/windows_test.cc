// Batches with a window, from on track to late, and their reports; with living services.

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/cron/timetable.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/explain/explain_world.h"

namespace escapement::explain {
namespace windows_test {

using testing::HasSubstr;
using testing::SizeIs;

constexpr char kTenant[] = "tenants/default";
constexpr char kUri[] = "http://x.example/";
constexpr char kTold[] = "http://told.example/";

// A run of ten events with a window of 1000 s, two of them out at once. The test ends each event.
class WindowsTest : public ::testing::Test {
 protected:
  void MakeRun(v1::Window::OnClose on_close, v1::Schedule::OnCompleteWhen told) {
    world_.answer = [this](const handler::DeliveryAttempt& attempt) {
      handler::DeliveryResult result;
      result.status = handler::DeliveryStatus::kAccepted;
      if (attempt.context->definition->delivery().target().http().uri() == kTold) {
        payloads_.emplace_back(attempt.context->payload);
      } else if (attempt.index == 4) {
        result.status = handler::DeliveryStatus::kRejected;
      } else if (attempt.index == 5 && attempt.attempt == 1) {
        result.status = handler::DeliveryStatus::kFailed;
      } else {
        held_.emplace_back(attempt.token, world_.Now());
      }
      return result;
    };
    v1::CreatePolicyRequest policy;
    policy.set_parent(kTenant);
    policy.set_policy_id("p");
    policy.mutable_policy()->set_max_concurrent(2);
    ASSERT_TRUE(world_.Call(&master::PolicyApi::CreatePolicy, policy).ok());
    v1::CreateScheduleRequest request;
    request.set_parent(kTenant);
    request.set_schedule_id("s");
    v1::Schedule& schedule = *request.mutable_schedule();
    due_ = absl::FromUnixSeconds(absl::ToUnixSeconds(world_.Now()) + 20);
    SetTimestamp(ToMicros(due_), *schedule.add_times());
    schedule.set_event_count(10);
    schedule.set_policy("p");
    schedule.set_completion(v1::ON_RELEASE);
    schedule.mutable_window()->mutable_duration()->set_seconds(1000);
    schedule.mutable_window()->set_on_close(on_close);
    schedule.mutable_target()->mutable_http()->set_uri(kUri);
    schedule.mutable_retry_policy()->mutable_max_backoff()->set_seconds(1);
    schedule.mutable_on_complete()->mutable_http()->set_uri(kTold);
    schedule.set_on_complete_when(told);
    const auto made = world_.Call(&master::ScheduleApi::CreateSchedule, request);
    ASSERT_TRUE(made.ok()) << made.status();
  }

  void At(double seconds) { world_.world.RunUntil(due_ + absl::Seconds(seconds)); }

  v1::Run Run() {
    v1::GetRunRequest request;
    request.set_name(
        absl::StrCat("tenants/default/schedules/s/runs/", cron::FormatInstantOccurrence(due_)));
    const auto run = world_.Call(&master::RunApi::GetRun, request);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? *run : v1::Run();
  }
  v1::RunWindow::State State() { return Run().window().state(); }

  // Gives back the token of the event that has had its token longest.
  void EndOldest() {
    ASSERT_TRUE(world_.RunUntil([this] { return !held_.empty(); }, absl::Seconds(5)));
    const auto [token, since] = held_.front();
    held_.pop_front();
    took_.push_back(world_.Now() - since);
    world_.Complete(token);
    world_.world.AdvanceBy(absl::Seconds(1));
  }

  // The longest times from the arrival to the end, in seconds, as the test saw them and as the
  // report has them. Some milliseconds pass on the way to the consumer and back.
  void ExpectSlowest(const v1::RunReport& report) {
    std::sort(took_.rbegin(), took_.rend());
    for (size_t i = 0; i < took_.size(); ++i) {
      const v1::RunReport::SlowEvent& slow = report.slowest(static_cast<int>(i));
      EXPECT_NEAR(absl::ToDoubleSeconds(*ToDuration(slow.duration())),
                  absl::ToDoubleSeconds(took_[i]), 0.5);
      EXPECT_THAT(slow.event(), HasSubstr(absl::StrCat(Run().name(), "/events/")));
    }
  }

  ExplainWorld world_;
  absl::Time due_;
  std::vector<std::string> payloads_;  // that on_complete got

 private:
  std::deque<std::pair<std::string, absl::Time>>
      held_;  // tokens of accepted events, and since when
  std::vector<absl::Duration> took_;
};

TEST_F(WindowsTest, BatchThatStallsIsAtRiskThenLateAndReported) {
  MakeRun(v1::Window::FINISH_LATE, v1::Schedule::ON_FAILURE);
  At(-1);
  EXPECT_EQ(State(), v1::RunWindow::ON_TRACK);
  EXPECT_NEAR(Run().window().required_rate(), 0.01, 1e-6);
  for (const double at : {80.0, 160.0, 240.0, 320.0}) {
    At(at);
    EndOldest();
  }
  At(400);
  const v1::RunWindow on_track = Run().window();
  EXPECT_EQ(on_track.state(), v1::RunWindow::ON_TRACK);
  EXPECT_NEAR(on_track.actual_rate(), 5 / 400.0, 1e-4);  // with the one that failed
  EXPECT_NEAR(on_track.required_rate(), 5 / 600.0, 1e-4);
  At(499);
  EXPECT_EQ(State(), v1::RunWindow::ON_TRACK);
  At(501);
  EXPECT_EQ(State(), v1::RunWindow::AT_RISK);
  At(999.9);
  EXPECT_EQ(State(), v1::RunWindow::AT_RISK);
  At(1000);
  EXPECT_EQ(State(), v1::RunWindow::LATE);
  EXPECT_FALSE(Run().has_report());
  for (int i = 0; i < 5; ++i) EndOldest();
  world_.world.AdvanceBy(absl::Seconds(5));

  const v1::Run run = Run();
  EXPECT_EQ(run.state(), v1::Run::COMPLETED);
  EXPECT_EQ(run.window().state(), v1::RunWindow::LATE);
  EXPECT_EQ(run.succeeded_count(), 9);
  EXPECT_EQ(run.failed_count(), 1);
  EXPECT_EQ(run.report().never_started_count(), 0);
  EXPECT_EQ(run.report().token_count(), 11);  // one event was tried twice
  EXPECT_EQ(run.report().slowest_size(), 10);
  ExpectSlowest(run.report());
  ASSERT_THAT(payloads_, SizeIs(1));
  EXPECT_THAT(payloads_[0], HasSubstr(R"("succeeded":9,"failed":1,"expired":0)"));
  EXPECT_THAT(payloads_[0], HasSubstr(R"("never_started":0,"tokens":11,"window":"LATE")"));
}

TEST_F(WindowsTest, DroppedEventsAreReportedAsNeverStarted) {
  MakeRun(v1::Window::DROP, v1::Schedule::ALWAYS);
  At(300);
  EXPECT_EQ(State(), v1::RunWindow::AT_RISK);
  EndOldest();
  At(1010);
  EXPECT_EQ(State(), v1::RunWindow::LATE);
  for (int i = 0; i < 2; ++i) EndOldest();
  world_.world.AdvanceBy(absl::Seconds(5));
  const v1::Run run = Run();
  EXPECT_EQ(run.window().state(), v1::RunWindow::LATE);
  EXPECT_EQ(run.succeeded_count(), 3);
  EXPECT_EQ(run.expired_count(), 7);
  EXPECT_EQ(run.report().never_started_count(), 7);
  EXPECT_EQ(run.report().token_count(), 3);
  EXPECT_EQ(run.report().slowest_size(), 3);
  ExpectSlowest(run.report());
  ASSERT_THAT(payloads_, SizeIs(1));
  EXPECT_THAT(payloads_[0], HasSubstr(R"("expired":7)"));
}

TEST_F(WindowsTest, BatchThatEndsInItsWindowIsOnTrack) {
  MakeRun(v1::Window::FINISH_LATE, v1::Schedule::ON_FAILURE);
  v1::UpdateScheduleRequest fewer;
  fewer.mutable_schedule()->set_name("tenants/default/schedules/s");
  fewer.mutable_schedule()->set_event_count(3);  // none of them fails
  ASSERT_TRUE(world_.Call(&master::ScheduleApi::UpdateSchedule, fewer).ok());
  At(50);
  for (int i = 0; i < 3; ++i) EndOldest();
  At(5000);
  const v1::Run run = Run();
  EXPECT_EQ(run.succeeded_count(), 3);
  EXPECT_EQ(run.window().state(), v1::RunWindow::ON_TRACK);
  EXPECT_EQ(run.window().required_rate(), 0);
  EXPECT_NEAR(run.window().actual_rate(), 3 / 53.0, 0.01);
  EXPECT_THAT(payloads_, SizeIs(0));
}

}  // namespace windows_test
}  // namespace escapement::explain
