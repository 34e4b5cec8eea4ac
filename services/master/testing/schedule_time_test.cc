// Changes of schedules that are not simply cron expressions: intervals, lists, ends, limits.

#include <string>
#include <vector>

#include "common/base/proto_time.h"
#include "common/records/row_judge.h"
#include "common/status/errors.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"
#include "services/master/testing/schedule_world.h"

namespace escapement::master {
namespace schedule_time_test {

using kv::ColumnFamily;

// Seconds after the start of the children that stand under instants.
std::vector<int64_t> InstantChildren(const ScheduleWorld& bench) {
  std::vector<int64_t> seconds;
  for (const auto& [key, value] : bench.fixture.Rows(ColumnFamily::kChildren)) {
    const auto child = DecodeInstantChildKey(key);
    EXPECT_TRUE(child.has_value());
    if (child.has_value()) seconds.push_back(absl::ToInt64Seconds(child->instant - bench.start));
  }
  return seconds;
}

void SetEvery(int seconds, v1::Schedule& schedule) {
  schedule.mutable_interval()->mutable_every()->set_seconds(seconds);
}
v1::UpdateScheduleRequest IntervalUpdate(int seconds) {
  v1::UpdateScheduleRequest request;
  request.mutable_schedule()->set_name(kName);
  SetEvery(seconds, *request.mutable_schedule());
  request.mutable_update_mask()->add_paths("interval");
  return request;
}
using Numbers = std::vector<int64_t>;

TEST(ScheduleTime, IntervalIsAnchoredAtCreationAndItsChildMoves) {
  ScheduleWorld bench(2, 5);
  bench.change = [](v1::Schedule& s) { SetEvery(2, s); };
  const absl::Time made = bench.fixture.Now();
  bench.MakeSchedule("");
  EXPECT_EQ(InstantChildren(bench).size(), 1u);
  storage::v1::DefinitionRecord definition;
  ASSERT_TRUE(
      definition.ParseFromString(bench.fixture.Rows(ColumnFamily::kDefinitions).begin()->second));
  const absl::Time anchor = FromMicros(definition.timing().interval().anchor_micros());
  EXPECT_GE(anchor, made);
  EXPECT_LE(anchor, bench.fixture.Now());
  for (const auto& [key, record] : bench.fixture.Events())
    EXPECT_EQ((key.due_time - anchor) % absl::Seconds(2), absl::ZeroDuration());
  EXPECT_GE(bench.fixture.Events().size(), 2u);
  // A later change keeps the anchor.
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(300));
  ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::UpdateSchedule, IntervalUpdate(4)).ok());
  ASSERT_EQ(bench.fixture.Rows(ColumnFamily::kChildren).size(), 1u);
  const auto child =
      DecodeInstantChildKey(bench.fixture.Rows(ColumnFamily::kChildren).begin()->first);
  EXPECT_EQ((child->instant - anchor) % absl::Seconds(4), absl::ZeroDuration());
  EXPECT_GE(child->instant, bench.At(5));
}

TEST(ScheduleTime, AChangeRemovesTheChildOfAnIntervalFromWhereTheEmitterLeftIt) {
  ScheduleWorld bench(2, 2);
  bench.change = [&](v1::Schedule& s) {
    SetEvery(3, s);
    SetTimestamp(ToMicros(bench.start), *s.mutable_interval()->mutable_anchor_time());
  };
  bench.MakeSchedule("");
  ASSERT_EQ(InstantChildren(bench), Numbers{3});
  // The emitter has emitted [2, 8): it has moved the child to 9.
  const auto [key, value] = *bench.fixture.Rows(ColumnFamily::kChildren).begin();
  auto moved = *DecodeInstantChildKey(key);
  bench.fixture.Delete(ColumnFamily::kChildren, key);
  moved.instant = bench.At(9);
  bench.fixture.Put(ColumnFamily::kChildren, EncodeInstantChildKey(moved), value);
  bench.Plan(8, 8);
  ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::UpdateSchedule, CronUpdate("0 0 1 1 *")).ok());
  for (const auto& [child, record] : bench.fixture.Rows(ColumnFamily::kChildren))
    EXPECT_FALSE(DecodeInstantChildKey(child).has_value());
  // And back: then a delete leaves none.
  ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::UpdateSchedule, IntervalUpdate(3)).ok());
  ASSERT_EQ(InstantChildren(bench).size(), 1u);
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::DeleteSchedule, Named<v1::DeleteScheduleRequest>()).ok());
  EXPECT_EQ(InstantChildren(bench), Numbers{});
}

