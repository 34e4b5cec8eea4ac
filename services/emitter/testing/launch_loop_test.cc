// Overlap between the runs of a schedule, with an emitter on virtual time.

#include "services/emitter/launches/launch_loop.h"

#include <algorithm>

#include "common/base/proto_time.h"
#include "common/storage/event_table.h"
#include "common/storage/occurrence_rows.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "services/emitter/base/options.h"
#include "services/emitter/testing/launch_world.h"

namespace escapement::emitter {
namespace launch_loop_test {

using kv::ColumnFamily;
using storage::v1::RUN_OVERLAP_KIND_ALLOW;
using storage::v1::RUN_OVERLAP_KIND_BUFFER_ONE;
using storage::v1::RUN_OVERLAP_KIND_CANCEL_PREVIOUS;
using storage::v1::RUN_OVERLAP_KIND_SKIP;
using storage::v1::SCHEDULE_STATE_KIND_DELETED;
using storage::v1::SCHEDULE_STATE_KIND_ENABLED;
using storage::v1::SCHEDULE_STATE_KIND_PAUSED;

constexpr char kEveryTen[] = "*/10 * * * * *";
constexpr absl::Duration kLateMax = absl::Milliseconds(10);
// From the end of a run to the launch of the one that waits for it.
constexpr absl::Duration kCloseMax = absl::Milliseconds(150);

class LaunchLoopTest : public LaunchWorld {
 protected:
  std::set<std::string> LaunchedNames(const Uid& uid) const {
    std::set<std::string> names;
    for (const auto& [occurrence, launched] : LaunchedRuns(uid)) names.insert(occurrence);
    return names;
  }
  std::set<std::string> SkippedNames(const Uid& uid, const std::string& reason) const {
    std::set<std::string> names;
    for (const auto& [occurrence, why] : Skipped(uid)) {
      EXPECT_EQ(why, reason) << occurrence;
      names.insert(occurrence);
    }
    return names;
  }
  std::set<std::string> Names(std::initializer_list<int> seconds) const {
    std::set<std::string> names;
    for (const int s : seconds) names.insert(At(absl::Seconds(s)));
    return names;
  }
  void ExpectLaunchedAt(const Uid& uid, int occurrence, absl::Duration at,
                        absl::Duration late_max) {
    const auto launched = LaunchedRuns(uid);
    const auto run = launched.find(At(absl::Seconds(occurrence)));
    ASSERT_NE(run, launched.end()) << occurrence;
    EXPECT_GE(run->second.at, start_ + at) << occurrence;
    EXPECT_LE(run->second.at, start_ + at + late_max) << occurrence;
  }
};

TEST_F(LaunchLoopTest, WithoutOverlapEachIsLaunchedWhenItIsDueAndNotBefore) {
  for (const auto policy :
       {RUN_OVERLAP_KIND_SKIP, RUN_OVERLAP_KIND_BUFFER_ONE, RUN_OVERLAP_KIND_CANCEL_PREVIOUS}) {
    AddOverlapping(kEveryTen, policy);
    AddOverlapping(kEveryTen, policy, 7);
  }
  Begin();
  AdvanceWithRuns(absl::Seconds(35), absl::Seconds(2));
  for (const auto& [uid, schedule] : schedules_) {
    EXPECT_EQ(LaunchedNames(uid), Names({0, 10, 20, 30}));
    EXPECT_TRUE(Skipped(uid).empty());
    EXPECT_TRUE(Active(uid).empty());
    EXPECT_EQ(StoredState(uid).cancelled_before_micros(), 0);
    for (const int s : {10, 20, 30}) ExpectLaunchedAt(uid, s, absl::Seconds(s), kLateMax);
    // A run of one event has a record, too.
    const auto record = Disk(ColumnFamily::kRuns).find(EncodeRunKey({uid, At(absl::Seconds(10))}));
    ASSERT_NE(record, Disk(ColumnFamily::kRuns).end());
    storage::v1::RunRecord run;
    ASSERT_TRUE(run.ParseFromString(record->second));
    EXPECT_NE(run.complete_time_micros(), 0);
  }
}

TEST_F(LaunchLoopTest, SkipLeavesOutWhatFallsDueWhileARunIsActive) {
  const Uid uid = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_SKIP, 3);
  Begin();
  AdvanceWithRuns(absl::Seconds(65), absl::Seconds(25));
  EXPECT_EQ(LaunchedNames(uid), Names({0, 30, 60}));
  EXPECT_EQ(SkippedNames(uid, "overlap"), Names({10, 20, 40, 50}));
  EXPECT_EQ(Waiting(uid).size(), 0u);
}

TEST_F(LaunchLoopTest, BufferOneKeepsTheFirstAndLaunchesItWhenTheRunEnds) {
  const Uid uid = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_BUFFER_ONE);
  Begin();
  AdvanceWithRuns(absl::Seconds(21), absl::Seconds(37));
  EXPECT_EQ(LaunchedNames(uid), Names({0}));
  EXPECT_TRUE(Waiting(uid).contains(At(absl::Seconds(10))));
  AdvanceWithRuns(absl::Seconds(20), absl::Seconds(37));
  EXPECT_EQ(LaunchedNames(uid), Names({0, 10}));
  EXPECT_EQ(SkippedNames(uid, "overlap"), Names({20, 30}));
  ExpectLaunchedAt(uid, 10, absl::Seconds(37), kCloseMax);
  EXPECT_EQ(LaunchedRuns(uid)[At(absl::Seconds(10))].lane, kLaneCatchUp);
}

