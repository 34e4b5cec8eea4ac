// Each occurrence that is reached late is accounted for exactly once.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/proto_time.h"
#include "common/storage/children_table.h"
#include "common/storage/schedule_table.h"
#include "services/emitter/base/options.h"
#include "services/emitter/testing/emitter_world.h"

namespace escapement::emitter {
namespace emitter_misfire_test {

using kv::ColumnFamily;

const absl::Time kStart = absl::FromUnixSeconds(1'772'323'200);  // 2026-03-01T00:00:00Z

class EmitterMisfireTest : public EmitterWorld {
 protected:
  // An emitter runs until 00:00:10, and again half an hour later, at 00:30:20.
  void BeDownForHalfAnHour() {
    StartEmitter("a");
    Advance(absl::Seconds(10));
    KillEmitter("a");
    Advance(absl::Minutes(30) + absl::Seconds(10));
    StartEmitter("b");
    Advance(absl::Seconds(5));
  }
};

std::string IdAt(int hour, int minute) {
  return absl::StrFormat("20260301T%02d%02d00-0-UTC", hour, minute);
}

TEST_F(EmitterMisfireTest, AllAreFiredUpToTheCapAndTheRestIsOneRecord) {
  const Uid uid = AddSchedule("* * * * *", "UTC", 1,
                              Misfire(storage::v1::MISFIRE_KIND_FIRE_ALL, 5, absl::Minutes(1)));
  BeDownForHalfAnHour();
  // 0 was on time. Missed are 1 to 29; 30 is late, but within the threshold.
  EXPECT_EQ(ExpectAccounted(uid, kStart, Now()),
            (Account{.fired = 7, .skipped = 0, .summarised = 24, .summaries = 1}));
  const auto skips = Skips(uid);
  ASSERT_EQ(skips.size(), 1u);
  EXPECT_EQ(skips.begin()->first, IdAt(0, 1));
  EXPECT_EQ(skips.begin()->second.skipped_occurrences(), 24u);
  EXPECT_EQ(FromMicros(skips.begin()->second.last_nominal_time_micros()),
            kStart + absl::Minutes(24));
  EXPECT_EQ(skips.begin()->second.version(), 1u);
  for (int minute = 25; minute <= 30; ++minute) EXPECT_TRUE(Fired(uid).contains(IdAt(0, minute)));
  for (const Row& row : Rows())
    EXPECT_EQ(row.key.lane, row.key.due_time == kStart ? 5 : kLaneCatchUp) << row.key.occurrence;
}

TEST_F(EmitterMisfireTest, OnlyTheLatestIsFired) {
  const Uid uid = AddSchedule("* * * * *", "UTC", 3,
                              Misfire(storage::v1::MISFIRE_KIND_FIRE_LATEST, 5, absl::Minutes(1)));
  BeDownForHalfAnHour();
  EXPECT_EQ(ExpectAccounted(uid, kStart, Now()),
            (Account{.fired = 3, .skipped = 4, .summarised = 24, .summaries = 1}));
  EXPECT_TRUE(Fired(uid).contains(IdAt(0, 29)));
  EXPECT_TRUE(Fired(uid).contains(IdAt(0, 30)));
  for (const auto& [id, done] : Skips(uid)) {
    EXPECT_EQ(done.count(), 3u);
    EXPECT_EQ(done.run_count(), 3u);
  }
}

TEST_F(EmitterMisfireTest, NoneIsFiredButWhatIsWithinTheThreshold) {
  const Uid uid = AddSchedule("* * * * *", "UTC", 1,
                              Misfire(storage::v1::MISFIRE_KIND_SKIP, 5, absl::Minutes(4)));
  BeDownForHalfAnHour();
  // Missed: 1 to 26.
  EXPECT_EQ(ExpectAccounted(uid, kStart, Now()),
            (Account{.fired = 5, .skipped = 5, .summarised = 21, .summaries = 1}));
}

TEST_F(EmitterMisfireTest, NoneOlderThanMaxAgeIsFired) {
  const auto policy = Misfire(storage::v1::MISFIRE_KIND_FIRE_ALL, 20, absl::Minutes(1));
  const Uid uid = AddSchedule("* * * * *", "UTC", 1, [&](storage::v1::DefinitionRecord& record) {
    policy(record);
    record.mutable_misfire()->set_max_age_micros(absl::ToInt64Microseconds(absl::Minutes(10)));
  });
  const Uid any_age = AddSchedule("* * * * *", "UTC", 1, policy);
  BeDownForHalfAnHour();
  // Missed are 1 to 29, of which 10 to 29 are handled one by one. 20 is 10:20 minutes late.
  EXPECT_EQ(ExpectAccounted(uid, kStart, Now()),
            (Account{.fired = 11, .skipped = 11, .summarised = 9, .summaries = 1}));
  EXPECT_FALSE(Fired(uid).contains(IdAt(0, 20)));
  EXPECT_TRUE(Fired(uid).contains(IdAt(0, 21)));
  EXPECT_TRUE(Fired(any_age).contains(IdAt(0, 20)));
}

TEST_F(EmitterMisfireTest, WithoutAPolicyTheDefaultsHold) {
  const Uid uid = AddSchedule("*/2 * * * * *");
  BeDownForHalfAnHour();
  const Account account = ExpectAccounted(uid, kStart, Now());
  EXPECT_EQ(account.summaries, 1u);
  EXPECT_EQ(account.skipped, 0u);
  // Before the downtime, the latest hundred, those within the threshold, and on time.
  EXPECT_GE(account.fired, 100u + 30u);
  EXPECT_LE(account.fired, 100u + 30u + 15u);
}

// One downtime is judged as of its end, through all of its windows, also where windows take long.
TEST_F(EmitterMisfireTest, IntervalsAndListsAreJudgedAsTheyAre) {
  const auto policy = Misfire(storage::v1::MISFIRE_KIND_FIRE_LATEST, 5, absl::Minutes(1));
  const Uid interval = AddInterval(absl::Seconds(90), kStart + absl::Seconds(30), policy);
  std::vector<absl::Time> times;
  for (int i = 1; i < 60; ++i) times.push_back(kStart + absl::Seconds(41) * i);
  const Uid list = AddList(times, policy);
  BeDownForHalfAnHour();
  // 00:00:30 + k × 90 s, before 00:29:20: k = 0 … 19; k = 20 is within the threshold?
  const Account of_interval = ExpectAccounted(interval, kStart, Now());
  EXPECT_EQ(of_interval, (Account{.fired = 1, .skipped = 4, .summarised = 15, .summaries = 1}));
  // Before 00:29:20: 41 × 42 = 1722 s; 43 is later.
  const Account of_list = ExpectAccounted(list, kStart, Now());
  EXPECT_EQ(of_list, (Account{.fired = 3, .skipped = 4, .summarised = 37, .summaries = 1}));
  EXPECT_EQ(ChildrenOf(interval), 1u);
  EXPECT_EQ(ChildrenOf(list), 59u - 44u);
}

TEST_F(EmitterMisfireTest, AScheduleMadeDuringTheDowntimeOwesNothingFromBefore) {
  StartEmitter("a");
  Advance(absl::Seconds(10));
  KillEmitter("a");
  Advance(absl::Minutes(10));
  const auto policy = Misfire(storage::v1::MISFIRE_KIND_FIRE_ALL, 5, absl::Minutes(1));
  const Uid cron = AddSchedule("* * * * *", "UTC", 1, policy);
  const Uid interval = AddInterval(absl::Minutes(1), kStart, policy);
  Advance(absl::Minutes(20));
  StartEmitter("b");
  Advance(absl::Seconds(5));
  for (const Uid& uid : {cron, interval}) {
    EXPECT_EQ(ExpectAccounted(uid, kStart, Now()),
              (Account{.fired = 6, .skipped = 0, .summarised = 14, .summaries = 1}));
  }
}

// Wherever it dies, the next one judges what is left, and nothing twice.
TEST_F(EmitterMisfireTest, AnEmitterThatDiesInTheMiddleOfACatchUp) {
  const auto add = [&](storage::v1::MisfireKind action) {
    const auto policy = Misfire(action, 7, absl::Minutes(1));
    AddSchedule("* * * * *", "UTC", 1, policy);
    AddSchedule("*/20 */2 * * * *", "Europe/Berlin", 2, policy);
    AddInterval(absl::Seconds(50), kStart + absl::Seconds(5), policy);
  };
  for (const auto action : {storage::v1::MISFIRE_KIND_FIRE_ALL,
                            storage::v1::MISFIRE_KIND_FIRE_LATEST, storage::v1::MISFIRE_KIND_SKIP})
    add(action);
  StartEmitter("a");
  Advance(absl::Seconds(3));
  KillEmitter("a");
  Advance(absl::Minutes(60));
  for (const size_t commits : {1u, 3u, 10u, 25u, 60u}) {
    size_t seen = 0;
    hooked_->before_rows = [&](std::function<void()> send) {
      if (++seen <= commits) send();  // the next one never arrives
    };
    StartEmitter(absl::StrCat("b", commits));
    ASSERT_TRUE(world_.RunUntil([&] { return seen > commits; }, absl::Minutes(2)));
    hooked_->before_rows = nullptr;
    KillEmitter(absl::StrCat("b", commits));
  }
  StartEmitter("c");
  Advance(absl::Seconds(30));
  const Account account = ExpectAccounted(kStart, Now());
  EXPECT_GT(account.summaries, schedules_.size());
  EXPECT_GT(account.fired, 0u);
  EXPECT_GT(account.skipped, 0u);
}

// The window is under a cursor: part of a schedule's children have been judged by the one that is
// gone, the others are judged by the next.
TEST_F(EmitterMisfireTest, AnEmitterThatDiesBetweenTheChunksOfALateWindow) {
  StartEmitter("a");
  Advance(absl::Seconds(95));
  KillEmitter("a");
  const absl::Time made = Now();
  const size_t count = layout_.partitions * (kChunkChildrenMax / 2 + 300);
  std::vector<std::vector<kv::Group>> commits;
  std::vector<Uid> uids;
  for (size_t i = 0; i < count; ++i) {
    const Uid uid = uids.emplace_back(Uid::FromHalves(i + 1, i * 0x9e3779b97f4a7c15));
    Schedule& schedule = schedules_[uid];
    schedule.from = made;
    schedule.definition.set_tenant("default");
    schedule.definition.set_uid(std::string(uid.bytes()));
    schedule.definition.set_version(1);
    schedule.definition.set_event_count(1);
    // Two children that are due in one window: the first windows end at other seconds than 0.
    schedule.definition.set_cron("*/15 2,3 0 * * *");
    schedule.definition.set_time_zone("UTC");
    schedule.definition.mutable_misfire()->set_max_catch_up(4);
    schedule.state.set_kind(storage::v1::SCHEDULE_STATE_KIND_ENABLED);
    schedule.state.set_version(1);
    if (i % 1000 == 0) commits.emplace_back();
    kv::Group& group = commits.back().emplace_back();
    group.mutations.push_back({.cf = ColumnFamily::kStates,
                               .key = StateKey(uid),
                               .value = schedule.state.SerializeAsString()});
    AddChildren(schedule.definition, TimetableOf(schedule.definition).value(), made, layout_,
                group.mutations);
  }
  for (std::vector<kv::Group>& groups : commits) Commit(std::move(groups));
  Advance(absl::Minutes(30));
  size_t chunks = 0;
  on_durable_ = [&](const kv::CommitRequest& request) { chunks += request.groups.size() > 1000; };
  for (const size_t until : {1u, 4u, 7u}) {
    const std::string name = absl::StrCat("b", until);
    StartEmitter(name);
    ASSERT_TRUE(world_.RunUntil([&] { return chunks >= until; }, absl::Minutes(2)));
    KillEmitter(name);
  }
  size_t cursors = 0;
  for (uint16_t p = 0; p < layout_.partitions; ++p)
    cursors += Disk(ColumnFamily::kCheckpoints).contains(CursorKey(p));
  EXPECT_GT(cursors, 0u);
  StartEmitter("c");
  Advance(absl::Seconds(30));
  // Eight each: the four latest fire, and four are skipped.
  const Account account = ExpectAccounted(made, Now());
  EXPECT_EQ(account.fired, 4 * count);
  EXPECT_EQ(account.skipped + account.summarised, 4 * count);
  EXPECT_GT(account.skipped, 0u) << "some of what was left of windows";
  EXPECT_GT(account.summarised, 0u);
}

// If another owner has counted in the meantime, the window starts again with the new summary.
TEST_F(EmitterMisfireTest, ASummaryThatChangesBetweenReadAndCommitIsReadAgain) {
  const Uid uid = AddSchedule("* * * * *", "UTC", 1,
                              Misfire(storage::v1::MISFIRE_KIND_SKIP, 1, absl::Minutes(1)));
  StartEmitter("a");
  Advance(absl::Seconds(10));
  KillEmitter("a");
  Advance(absl::Minutes(30));
  StartEmitter("b");
  size_t seen = 0;
  std::function<void()> send_on;
  hooked_->before_rows = [&](std::function<void()> send) {
    if (++seen == 5) {
      send_on = std::move(send);
    } else {
      send();
    }
  };
  ASSERT_TRUE(world_.RunUntil([&] { return send_on != nullptr; }, absl::Minutes(1)));
  const auto summary = Disk(ColumnFamily::kDone).begin();
  storage::v1::DoneRecord done;
  ASSERT_TRUE(done.ParseFromString(summary->second));
  const uint64_t counted = done.skipped_occurrences();
  done.set_skipped_occurrences(counted + 1000);
  kv::Group group;
  group.mutations.push_back(
      {.cf = ColumnFamily::kDone, .key = summary->first, .value = done.SerializeAsString()});
  Commit({group});
  send_on();
  Advance(absl::Seconds(10));
  uint64_t skipped = 0;
  for (const auto& [id, record] : Skips(uid))
    skipped += std::max<uint64_t>(1, record.skipped_occurrences());
  EXPECT_EQ(skipped, 1000u + 29u);
}

}  // namespace emitter_misfire_test
}  // namespace escapement::emitter