TEST(ScheduleTime, AListHasAChildForEachInstantThatIsLeft) {
  ScheduleWorld bench(2, 4);
  bench.change = [&](v1::Schedule& s) {
    s.clear_cron();
    for (const int second : {7, 3, 5, -3}) SetTimestamp(ToMicros(bench.At(second)), *s.add_times());
  };
  bench.MakeSchedule("");
  EXPECT_EQ(bench.Rows(), Strings{"3@1"});
  EXPECT_EQ(InstantChildren(bench), (Numbers{5, 7}));
  // The emitter is behind; the pause ends the occurrences until now.
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(5500));
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  EXPECT_EQ(bench.Rows(), (Strings{"3@1", "5@1"}));
  EXPECT_EQ(InstantChildren(bench), Numbers{});
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()).ok());
  EXPECT_EQ(InstantChildren(bench), Numbers{7});
  bench.fixture.runtime.AdvanceBy(absl::Seconds(3));
  v1::GetScheduleRequest get;
  get.set_name(kName);
  const auto finished = bench.fixture.Call(&ScheduleApi::GetSchedule, get);
  EXPECT_EQ(finished->state(), v1::Schedule::FINISHED);
  EXPECT_FALSE(finished->has_next_time());
  // It can still be triggered, and stays finished.
  EXPECT_TRUE(
      bench.fixture.Call(&ScheduleApi::TriggerSchedule, Named<v1::TriggerScheduleRequest>()).ok());
  EXPECT_EQ(bench.fixture.Call(&ScheduleApi::GetSchedule, get)->state(), v1::Schedule::FINISHED);
  // Another end makes it go on.
  const auto updated = bench.fixture.Call(&ScheduleApi::UpdateSchedule, CronUpdate("* * * * * *"));
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->state(), v1::Schedule::ENABLED);
}

TEST(ScheduleTime, StartAndEndBoundWhatAChangeEmits) {
  ScheduleWorld bench(2, 8);
  bench.change = [&](v1::Schedule& s) {
    SetTimestamp(ToMicros(bench.At(3)), *s.mutable_start_time());
    SetTimestamp(ToMicros(bench.At(6)), *s.mutable_end_time());
  };
  bench.MakeSchedule("* * * * * *");
  EXPECT_EQ(bench.Rows(), (Strings{"3@1", "4@1", "5@1"}));
}

TEST(ScheduleTime, JitterMovesTheLaunchAndNothingElse) {
  ScheduleWorld bench(2, 4);
  bench.change = [](v1::Schedule& s) { s.mutable_jitter()->set_seconds(3600); };
  bench.MakeSchedule("* * * * * *");
  const auto events = bench.fixture.Events();
  ASSERT_EQ(events.size(), 3u);
  std::vector<int64_t> nominal;
  for (const auto& [key, record] : events) {
    EXPECT_GE(key.due_time, FromMicros(record.nominal_time_micros()));
    EXPECT_LE(key.due_time, FromMicros(record.nominal_time_micros()) + absl::Hours(1));
    EXPECT_EQ(ToMicros(key.due_time), record.launch_time_micros());
    nominal.push_back((record.nominal_time_micros() - ToMicros(bench.start)) / 1'000'000);
  }
  std::sort(nominal.begin(), nominal.end());
  EXPECT_EQ(nominal, (Numbers{1, 2, 3}));
}