TEST_F(LaunchLoopTest, CancelPreviousLaunchesAndSaysFromWhenOnRunsAreCancelled) {
  const Uid uid = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_CANCEL_PREVIOUS);
  const uint64_t changes = StoredState(uid).change_count();
  Begin();
  AdvanceWithRuns(absl::Seconds(9), absl::Seconds(25));
  EXPECT_EQ(StoredState(uid).cancelled_before_micros(), 0);
  AdvanceWithRuns(absl::Seconds(12), absl::Seconds(25));
  EXPECT_EQ(LaunchedNames(uid), Names({0, 10, 20}));
  EXPECT_TRUE(Skipped(uid).empty());
  EXPECT_EQ(StoredState(uid).cancelled_before_micros(), ToMicros(start_ + absl::Seconds(20)));
  EXPECT_EQ(StoredState(uid).change_count(), changes) << "it is no change of the schedule";
  EXPECT_EQ(Active(uid), Names({0, 10, 20})) << "the cancelled ones end as their rows are taken";
}

// The states that emission has as conditions are written by launches all the time.
TEST_F(LaunchLoopTest, CancellingLosesNoOccurrence) {
  const Uid uid = AddOverlapping("* * * * * *", RUN_OVERLAP_KIND_CANCEL_PREVIOUS);
  Begin();
  AdvanceWithRuns(absl::Seconds(40), absl::Milliseconds(1500));
  for (int s = 1; s < 40; ++s) ExpectLaunchedAt(uid, s, absl::Seconds(s), kLateMax);
}

TEST_F(LaunchLoopTest, ATriggeredRunCounts) {
  const Uid skip = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_SKIP);
  const Uid buffer = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_BUFFER_ONE);
  Begin();
  AdvanceWithRuns(absl::Seconds(5), absl::Seconds(2));
  for (const Uid& uid : {skip, buffer}) AddTriggeredRun(uid, "by hand");
  hung_ = {"by hand"};
  AdvanceWithRuns(absl::Seconds(7), absl::Seconds(2));
  EXPECT_EQ(SkippedNames(skip, "overlap"), Names({10}));
  EXPECT_EQ(LaunchedNames(buffer).size(), 2u);
  hung_.clear();
  AdvanceWithRuns(absl::Seconds(10), absl::Seconds(2));
  EXPECT_TRUE(LaunchedNames(skip).contains(At(absl::Seconds(20))));
  ExpectLaunchedAt(buffer, 10, absl::Seconds(12), absl::Milliseconds(200));
}

// One run ends, another one is still there.
TEST_F(LaunchLoopTest, ABufferedRunWaitsForTheLastOfAll) {
  const Uid uid = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_BUFFER_ONE);
  Begin();
  hung_ = {"by hand"};
  AdvanceWithRuns(absl::Seconds(5), absl::Seconds(12));
  AddTriggeredRun(uid, "by hand");
  AdvanceWithRuns(absl::Seconds(12), absl::Seconds(12));
  EXPECT_EQ(Active(uid), std::set<std::string>{"by hand"});
  EXPECT_FALSE(LaunchedNames(uid).contains(At(absl::Seconds(10))));
  EndRun(uid, "by hand");
  Advance(kCloseMax);
  EXPECT_TRUE(LaunchedNames(uid).contains(At(absl::Seconds(10))));
}

