#include "services/emitter/service/emitter_service.h"

#include <set>

#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/storage/children_table.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "gmock/gmock.h"
#include "services/emitter/testing/emitter_world.h"

namespace escapement::emitter {
namespace emitter_service_test {

using kv::ColumnFamily;

class EmitterServiceTest : public EmitterWorld {};

TEST_F(EmitterServiceTest, WritesEveryOccurrenceOnceAndAheadOfTime) {
  StartEmitter("a");
  Advance(absl::Seconds(2));
  const absl::Time start = Now();
  for (const char* cron :
       {"*/10 * * * * *", "* * * * *", "*/2 * * * *", "1 0 * * *", "30 2 0 * * *", "0 12 * * *"}) {
    AddSchedule(cron, "UTC");
  }
  AddSchedule("35-40 5 * * *", "Asia/Kolkata", 10);  // from 00:05Z
  Advance(absl::Minutes(10));
  ExpectEmittedOnce(absl::InfinitePast(), Now());
  for (const auto& [bytes, times] : puts_) {
    const EventKey key = DecodeEventKey(bytes).value();
    if (key.due_time < start + absl::Seconds(10)) continue;  // with the schedule's creation
    EXPECT_GE(key.due_time - times[0], absl::Seconds(3)) << key.occurrence;
    EXPECT_LE(key.due_time - times[0], absl::Seconds(5)) << key.occurrence;
  }
}

TEST_F(EmitterServiceTest, EmittersShareThePartitionsAndDrainWithoutAGap) {
  AddSchedule("*/5 * * * * *");
  AddSchedule("*/7 * * * * *");
  AddSchedule("*/3 * * * * *", "Europe/Berlin", 3);
  const absl::Time start = Now();
  StartEmitter("a");
  Advance(absl::Seconds(20));
  StartEmitter("b");
  Advance(absl::Seconds(20));
  DrainEmitter("a");
  Advance(absl::Seconds(20));
  ExpectEmittedOnce(absl::InfinitePast(), Now());
  for (const auto& [bytes, times] : puts_) {
    const EventKey key = DecodeEventKey(bytes).value();
    if (key.due_time <= start + absl::Seconds(6)) continue;  // before the first emitter was up
    EXPECT_LT(times[0], key.due_time) << key.occurrence;
  }
}

TEST_F(EmitterServiceTest, AnEmitterWithoutPartitionsIsNotBehind) {
  Metrics registry;
  service_options_.metrics = &registry;
  StartEmitter("a");
  Advance(absl::Seconds(10));
  const Gauge* behind = registry.GetGauge("escapement_emitter_behind_seconds", "");
  EXPECT_LT(behind->Value(), 0);  // it writes ahead
  DrainEmitter("a");
  EXPECT_EQ(behind->Value(), 0);
}

TEST_F(EmitterServiceTest, APartitionThatCannotBeReadIsBehindBesideOthersThatAreNot) {
  Metrics registry;
  service_options_.metrics = &registry;
  kv::Group broken;
  for (const std::string& key : {PlannedToKey(1), EmittedToKey(1)})
    broken.mutations.push_back(kv::Put(ColumnFamily::kCheckpoints, key, "broken"));
  Commit({broken});
  StartEmitter("a");
  Advance(absl::Minutes(2));
  EXPECT_GT(registry.GetGauge("escapement_emitter_behind_seconds", "")->Value(), 100);
  KillEmitter("a");
}

TEST_F(EmitterServiceTest, AnIdlePartitionCostsOneCommitASecondForAllTogether) {
  StartEmitter("a");
  Advance(absl::Seconds(5));
  size_t plans = 0, others = 0;
  on_durable_ = [&](const kv::CommitRequest& request) {
    const bool plan = request.groups[0].mutations[0].key == PlannedToKey(0);
    ++(plan ? plans : others);
  };
  Advance(absl::Seconds(60));
  EXPECT_EQ(plans, 60u);
  EXPECT_LE(others, 62u) << "the leases' renewals";
  on_durable_ = nullptr;
  for (uint16_t p = 0; p < layout_.partitions; ++p) {
    EXPECT_GE(Checkpoint(EmittedToKey(p)), Now() + absl::Seconds(2));
  }
}

TEST_F(EmitterServiceTest, WindowsInWhichNothingIsAreReadWithOneRequestForAllPartitions) {
  AddSchedule("0 0 12 * * *");
  StartEmitter("a");
  Advance(absl::Seconds(10));
  hooked_->children_scans = 0;
  Advance(absl::Seconds(60));
  EXPECT_EQ(hooked_->children_scans, 60u);
}

TEST_F(EmitterServiceTest, AMillionEventsAreOneRowForEachShard) {
  const Uid uid = AddSchedule("10 1 0 * * *", "UTC", 1'000'000);
  StartEmitter("a");
  Advance(absl::Seconds(68));
  const auto rows = Rows();
  ASSERT_EQ(rows.size(), layout_.queue_shards);
  std::set<uint16_t> shards;
  uint64_t events = 0;
  for (const Row& row : rows) {
    EXPECT_EQ(row.key.uid, uid);
    EXPECT_EQ(row.record.run_count(), 1'000'000u);
    shards.insert(row.key.shard);
    events += row.record.count();
  }
  EXPECT_EQ(shards.size(), layout_.queue_shards);
  EXPECT_EQ(events, 1'000'000u);
  EXPECT_EQ(Disk(ColumnFamily::kRuns).size(), 1u);
}

TEST_F(EmitterServiceTest, AMillionThrottledEventsAreOneRowThatWaits) {
  const Uid uid =
      AddSchedule("10 1 0 * * *", "UTC", 1'000'000, [](storage::v1::DefinitionRecord& definition) {
        storage::v1::ThrottleRecord* throttle = definition.mutable_throttle();
        throttle->set_policy_id("p");
        throttle->set_on_release(true);
        throttle->mutable_window()->set_duration_micros(60'000'000);
        throttle->mutable_window()->set_even(true);
      });
  StartEmitter("a");
  size_t mutations = 0;
  on_durable_ = [&](const kv::CommitRequest& request) {
    for (const kv::Group& group : request.groups) {
      for (const kv::Mutation& mutation : group.mutations) {
        mutations += mutation.cf == ColumnFamily::kWaiting || mutation.cf == ColumnFamily::kRuns ||
                     DecodeActiveRunKey(mutation.key).has_value();
      }
    }
  };
  Advance(absl::Seconds(68));
  on_durable_ = nullptr;
  EXPECT_EQ(mutations, 3u);
  EXPECT_TRUE(Rows().empty());
  EXPECT_EQ(Disk(ColumnFamily::kRuns).size(), 1u);
  size_t marks = 0;
  for (const auto& [key, value] : Disk(ColumnFamily::kCheckpoints))
    marks += DecodeActiveRunKey(key).has_value();
  EXPECT_EQ(marks, 1u);
  ASSERT_EQ(Disk(ColumnFamily::kWaiting).size(), 1u);
  const auto& [key, value] = *Disk(ColumnFamily::kWaiting).begin();
  const std::optional<WaitingKey> waiting = DecodeWaitingKey(key);
  ASSERT_TRUE(waiting.has_value());
  EXPECT_EQ(waiting->uid, uid);
  EXPECT_EQ(waiting->first, 0u);
  storage::v1::EventRecord row;
  ASSERT_TRUE(row.ParseFromString(value));
  EXPECT_EQ(row.count(), 1'000'000u);
  EXPECT_EQ(row.run_count(), 1'000'000u);
  EXPECT_EQ(row.throttle().pace_count(), 1'000'000u);
  EXPECT_EQ(FromMicros(row.throttle().window_begin_micros()), waiting->due_time);
}

// With on_complete a run of one event has a record too.
TEST_F(EmitterServiceTest, TheEndOfARunOfOneEventIsTold) {
  AddSchedule("10 1 0 * * *", "UTC", 1, [](storage::v1::DefinitionRecord& definition) {
    definition.mutable_on_complete()->mutable_target()->mutable_http()->set_uri("http://h/done");
  });
  StartEmitter("a");
  Advance(absl::Seconds(72));
  ASSERT_EQ(Rows().size(), 1u);
  ASSERT_EQ(Disk(ColumnFamily::kRuns).size(), 1u);
  kv::Group ends;
  storage::v1::RunPartRecord part;
  part.set_failed(1);
  ends.mutations.push_back(
      {.cf = ColumnFamily::kRunParts,
       .key = RunPartKey(DecodeRunKey(Disk(ColumnFamily::kRuns).begin()->first).value(), 0),
       .value = part.SerializeAsString()});
  Commit({ends});
  Advance(absl::Seconds(1));
  const auto rows = Rows();
  ASSERT_EQ(rows.size(), 2u);
  const Row& told = rows[0].record.version() == 0 ? rows[0] : rows[1];
  EXPECT_TRUE(told.record.client_chosen_id());
  EXPECT_NE(told.record.payload().find("\"event_count\":1,\"succeeded\":0,\"failed\":1"),
            std::string::npos)
      << told.record.payload();
}

// A run of n events is closed when the counts of all its shards have reached n, also by an emitter
// that came later.
TEST_F(EmitterServiceTest, ARunEndsWithItsLastEvent) {
  AddSchedule("10 1 0 * * *", "UTC", 10);
  StartEmitter("a");
  Advance(absl::Seconds(68));
  const auto part = [&](uint16_t shard, uint64_t succeeded, uint64_t failed) {
    storage::v1::RunPartRecord record;
    record.set_succeeded(succeeded);
    record.set_failed(failed);
    kv::Group group;
    group.mutations.push_back(
        {.cf = ColumnFamily::kRunParts,
         .key = RunPartKey(DecodeRunKey(Disk(ColumnFamily::kRuns).begin()->first).value(), shard),
         .value = record.SerializeAsString()});
    Commit({group});
    Advance(absl::Seconds(1));
  };
  const auto complete_time = [&] {
    storage::v1::RunRecord run;
    EXPECT_TRUE(run.ParseFromString(Disk(ColumnFamily::kRuns).begin()->second));
    return run.complete_time_micros();
  };
  ASSERT_EQ(Disk(ColumnFamily::kRuns).size(), 1u);
  part(0, 2, 1);
  part(1, 3, 0);
  part(1, 3, 0);  // the same again counts once
  EXPECT_EQ(complete_time(), 0);
  KillEmitter("a");
  part(2, 2, 0);
  StartEmitter("b");
  Advance(absl::Seconds(10));
  EXPECT_EQ(complete_time(), 0);
  part(3, 1, 1);
  EXPECT_NEAR(absl::ToDoubleSeconds(Now() - FromMicros(complete_time())), 1.0, 0.2);
  for (const auto& [key, value] : Disk(ColumnFamily::kCheckpoints)) {
    EXPECT_FALSE(DecodeActiveRunKey(key).has_value()) << "the mark goes with the end";
  }
}

TEST_F(EmitterServiceTest, UnusedExpressionIsNotKeptInUse) {
  const Uid uid = AddSchedule("20 0 * * *");
  AddSchedule("0 6 13 * *");
  StartEmitter("a");
  Advance(absl::Seconds(5));
  EXPECT_EQ(Disk(ColumnFamily::kInUse).size(), 2u);
  kv::Group remove;
  RemoveChildren(TimetableOf(schedules_[uid].definition).value(), uid, Now(), layout_,
                 remove.mutations);
  Commit({remove});
  schedules_.erase(uid);
  Advance(absl::Minutes(5));
  EXPECT_EQ(Disk(ColumnFamily::kInUse).size(), 1u);
  // It comes into use again.
  AddSchedule("20 0 * * *");
  EXPECT_EQ(Disk(ColumnFamily::kInUse).size(), 2u);
  Advance(absl::Minutes(21) - (Now() - absl::FromUnixSeconds(1'772'323'200)));
  EXPECT_EQ(puts_.size(), 1u);
}

TEST_F(EmitterServiceTest, NothingIsPlannedWhileTheClockIsHeld) {
  AddSchedule("*/5 * * * * *");
  StartEmitter("a");
  Advance(absl::Seconds(20));
  store_process_.StepWallClock(absl::Hours(1));
  Advance(absl::Seconds(5));
  const absl::Time planned = Checkpoint(PlannedToKey(0));
  const size_t rows = puts_.size();
  Advance(absl::Seconds(30));
  EXPECT_EQ(Checkpoint(PlannedToKey(0)), planned);
  EXPECT_EQ(puts_.size(), rows);
  EXPECT_LT(planned, Now() + absl::Seconds(10)) << "the jump itself is not followed";
  store_process_.StepWallClock(-absl::Hours(1));
  store_->ConfirmClock();
  Advance(absl::Seconds(20));
  EXPECT_GT(Checkpoint(PlannedToKey(0)), planned);
  ExpectEmittedOnce(absl::InfinitePast(), Now());
}

// Without this rule a store's clock that is 2 s ahead would make everything 2 s early.
TEST_F(EmitterServiceTest, MachinesThatDenyAStepOfTheStoresClockAreBelieved) {
  own_machines_ = true;
  AddSchedule("*/5 * * * * *");
  for (const char* name : {"a", "b", "c"}) StartEmitter(name);
  Advance(absl::Seconds(20));
  for (const absl::Duration step : {absl::Seconds(2), absl::Hours(1)}) {
    store_process_.StepWallClock(step);
    for (int second = 0; second < 30; ++second) {
      Advance(absl::Seconds(1));
      EXPECT_LE(Checkpoint(EmittedToKey(0)), Now() + absl::Seconds(5)) << "it writes so far ahead";
      EXPECT_GE(Checkpoint(EmittedToKey(0)), Now() + absl::Seconds(2));
    }
    store_process_.StepWallClock(-step);
    Advance(absl::Seconds(10));
  }
  ExpectEmittedOnce(absl::InfinitePast(), Now());
}

TEST_F(EmitterServiceTest, LongHoldOfTheClockIsWhyItIsNotReady) {
  // There are four partitions: one emitter has none, so nothing that it plans could be refused.
  const char* const names[] = {"a", "b", "c", "d", "e"};
  for (const char* name : names) StartEmitter(name);
  Advance(absl::Seconds(20));
  store_process_.StepWallClock(absl::Hours(2));
  Advance(absl::Seconds(8));
  for (const char* name : names) EXPECT_TRUE(emitter(name).Ready()) << name;
  Advance(absl::Seconds(6));
  for (const char* name : names) {
    EXPECT_FALSE(emitter(name).Ready()) << name;
    EXPECT_THAT(emitter(name).NotReadyReason(),
                ::testing::MatchesRegex("clock: held for 1[1-4] s, wall clock 2 h ahead"))
        << name;
  }
  store_->ConfirmClock();
  Advance(absl::Seconds(3));
  for (const char* name : names) {
    EXPECT_TRUE(emitter(name).Ready()) << name;
    EXPECT_EQ(emitter(name).NotReadyReason(), "") << name;
  }
}

class SpringForward : public EmitterWorld {
 protected:
  SpringForward()
      : EmitterWorld(absl::FromUnixSeconds(1'772'951'400)) {
  }  // 2026-03-08T06:30Z: 01:30 in New York
};

TEST_F(SpringForward, OccurrenceInTheGapFiresOnceOrNotAtAll) {
  for (const char* cron : {"30 2 * * *", "15,45 2 * * *", "*/30 * * * *", "0 3 * * *",
                           "0 2,3 * * *", "30 59 1 * * *"}) {
    AddSchedule(cron, "America/New_York");
    AddSchedule(cron, "America/Phoenix");
  }
  StartEmitter("a");
  Advance(absl::Hours(2));
  ExpectEmittedOnce(absl::InfinitePast(), Now());
}

class FallBack : public EmitterWorld {
 protected:
  FallBack()
      : EmitterWorld(absl::FromUnixSeconds(1'793'508'600)) {
  }  // 2026-11-01T04:50Z: 00:50 in New York
};

TEST_F(FallBack, RepeatedCivilTimeFiresByItsKind) {
  for (const char* cron : {"30 1 * * *", "*/20 * * * *", "0 1,2 * * *", "0 */15 1 * * *"}) {
    AddSchedule(cron, "America/New_York", 2);
  }
  StartEmitter("a");
  Advance(absl::Hours(3));
  ExpectEmittedOnce(absl::InfinitePast(), Now());
}

}  // namespace emitter_service_test
}  // namespace escapement::emitter