// A schedule with n = 3 is changed away from an occurrence and back. With one event, or before its
// launch, the occurrence has no run record (yet), and the former rows count in none.
TEST(ScheduleTime, OccurrenceAddedAgainHasOnlyItsVersionsRunRecord) {
  const auto active_runs = [](const ScheduleWorld& bench) {
    size_t n = 0;
    for (const auto& [key, value] : bench.fixture.Rows(ColumnFamily::kCheckpoints))
      n += DecodeActiveRunKey(key).has_value();
    return n;
  };
  for (const int again : {1, 2, 3}) {
    for (const bool launched : {false, true}) {
      SCOPED_TRACE(absl::StrCat(again, launched ? ", launched" : ""));
      ScheduleWorld bench(5, 5);
      bench.MakeSchedule("* * * * * *", 3);
      ASSERT_EQ(bench.fixture.Rows(ColumnFamily::kRuns).size(), 4u);
      ASSERT_EQ(active_runs(bench), 4u);
      ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::UpdateSchedule, CronUpdate("0 0 1 1 *")).ok());
      auto back = CronUpdate("* * * * * *");
      back.mutable_schedule()->set_event_count(again);
      back.mutable_update_mask()->add_paths("event_count");
      if (launched) {
        back.mutable_schedule()->set_overlap_policy(v1::Schedule::SKIP);
        back.mutable_update_mask()->add_paths("overlap_policy");
      }
      ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::UpdateSchedule, back).ok());
      const size_t runs = again == 1 || launched ? 0 : 4;
      EXPECT_EQ(bench.fixture.Rows(ColumnFamily::kRuns).size(), runs);
      EXPECT_EQ(active_runs(bench), runs);
      for (const auto& [key, value] : bench.fixture.Rows(ColumnFamily::kRuns)) {
        storage::v1::RunRecord run;
        ASSERT_TRUE(run.ParseFromString(value));
        EXPECT_EQ(run.event_count(), static_cast<uint64_t>(again));
      }
    }
  }
}

TEST(ScheduleTime, ChangeWithOverlapPolicyWritesLaunchRecords) {
  ScheduleWorld bench(2, 4);
  bench.change = [](v1::Schedule& s) { s.set_overlap_policy(v1::Schedule::SKIP); };
  bench.MakeSchedule("* * * * * *");
  int launches = 0;
  for (const auto& [key, value] : bench.fixture.Rows(ColumnFamily::kCheckpoints))
    launches += DecodeLaunchKey(key).has_value();
  EXPECT_EQ(launches, 3);
  EXPECT_TRUE(bench.fixture.Events().empty());
  const auto run =
      bench.fixture.Call(&ScheduleApi::TriggerSchedule, Named<v1::TriggerScheduleRequest>());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(bench.fixture.Events().size(), 1u);
  EXPECT_EQ(bench.fixture.Rows(ColumnFamily::kRuns).size(), 1u);
}

// max_runs.

struct Limited {
  ScheduleWorld bench;

  Limited(int max_runs, int emitted, int planned) : bench(emitted, planned) {
    bench.change = [=](v1::Schedule& s) {
      s.set_max_runs(max_runs);
      SkipMissed(s);
    };
    bench.MakeSchedule("* * * * * *");
  }
  // Seconds after the start at which it ends; -1: not.
  int64_t Finish() const {
    const storage::v1::StateRecord state = StateOf(bench.fixture);
    if (state.finish_micros() == 0) return -1;
    // 1 µs after the last one.
    return (state.finish_micros() - 1 - ToMicros(bench.start)) / 1'000'000;
  }
  uint64_t Used() const { return StateOf(bench.fixture).runs_used(); }
};

TEST(ScheduleTime, MaxRunsEndAScheduleAfterItsLastOccurrence) {
  Limited limited(5, 2, 4);
  ScheduleWorld& bench = limited.bench;
  EXPECT_EQ(limited.Finish(), 5);
  EXPECT_EQ(limited.Used(), 3u);  // 1 to 3 are emitted
  storage::v1::ChildRecord child;
  ASSERT_TRUE(child.ParseFromString(bench.fixture.Rows(ColumnFamily::kChildren).begin()->second));
  EXPECT_EQ(child.timing().end_micros(), StateOf(bench.fixture).finish_micros());
  v1::GetScheduleRequest get;
  get.set_name(kName);
  EXPECT_TRUE(bench.fixture.Call(&ScheduleApi::GetSchedule, get)->has_next_time());
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(5500));
  EXPECT_EQ(bench.fixture.Call(&ScheduleApi::GetSchedule, get)->state(), v1::Schedule::FINISHED);
}