TEST_F(LaunchLoopTest, RecordsOfAPausedScheduleStayUntilItIsResumed) {
  const Uid uid = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_SKIP);
  Begin();
  AdvanceWithRuns(absl::Seconds(8), absl::Seconds(2));
  EXPECT_EQ(Waiting(uid), Names({10})) << "emitted ahead";
  SetState(uid, SCHEDULE_STATE_KIND_PAUSED);
  AdvanceWithRuns(absl::Seconds(30), absl::Seconds(2));
  EXPECT_EQ(Waiting(uid), Names({10}));
  SetState(uid, SCHEDULE_STATE_KIND_ENABLED);
  Advance(kLateMax);
  EXPECT_EQ(LaunchedNames(uid), Names({0, 10}));
  EXPECT_EQ(LaunchedRuns(uid)[At(absl::Seconds(10))].lane, kLaneCatchUp);
}

TEST_F(LaunchLoopTest, RecordsOfADeletedScheduleEndSkipped) {
  const Uid due = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_SKIP);
  const Uid buffered = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_BUFFER_ONE);
  Begin();
  AdvanceWithRuns(absl::Seconds(8), absl::Seconds(60));
  SetState(due, SCHEDULE_STATE_KIND_DELETED);
  AdvanceWithRuns(absl::Seconds(4), absl::Seconds(60));
  EXPECT_EQ(SkippedNames(due, "deleted"), Names({10}));
  EXPECT_EQ(Waiting(buffered), Names({10}));
  SetState(buffered, SCHEDULE_STATE_KIND_DELETED);
  Advance(kLateMax);
  EXPECT_EQ(SkippedNames(buffered, "deleted"), Names({10}));
}

TEST_F(LaunchLoopTest, AfterAnUpdateTheNewVersionDecides) {
  const Uid kept = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_BUFFER_ONE);
  const Uid gone = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_BUFFER_ONE);
  const Uid allowed = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_BUFFER_ONE);
  Begin();
  AdvanceWithRuns(absl::Seconds(11), absl::Minutes(5));
  for (const Uid& uid : {kept, gone, allowed}) EXPECT_EQ(Waiting(uid), Names({10}));
  Update(kept, [](storage::v1::DefinitionRecord& d) { d.set_event_count(3); });
  Update(gone, [](storage::v1::DefinitionRecord& d) { d.set_cron("5 5 5 * * *"); });
  Update(allowed,
         [](storage::v1::DefinitionRecord& d) { d.set_run_overlap(RUN_OVERLAP_KIND_ALLOW); });
  Advance(kLateMax);
  EXPECT_EQ(Waiting(kept), Names({10}));
  EXPECT_EQ(SkippedNames(gone, "superseded"), Names({10}));
  ExpectLaunchedAt(allowed, 10, absl::Seconds(11), kLateMax);
  EndRun(kept, At(absl::ZeroDuration()));
  Advance(kCloseMax);
  ASSERT_TRUE(LaunchedNames(kept).contains(At(absl::Seconds(10))));
  uint64_t events = 0;
  for (const Row& row : Rows()) {
    if (row.key.uid != kept || row.key.occurrence != At(absl::Seconds(10))) continue;
    EXPECT_EQ(row.record.version(), 2u);
    events += row.record.count();
  }
  EXPECT_EQ(events, 3u) << "under the version that launches it";
}

TEST_F(LaunchLoopTest, TheNextOwnerOfAPartitionKnowsWhatWaits) {
  const Uid buffer = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_BUFFER_ONE);
  const Uid skip = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_SKIP);
  Begin();
  AdvanceWithRuns(absl::Seconds(12), absl::Minutes(5));
  EXPECT_EQ(Waiting(buffer), Names({10}));
  KillEmitter("a");
  EndRun(buffer, At(absl::ZeroDuration()));
  Advance(absl::Seconds(1));
  StartEmitter("b");
  AdvanceWithRuns(absl::Seconds(12), absl::Minutes(5));
  EXPECT_EQ(LaunchedNames(buffer), Names({0, 10}));
  EXPECT_EQ(Waiting(buffer), Names({20}));
  EXPECT_EQ(LaunchedNames(skip), Names({0}));
  EXPECT_EQ(SkippedNames(skip, "overlap"), Names({10, 20}));
}

