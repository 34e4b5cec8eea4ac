#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/storage/name_tables.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/time_util.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"
#include "services/master/notifications/subscription_codec.h"
#include "services/master/notifications/subscription_service.h"
#include "services/master/testing/run_world.h"

namespace escapement::master {
namespace notification_loop_test {

using google::protobuf::util::TimeUtil;
using storage::v1::EventRecord;
using v1::Subscription;

constexpr absl::Duration kLateBy = absl::Seconds(90);

// The schedule "s" fires every minute, with a subscription to it. The test is its emitter and
// handler.
struct Subscribed {
  explicit Subscribed(const std::string& filter = "", int n = 1,
                      const std::function<void(v1::Schedule&)>& change = nullptr)
      : world(n, [&](v1::Schedule& schedule) {
          schedule.set_cron("* * * * *");
          (*schedule.mutable_labels())["team"] = "billing";
          if (change) change(schedule);
        }) {
    MasterOptions options;
    options.notify_every = kNotifyEvery;
    options.metrics = &metrics;
    fixture().Restart(options);
    v1::CreateSubscriptionRequest request;
    request.set_parent("tenants/default");
    request.set_subscription_id("ops");
    Subscription& wanted = *request.mutable_subscription();
    wanted.set_filter(filter);
    wanted.mutable_late_by()->set_seconds(absl::ToInt64Seconds(kLateBy));
    wanted.mutable_target()->mutable_http()->set_uri("http://127.0.0.1:9/");
    const auto made = fixture().Call(&SubscriptionService::CreateSubscription, request);
    EXPECT_TRUE(made.ok()) << made.status();
    minute = absl::FromUnixSeconds(absl::ToUnixSeconds(fixture().Now()) / 60 * 60);
  }

  MasterWorld& fixture() { return world.fixture; }

  // Waits for the next minute. The emitter emits its run and has come that far; the run's id.
  std::string NextRun(uint64_t n = 1) {
    minute += absl::Minutes(1);
    fixture().runtime.AdvanceBy(minute - fixture().Now());
    fixture().SetCheckpoints(minute + absl::Seconds(1), minute + absl::Seconds(1));
    return world.Emit(minute, n);
  }
  void End(const std::string& run, storage::v1::OutcomeKind outcome) {
    world.End(world.ShardOf(run), run, minute, 0, 1, 1, outcome);
  }
  void Succeed(const std::string& run) { End(run, storage::v1::OUTCOME_KIND_SUCCEEDED); }
  // Two checks later.
  void Check() { fixture().runtime.AdvanceBy(2 * kNotifyEvery + absl::Seconds(1)); }
  // A check later that has read the dead letters of now.
  void CheckLetters() { fixture().runtime.AdvanceBy(kLetterSettles + 2 * kNotifyEvery); }
  void SucceedFor(int minutes) {
    for (int i = 0; i < minutes; ++i) Succeed(NextRun());
  }

  // The messages so far, in the order of their times.
  std::vector<v1::Notice> Notices() {
    std::map<int64_t, v1::Notice> notices;
    for (const auto& [key, row] : fixture().Events()) {
      if (!IsNoticeEventId(row.event_id())) continue;
      v1::Notice notice;
      const auto read = google::protobuf::util::JsonStringToMessage(row.payload(), &notice);
      EXPECT_TRUE(read.ok()) << row.payload();
      notices[row.nominal_time_micros()] = notice;
    }
    std::vector<v1::Notice> found;
    for (auto& [time, notice] : notices) found.push_back(std::move(notice));
    return found;
  }
  // One line for each message: the kinds of its problems, and then of those that have ended.
  std::vector<std::string> Reported() {
    std::vector<std::string> reported;
    for (const v1::Notice& notice : Notices()) {
      std::string& line = reported.emplace_back();
      for (const Subscription::Problem& problem : notice.problems())
        absl::StrAppend(&line, Subscription::Kind_Name(problem.kind()), " ");
      for (const Subscription::Problem& problem : notice.ended())
        absl::StrAppend(&line, "-", Subscription::Kind_Name(problem.kind()), " ");
    }
    return reported;
  }
  Subscription Get() {
    v1::GetSubscriptionRequest request;
    request.set_name("tenants/default/subscriptions/ops");
    return *fixture().Call(&SubscriptionService::GetSubscription, request);
  }

  // The subscription's.
  std::string Uid() {
    storage::v1::SubscriptionRecord record;
    EXPECT_TRUE(record.ParseFromString(
        *fixture().Get(kv::ColumnFamily::kPolicies, SubscriptionKey("default", "ops"))));
    return record.uid();
  }

