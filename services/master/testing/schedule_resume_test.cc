// A resume and the occurrences of the pause.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "gtest/gtest.h"
#include "services/master/runs/run_service.h"
#include "services/master/testing/master_world.h"
#include "services/master/testing/schedule_world.h"

namespace escapement::master {
namespace schedule_resume_test {

using kv::ColumnFamily;
using Misfire = v1::MisfirePolicy;

// Each second; paused at `start`, resumed `seconds` and a half later.
struct Pause {
  ScheduleWorld bench{1, 1};

  explicit Pause(std::function<void(v1::Schedule&)> change, int n = 1) {
    bench.change = std::move(change);
    bench.MakeSchedule("* * * * * *", n);
    EXPECT_TRUE(
        bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  }
  v1::Schedule Resume(int seconds, int planned_ahead = 3) {
    bench.Plan(seconds, seconds + planned_ahead);
    bench.fixture.runtime.AdvanceBy(bench.At(seconds) + absl::Milliseconds(500) -
                                    bench.fixture.Now());
    const auto resumed =
        bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>());
    EXPECT_TRUE(resumed.ok()) << resumed.status();
    return resumed.value_or(v1::Schedule());
  }
  Strings Skipped() const { return SkippedSince(bench.fixture, bench.start); }
};

TEST(ScheduleResume, FireAllFiresTheLatestAndCountsTheOthersInOneRecord) {
  Pause pause([](v1::Schedule& s) { SetMisfire(Misfire::FIRE_ALL, 2, 3, s); });
  pause.Resume(10);
  // Missed: 1 to 10, whatever the threshold.
  EXPECT_EQ(pause.Skipped(), Strings{"1*7 paused"});
  EXPECT_EQ(pause.bench.Rows(), (Strings{"8@1", "9@1", "10@1", "11@1", "12@1"}));
  storage::v1::DoneRecord record;
  ASSERT_TRUE(
      record.ParseFromString(pause.bench.fixture.Rows(ColumnFamily::kDone).begin()->second));
  EXPECT_EQ(record.last_nominal_time_micros(), ToMicros(pause.bench.At(7)));
}

TEST(ScheduleResume, FireLatestFiresOneAndRecordsTheOthers) {
  Pause pause([](v1::Schedule& s) { SetMisfire(Misfire::FIRE_LATEST, 2, 3, s); });
  pause.Resume(10);
  EXPECT_EQ(pause.Skipped(), (Strings{"1*7 paused", "8 paused", "9 paused"}));
  EXPECT_EQ(pause.bench.Rows(), (Strings{"10@1", "11@1", "12@1"}));
}

TEST(ScheduleResume, NothingOlderThanMaxAgeFires) {
  Pause pause([](v1::Schedule& s) {
    SetMisfire(Misfire::FIRE_ALL, 2, 5, s);
    s.mutable_misfire_policy()->mutable_max_age()->set_seconds(3);
  });
  pause.Resume(10);
  // Resumed at 10.5.
  EXPECT_EQ(pause.Skipped(), (Strings{"1*5 paused", "6 paused", "7 paused"}));
  EXPECT_EQ(pause.bench.Rows(), (Strings{"8@1", "9@1", "10@1", "11@1", "12@1"}));
}

TEST(ScheduleResume, SkipFiresNothingOfThePause) {
  Pause pause([](v1::Schedule& s) { SetMisfire(Misfire::SKIP, 2, 3, s); });
  pause.Resume(10);
  EXPECT_EQ(pause.Skipped(), (Strings{"1*7 paused", "8 paused", "9 paused", "10 paused"}));
  EXPECT_EQ(pause.bench.Rows(), (Strings{"11@1", "12@1"}));
}

// The default threshold is longer than the pause.
TEST(ScheduleResume, SkipFiresNothingOfAPauseShorterThanTheThreshold) {
  Pause pause([](v1::Schedule& s) { s.mutable_misfire_policy()->set_action(Misfire::SKIP); });
  pause.Resume(4);
  EXPECT_EQ(pause.Skipped(), (Strings{"1 paused", "2 paused", "3 paused", "4 paused"}));
  EXPECT_EQ(pause.bench.Rows(), (Strings{"5@1", "6@1"}));
}

TEST(ScheduleResume, OccurrenceEmittedBeforeIsJudgedByTheSamePlan) {
  for (const bool skip : {false, true}) {
    ScheduleWorld bench(5, 5);
    bench.change = [&](v1::Schedule& s) {
      SetMisfire(skip ? Misfire::SKIP : Misfire::FIRE_ALL, 2, 10, s);
    };
    bench.MakeSchedule("* * * * * *");
    bench.fixture.runtime.AdvanceBy(absl::Milliseconds(1500));
    ASSERT_TRUE(
        bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
    Park(bench.fixture, bench.start);  // 1, which was due before the pause, to 4
    bench.Plan(7, 7);
    bench.fixture.runtime.AdvanceBy(absl::Seconds(5));
    ASSERT_TRUE(
        bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()).ok());
    EXPECT_TRUE(bench.fixture.Rows(ColumnFamily::kParked).empty());
    if (skip) {
      EXPECT_EQ(bench.Rows(), Strings{});
      EXPECT_EQ(bench.fixture.Rows(ColumnFamily::kDone).size(), 6u);
    } else {
      EXPECT_EQ(bench.Rows(), (Strings{"1@1", "2@1", "3@1", "4@1", "5@1", "6@1"}));
      EXPECT_TRUE(bench.fixture.Rows(ColumnFamily::kDone).empty());
    }
  }
}

// Their rows had been emitted before the pause.
TEST(ScheduleResume, RunsSkippedByThePauseAreShownAsSkippedWithTheirReason) {
  for (const int n : {1, 8}) {
    SCOPED_TRACE(n);
    ScheduleWorld bench(4, 4);
    bench.change = &SkipMissed;
    bench.MakeSchedule("* * * * * *", n);
    const std::string occurrence = bench.fixture.Events()[0].first.occurrence;
    ASSERT_TRUE(
        bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
    Park(bench.fixture, bench.start);
    bench.fixture.runtime.AdvanceBy(absl::Seconds(9));
    ASSERT_TRUE(
        bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()).ok());
    // As the emitter closes the run once all its events have ended.
    const auto runs = bench.fixture.Rows(ColumnFamily::kRuns);
    for (const auto& [key, value] : runs) {
      storage::v1::RunRecord run;
      ASSERT_TRUE(run.ParseFromString(value));
      run.set_complete_time_micros(ToMicros(bench.fixture.Now()));
      bench.fixture.Put(ColumnFamily::kRuns, key, run.SerializeAsString());
    }
    v1::GetRunRequest get;
    get.set_name(absl::StrCat(kName, "/runs/", occurrence));
    const auto run = bench.fixture.Call(&RunApi::GetRun, get);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->state(), v1::Run::SKIPPED);
    EXPECT_EQ(run->skip_reason(), "paused");
    EXPECT_EQ(run->skipped_count(), n);
    EXPECT_EQ(run->occurrence_count(), 1);
  }
}

TEST(ScheduleResume, ATriggeredRunGoesOnWhateverThePolicy) {
  ScheduleWorld bench(1, 1);
  bench.change = &SkipMissed;
  bench.MakeSchedule("0 0 1 1 *");
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::TriggerSchedule, Named<v1::TriggerScheduleRequest>()).ok());
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  Park(bench.fixture, bench.start - absl::Hours(1));
  bench.fixture.runtime.AdvanceBy(absl::Seconds(30));
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()).ok());
  EXPECT_EQ(bench.Rows().size(), 1u);
  EXPECT_TRUE(bench.fixture.Rows(ColumnFamily::kDone).empty());
}