TEST_F(LaunchLoopTest, OverdueOnesAreLaunchedOldestFirstUnderThePolicy) {
  const std::string every_two = "*/2 * * * * *";
  const Uid skip = AddOverlapping(every_two, RUN_OVERLAP_KIND_SKIP);
  const Uid buffer = AddOverlapping(every_two, RUN_OVERLAP_KIND_BUFFER_ONE);
  const Uid cancel = AddOverlapping(every_two, RUN_OVERLAP_KIND_CANCEL_PREVIOUS);
  Begin();
  AdvanceWithRuns(absl::Milliseconds(9500), absl::Seconds(1));
  KillEmitter("a");
  const std::set<std::string> owed = Waiting(skip);
  ASSERT_GE(owed.size(), 2u);
  EXPECT_TRUE(owed.contains(At(absl::Seconds(10))));
  std::map<Uid, size_t> before;
  for (const Uid& uid : {skip, buffer}) before[uid] = LaunchedNames(uid).size();
  Advance(absl::Seconds(10));
  StartEmitter("b");
  Advance(absl::Seconds(7));
  // At least the oldest one is launched, and a second one only where that is cancelled.
  EXPECT_TRUE(LaunchedNames(skip).contains(At(absl::Seconds(10))));
  EXPECT_EQ(LaunchedNames(skip).size(), before[skip] + 1);
  EXPECT_TRUE(Skipped(skip).contains(At(absl::Seconds(12))));
  EXPECT_EQ(LaunchedNames(buffer).size(), before[buffer] + 1);
  EXPECT_TRUE(Waiting(buffer).contains(At(absl::Seconds(12))));
  EXPECT_TRUE(LaunchedNames(cancel).contains(At(absl::Seconds(10))));
  EXPECT_TRUE(LaunchedNames(cancel).contains(At(absl::Seconds(12))));
  EXPECT_GE(StoredState(cancel).cancelled_before_micros(), ToMicros(start_ + absl::Seconds(12)));
}

// More than one commit holds.
TEST_F(LaunchLoopTest, ManyThatAreDueAtOnceAreAllLaunched) {
  for (size_t i = 0; i < kLaunchesDecidedMax + 500; ++i)
    AddOverlapping("*/20 * * * * *", RUN_OVERLAP_KIND_SKIP);
  const absl::Time due = absl::FromUnixSeconds((absl::ToUnixSeconds(Now()) / 20 + 2) * 20);
  StartEmitter("a");
  Advance(due - Now() + absl::Milliseconds(50));
  std::set<Uid> launched;
  for (const auto& [key, times] : puts_) {
    if (DecodeEventKey(key)->due_time == due) launched.insert(DecodeEventKey(key)->uid);
  }
  // Occurrences whose predecessor is still active.
  for (const auto& [key, value] : Disk(ColumnFamily::kDone)) {
    if (DecodeDoneKey(key)->occurrence == At(due - start_))
      launched.insert(DecodeDoneKey(key)->uid);
  }
  EXPECT_EQ(launched.size(), schedules_.size());
}

// However it comes to that (a backfill, say): no second run of one name.
TEST_F(LaunchLoopTest, RecordLaunchedAlreadyGoesWithoutAnOutcome) {
  const Uid uid = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_SKIP);
  Begin();
  AdvanceWithRuns(absl::Seconds(7), absl::Seconds(1));
  ASSERT_EQ(Waiting(uid), Names({10}));
  AddTriggeredRun(uid, At(absl::Seconds(10)));
  const size_t rows = puts_.size();
  AdvanceWithRuns(absl::Seconds(5), absl::Seconds(1));
  EXPECT_EQ(puts_.size(), rows);
  EXPECT_TRUE(Waiting(uid).empty());
  EXPECT_TRUE(Skipped(uid).empty());
}