  void PutLetter(const std::string& run, const std::string& event_id) {
    storage::v1::DeadLetterRecord letter;
    letter.set_uid(std::string(world.uid.bytes()));
    letter.set_occurrence(run);
    letter.set_reason("HTTP 500");
    if (!run.empty()) letter.set_schedule_id("s");
    letter.mutable_event()->set_nominal_time_micros(ToMicros(minute));
    letter.mutable_event()->set_run_count(1);
    letter.mutable_event()->set_version(run.empty() ? 0 : 1);
    fixture().Put(kv::ColumnFamily::kDeadLetters,
                  DeadLetterKey("default", fixture().Now(), event_id), letter.SerializeAsString());
  }

  Metrics metrics;
  RunWorld world;
  absl::Time minute;
};
using Lines = std::vector<std::string>;

TEST(NotificationLoop, FailedRunIsReportedAndTheNextGoodOneEndsIt) {
  Subscribed test;
  test.End(test.NextRun(), storage::v1::OUTCOME_KIND_FAILED);
  test.Check();
  EXPECT_EQ(test.Reported(), Lines({"FAILED "}));
  const Subscription found = test.Get();
  ASSERT_EQ(found.problems_size(), 1);
  EXPECT_EQ(found.problem_count(), 1);
  EXPECT_EQ(found.problems(0).schedule(), "tenants/default/schedules/s");
  EXPECT_TRUE(absl::StrContains(found.problems(0).resource(), "/runs/"));
  EXPECT_TRUE(found.problems(0).has_notify_time());
  EXPECT_EQ(test.Notices()[0].title(), "s has failed");
  test.Succeed(test.NextRun());
  test.Check();
  EXPECT_EQ(test.Reported(), Lines({"FAILED ", "-FAILED "}));
  EXPECT_EQ(test.Get().problem_count(), 0);
  EXPECT_EQ(test.Get().last_event(),
            absl::StrCat("tenants/default/events/", NoticeEventId(test.Uid(), 2)));
}

TEST(NotificationLoop, RunsThatGoWellAreNotReported) {
  Subscribed test;
  for (int i = 0; i < 5; ++i) {
    test.Succeed(test.NextRun());
    test.Check();
  }
  EXPECT_EQ(test.Reported(), Lines());
  EXPECT_GT(TimeUtil::TimestampToSeconds(test.Get().check_time()),
            absl::ToUnixSeconds(test.fixture().Now()) - 30);
}

TEST(NotificationLoop, EmitterThatStandsStillIsReported) {
  Subscribed test;
  test.Succeed(test.NextRun());
  test.fixture().runtime.AdvanceBy(absl::Minutes(1) + kLateBy - absl::Seconds(5));
  EXPECT_EQ(test.Reported(), Lines());
  test.fixture().runtime.AdvanceBy(absl::Seconds(5));
  test.Check();
  ASSERT_EQ(test.Reported(), Lines({"LATE "}));
  EXPECT_TRUE(absl::StrContains(test.Notices()[0].text(), "not emitted yet"))
      << test.Notices()[0].text();
}

TEST(NotificationLoop, EventThatWaitsIsLateUntilItHasEnded) {
  Subscribed test("name = \"s\"");
  const std::string run = test.NextRun();
  const absl::Time launch = test.minute;
  test.fixture().SetCheckpoints(launch + absl::Minutes(2), launch + absl::Minutes(2));
  test.Succeed(test.NextRun());
  test.fixture().runtime.AdvanceBy(launch + kLateBy - test.fixture().Now());
  test.Check();
  ASSERT_EQ(test.Reported(), Lines({"LATE "}));
  EXPECT_EQ(test.Get().problems(0).count(), 1);
  test.world.End(test.world.ShardOf(run), run, launch, 0, 1, 1,
                 storage::v1::OUTCOME_KIND_SUCCEEDED);
  test.Succeed(test.NextRun());
  test.Check();
  EXPECT_EQ(test.Reported(), Lines({"LATE ", "-LATE "}));
}

TEST(NotificationLoop, RunWhoseEventWasMissedIsReported) {
  Subscribed test;
  test.End(test.NextRun(), storage::v1::OUTCOME_KIND_EXPIRED);
  test.Check();
  EXPECT_EQ(test.Reported(), Lines({"MISSED "}));
}

TEST(NotificationLoop, SkippedRunIsReportedByItsReason) {
  for (const auto& [reason, reported] :
       std::map<std::string, Lines>{{"misfire", {"MISSED "}}, {"overlap", {}}, {"paused", {}}}) {
    Subscribed test;
    const std::string run = test.NextRun();
    storage::v1::DoneRecord done;
    done.set_tenant("default");
    done.set_count(1);
    done.set_run_count(1);
    done.set_outcome(storage::v1::OUTCOME_KIND_SKIPPED);
    done.set_run_skipped(true);
    done.set_reason(reason);
    done.set_nominal_time_micros(ToMicros(test.minute));
    done.set_launch_time_micros(ToMicros(test.minute));
    test.fixture().Put(kv::ColumnFamily::kDone,
                       EncodeDoneKey({.shard = test.world.ShardOf(run),
                                      .day = DoneDay(test.minute),
                                      .uid = test.world.uid,
                                      .occurrence = run,
                                      .first = 0}),
                       done.SerializeAsString());
    test.Check();
    EXPECT_EQ(test.Reported(), reported) << reason;
  }
}

TEST(NotificationLoop, CancelledRunIsNoProblem) {
  Subscribed test;
  test.End(test.NextRun(), storage::v1::OUTCOME_KIND_CANCELLED);
  test.Check();
  EXPECT_EQ(test.Reported(), Lines());
}

TEST(NotificationLoop, FailureWithADeadLetterCountsOnce) {
  Subscribed test;
  const std::string run = test.NextRun();
  test.End(run, storage::v1::OUTCOME_KIND_FAILED);
  test.PutLetter(run, "e");
  test.Check();
  EXPECT_EQ(test.Reported(), Lines({"FAILED "}));
  test.CheckLetters();
  EXPECT_EQ(test.Reported(), Lines({"FAILED "}));
  EXPECT_EQ(test.Get().problems(0).count(), 1);
}

TEST(NotificationLoop, TriggeredRunThatFailsIsReported) {
  Subscribed test;
  test.Succeed(test.NextRun());
  test.PutLetter("20260101T000000-0-UTC-t1", "e");
  test.CheckLetters();
  ASSERT_EQ(test.Reported(), Lines({"FAILED "}));
  EXPECT_EQ(test.Notices()[0].problems(0).detail(), "HTTP 500");
  EXPECT_EQ(test.Notices()[0].problems(0).resource(),
            "tenants/default/schedules/s/runs/20260101T000000-0-UTC-t1");
}

TEST(NotificationLoop, TriggeredRunThatSucceedsEndsAFailure) {
  Subscribed test;
  test.End(test.NextRun(), storage::v1::OUTCOME_KIND_FAILED);
  test.Check();
  v1::TriggerScheduleRequest request;
  request.set_name("tenants/default/schedules/s");
  const auto run = test.fixture().Call(&ScheduleApi::TriggerSchedule, request);
  ASSERT_TRUE(run.ok()) << run.status();
  test.Check();
  EXPECT_EQ(test.Reported(), Lines({"FAILED "}));
  const std::string occurrence = run->name().substr(run->name().rfind('/') + 1);
  storage::v1::RunPartRecord part;
  part.set_succeeded(1);
  test.fixture().Put(kv::ColumnFamily::kRunParts,
                     RunPartKey({test.world.uid, occurrence}, test.world.ShardOf(occurrence)),
                     part.SerializeAsString());
  const std::string key = EncodeRunKey({test.world.uid, occurrence});
  storage::v1::RunRecord record;
  ASSERT_TRUE(record.ParseFromString(*test.fixture().Get(kv::ColumnFamily::kRuns, key)));
  record.set_complete_time_micros(ToMicros(test.fixture().Now()));
  test.fixture().Put(kv::ColumnFamily::kRuns, key, record.SerializeAsString());
  test.Check();
  EXPECT_EQ(test.Reported(), Lines({"FAILED ", "-FAILED "}));
}

TEST(NotificationLoop, OneOffEventsAreReportedAndEndAfterAnHour) {
  Subscribed test;
  test.PutLetter("", "order-7");
  test.SucceedFor(2);
  ASSERT_EQ(test.Reported(), Lines({"FAILED "}));
  EXPECT_EQ(test.Notices()[0].problems(0).resource(), "tenants/default/events/order-7");
  EXPECT_EQ(test.Notices()[0].title(), "one-off events have failed");
  test.PutLetter("", NoticeEventId("x", 1));
  test.SucceedFor(2);
  EXPECT_EQ(test.Get().problems(0).count(), 1);
  test.SucceedFor(61);
  EXPECT_EQ(test.Reported(), Lines({"FAILED ", "-FAILED "}));
}

TEST(NotificationLoop, SubscriptionOfALabelHasNoOneOffEvents) {
  Subscribed test("labels.team = \"billing\"");
  test.PutLetter("", "order-7");
  test.SucceedFor(3);
  EXPECT_EQ(test.Reported(), Lines());
  test.End(test.NextRun(), storage::v1::OUTCOME_KIND_FAILED);
  test.Check();
  ASSERT_EQ(test.Reported(), Lines({"FAILED "}));
  EXPECT_EQ(test.Notices()[0].problems(0).schedule(), "tenants/default/schedules/s");
}

TEST(NotificationLoop, OtherSchedulesAreNotReported) {
  Subscribed test("labels.team = \"sales\"");
  test.End(test.NextRun(), storage::v1::OUTCOME_KIND_FAILED);
  test.Check();
  EXPECT_EQ(test.Reported(), Lines());
}

TEST(NotificationLoop, PauseOfThePlatformIsReported) {
  Subscribed test;
  test.Succeed(test.NextRun());
  storage::v1::PauseRequestRecord request;
  request.set_tenant("default");
  request.set_schedule_id("s");
  request.set_version(1);
  request.set_reason("the target answered 410 Gone");
  test.fixture().Put(kv::ColumnFamily::kPauseRequests, PauseRequestKey(test.world.uid),
                     request.SerializeAsString());
  test.Check();
  ASSERT_EQ(test.Reported(), Lines({"PAUSED "}));
  EXPECT_EQ(test.Notices()[0].problems(0).detail(), "the target answered 410 Gone");
  v1::ResumeScheduleRequest resume;
  resume.set_name("tenants/default/schedules/s");
  ASSERT_TRUE(test.fixture().Call(&ScheduleApi::ResumeSchedule, resume).ok());
  test.Check();
  EXPECT_EQ(test.Reported(), Lines({"PAUSED ", "-PAUSED "}));
}

TEST(NotificationLoop, PauseOfAUserIsNoProblem) {
  Subscribed test;
  test.Succeed(test.NextRun());
  v1::PauseScheduleRequest pause;
  pause.set_name("tenants/default/schedules/s");
  ASSERT_TRUE(test.fixture().Call(&ScheduleApi::PauseSchedule, pause).ok());
  test.fixture().runtime.AdvanceBy(absl::Minutes(10));
  EXPECT_EQ(test.Reported(), Lines());
}

TEST(NotificationLoop, RunThatWillNotKeepToItsWindowIsReported) {
  Subscribed test("", 100, [](v1::Schedule& schedule) {
    schedule.set_cron("0 * * * *");
    schedule.mutable_window()->mutable_duration()->set_seconds(3000);
  });
  while (absl::ToUnixSeconds(test.minute) % 3600 != 3540) test.minute += absl::Minutes(1);
  test.NextRun(100);
  test.fixture().runtime.AdvanceBy(absl::Minutes(3));
  EXPECT_EQ(test.Reported(), Lines());
  test.fixture().runtime.AdvanceBy(absl::Minutes(5));
  ASSERT_EQ(test.Reported(), Lines({"AT_RISK "}));
  EXPECT_TRUE(absl::StrContains(test.Notices()[0].text(), "0 of 100 events have ended"));
  // The window has closed, and late_by has passed.
  test.fixture().runtime.AdvanceBy(absl::Minutes(45));
  EXPECT_EQ(test.Reported(), Lines({"AT_RISK ", "LATE "}));
}

TEST(NotificationLoop, DeletedScheduleEndsItsProblems) {
  Subscribed test;
  test.End(test.NextRun(), storage::v1::OUTCOME_KIND_FAILED);
  test.Check();
  v1::DeleteScheduleRequest request;
  request.set_name("tenants/default/schedules/s");
  ASSERT_TRUE(test.fixture().Call(&ScheduleApi::DeleteSchedule, request).ok());
  test.Check();
  EXPECT_EQ(test.Get().problem_count(), 0);
  EXPECT_EQ(test.Reported(), Lines({"FAILED ", "-FAILED "}));
}

TEST(NotificationLoop, TriggeredRunThatFailsBitByBitCountsOnce) {
  Subscribed test;
  const std::string run = "20260101T000000-0-UTC-t1";
  for (int i = 0; i < 5; ++i) {
    test.PutLetter(run, absl::StrCat("e", i));
    test.Succeed(test.NextRun());
  }
  test.SucceedFor(2);
  // The runs that have succeeded end it, and the letters after them begin it again.
  ASSERT_FALSE(test.Reported().empty());
  for (const v1::Notice& notice : test.Notices()) {
    for (const Subscription::Problem& problem : notice.problems()) EXPECT_EQ(problem.count(), 1);
  }
}

TEST(NotificationLoop, OutageIsCaughtUpInParts) {
  Subscribed test;
  test.Succeed(test.NextRun());
  test.Check();
  MasterOptions quiet;
  test.fixture().Restart(quiet);
  test.SucceedFor(25);
  test.End(test.NextRun(), storage::v1::OUTCOME_KIND_FAILED);
  MasterOptions options;
  options.notify_every = kNotifyEvery;
  test.fixture().Restart(options);
  const absl::Time before = test.fixture().Now();
  test.fixture().runtime.AdvanceBy(kNotifyEvery + absl::Seconds(1));
  EXPECT_LT(TimeUtil::TimestampToSeconds(test.Get().check_time()),
            absl::ToUnixSeconds(before - absl::Minutes(10)));
  EXPECT_EQ(test.Reported(), Lines());
  test.Check();
  EXPECT_EQ(test.Reported(), Lines({"FAILED "}));
}

TEST(NotificationLoop, BusyScheduleKeepsFewOpenRuns) {
  Subscribed test("", 1, [](v1::Schedule& schedule) { schedule.set_cron("* * * * * *"); });
  test.fixture().runtime.AdvanceBy(absl::Minutes(20));
  EXPECT_EQ(test.Reported(), Lines({"LATE "}));
  storage::v1::SubscriptionStateRecord state;
  ASSERT_TRUE(state.ParseFromString(
      *test.fixture().Get(kv::ColumnFamily::kPolicies, SubscriptionStateKey("default", "ops"))));
  EXPECT_EQ(static_cast<size_t>(state.open_runs_size()), kOpenRunsOfSchedule);
}

TEST(NotificationLoop, RunThatIsLateAgainIsReportedAfterTheHour) {
  Subscribed test("", 2, [](v1::Schedule& schedule) { schedule.set_policy("p"); });
  const std::string run = test.NextRun(2);
  const RunKey key = {test.world.uid, run};
  const auto hold = [&](uint64_t tokens) {
    storage::v1::RunPartRecord part;
    part.set_running(tokens);
    test.fixture().Put(kv::ColumnFamily::kRunParts, RunPartKey(key, 0), part.SerializeAsString());
  };
  v1::UpdateScheduleRequest update;
  update.mutable_schedule()->set_name("tenants/default/schedules/s");
  update.mutable_schedule()->set_cron("0 0 1 1 *");
  ASSERT_TRUE(test.fixture().Call(&ScheduleApi::UpdateSchedule, update).ok());
  test.fixture().runtime.AdvanceBy(kLateBy);
  test.Check();
  EXPECT_EQ(test.Reported(), Lines({"LATE "}));
  hold(2);
  test.Check();
  EXPECT_EQ(test.Reported(), Lines({"LATE ", "-LATE "}));
  hold(1);
  test.Check();
  EXPECT_EQ(test.Reported(), Lines({"LATE ", "-LATE "}));
  test.fixture().runtime.AdvanceBy(kNotifyAgainAfter);
  EXPECT_EQ(test.Reported(), Lines({"LATE ", "-LATE ", "LATE "}));
}

TEST(NotificationLoop, KindsThatAreNotWantedAreNotReported) {
  Subscribed test;
  v1::UpdateSubscriptionRequest request;
  request.mutable_subscription()->set_name("tenants/default/subscriptions/ops");
  request.mutable_subscription()->add_kinds(Subscription::LATE);
  ASSERT_TRUE(test.fixture().Call(&SubscriptionService::UpdateSubscription, request).ok());
  const std::string run = test.NextRun();
  test.End(run, storage::v1::OUTCOME_KIND_FAILED);
  test.PutLetter(run, "e");
  test.CheckLetters();
  EXPECT_EQ(test.Reported(), Lines());
}

TEST(NotificationLoop, EventWhoseIdIsTakenHasTheNextOne) {
  Subscribed test;
  v1::CreateEventRequest taken =
      ValidEvent(test.fixture().Now() + absl::Hours(9), NoticeEventId(test.Uid(), 1));
  ASSERT_TRUE(test.fixture().Call(&EventApi::CreateEvent, taken).ok());
  test.End(test.NextRun(), storage::v1::OUTCOME_KIND_FAILED);
  test.Check();
  EXPECT_EQ(test.Get().last_event(),
            absl::StrCat("tenants/default/events/", NoticeEventId(test.Uid(), 2)));
}

}  // namespace notification_loop_test
}  // namespace escapement::master
