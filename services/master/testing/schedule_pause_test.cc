// Pause, resume and delete, and the rows that wait during a pause.

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"
#include "services/master/testing/schedule_world.h"

namespace escapement::master {
namespace schedule_pause_test {

using kv::ColumnFamily;

TEST(SchedulePause, PauseRemovesChildrenAndResumeEmitsFromWhereTheEmitterHadCome) {
  ScheduleWorld bench(3, 6);
  bench.MakeSchedule("* * * * * *");
  EXPECT_EQ(bench.Rows().size(), 5u);  // 1 to 5
  v1::PauseScheduleRequest pause = Named<v1::PauseScheduleRequest>();
  pause.set_reason("holiday");
  const auto paused = bench.fixture.Call(&ScheduleApi::PauseSchedule, pause);
  ASSERT_TRUE(paused.ok()) << paused.status();
  EXPECT_EQ(paused->state(), v1::Schedule::PAUSED);
  EXPECT_EQ(paused->pause_reason(), "holiday");
  EXPECT_FALSE(paused->has_next_time());
  EXPECT_FALSE(ChildrenFrom(bench.fixture).has_value());
  bench.Plan(7, 9);  // the emitter goes on without this schedule
  const auto resumed =
      bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>());
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->state(), v1::Schedule::ENABLED);
  EXPECT_TRUE(resumed->pause_reason().empty());
  EXPECT_EQ(bench.Rows(), (Strings{"1@1", "2@1", "3@1", "4@1", "5@1", "6@1", "7@1", "8@1"}));
  EXPECT_EQ(ChildrenFrom(bench.fixture), bench.At(9));
}

TEST(SchedulePause, QuickPauseAndResumeLosesNoPlannedOccurrence) {
  ScheduleWorld bench(1, 1);
  bench.MakeSchedule("* * * * * *");
  bench.Plan(3, 8);  // it emitted up to 3 and is about to emit [3, 8): the pause makes that fail
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()).ok());
  EXPECT_EQ(bench.Rows(), (Strings{"3@1", "4@1", "5@1", "6@1", "7@1"}));
}

TEST(SchedulePause, ResumeReturnsParkedRowsThatFireAndSkipsTheOthers) {
  ScheduleWorld bench(6, 6);
  bench.change = &SkipMissed;
  bench.MakeSchedule("* * * * * *", /*n=*/8);
  ASSERT_EQ(bench.Rows().size(), 20u);  // 5 runs, one slice in each of 4 shards
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  Park(bench.fixture, bench.start);
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(3500));
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()).ok());
  EXPECT_TRUE(bench.fixture.Rows(ColumnFamily::kParked).empty());
  EXPECT_EQ(bench.Rows().size(), 8u);  // 4, 5
  EXPECT_EQ(bench.Rows().front(), "4@1");
  const auto& done = bench.fixture.Rows(ColumnFamily::kDone);
  ASSERT_EQ(done.size(), 12u);  // 1, 2, 3
  storage::v1::DoneRecord record;
  ASSERT_TRUE(record.ParseFromString(done.begin()->second));
  EXPECT_EQ(record.outcome(), storage::v1::OUTCOME_KIND_SKIPPED);
  EXPECT_EQ(record.reason(), "paused");
  EXPECT_EQ(record.count(), 2u);
  // The skipped ones are counted, so that the run can be closed.
  const auto& parts = bench.fixture.Rows(ColumnFamily::kRunParts);
  ASSERT_EQ(parts.size(), 3u);
  storage::v1::RunPartRecord part;
  ASSERT_TRUE(part.ParseFromString(parts.begin()->second));
  EXPECT_EQ(part.skipped(), 8u);
  EXPECT_EQ(part.never_started(), 8u);
}