// The token manager would know only the former row.
TEST_F(LaunchLoopTest, WhileARowOfAFormerVersionWaitsInItsPlaceNothingIsLaunched) {
  const Uid uid = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_SKIP, 3,
                                 [](storage::v1::DefinitionRecord& definition) {
                                   definition.mutable_throttle()->set_policy_id("gpu");
                                 });
  Begin();
  AdvanceWithRuns(absl::Seconds(7), absl::Seconds(1));
  ASSERT_EQ(Waiting(uid), Names({10}));
  const absl::Time due = start_ + absl::Seconds(10);
  kv::Group group;
  AddLaunchedRows(SourceOf(schedules_[uid].definition),
                  {.id = At(absl::Seconds(10)), .nominal_time = due, .launch_time = due}, layout_,
                  Now(), group.mutations);
  std::erase_if(group.mutations,
                [](const kv::Mutation& m) { return m.cf != ColumnFamily::kWaiting; });
  ASSERT_EQ(group.mutations.size(), 1u);
  kv::Mutation& row = group.mutations[0];
  row.value = "left over";
  Commit({group});
  AdvanceWithRuns(absl::Seconds(5), absl::Seconds(1));
  EXPECT_EQ(Waiting(uid), Names({10}));
  EXPECT_EQ(Disk(ColumnFamily::kWaiting).at(row.key), "left over");
  row.kind = kv::Mutation::Kind::kDelete;
  Commit({group});
  AdvanceWithRuns(absl::Milliseconds(300), absl::Seconds(1));
  EXPECT_TRUE(Waiting(uid).empty());
  storage::v1::EventRecord launched;
  ASSERT_TRUE(launched.ParseFromString(Disk(ColumnFamily::kWaiting).at(row.key)));
  EXPECT_EQ(launched.count(), 3u);
}

TEST_F(LaunchLoopTest, TheWindowOfABufferedRunBeginsWhenItIsLaunched) {
  const Uid uid = AddOverlapping(
      kEveryTen, RUN_OVERLAP_KIND_BUFFER_ONE, 1, [](storage::v1::DefinitionRecord& definition) {
        storage::v1::WindowRecord& window = *definition.mutable_throttle()->mutable_window();
        window.set_duration_micros(5'000'000);
        window.set_on_close(storage::v1::ON_CLOSE_KIND_DROP);
      });
  Begin();
  AdvanceWithRuns(absl::Seconds(22), absl::Seconds(17));
  std::map<std::string, absl::Time> begins;
  for (const auto& [bytes, value] : Disk(ColumnFamily::kWaiting)) {
    storage::v1::EventRecord row;
    ASSERT_TRUE(row.ParseFromString(value));
    EXPECT_EQ(DecodeWaitingKey(bytes)->uid, uid);
    begins[DecodeWaitingKey(bytes)->occurrence] = FromMicros(row.throttle().window_begin_micros());
  }
  ASSERT_TRUE(begins.contains(At(absl::Seconds(10))));
  EXPECT_GE(begins[At(absl::Seconds(10))], start_ + absl::Seconds(17));
  EXPECT_LE(begins[At(absl::Seconds(10))], start_ + absl::Seconds(17) + kCloseMax);
}

// A run of a version with jitter may be due only after a later one of a version without.
TEST_F(LaunchLoopTest, UpdateThatRemovesJitterKeepsTheOrderOfRuns) {
  const Uid uid = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_CANCEL_PREVIOUS, 1,
                                 [](storage::v1::DefinitionRecord& definition) {
                                   definition.mutable_timing()->set_jitter_micros(90'000'000);
                                 });
  Begin();
  AdvanceWithRuns(absl::Minutes(1), absl::Seconds(1));
  Update(uid, [](storage::v1::DefinitionRecord& definition) {
    definition.mutable_timing()->clear_jitter_micros();
  });
  const absl::Time updated = Now();
  AdvanceWithRuns(absl::Minutes(2), absl::Seconds(1));
  absl::Time latest = absl::InfinitePast();
  for (const auto& [occurrence, launched] : LaunchedRuns(uid)) {
    if (launched.at < updated) continue;
    EXPECT_GE(launched.at, latest) << occurrence;
    latest = launched.at;
  }
  EXPECT_FALSE(Skipped(uid).empty());
  EXPECT_TRUE(Waiting(uid).size() <= 1);
  // Once none is left whose launch is put off, runs that meet no other change nothing.
  const int64_t cancelled_before = StoredState(uid).cancelled_before_micros();
  AdvanceWithRuns(absl::Seconds(30), absl::Seconds(1));
  EXPECT_EQ(StoredState(uid).cancelled_before_micros(), cancelled_before);
}