TEST(ScheduleResume, MoreRowsThanOneChangeMayWriteDoNotHinderIt) {
  // An occurrence of 8 events over 4 shards has 6 rows. The 2,800 that the emitter has planned
  // leave too little room for the latest 1,000 of the pause.
  Pause pause([](v1::Schedule& s) { SetMisfire(Misfire::FIRE_ALL, 7200, 1000, s); }, /*n=*/8);
  const v1::Schedule resumed = pause.Resume(5 * 3600, /*planned_ahead=*/2800);
  EXPECT_EQ(resumed.state(), v1::Schedule::ENABLED);
  const size_t runs = pause.bench.fixture.Rows(ColumnFamily::kRuns).size();
  EXPECT_GT(runs, 2500u);
  EXPECT_LT(runs, 3334u);
  // The latest fire, and all others are in one record.
  ASSERT_EQ(pause.bench.fixture.Rows(ColumnFamily::kDone).size(), 1u);
  storage::v1::DoneRecord record;
  ASSERT_TRUE(
      record.ParseFromString(pause.bench.fixture.Rows(ColumnFamily::kDone).begin()->second));
  EXPECT_EQ(record.skipped_occurrences() + runs, 5u * 3600 + 2799);
  EXPECT_EQ(record.run_count(), 8u);
}