TEST(SchedulePause, ARowThatIsParkedWhileItsScheduleIsResumedIsNotForgotten) {
  int parked_first = 0;
  for (int steps = 1; steps < 40; ++steps) {
    ScheduleWorld bench(3, 3);
    bench.MakeSchedule("* * * * * *");
    ASSERT_TRUE(
        bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
    const auto [state_key, state_bytes] = *bench.fixture.Rows(ColumnFamily::kStates).begin();
    const auto [key, record] = bench.fixture.Events()[1];  // the one at 2
    std::optional<absl::Status> answer;
    bench.fixture.master->schedules().ResumeSchedule(
        Named<v1::ResumeScheduleRequest>(),
        [&](absl::StatusOr<v1::Schedule> resumed) { answer = resumed.status(); });
    for (int i = 0; i < steps && bench.fixture.runtime.world().Step(); ++i) {
    }
    // As the handler parks: under the condition that the schedule is as it saw it.
    const std::string row = EncodeEventKey(key);
    kv::Group group;
    group.conditions.push_back({.cf = ColumnFamily::kStates,
                                .key = state_key,
                                .kind = kv::Condition::Kind::kValueEquals,
                                .value = state_bytes});
    group.mutations.push_back(
        {.cf = ColumnFamily::kEvents, .kind = kv::Mutation::Kind::kDelete, .key = row});
    group.mutations.push_back({.cf = ColumnFamily::kParked,
                               .key = ParkedKey(key.uid, row),
                               .value = record.SerializeAsString()});
    std::optional<bool> applied;
    bench.fixture.TryCommit({group}, [&](bool all) { applied = all; });
    ASSERT_TRUE(bench.fixture.runtime.RunUntil(
        [&] { return answer.has_value() && applied.has_value(); }, absl::Minutes(1)));
    ASSERT_TRUE(answer->ok()) << *answer;
    EXPECT_TRUE(bench.fixture.Rows(ColumnFamily::kParked).empty()) << steps;
    EXPECT_EQ(bench.Rows(), (Strings{"1@1", "2@1"}));
    parked_first += *applied;
  }
  EXPECT_GT(parked_first, 0);
}

// Counts by queue shard and first index of the Done records of one occurrence.
std::map<std::pair<uint16_t, uint64_t>, uint64_t> DoneOf(const MasterWorld& fixture,
                                                         const std::string& occurrence) {
  std::map<std::pair<uint16_t, uint64_t>, uint64_t> ranges;
  for (const auto& [key, value] : fixture.Rows(ColumnFamily::kDone)) {
    storage::v1::DoneRecord record;
    EXPECT_TRUE(record.ParseFromString(value));
    const auto done = DecodeDoneKey(key);
    if (done->occurrence == occurrence) ranges[{done->shard, done->first}] = record.count();
  }
  return ranges;
}

TEST(SchedulePause, ThrottledRowsOfThePauseAreSkippedAndOthersWaitAgain) {
  ScheduleWorld bench(6, 6);
  bench.change = &SkipMissed;
  bench.MakeThrottled("* * * * * *", /*n=*/8, "p");
  const auto before = Waiting(bench.fixture);
  ASSERT_EQ(before.size(), 5u);
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  ParkWaiting(bench.fixture, /*taken=*/3);
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(3500));
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()).ok());
  EXPECT_TRUE(bench.fixture.Rows(ColumnFamily::kParked).empty());
  EXPECT_TRUE(bench.fixture.Events().empty());
  const auto after = Waiting(bench.fixture);
  ASSERT_EQ(after.size(), 2u);  // 4, 5
  EXPECT_EQ(after[0].first, before[3].first);
  EXPECT_EQ(after[0].second.throttle().taken(), 3u);
  // Events 3 to 7 of 8 over 4 shards: two each.
  const std::map<std::pair<uint16_t, uint64_t>, uint64_t> wanted = {
      {{1, 3}, 1}, {{2, 4}, 2}, {{3, 6}, 2}};
  EXPECT_EQ(DoneOf(bench.fixture, before[0].first.occurrence), wanted);
  EXPECT_EQ(DoneOf(bench.fixture, before[1].first.occurrence), wanted);
  EXPECT_EQ(DoneOf(bench.fixture, before[2].first.occurrence), wanted);
  const auto& parts = bench.fixture.Rows(ColumnFamily::kRunParts);
  ASSERT_EQ(parts.size(), 3u);
  storage::v1::RunPartRecord part;
  ASSERT_TRUE(part.ParseFromString(parts.begin()->second));
  EXPECT_EQ(part.skipped(), 5u);
}

