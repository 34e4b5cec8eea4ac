// Intervals, lists of instants, and schedules that end.

#include "common/base/proto_time.h"
#include "common/storage/schedule_table.h"
#include "services/emitter/testing/emitter_world.h"

namespace escapement::emitter {
namespace emitter_instants_test {

using kv::ColumnFamily;
using storage::v1::DefinitionRecord;

const absl::Time kStart = absl::FromUnixSeconds(1'772'323'200);  // 2026-03-01T00:00:00Z

class EmitterInstantsTest : public EmitterWorld {
 protected:
  using EmitterWorld::EmitterWorld;
};

TEST_F(EmitterInstantsTest, AThousandInstantsAreAThousandEvents) {
  std::vector<absl::Time> times;
  for (int i = 0; i < 1000; ++i)
    times.push_back(kStart + absl::Seconds(20) + absl::Milliseconds(37) * i);
  const Uid uid = AddList(times);
  EXPECT_EQ(ChildrenOf(uid), 1000u);
  StartEmitter("a");
  Advance(absl::Seconds(30));
  KillEmitter("a");
  Advance(absl::Seconds(10));
  StartEmitter("b");
  Advance(absl::Minutes(1));
  EXPECT_EQ(ExpectAccounted(uid, kStart, Now()).fired, 1000u);
  EXPECT_EQ(ChildrenOf(uid), 0u);
  // All at once, in one window of a catch-up that has not begun.
  const absl::Time down = Now();
  KillEmitter("b");
  times.clear();
  for (int i = 0; i < 1000; ++i) times.push_back(down + absl::Seconds(20) + absl::Milliseconds(i));
  const Uid late =
      AddList(times, Misfire(storage::v1::MISFIRE_KIND_FIRE_ALL, 10, absl::Minutes(1)));
  Advance(absl::Minutes(10));
  StartEmitter("c");
  Advance(absl::Seconds(5));
  EXPECT_EQ(ExpectAccounted(late, down, Now()),
            (Account{.fired = 10, .skipped = 0, .summarised = 990, .summaries = 1}));
  EXPECT_EQ(ChildrenOf(late), 0u);
}

// Each moves with its own emission; they are read when they are due, and no others.
TEST_F(EmitterInstantsTest, InstantsNotYetDueAreNotRead) {
  for (int i = 0; i < 50; ++i)
    AddInterval(absl::Hours(1), kStart + absl::Minutes(1) * i + absl::Seconds(30));
  AddInterval(absl::Seconds(1), kStart);
  StartEmitter("a");
  Advance(absl::Minutes(10));
  const Account account = ExpectAccounted(kStart, Now());
  EXPECT_EQ(account.fired, 10u * 60u + 10u);
  EXPECT_EQ(account.skipped + account.summarised, 0u);
  EXPECT_LE(static_cast<double>(hooked_->children_read), 1.2 * static_cast<double>(account.fired));
}

TEST_F(EmitterInstantsTest, AScheduleThatHasEndedLeavesNoChildren) {
  const auto until = [&](absl::Duration after) {
    return [=](DefinitionRecord& definition) {
      definition.mutable_timing()->set_end_micros(ToMicros(kStart + after));
    };
  };
  const Uid cron = AddSchedule("*/10 * * * * *", "UTC", 1, until(absl::Minutes(2)));
  const Uid hourly = AddSchedule("0,20,40 * * * *", "UTC", 1, until(absl::Minutes(21)));
  const Uid interval = AddInterval(absl::Seconds(7), kStart, until(absl::Minutes(2)));
  StartEmitter("a");
  Advance(absl::Minutes(4));
  EXPECT_EQ(ChildrenOf(cron), 0u);
  EXPECT_EQ(ChildrenOf(interval), 0u);
  EXPECT_EQ(ExpectAccounted(cron, kStart, Now()).fired, 12u);
  EXPECT_EQ(ExpectAccounted(interval, kStart, Now()).fired, 17u);
  EXPECT_EQ(ChildrenOf(hourly), 3u);
  Advance(absl::Minutes(60));
  EXPECT_EQ(ChildrenOf(hourly), 1u) << "that of minute 20 has fired, and was not read again since";
  EXPECT_EQ(ExpectAccounted(hourly, kStart, Now()).fired, 1u);
  Advance(absl::Minutes(20));
  EXPECT_EQ(ChildrenOf(hourly), 0u);
}

// The change takes over what was owed; the group of the former version has no effect, nor has it
// moved the child.
TEST_F(EmitterInstantsTest, AnIntervalThatChangesBetweenScanAndCommitFiresOnce) {
  const Uid uid = AddInterval(absl::Seconds(3), kStart);
  StartEmitter("a");
  Advance(absl::Seconds(12));
  std::function<void()> send_on;
  hooked_->before_rows = [&](std::function<void()> send) { send_on = std::move(send); };
  ASSERT_TRUE(world_.RunUntil([&] { return send_on != nullptr; }, absl::Seconds(20)));
  hooked_->before_rows = nullptr;
  ASSERT_TRUE(TryUpdate(uid));
  send_on();
  Advance(absl::Seconds(30));
  EXPECT_EQ(ExpectAccounted(uid, kStart, Now()).skipped, 0u);
  EXPECT_EQ(ChildrenOf(uid), 1u);
}

// A launch that cancels earlier runs (CANCEL_PREVIOUS) writes the state, but changes no occurrence.
TEST_F(EmitterInstantsTest, RecordThatCancelsEarlierRunsDoesNotRefuseEmission) {
  const Uid uid = AddInterval(absl::Seconds(3), kStart);
  const Uid cron = AddSchedule("*/3 * * * * *");
  StartEmitter("a");
  const auto cancel = [&](const Uid& of, int64_t before) {
    schedules_[of].state.set_cancelled_before_micros(before);
    kv::Group group;
    group.mutations.push_back({.cf = ColumnFamily::kStates,
                               .key = StateKey(of),
                               .value = schedules_[of].state.SerializeAsString()});
    Commit({group});
  };
  int held = 0;
  hooked_->before_rows = [&](std::function<void()> send) {
    world_.After(absl::Milliseconds(50), "hold", [&held, send = std::move(send)] {
      ++held;
      send();
    });
  };
  for (int i = 1; i < 400; ++i) {
    cancel(i % 2 == 0 ? uid : cron, i);
    Advance(absl::Milliseconds(50));
  }
  hooked_->before_rows = nullptr;
  Advance(absl::Seconds(10));
  EXPECT_GT(held, 5);
  ExpectAccounted(uid, kStart, Now());
  ExpectAccounted(cron, kStart, Now());
}

TEST_F(EmitterInstantsTest, TheInstantsOfADeletedOrPausedScheduleDoNotStay) {
  const Uid deleted = AddInterval(absl::Seconds(3), kStart);
  const Uid gone = AddList({kStart + absl::Seconds(30), kStart + absl::Seconds(40)});
  const Uid superseded = AddInterval(absl::Seconds(5), kStart);
  StartEmitter("a");
  Advance(absl::Seconds(12));
  kv::Group group;
  schedules_[deleted].state.set_kind(storage::v1::SCHEDULE_STATE_KIND_DELETED);
  schedules_[superseded].state.set_version(2);
  for (const Uid& uid : {deleted, superseded}) {
    group.mutations.push_back({.cf = ColumnFamily::kStates,
                               .key = StateKey(uid),
                               .value = schedules_[uid].state.SerializeAsString()});
  }
  group.mutations.push_back(
      {.cf = ColumnFamily::kStates, .kind = kv::Mutation::Kind::kDelete, .key = StateKey(gone)});
  Commit({group});
  Advance(absl::Seconds(6));
  puts_.clear();
  Advance(absl::Seconds(60));
  EXPECT_TRUE(puts_.empty());
  for (const Uid& uid : {deleted, gone, superseded}) EXPECT_EQ(ChildrenOf(uid), 0u);
}

class ChangeOfClocks : public EmitterInstantsTest {
 protected:
  ChangeOfClocks()
      : EmitterInstantsTest(absl::FromUnixSeconds(1'774'742'400)) {}  // 2026-03-29T00:00Z, Berlin
};

// Elapsed time knows no clocks on walls; exclusions do.
TEST_F(ChangeOfClocks, AnIntervalGoesOnEvenly) {
  const absl::Time start = Now();
  const auto in_berlin = [](DefinitionRecord& definition) {
    definition.set_time_zone("Europe/Berlin");
  };
  const Uid even = AddInterval(absl::Minutes(10), start + absl::Seconds(5), in_berlin);
  const Uid excluded =
      AddInterval(absl::Minutes(10), start + absl::Seconds(5), [&](DefinitionRecord& definition) {
        in_berlin(definition);
        definition.mutable_timing()->add_exclusions("* 3 * * *");  // 01:00Z to 02:00Z
      });
  StartEmitter("a");
  Advance(absl::Hours(3) + absl::Seconds(1));
  EXPECT_EQ(ExpectAccounted(even, start, Now()).fired, 18u);
  EXPECT_EQ(ExpectAccounted(excluded, start, Now()).fired, 12u);
}

}  // namespace emitter_instants_test
}  // namespace escapement::emitter
