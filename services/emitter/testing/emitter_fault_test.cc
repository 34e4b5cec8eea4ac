// Each occurrence is emitted once when emitters die, schedules change and stores are unreachable.

#include <set>

#include "common/base/proto_time.h"
#include "common/storage/children_table.h"
#include "common/storage/occurrence_rows.h"
#include "common/storage/schedule_table.h"
#include "services/emitter/base/options.h"
#include "services/emitter/testing/emitter_world.h"

namespace escapement::emitter {
namespace emitter_fault_test {

using kv::ColumnFamily;

class EmitterFaultTest : public EmitterWorld {
 protected:
  void AddUsualSchedules() {
    const auto fire_all = [](storage::v1::DefinitionRecord& definition) {
      definition.mutable_misfire()->set_max_catch_up(100'000);
    };
    for (const char* cron : {"*/2 * * * * *", "*/7 * * * * *", "* * * * *", "*/30 * * * * *"}) {
      AddSchedule(cron, "UTC", 1, fire_all);
      AddSchedule(cron, "Asia/Kathmandu", 5, fire_all);
    }
    AddSchedule("", "UTC", 1, [&](storage::v1::DefinitionRecord& definition) {
      fire_all(definition);
      definition.mutable_timing()->mutable_interval()->set_every_micros(1'700'000);
      definition.mutable_timing()->mutable_interval()->set_anchor_micros(
          ToMicros(Now() + absl::Seconds(1)));
    });
    AddSchedule("", "UTC", 1, [&](storage::v1::DefinitionRecord& definition) {
      fire_all(definition);
      for (int i = 1; i < 100; ++i) {
        definition.mutable_timing()->add_times_micros(
            ToMicros(Now() + absl::Seconds(1) + absl::Milliseconds(700) * i * i));
      }
    });
  }
};

// The plan is durable, then the emitter dies: nobody must believe that the rows exist.
TEST_F(EmitterFaultTest, AnEmitterThatDiesBetweenPlanAndRowsLosesNothing) {
  AddUsualSchedules();
  StartEmitter("a");
  Advance(absl::Seconds(10));
  bool dead = false;
  hooked_->before_rows = [&](std::function<void()>) { dead = true; };  // the commit never arrives
  ASSERT_TRUE(world_.RunUntil([&] { return dead; }, absl::Seconds(10)));
  KillEmitter("a");
  hooked_->before_rows = nullptr;
  absl::Time planned = absl::InfinitePast(), emitted = absl::InfiniteFuture();
  for (uint16_t p = 0; p < layout_.partitions; ++p) {
    planned = std::max(planned, Checkpoint(PlannedToKey(p)));
    emitted = std::min(emitted, Checkpoint(EmittedToKey(p)));
  }
  EXPECT_LT(emitted, planned);
  StartEmitter("b");
  Advance(absl::Seconds(30));
  ExpectEmittedOnce(absl::InfinitePast(), Now());
}

TEST_F(EmitterFaultTest, EmittersThatDieAtAnyMomentAndTakeOverFromEachOtherEmitOnce) {
  AddUsualSchedules();
  for (int round = 0; round < 20; ++round) {
    const std::string name = round % 2 == 0 ? "a" : "b";
    StartEmitter(name);
    Advance(absl::Milliseconds(7321 + 137 * round));
    KillEmitter(name);
    Advance(absl::Milliseconds(311 * (round % 5)));
  }
  StartEmitter("c");
  Advance(absl::Seconds(30));
  ExpectEmittedOnce(absl::InfinitePast(), Now());
}

// An emitter that stands still beyond its lease and then goes on with the commit that it had in
// hand.
TEST_F(EmitterFaultTest, ACommitThatArrivesAfterTheTakeoverHasNoEffect) {
  AddUsualSchedules();
  StartEmitter("a");
  Advance(absl::Seconds(10));
  std::vector<std::function<void()>> late;
  hooked_->before_rows = [&](std::function<void()> send) { late.push_back(std::move(send)); };
  ASSERT_TRUE(world_.RunUntil([&] { return !late.empty(); }, absl::Seconds(10)));
  KillEmitter("a");
  hooked_->before_rows = nullptr;
  StartEmitter("b");
  Advance(absl::Seconds(20));
  for (auto& send : late) send();
  Advance(absl::Seconds(10));
  ExpectEmittedOnce(absl::InfinitePast(), Now());
}

TEST_F(EmitterFaultTest, AScheduleThatChangesBetweenScanAndCommitIsLeftToTheChange) {
  const Uid changed = AddSchedule("*/20 * * * * *");
  Uid other = AddSchedule("*/20 * * * * *");
  while (PartitionOf(other, layout_.partitions) != PartitionOf(changed, layout_.partitions)) {
    schedules_.erase(other);
    other = AddSchedule("*/20 * * * * *");
  }
  StartEmitter("a");
  Advance(absl::Seconds(12));
  puts_.clear();
  bool hooked = false;
  std::function<void()> send_on;
  hooked_->before_rows = [&](std::function<void()> send) {
    hooked = true;
    send_on = std::move(send);
  };
  ASSERT_TRUE(world_.RunUntil([&] { return hooked; }, absl::Seconds(20)));
  hooked_->before_rows = nullptr;
  Commit({UpdateGroup(changed)});  // it would emit the occurrence itself under its new version
  send_on();
  Advance(absl::Seconds(3));
  std::set<Uid> emitted;
  for (const auto& [key, times] : puts_) emitted.insert(DecodeEventKey(key)->uid);
  EXPECT_FALSE(emitted.contains(changed));
  EXPECT_TRUE(emitted.contains(other)) << "the others' rows of the same commit stand";
  puts_.clear();
  Advance(absl::Seconds(20));
  std::map<Uid, uint64_t> versions;
  for (const Row& row : Rows())
    versions[row.key.uid] = std::max(versions[row.key.uid], row.record.version());
  EXPECT_EQ(versions[changed], 2u);
  EXPECT_EQ(versions[other], 1u);
}

TEST_F(EmitterFaultTest, APausedScheduleEmitsNothingNotEvenWhatWasScanned) {
  const Uid uid = AddSchedule("*/5 * * * * *");
  StartEmitter("a");
  Advance(absl::Seconds(12));
  std::function<void()> send_on;
  hooked_->before_rows = [&](std::function<void()> send) { send_on = std::move(send); };
  ASSERT_TRUE(world_.RunUntil([&] { return send_on != nullptr; }, absl::Seconds(20)));
  hooked_->before_rows = nullptr;
  schedules_[uid].state.set_kind(storage::v1::SCHEDULE_STATE_KIND_PAUSED);
  schedules_[uid].state.set_change_count(2);
  kv::Group pause;
  pause.mutations.push_back({.cf = ColumnFamily::kStates,
                             .key = StateKey(uid),
                             .value = schedules_[uid].state.SerializeAsString()});
  Commit({pause});
  puts_.clear();
  send_on();
  Advance(absl::Seconds(60));
  EXPECT_TRUE(puts_.empty());
}

TEST_F(EmitterFaultTest, AfterAnHourDownEverythingIsCaughtUpInTheCatchUpLane) {
  AddUsualSchedules();
  StartEmitter("a");
  Advance(absl::Seconds(10));
  KillEmitter("a");
  const absl::Time down = Now();
  Advance(absl::Hours(1));
  const absl::Time up = Now();
  StartEmitter("b");
  // The dead owner's leases ran out long ago.
  Advance(absl::Seconds(5));
  ExpectEmittedOnce(absl::InfinitePast(), Now());
  size_t late = 0;
  for (const Row& row : Rows()) {
    const bool in_catch_up = row.key.lane == kLaneCatchUp;
    late += in_catch_up;
    if (row.key.due_time < down || row.key.due_time > up) {
      EXPECT_EQ(row.key.lane, 5) << row.key.occurrence;
    }
  }
  EXPECT_GT(late, 1000u);
}

TEST_F(EmitterFaultTest, WindowOfSeveralCommitsSurvivesDeathBetweenThem) {
  layout_.partitions = 4;
  const absl::Time start = Now();
  const size_t count = 3 * kChunkChildrenMax * layout_.partitions;
  // All at 00:01, in few commits: quicker than AddSchedule.
  std::vector<std::vector<kv::Group>> commits;
  for (size_t i = 0; i < count; ++i) {
    const Uid uid = Uid::FromHalves(i + 1, i * 0x9e3779b97f4a7c15);
    Schedule& schedule = schedules_[uid];
    schedule.from = start;
    schedule.definition.set_tenant("default");
    schedule.definition.set_uid(std::string(uid.bytes()));
    schedule.definition.set_version(1);
    schedule.definition.set_cron("1 0 * * *");
    schedule.definition.set_time_zone("UTC");
    schedule.definition.set_event_count(1);
    schedule.state.set_kind(storage::v1::SCHEDULE_STATE_KIND_ENABLED);
    schedule.state.set_version(1);
    if (i % 1000 == 0) commits.emplace_back();
    kv::Group& group = commits.back().emplace_back();
    group.mutations.push_back({.cf = ColumnFamily::kStates,
                               .key = StateKey(uid),
                               .value = schedule.state.SerializeAsString()});
    static const cron::Timetable* const timetable =
        new cron::Timetable(TimetableOf(schedule.definition).value());
    AddChildren(schedule.definition, *timetable, start, layout_, group.mutations);
  }
  for (std::vector<kv::Group>& groups : commits) Commit(std::move(groups));
  size_t chunks = 0;
  on_durable_ = [&](const kv::CommitRequest& request) {
    if (request.groups.size() > 1000) ++chunks;
  };
  StartEmitter("a");
  ASSERT_TRUE(world_.RunUntil([&] { return chunks == 5; }, absl::Minutes(2)));
  KillEmitter("a");
  size_t cursors = 0;
  for (uint16_t p = 0; p < layout_.partitions; ++p)
    cursors += Disk(ColumnFamily::kCheckpoints).contains(CursorKey(p));
  EXPECT_GT(cursors, 0u);
  StartEmitter("b");
  Advance(absl::Seconds(60));
  EXPECT_GT(chunks, 2 * layout_.partitions);
  ExpectEmittedOnce(absl::InfinitePast(), Now());
  for (uint16_t p = 0; p < layout_.partitions; ++p) {
    EXPECT_FALSE(Disk(ColumnFamily::kCheckpoints).contains(CursorKey(p)));
  }
}

// An emitter abandons a window and reads its checkpoints again. The first chunk of that window is
// applied late, while the emitter notes windows in which nothing is due. The begun window must be
// ended first.
TEST_F(EmitterFaultTest, AWindowThatIsBegunLateIsEnded) {
  const uint16_t p = PartitionOf(AddSchedule("*/20 * * * * *"), layout_.partitions);
  StartEmitter("a");
  Advance(absl::Milliseconds(8'100));
  const absl::Time emitted_to = Checkpoint(EmittedToKey(p));
  ASSERT_FALSE(Disk(ColumnFamily::kCheckpoints).contains(CursorKey(p)));
  kv::Group late;
  late.mutations.push_back({.cf = ColumnFamily::kCheckpoints,
                            .key = CursorKey(p),
                            .value = EncodeCursor({.window_end = emitted_to + absl::Seconds(1),
                                                   .last_key = std::string(1, '\xff')})});
  Commit({std::move(late)});
  Advance(absl::Seconds(60));
  EXPECT_FALSE(Disk(ColumnFamily::kCheckpoints).contains(CursorKey(p)));
  ExpectEmittedOnce(absl::InfinitePast(), Now());
}

TEST_F(EmitterFaultTest, AStoreThatCrashesAndComesBackLosesNothing) {
  AddUsualSchedules();
  StartEmitter("a");
  StartEmitter("b");
  for (int round = 0; round < 6; ++round) {
    Advance(absl::Milliseconds(8'013 + round * 211));
    store_->Crash(round % 2 == 0 ? kv::MemKvStore::Unsynced::kLost
                                 : kv::MemKvStore::Unsynced::kKept);
    Advance(absl::Seconds(2));
    store_->Restart();
  }
  Advance(absl::Seconds(30));
  ExpectEmittedOnce(absl::InfinitePast(), Now());
}

}  // namespace emitter_fault_test
}  // namespace escapement::emitter