TEST(SchedulePause, AThrottledRunThatWasUnderWayGoesOnWithWhatIsLeft) {
  ScheduleWorld bench(3, 3);
  bench.change = &SkipMissed;
  bench.MakeThrottled("* * * * * *", /*n=*/8, "p");
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(1500));
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  const auto before = Waiting(bench.fixture);
  ASSERT_EQ(before.size(), 2u);
  ParkWaiting(bench.fixture, /*taken=*/5);
  bench.Plan(60, 60);
  bench.fixture.runtime.AdvanceBy(absl::Seconds(30));
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()).ok());
  // The one due before the pause goes on, the one due within it does not.
  EXPECT_TRUE(DoneOf(bench.fixture, before[0].first.occurrence).empty());
  EXPECT_EQ(DoneOf(bench.fixture, before[1].first.occurrence).size(), 2u);
  ASSERT_FALSE(Waiting(bench.fixture).empty());
  EXPECT_EQ(Waiting(bench.fixture)[0].first, before[0].first);
  EXPECT_EQ(Waiting(bench.fixture)[0].second.throttle().taken(), 5u);
}

TEST(SchedulePause, ParkedRowsReturnToWhereTheirDefinitionWantsThem) {
  for (const bool to_policy : {true, false}) {
    ScheduleWorld bench(4, 4);
    if (to_policy) {
      bench.MakeSchedule("* * * * * *", /*n=*/8);
    } else {
      bench.MakeThrottled("* * * * * *", /*n=*/8, "p");
    }
    ASSERT_TRUE(
        bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
    Park(bench.fixture, bench.start);
    ParkWaiting(bench.fixture);
    v1::UpdateScheduleRequest update;
    update.mutable_schedule()->set_name(kName);
    update.mutable_update_mask()->add_paths("policy");
    if (to_policy) update.mutable_schedule()->set_policy(PutPolicy(bench.fixture, "q"));
    ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::UpdateSchedule, update).ok());
    ASSERT_TRUE(
        bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()).ok());
    EXPECT_TRUE(bench.fixture.Rows(ColumnFamily::kParked).empty());
    EXPECT_TRUE(bench.fixture.Rows(ColumnFamily::kDone).empty());
    EXPECT_EQ(bench.fixture.Events().size(), to_policy ? 0u : 12u);
    EXPECT_EQ(Waiting(bench.fixture).size(), to_policy ? 12u : 0u);
    for (const auto& [key, row] : Waiting(bench.fixture))
      EXPECT_EQ(key.policy, PolicyUid("default", "q"));
  }
}

TEST(SchedulePause, ASingleThrottledEventThatIsSkippedEndsInTheShardOfItsId) {
  ScheduleWorld bench(2, 2);
  bench.MakeThrottled("* * * * * *", /*n=*/1, "p");
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  const WaitingKey key = Waiting(bench.fixture)[0].first;
  ParkWaiting(bench.fixture);
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::DeleteSchedule, Named<v1::DeleteScheduleRequest>()).ok());
  const std::string id = RunIdentity("default", key.uid, key.occurrence).EventId(0);
  const std::map<std::pair<uint16_t, uint64_t>, uint64_t> wanted = {
      {{ShardOfEventId(id, bench.fixture.layout.queue_shards), 0}, 1}};
  EXPECT_EQ(DoneOf(bench.fixture, key.occurrence), wanted);
  EXPECT_TRUE(bench.fixture.Rows(ColumnFamily::kRunParts).empty());
}

TEST(SchedulePause, MoreWaitingRowsThanOneCommitTakesDoNotHinderAResume) {
  ScheduleWorld bench(2, 2);
  bench.MakeThrottled("* * * * * *", /*n=*/8, "p");
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(1500));
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  auto [key, record] = Waiting(bench.fixture)[0];
  ParkWaiting(bench.fixture);
  // Retries that have been due since before the pause.
  kv::Group group;
  record.set_count(1);
  record.set_attempts(1);
  record.set_run_count(20'000);
  for (int i = 1; i <= 10'500; ++i) {
    key.due_time = bench.At(1) + absl::Microseconds(i);
    key.first = 100 + static_cast<uint64_t>(i);
    group.mutations.push_back({.cf = ColumnFamily::kParked,
                               .key = ParkedKey(key.uid, EncodeWaitingKey(key)),
                               .value = record.SerializeAsString()});
  }
  bench.fixture.Commit({group});
  bench.Plan(60, 60);
  bench.fixture.runtime.AdvanceBy(absl::Seconds(5));
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()).ok());
  EXPECT_TRUE(bench.fixture.Rows(ColumnFamily::kParked).empty());
  storage::v1::RunPartRecord part;
  ASSERT_TRUE(part.ParseFromString(bench.fixture.Rows(ColumnFamily::kRunParts).begin()->second));
  EXPECT_EQ(part.skipped(), 8u + 9997u);  // one commit's; the rest wait again
}