TEST(ScheduleResume, AVeryLongPauseIsCountedUpToABound) {
  Pause pause([](v1::Schedule& s) { SetMisfire(Misfire::SKIP, 2, 1, s); });
  pause.Resume(2 * 86400);
  EXPECT_EQ(pause.Skipped(), (Strings{"1*100000 paused", "172800 paused"}));
}

v1::UpdateScheduleRequest PayloadUpdate() {
  v1::UpdateScheduleRequest request;
  request.mutable_schedule()->set_name(kName);
  request.mutable_schedule()->set_payload("other");
  request.mutable_update_mask()->add_paths("payload");
  return request;
}

TEST(ScheduleResume, AVersionMadeInThePauseFiresNothingFromBeforeIt) {
  ScheduleWorld bench(1, 1);
  bench.MakeSchedule("0 0 1 1 *");
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(5500));
  ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::UpdateSchedule, CronUpdate("* * * * * *")).ok());
  bench.Plan(8, 9);
  bench.fixture.runtime.AdvanceBy(absl::Seconds(2));
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()).ok());
  EXPECT_EQ(bench.Rows(), (Strings{"6@2", "7@2", "8@2"}));
  EXPECT_EQ(SkippedSince(bench.fixture, bench.start), Strings{});
}

TEST(ScheduleResume, AnUpdateInThePauseRecordsWhatTheFormerVersionHadUntilThen) {
  ScheduleWorld bench(3, 3);
  bench.change = [](v1::Schedule& s) { SetMisfire(Misfire::FIRE_ALL, 60, 2, s); };
  bench.MakeSchedule("* * * * * *");
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(6500));
  ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::UpdateSchedule, CronUpdate("0 0 1 1 *")).ok());
  // 1 and 2 have rows.
  EXPECT_EQ(SkippedSince(bench.fixture, bench.start),
            (Strings{"3*2 paused", "5 paused", "6 paused"}));
  // Another update closes no more than there is.
  bench.fixture.runtime.AdvanceBy(absl::Seconds(2));
  ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::UpdateSchedule, CronUpdate("* * * * * *")).ok());
  bench.Plan(9, 10);
  bench.fixture.runtime.AdvanceBy(absl::Seconds(1));
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()).ok());
  EXPECT_EQ(bench.Rows(), (Strings{"1@1", "2@1", "9@3"}));
  EXPECT_EQ(SkippedSince(bench.fixture, bench.start).size(), 3u);
}

TEST(ScheduleResume, AnUpdateThatLeavesTheTimesAsTheyAreLeavesThePauseAsItIs) {
  Pause pause([](v1::Schedule& s) { SetMisfire(Misfire::FIRE_ALL, 2, 3, s); });
  pause.bench.fixture.runtime.AdvanceBy(absl::Milliseconds(5500));
  ASSERT_TRUE(pause.bench.fixture.Call(&ScheduleApi::UpdateSchedule, PayloadUpdate()).ok());
  EXPECT_EQ(pause.Skipped(), Strings{});
  pause.Resume(10);
  EXPECT_EQ(pause.Skipped(), Strings{"1*7 paused"});
  EXPECT_EQ(pause.bench.Rows(), (Strings{"8@2", "9@2", "10@2", "11@2", "12@2"}));
}