// Fewer records than there are may be held: what is due counts.
TEST_F(LaunchLoopTest, RecordsOfALaterTimeDoNotStandInTheWay) {
  service_options_.launches_max = 20;
  std::vector<Uid> later;
  for (int i = 0; i < 5; ++i) {
    later.push_back(AddOverlapping("* * * * * *", RUN_OVERLAP_KIND_SKIP, 1,
                                   [](storage::v1::DefinitionRecord& definition) {
                                     definition.mutable_timing()->set_jitter_micros(100'000'000);
                                   }));
  }
  Begin();
  AdvanceWithRuns(absl::Seconds(30), absl::Milliseconds(500));
  const Uid uid = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_SKIP);
  AdvanceWithRuns(absl::Minutes(2), absl::Milliseconds(500));
  for (int s = 40; s < 150; s += 10) ExpectLaunchedAt(uid, s, absl::Seconds(s), kLateMax);
  size_t waiting = 0;
  for (const auto& [bytes, value] : Disk(ColumnFamily::kCheckpoints)) {
    const auto launch = DecodeLaunchKey(bytes);
    if (!launch) continue;
    ++waiting;
    EXPECT_GE(launch->launch_time, Now() - absl::Milliseconds(50));
  }
  EXPECT_GT(waiting, 100u);
}

TEST_F(LaunchLoopTest, RecordsOfPausedSchedulesDoNotStandInTheWay) {
  service_options_.launches_max = 20;
  std::vector<Uid> paused;
  for (int i = 0; i < 10; ++i)
    paused.push_back(AddOverlapping("* * * * * *", RUN_OVERLAP_KIND_SKIP));
  const Uid uid = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_SKIP);
  Begin();
  AdvanceWithRuns(absl::Seconds(8), absl::Milliseconds(500));
  for (const Uid& schedule : paused) SetState(schedule, SCHEDULE_STATE_KIND_PAUSED);
  AdvanceWithRuns(absl::Minutes(1), absl::Milliseconds(500));
  for (int s = 10; s < 60; s += 10) ExpectLaunchedAt(uid, s, absl::Seconds(s), kLateMax);
  size_t parked = 0;
  for (const Uid& schedule : paused) {
    parked += Waiting(schedule).size();
    SetState(schedule, SCHEDULE_STATE_KIND_ENABLED);
  }
  EXPECT_GT(parked, service_options_.launches_max);
  AdvanceWithRuns(absl::Seconds(10), absl::Milliseconds(500));
  for (const auto& [bytes, value] : Disk(ColumnFamily::kCheckpoints)) {
    const auto launch = DecodeLaunchKey(bytes);
    if (launch) {
      EXPECT_GE(launch->launch_time, Now() - absl::Milliseconds(50));
    }
  }
}

TEST_F(LaunchLoopTest, JitterPutsOffTheLaunchAndIsNoPartOfTheName) {
  const Uid uid = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_CANCEL_PREVIOUS, 1,
                                 [](storage::v1::DefinitionRecord& definition) {
                                   definition.mutable_timing()->set_jitter_micros(45'000'000);
                                 });
  Begin();
  AdvanceWithRuns(absl::Minutes(3), absl::Minutes(1));
  std::set<std::string> all = LaunchedNames(uid);
  for (const auto& [occurrence, reason] : Skipped(uid)) {
    EXPECT_EQ(reason, "overlap");
    EXPECT_TRUE(all.insert(occurrence).second) << occurrence;
  }
  for (int s = 0; s <= 130; s += 10) EXPECT_TRUE(all.contains(At(absl::Seconds(s)))) << s;
  EXPECT_FALSE(Skipped(uid).empty()) << "some come after a later one";
  // Only the latest of all that are active is not cancelled.
  const int64_t cancelled_before = StoredState(uid).cancelled_before_micros();
  for (const std::string& occurrence : Active(uid)) {
    storage::v1::RunRecord run;
    ASSERT_TRUE(run.ParseFromString(Disk(ColumnFamily::kRuns).at(EncodeRunKey({uid, occurrence}))));
    if (occurrence == *Active(uid).rbegin()) continue;
    EXPECT_LT(run.nominal_time_micros(), cancelled_before);
  }
}

}  // namespace launch_loop_test
}  // namespace escapement::emitter