TEST(SchedulePause, VeryManyParkedRowsEndInSeveralCommits) {
  ScheduleWorld bench(2, 2);
  bench.change = &SkipMissed;
  bench.MakeSchedule("* * * * * *");
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  auto [key, record] = bench.fixture.Events()[0];
  kv::Group group;
  for (int i = 0; i < 24'500; ++i) {
    key.first = static_cast<uint64_t>(i);
    group.mutations.push_back({.cf = ColumnFamily::kParked,
                               .key = ParkedKey(key.uid, EncodeEventKey(key)),
                               .value = record.SerializeAsString()});
  }
  bench.fixture.Commit({group});
  bench.fixture.runtime.AdvanceBy(absl::Seconds(5));
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>("r")).ok());
  EXPECT_TRUE(bench.fixture.Rows(ColumnFamily::kParked).empty());
  EXPECT_EQ(bench.fixture.Rows(ColumnFamily::kDone).size(), 24'504u);  // and 2 to 5, never emitted
  EXPECT_EQ(StateOf(bench.fixture).kind(), storage::v1::SCHEDULE_STATE_KIND_ENABLED);
}

TEST(SchedulePause, DeleteLeavesATombstoneAndEndsParkedRows) {
  ScheduleWorld bench(4, 4);
  bench.MakeSchedule("* * * * * *");
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  Park(bench.fixture, bench.At(2));
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::DeleteSchedule, Named<v1::DeleteScheduleRequest>()).ok());
  EXPECT_EQ(StateOf(bench.fixture).kind(), storage::v1::SCHEDULE_STATE_KIND_DELETED);
  // Only the row by which its runs are found.
  ASSERT_EQ(bench.fixture.Rows(ColumnFamily::kSchedules).size(), 1u);
  EXPECT_EQ(bench.fixture.Rows(ColumnFamily::kSchedules).begin()->first,
            DeletedScheduleKey("default", "s"));
  EXPECT_TRUE(bench.fixture.Rows(ColumnFamily::kParked).empty());
  EXPECT_FALSE(ChildrenFrom(bench.fixture).has_value());
  EXPECT_EQ(bench.Rows(), Strings{"1@1"});  // the handler ends it as skipped (deleted)
  ASSERT_EQ(bench.fixture.Rows(ColumnFamily::kDone).size(), 2u);
  storage::v1::DoneRecord record;
  ASSERT_TRUE(record.ParseFromString(bench.fixture.Rows(ColumnFamily::kDone).begin()->second));
  EXPECT_EQ(record.reason(), "deleted");
  v1::GetScheduleRequest get;
  get.set_name(kName);
  EXPECT_TRUE(absl::IsNotFound(bench.fixture.Call(&ScheduleApi::GetSchedule, get).status()));
  // Made again it is another schedule.
  const auto again = bench.fixture.Call(&ScheduleApi::CreateSchedule, ValidSchedule("s"));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(bench.fixture.Rows(ColumnFamily::kStates).size(), 2u);
}

TEST(SchedulePause, AnUpdateWhilePausedFiresNothingUntilItIsResumed) {
  ScheduleWorld bench(2, 2);
  bench.MakeSchedule("0 0 1 1 *");
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::UpdateSchedule, CronUpdate("* * * * * *")).ok());
  EXPECT_EQ(StateOf(bench.fixture).kind(), storage::v1::SCHEDULE_STATE_KIND_PAUSED);
  EXPECT_FALSE(ChildrenFrom(bench.fixture).has_value());
  // The new version's occurrences in the covered range of the former one are emitted now (and
  // parked when the handler meets them).
  EXPECT_EQ(bench.Rows(), Strings{"1@2"});
  bench.Plan(4, 4);
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()).ok());
  EXPECT_EQ(bench.Rows(), (Strings{"1@2", "2@2", "3@2"}));
}

}  // namespace schedule_pause_test
}  // namespace escapement::master