TEST(ScheduleTime, AnUpdateGoesOnCountingWhereTheFormerVersionWas) {
  Limited limited(5, 4, 4);
  ScheduleWorld& bench = limited.bench;
  // 1 is past, 2 and 3 are emitted ahead, of which the next version has none.
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(1500));
  const auto updated =
      bench.fixture.Call(&ScheduleApi::UpdateSchedule, CronUpdate("*/10 * * * * *"));
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->max_runs(), 5);
  EXPECT_EQ(limited.Used(), 1u + bench.Rows().size() - 3);
  const absl::Time last = bench.At(static_cast<int>(limited.Finish()));
  EXPECT_EQ(absl::ToUnixSeconds(last) % 10, 0);
  EXPECT_GE(last - bench.fixture.Now(), absl::Seconds(30));
  EXPECT_LT(last - bench.fixture.Now(), absl::Seconds(40));
  // Fewer than have been: it is over.
  v1::UpdateScheduleRequest fewer;
  fewer.mutable_schedule()->set_name(kName);
  fewer.mutable_schedule()->set_max_runs(1);
  fewer.mutable_update_mask()->add_paths("max_runs");
  const auto ended = bench.fixture.Call(&ScheduleApi::UpdateSchedule, fewer);
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->state(), v1::Schedule::FINISHED);
  // Without a limit the schedule fires again and counts no more. Rows that were emitted for times
  // after that end are replaced by the rows of the new version.
  const int64_t finish = StateOf(bench.fixture).finish_micros();
  fewer.mutable_schedule()->set_max_runs(0);
  EXPECT_EQ(bench.fixture.Call(&ScheduleApi::UpdateSchedule, fewer)->state(),
            v1::Schedule::ENABLED);
  EXPECT_EQ(limited.Finish(), -1);
  EXPECT_EQ(limited.Used(), 0u);
  storage::v1::DefinitionRecord last_version;
  ASSERT_TRUE(last_version.ParseFromString(
      bench.fixture.Rows(ColumnFamily::kDefinitions).rbegin()->second));
  EXPECT_EQ(last_version.former_finish_micros(), finish);
}

// While the schedule is paused, that end may still move, and no rows are written again.
TEST(ScheduleTime, UpdateOfAPausedScheduleKeepsRowsAfterTheFormerEnd) {
  Limited limited(0, 4, 4);
  ScheduleWorld& bench = limited.bench;
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  v1::UpdateScheduleRequest request;
  request.mutable_schedule()->set_name(kName);
  request.mutable_update_mask()->add_paths("max_runs");
  for (const int max_runs : {1, 0}) {
    request.mutable_schedule()->set_max_runs(max_runs);
    ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::UpdateSchedule, request).ok());
    storage::v1::DefinitionRecord version;
    ASSERT_TRUE(
        version.ParseFromString(bench.fixture.Rows(ColumnFamily::kDefinitions).rbegin()->second));
    EXPECT_EQ(version.former_finish_micros(), 0) << max_runs;
  }
}

TEST(ScheduleTime, OnlyFiringsOfThePauseCount) {
  Limited limited(6, 3, 3);
  ScheduleWorld& bench = limited.bench;
  EXPECT_EQ(limited.Finish(), 6);
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(1500));
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  EXPECT_EQ(limited.Used(), 1u);
  Park(bench.fixture, bench.At(2));
  bench.Plan(20, 22);
  bench.fixture.runtime.AdvanceBy(absl::Seconds(19));
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()).ok());
  // At 20.5: 2 to 20 are skipped; four more follow.
  EXPECT_EQ(bench.Rows(), (Strings{"1@1", "21@1"}));
  EXPECT_EQ(limited.Finish(), 25);
  EXPECT_EQ(limited.Used(), 2u);
}

TEST(ScheduleTime, AResumeFiresNoMoreThanMaxRunsLeave) {
  ScheduleWorld bench(1, 1);
  bench.change = [](v1::Schedule& s) {
    s.set_max_runs(3);
    SetMisfire(v1::MisfirePolicy::FIRE_ALL, 1, 100, s);
  };
  bench.MakeSchedule("* * * * * *");
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  bench.Plan(20, 22);
  bench.fixture.runtime.AdvanceBy(absl::Seconds(20));
  const auto resumed =
      bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>());
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(bench.Rows(), (Strings{"1@1", "2@1", "3@1"}));
  EXPECT_EQ(resumed->state(), v1::Schedule::FINISHED);
}

TEST(ScheduleTime, RunsHeldBackByMaxRunsAreMadeUpForWhenTheEndMoves) {
  Limited limited(3, 8, 8);
  ScheduleWorld& bench = limited.bench;
  EXPECT_EQ(limited.Finish(), 3);
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(1500));
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  Park(bench.fixture, bench.At(2));
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(4000));
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()).ok());
  // At 5.5: 2 and 3, which had rows, and 4 and 5, which had none, are skipped; 6 and 7 fire, and
  // are the last ones.
  EXPECT_EQ(SkippedSince(bench.fixture, bench.start), (Strings{"4 paused", "5 paused"}));
  EXPECT_EQ(bench.Rows(), (Strings{"1@1", "6@1", "7@1"}));
  EXPECT_EQ(limited.Finish(), 7);
}