// Nominal seconds after `start` of the launch records.
std::vector<int64_t> Launches(const ScheduleWorld& bench) {
  std::vector<int64_t> seconds;
  for (const auto& [key, value] : bench.fixture.Rows(ColumnFamily::kCheckpoints)) {
    storage::v1::LaunchRecord record;
    if (!DecodeLaunchKey(key).has_value() || !record.ParseFromString(value)) continue;
    seconds.push_back((record.nominal_time_micros() - ToMicros(bench.start)) / 1'000'000);
  }
  return seconds;
}
using Numbers = std::vector<int64_t>;

TEST(ScheduleResume, LaunchRecordsAreJudgedByTheSamePlan) {
  for (const auto action : {Misfire::SKIP, Misfire::FIRE_LATEST, Misfire::FIRE_ALL}) {
    ScheduleWorld bench(4, 4);
    bench.change = [&](v1::Schedule& s) {
      s.set_overlap_policy(v1::Schedule::SKIP);
      SetMisfire(action, 1, 100, s);
    };
    bench.MakeSchedule("* * * * * *");
    ASSERT_EQ(Launches(bench), (Numbers{1, 2, 3}));
    bench.fixture.runtime.AdvanceBy(absl::Milliseconds(1500));
    ASSERT_TRUE(
        bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
    bench.Plan(7, 7);
    bench.fixture.runtime.AdvanceBy(absl::Seconds(5));
    ASSERT_TRUE(
        bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()).ok());
    // At 6.5: 1 to 6 are missed, 4 to 6 were never emitted.
    switch (action) {
      case Misfire::SKIP:
        EXPECT_EQ(Launches(bench), Numbers{});
        EXPECT_EQ(
            SkippedSince(bench.fixture, bench.start),
            (Strings{"1 paused", "2 paused", "3 paused", "4 paused", "5 paused", "6 paused"}));
        break;
      case Misfire::FIRE_LATEST:
        EXPECT_EQ(Launches(bench), Numbers{6});
        EXPECT_EQ(SkippedSince(bench.fixture, bench.start),
                  (Strings{"1 paused", "2 paused", "3 paused", "4 paused", "5 paused"}));
        break;
      default:
        EXPECT_EQ(Launches(bench), (Numbers{1, 2, 3, 4, 5, 6}));
        EXPECT_EQ(SkippedSince(bench.fixture, bench.start), Strings{});
    }
  }
}

TEST(ScheduleResume, ALaunchRecordThatIsLeftOverIsNoOccurrenceToSkip) {
  ScheduleWorld bench(4, 4);
  bench.change = [](v1::Schedule& s) {
    s.set_overlap_policy(v1::Schedule::SKIP);
    SkipMissed(s);
  };
  bench.MakeSchedule("* * * * * *");
  for (const auto& [key, value] : bench.fixture.Rows(ColumnFamily::kCheckpoints)) {
    const auto launch = DecodeLaunchKey(key);
    if (!launch.has_value() || launch->launch_time != bench.At(2)) continue;
    bench.fixture.Put(ColumnFamily::kRuns, EncodeRunKey({launch->uid, launch->occurrence}),
                      storage::v1::RunRecord().SerializeAsString());
    break;
  }
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  bench.Plan(4, 4);
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(6500));
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()).ok());
  EXPECT_EQ(Launches(bench), Numbers{2});
}

TEST(ScheduleResume, OccurrenceNotYetLaunchedForJitterCountsForMaxRuns) {
  ScheduleWorld bench(6, 6);
  bench.change = [](v1::Schedule& s) {
    s.set_max_runs(10);
    s.mutable_jitter()->set_seconds(3600);
    SkipMissed(s);
  };
  bench.MakeSchedule("* * * * * *");
  ASSERT_EQ(bench.Rows().size(), 5u);
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  bench.Plan(10, 10);
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(10500));
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()).ok());
  int64_t to_come = 0;
  for (const auto& [key, row] : bench.fixture.Events()) {
    to_come +=
        key.due_time >= bench.fixture.Now() && row.nominal_time_micros() < ToMicros(bench.At(6));
  }
  ASSERT_GT(to_come, 0);
  // From 11 on.
  EXPECT_EQ(FromMicros(StateOf(bench.fixture).finish_micros()),
            bench.At(static_cast<int>(11 + 10 - to_come - 1)) + absl::Microseconds(1));
}

}  // namespace schedule_resume_test
}  // namespace escapement::master
