// What becomes of occurrences that are reached late, and of intervals and lists of instants: each
// is accounted for exactly once.

#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/micros.h"
#include "common/sim/sim_random.h"
#include "common/storage/child_rows.h"
#include "common/storage/children_table.h"
#include "common/storage/schedule_table.h"
#include "services/emitter/emitter_fixture.h"
#include "services/emitter/limits.h"

namespace escapement::emitter {
namespace {

using kv::ColumnFamily;
using storage::v1::DefinitionRecord;

const absl::Time kStart = absl::FromUnixSeconds(1'772'323'200);  // 2026-03-01T00:00:00Z

class EmitterMisfireTest : public EmitterFixture {
 protected:
  using EmitterFixture::EmitterFixture;

  Uid AddInterval(absl::Duration every, absl::Time anchor,
                  const std::function<void(DefinitionRecord*)>& adjust = nullptr) {
    return AddSchedule("", "UTC", 1, [&](DefinitionRecord* definition) {
      auto* interval = definition->mutable_timing()->mutable_interval();
      interval->set_every_micros(absl::ToInt64Microseconds(every));
      interval->set_anchor_micros(ToMicros(anchor));
      if (adjust) adjust(definition);
    });
  }

  Uid AddList(const std::vector<absl::Time>& times,
              const std::function<void(DefinitionRecord*)>& adjust = nullptr) {
    return AddSchedule("", "UTC", 1, [&](DefinitionRecord* definition) {
      for (const absl::Time time : times)
        definition->mutable_timing()->add_times_micros(ToMicros(time));
      if (adjust) adjust(definition);
    });
  }

  static std::function<void(DefinitionRecord*)> Misfire(storage::v1::MisfireKind action,
                                                        uint32_t max_catch_up,
                                                        absl::Duration threshold) {
    return [=](DefinitionRecord* definition) {
      definition->mutable_misfire()->set_action(action);
      definition->mutable_misfire()->set_max_catch_up(max_catch_up);
      definition->mutable_misfire()->set_threshold_micros(absl::ToInt64Microseconds(threshold));
    };
  }

  // An emitter runs until 00:00:10, and again half an hour later, at 00:30:20.
  void BeDownForHalfAnHour() {
    StartEmitter("a");
    Advance(absl::Seconds(10));
    KillEmitter("a");
    Advance(absl::Minutes(30) + absl::Seconds(10));
    StartEmitter("b");
    Advance(absl::Seconds(5));
  }

  size_t ChildrenOf(const Uid& uid) const {
    size_t count = 0;
    for (const auto& [key, value] : Disk(ColumnFamily::kChildren)) {
      if (const auto instant = DecodeInstantChildKey(key)) count += instant->uid == uid;
      if (const auto child = DecodeChildKey(key)) count += child->uid == uid;
    }
    return count;
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

// Who has counted meanwhile is seen: the window is begun anew, with what the summary then says.
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

TEST_F(EmitterMisfireTest, AThousandInstantsAreAThousandEvents) {
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
  // All at once, in one window of a catch-up that nobody has begun.
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
TEST_F(EmitterMisfireTest, WhatIsNotDueIsNotRead) {
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

TEST_F(EmitterMisfireTest, AScheduleThatHasEndedLeavesNoChildren) {
  const auto until = [&](absl::Duration after) {
    return [=](DefinitionRecord* definition) {
      definition->mutable_timing()->set_end_micros(ToMicros(kStart + after));
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
TEST_F(EmitterMisfireTest, AnIntervalThatChangesBetweenScanAndCommitFiresOnce) {
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

// Whoever cancels the runs before one (CANCEL_PREVIOUS) writes the state, and changes no
// occurrence.
TEST_F(EmitterMisfireTest, WhatCancelsEarlierRunsDoesNotRefuseEmission) {
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

TEST_F(EmitterMisfireTest, TheInstantsOfADeletedOrPausedScheduleDoNotStay) {
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

class ChangeOfClocks : public EmitterMisfireTest {
 protected:
  ChangeOfClocks()
      : EmitterMisfireTest(absl::FromUnixSeconds(1'774'742'400)) {}  // 2026-03-29T00:00Z, Berlin
};

// Elapsed time knows no clocks on walls; exclusions do.
TEST_F(ChangeOfClocks, AnIntervalGoesOnEvenly) {
  const absl::Time start = Now();
  const auto in_berlin = [](DefinitionRecord* definition) {
    definition->set_time_zone("Europe/Berlin");
  };
  const Uid even = AddInterval(absl::Minutes(10), start + absl::Seconds(5), in_berlin);
  const Uid excluded =
      AddInterval(absl::Minutes(10), start + absl::Seconds(5), [&](DefinitionRecord* definition) {
        in_berlin(definition);
        definition->mutable_timing()->add_exclusions("* 3 * * *");  // 01:00Z to 02:00Z
      });
  StartEmitter("a");
  Advance(absl::Hours(3) + absl::Seconds(1));
  EXPECT_EQ(ExpectAccounted(even, start, Now()).fired, 18u);
  EXPECT_EQ(ExpectAccounted(excluded, start, Now()).fired, 12u);
}

// Random schedules, emitters that die at random, downtimes of all lengths.
class RandomDowntimes : public EmitterMisfireTest, public ::testing::WithParamInterface<int> {
 protected:
  uint64_t Draw(uint64_t below) { return (draws_ = sim::SimRandom::Mix(draws_ + 1)) % below; }

  void AddRandomSchedule() {
    static constexpr const char* kCrons[] = {"*/5 * * * * *",  "* * * * *",      "*/3 * * * *",
                                             "7,37 * * * * *", "30 */2 * * * *", "1-50/7 * * * *"};
    static constexpr const char* kZones[] = {"UTC", "Asia/Kathmandu", "America/St_Johns"};
    const auto policy =
        Misfire(static_cast<storage::v1::MisfireKind>(Draw(3)), 1 + Draw(2) * 19 + Draw(5),
                absl::Seconds(1 + Draw(2) * 50 + Draw(10)));
    const bool bounded = Draw(4) == 0;
    const absl::Time end = Now() + absl::Seconds(1 + Draw(7200));
    const auto adjust = [&](DefinitionRecord* definition) {
      policy(definition);
      if (bounded) definition->mutable_timing()->set_end_micros(ToMicros(end));
    };
    switch (Draw(3)) {
      case 0:
        AddSchedule(kCrons[Draw(6)], kZones[Draw(3)], 1 + Draw(2) * 4, adjust);
        break;
      case 1:
        AddInterval(absl::Milliseconds(1000 + Draw(100'000)),
                    Now() - absl::Milliseconds(Draw(1000)), adjust);
        break;
      default: {
        std::set<absl::Time> times;
        for (int i = 0; i < 50; ++i) times.insert(Now() + absl::Milliseconds(Draw(7'200'000)));
        AddList({times.begin(), times.end()}, adjust);
      }
    }
  }

  uint64_t draws_ = static_cast<uint64_t>(GetParam()) * 1000;
};

TEST_P(RandomDowntimes, EveryOccurrenceIsAccountedForOnce) {
  std::map<Uid, size_t> downtimes;
  int lives = 0;
  for (int i = 0; i < 12; ++i) AddRandomSchedule();
  for (int round = 0; round < 12; ++round) {
    if (round < 8) AddRandomSchedule();
    const std::string name = absl::StrCat("e", ++lives);
    StartEmitter(name);
    if (Draw(2) == 0) {
      // Dies with its k-th commit of rows, which arrives or not.
      size_t left = 1 + Draw(30);
      const bool arrives = Draw(2) == 0;
      hooked_->before_rows = [&](std::function<void()> send) {
        if (left > 0 && (--left > 0 || arrives)) send();
      };
      world_.RunUntil([&] { return left == 0; }, absl::Seconds(40));
      hooked_->before_rows = nullptr;
    } else {
      Advance(absl::Milliseconds(Draw(40'000)));
    }
    if (Draw(3) == 0 && !schedules_.empty()) {
      auto it = schedules_.begin();
      std::advance(it, Draw(schedules_.size()));
      TryUpdate(it->first);
    }
    KillEmitter(name);
    Advance(absl::Milliseconds(Draw(2) == 0 ? Draw(5000) : Draw(600'000)));
  }
  StartEmitter("last");
  Advance(absl::Seconds(40));
  ++lives;
  for (const auto& [uid, schedule] : schedules_) {
    ExpectAccounted(uid, kStart, Now() - absl::Seconds(1));
    // A skipped one was late by more than the threshold; of others, so many have fired as the
    // policy allows for each life of an emitter. Changes fire what they find.
    const cron::MisfirePolicy policy = MisfirePolicyOf(schedule.definition.misfire());
    for (const auto& [id, done] : Skips(uid)) {
      EXPECT_GT(FromMicros(done.complete_time_micros()) - FromMicros(done.nominal_time_micros()),
                policy.threshold);
    }
    if (schedule.definition.version() > 1) continue;
    size_t late = 0;
    for (const auto& [bytes, times] : puts_) {
      const EventKey key = DecodeEventKey(bytes).value();
      late += key.uid == uid && key.first == 0 &&
              times[0] - key.due_time > policy.threshold + absl::Seconds(2);
    }
    const size_t each = policy.action == cron::MisfireAction::kSkip         ? 0
                        : policy.action == cron::MisfireAction::kFireLatest ? 1
                                                                            : policy.max_catch_up;
    EXPECT_LE(late, each * static_cast<size_t>(lives)) << schedule.definition.ShortDebugString();
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomDowntimes, ::testing::Range(1, 21));

}  // namespace
}  // namespace escapement::emitter