// Every second, at most five times; what was missed fires late.
void MakeFiveRunsThatAllFire(ScheduleWorld& bench) {
  bench.change = [](v1::Schedule& s) {
    s.set_max_runs(5);
    SetMisfire(v1::MisfirePolicy::FIRE_ALL, 60, 100, s);
  };
  bench.MakeSchedule("* * * * * *");
}

TEST(ScheduleTime, AnUpdateOfAPausedScheduleMakesNoRunBeyondMaxRuns) {
  ScheduleWorld bench(8, 8);
  MakeFiveRunsThatAllFire(bench);
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(1500));
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(2000));
  Park(bench.fixture, bench.At(2));
  // Other words for the same.
  ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::UpdateSchedule, CronUpdate("*/1 * * * * *")).ok());
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()).ok());
  const storage::v1::StateRecord state = StateOf(bench.fixture);
  std::vector<int64_t> sent;
  for (const auto& [key, row] : bench.fixture.Events()) {
    const bool has =
        state.finish_micros() == 0 || row.nominal_time_micros() < state.finish_micros();
    if (JudgeRow(row, key.occurrence, &state, has).action == RowVerdict::Action::kSend)
      sent.push_back(absl::ToInt64Seconds(key.due_time - bench.start));
  }
  std::sort(sent.begin(), sent.end());
  EXPECT_EQ(sent, (Numbers{1, 2, 3, 4, 5}));
}

TEST(ScheduleTime, CreateAndUpdateWarnAndGetDoesNot) {
  ScheduleWorld bench(2, 2);
  const auto made =
      bench.fixture.Call(&ScheduleApi::CreateSchedule, ValidSchedule("s", "0 0 31 * *"));
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_GT(made->warnings_size(), 0);
  v1::GetScheduleRequest get;
  get.set_name(kName);
  EXPECT_EQ(bench.fixture.Call(&ScheduleApi::GetSchedule, get)->warnings_size(), 0);
  EXPECT_GT(
      bench.fixture.Call(&ScheduleApi::UpdateSchedule, CronUpdate("0 5 31 * *"))->warnings_size(),
      0);
  EXPECT_EQ(
      bench.fixture.Call(&ScheduleApi::UpdateSchedule, CronUpdate("0 5 1 * *"))->warnings_size(),
      0);
}

TEST(ScheduleTime, APreviewIsAnsweredAsOfNowAndWritesNothing) {
  ScheduleWorld bench(2, 2);
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(500));
  const std::string before = bench.fixture.Dump();
  v1::PreviewScheduleRequest request;
  request.set_cron("* * * * * *");
  request.set_count(3);
  const auto preview = bench.fixture.Call(&ScheduleApi::PreviewSchedule, request);
  ASSERT_TRUE(preview.ok()) << preview.status();
  ASSERT_EQ(preview->occurrences_size(), 3);
  EXPECT_EQ(preview->occurrences(0).time().seconds(), absl::ToUnixSeconds(bench.At(1)));
  EXPECT_EQ(bench.fixture.Dump(), before);
  request.set_cron("0 0 30 2 *");
  EXPECT_EQ(ErrorReason(bench.fixture.Call(&ScheduleApi::PreviewSchedule, request).status()),
            "IMPOSSIBLE_EXPRESSION");
}

// The rows that the update writes for the pause are beyond the end, and a resume does not move the
// end.
TEST(ScheduleTime, AResumeDoesNotMoveTheEndWhereNoRunsAreLeft) {
  ScheduleWorld bench(8, 8);
  MakeFiveRunsThatAllFire(bench);
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(2500));
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  v1::UpdateScheduleRequest update = CronUpdate("*/1 * * * * *");
  update.mutable_schedule()->set_max_runs(1);
  update.mutable_update_mask()->add_paths("max_runs");
  ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::UpdateSchedule, update).ok());
  const int64_t finish = StateOf(bench.fixture).finish_micros();
  EXPECT_GT(finish, 0);
  EXPECT_LE(finish, ToMicros(bench.fixture.Now()));
  bench.fixture.runtime.AdvanceBy(absl::Seconds(4));
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()).ok());
  EXPECT_EQ(StateOf(bench.fixture).finish_micros(), finish);
}

}  // namespace schedule_time_test
}  // namespace escapement::master
