// Rows that wait for a window or for their place in it, and rows that are left when it closes.

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/storage/event_table.h"
#include "common/storage/schedule_table.h"
#include "gtest/gtest.h"
#include "services/token_manager/testing/token_world.h"

namespace escapement::token_manager {
namespace token_manager_windows_test {

using kv::ColumnFamily;

storage::v1::WindowRecord Window(absl::Duration duration, bool even,
                                 storage::v1::OnCloseKind on_close) {
  storage::v1::WindowRecord window;
  window.set_duration_micros(absl::ToInt64Microseconds(duration));
  window.set_even(even);
  window.set_on_close(on_close);
  return window;
}

TEST(WindowsTest, EventDroppedByAWindowEndsAsExpired) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{
      .policy_id = "p",
      .window = Window(absl::Seconds(20), false, storage::v1::ON_CLOSE_KIND_DROP)};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(3));
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now(), .count = 10});
  world.Start("a");
  world.Advance(absl::Seconds(15));
  EXPECT_EQ(world.Handle().size(), 3);
  EXPECT_EQ(world.Waiting().size(), 1);
  world.Advance(absl::Seconds(10));
  EXPECT_TRUE(world.Waiting().empty());
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_EXPIRED), 7);
  EXPECT_EQ(world.Part(uid, "o1", policy).expired(), 7);
  EXPECT_EQ(world.Part(uid, "o1", policy).never_started(), 7);
  EXPECT_EQ(world.Part(uid, "o1", policy).tokens(), 3);
  EXPECT_EQ(world.Held(policy), 3);
}

TEST(WindowsTest, AnEvenWindowSpreadsItsEvents) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{
      .on_release = false,
      .window = Window(absl::Seconds(100), true, storage::v1::ON_CLOSE_KIND_FINISH_LATE)};
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now() + absl::Seconds(10), .count = 50});
  world.Start("a");
  world.Advance(absl::Seconds(10) + absl::Milliseconds(100));
  size_t sent = 0;
  for (size_t i = 1; i <= 50; ++i) {
    sent += world.Handle().size();
    EXPECT_EQ(sent, i);
    world.Advance(absl::Seconds(2));
  }
  world.Advance(kSettle);
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 50);
}

// A schedule that fires every minute, and whose rows are carried over when a window of 20 s closes.
class CarryOverTest : public ::testing::Test {
 protected:
  // A token manager carries the only row over when its window closes, without many tries.
  void ExpectCarriedOverAtOnce() {
    const TokenManagerService& service = world_.Start("a");
    world_.Advance(minute_ + absl::Seconds(19) - world_.now());
    size_t commits = 0;
    world_.poor_store.answered_late = [&](const kv::CommitRequest&) { return ++commits == 0; };
    world_.Advance(absl::Seconds(30));  // the window has closed
    world_.poor_store.answered_late = nullptr;
    EXPECT_EQ(service.metrics().carried_over.Value(), 1);
    EXPECT_LT(commits, 100u);
  }

  TokenWorld world_;
  const TokenWorld::Schedule schedule_{
      .policy_id = "p",
      .window = Window(absl::Seconds(20), false, storage::v1::ON_CLOSE_KIND_CARRY_OVER),
      .cron = "* * * * *"};
  const Uid policy_ = world_.PutPolicy("p", TokenWorld::Limits(3));
  const Uid uid_ = world_.AddSchedule("s", schedule_);
  const absl::Time minute_ =
      absl::FromUnixSeconds((absl::ToUnixSeconds(world_.now()) / 60 + 1) * 60);
};

TEST_F(CarryOverTest, EventCarriedOverWaitsForTheNextWindow) {
  world_.AddRow(uid_, schedule_, {.due = minute_, .count = 10});
  world_.Start("a");
  world_.Advance(minute_ - world_.now() + absl::Seconds(5));
  std::vector<SentEvent> out = world_.Handle();
  ASSERT_EQ(out.size(), 3);
  world_.Advance(absl::Seconds(20));  // the window has closed
  for (const SentEvent& event : out) EXPECT_TRUE(world_.Complete("a", event));
  world_.Advance(kSettle);
  EXPECT_TRUE(world_.Handle().empty());
  ASSERT_EQ(world_.Waiting().size(), 1);
  EXPECT_EQ(world_.Waiting()[0].second.throttle().window_begin_micros(),
            ToMicros(minute_ + absl::Minutes(1)));
  EXPECT_EQ(world_.Waiting()[0].first.occurrence, "o1");
  world_.Advance(minute_ + absl::Minutes(1) + absl::Seconds(1) - world_.now());
  EXPECT_EQ(world_.Handle().size(), 3);
  EXPECT_EQ(world_.Held(policy_), 3);
}

// The row of an event that is to be tried again in the next window: its key stays.
TEST_F(CarryOverTest, EventThatMayGoOnlyInTheNextWindowIsCarriedOverAtOnce) {
  const absl::Time due = minute_ + absl::Seconds(65);
  const std::string key =
      world_.AddRow(uid_, schedule_, {.due = due, .count = 2, .window_begin = minute_});
  ExpectCarriedOverAtOnce();
  ASSERT_EQ(world_.Waiting().size(), 1);
  EXPECT_EQ(EncodeWaitingKey(world_.Waiting()[0].first), key);
  EXPECT_EQ(world_.Waiting()[0].second.throttle().window_begin_micros(),
            ToMicros(minute_ + absl::Minutes(1)));
  world_.Advance(due - absl::Milliseconds(100) - world_.now());
  EXPECT_TRUE(world_.Handle().empty());
  world_.Advance(absl::Seconds(1));
  EXPECT_EQ(world_.Handle().size(), 2);
}

// A condition on a row's bytes, or on an old reading, may fail although the row is as it was.
TEST_F(CarryOverTest, RowWithBytesOfAnotherProgramIsCarriedOver) {
  const std::string key = world_.AddRow(
      uid_, schedule_, {.due = minute_ + absl::Seconds(65), .count = 2, .window_begin = minute_});
  // `count` twice: our own program writes it once.
  world_.Put(ColumnFamily::kWaiting, key,
             absl::StrCat("\x20\x02", world_.Rows(ColumnFamily::kWaiting).at(key)));
  ExpectCarriedOverAtOnce();
}

// max_runs leave no next window to wait for.
TEST_F(CarryOverTest, RestOfTheLastRunFinishesLate) {
  storage::v1::StateRecord state;
  ASSERT_TRUE(state.ParseFromString(world_.Rows(ColumnFamily::kStates).at(StateKey(uid_))));
  state.set_finish_micros(ToMicros(minute_) + 1);
  world_.Put(ColumnFamily::kStates, StateKey(uid_), state.SerializeAsString());
  world_.AddRow(uid_, schedule_, {.due = minute_, .count = 6});
  world_.Start("a");
  world_.Advance(minute_ - world_.now() + absl::Seconds(5));
  std::vector<SentEvent> out = world_.Handle();
  ASSERT_EQ(out.size(), 3);
  world_.Advance(absl::Seconds(20));  // the window has closed
  for (const SentEvent& event : out) EXPECT_TRUE(world_.Complete("a", event));
  world_.Advance(kSettle);
  EXPECT_EQ(world_.Handle().size(), 3);
}

TEST(WindowsTest, RowsThatWaitForALaterWindowAreNotInTheWayOfOthers) {
  TokenManagerOptions options;
  options.group_rows_max = 4;
  TokenWorld world(options);
  storage::v1::PolicyRecord limits = TokenWorld::Limits(0);
  limits.set_paused(true);
  const Uid policy = world.PutPolicy("p", limits);
  const TokenWorld::Schedule schedule{
      .policy_id = "p",
      .on_release = false,
      .window = Window(absl::Minutes(1), false, storage::v1::ON_CLOSE_KIND_CARRY_OVER)};
  const Uid uid = world.AddSchedule("s", schedule);
  const absl::Time due = world.now() + absl::Seconds(1);
  for (int i = 0; i < 30; ++i)
    world.AddRow(uid, schedule, {.due = due, .count = 2, .occurrence = "o" + std::to_string(i)});
  const TokenManagerService& service = world.Start("a");
  world.Advance(absl::Seconds(70));  // to the window at three o'clock
  limits.set_paused(false);
  world.PutPolicy("p", limits);
  // As TriggerNow does it.
  const absl::Time triggered = world.now() + absl::Seconds(1);
  world.AddRow(uid, schedule, {.due = triggered, .occurrence = "triggered"});
  world.Advance(triggered + absl::Milliseconds(100) - world.now());
  EXPECT_EQ(world.Handle().size(), 1);
  const absl::Time opens = absl::FromCivil(absl::CivilHour(2026, 3, 1, 3), absl::UTCTimeZone());
  world.Advance(opens - absl::Milliseconds(100) - world.now());
  EXPECT_TRUE(world.Handle().empty());
  EXPECT_LE(service.metrics().rows_in_memory.Value(), 9);
  size_t sent = 0;
  for (int i = 0; i < 20; ++i) {
    world.Advance(absl::Milliseconds(100));
    sent += world.Handle().size();
  }
  EXPECT_EQ(sent, 60);
  world.Advance(kSettle);
  EXPECT_TRUE(world.Handle().empty());
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 61);
  EXPECT_TRUE(world.Waiting().empty());
  EXPECT_EQ(world.Counts(policy).granted(), 61);
  EXPECT_EQ(service.metrics().policies_active.Value(), 0);
}

// A schedule with an even window, of whose rows few are in memory; its policy binds nobody.
struct EvenSchedule {
  EvenSchedule(size_t group_rows_max, absl::Duration window)
      : world(Options(group_rows_max)),
        schedule{.policy_id = "p",
                 .on_release = false,
                 .window = Window(window, true, storage::v1::ON_CLOSE_KIND_FINISH_LATE)},
        policy(world.PutPolicy("p", TokenWorld::Limits(0))),
        uid(world.AddSchedule("s", schedule)) {}
  static TokenManagerOptions Options(size_t group_rows_max) {
    TokenManagerOptions options;
    options.group_rows_max = group_rows_max;
    return options;
  }
  void AddRow(const TokenWorld::Row& row) { world.AddRow(uid, schedule, row); }

  TokenWorld world;
  const TokenWorld::Schedule schedule;
  const Uid policy;
  const Uid uid;
};

// Each has an event for now, and one for each third of the window.
TEST(WindowsTest, RowsThatWaitForTheirPlaceInAWindowAreNotInTheWayOfOthers) {
  for (const absl::Duration third : {absl::Seconds(20), absl::Milliseconds(300)}) {
    SCOPED_TRACE(third);
    constexpr int kRows = 30;
    EvenSchedule even(/*group_rows_max=*/4, 3 * third);
    TokenWorld& world = even.world;
    const absl::Time begin = world.now() + absl::Seconds(10);
    // The window is the same for all, as a backfill makes it.
    for (int i = 0; i < kRows; ++i)
      even.AddRow({.due = begin - absl::Seconds(5) + absl::Milliseconds(100) * i,
                   .count = 3,
                   .occurrence = "o" + std::to_string(i),
                   .window_begin = begin});
    const TokenManagerService& service = world.Start("a");
    for (int part = 0; part < 3; ++part) {
      SCOPED_TRACE(part);
      const absl::Time at = begin + part * third;
      world.Advance(at - absl::Milliseconds(1) - world.now());
      EXPECT_TRUE(world.Handle().empty());
      size_t sent = 0;
      for (int i = 0; i < 20; ++i) {
        world.Advance(absl::Milliseconds(10));
        sent += world.Handle().size();
      }
      EXPECT_EQ(sent, kRows);
      EXPECT_LE(service.metrics().rows_in_memory.Value(), 9);
    }
    world.Advance(kSettle);
    EXPECT_EQ(world.Counts(even.policy).granted(), 3 * kRows);
    EXPECT_TRUE(world.Waiting().empty());
  }
}

// Something can go at almost any time, and is granted at once.
TEST(WindowsTest, NorAreThoseThatWaitForTheirPlacesAmongOthersThatCanGo) {
  constexpr int kRows = 200;
  constexpr absl::Duration kThird = absl::Milliseconds(500);
  EvenSchedule even(/*group_rows_max=*/64, 3 * kThird);
  TokenWorld& world = even.world;
  const absl::Time begin = world.now() + absl::Seconds(3);
  for (int i = 0; i < kRows; ++i)
    even.AddRow({.due = begin + absl::Milliseconds(2) * i,
                 .count = 3,
                 .occurrence = "o" + std::to_string(i)});
  world.Start("a");
  size_t sent = 0;
  while (world.now() < begin + 4 * kThird) {
    world.Advance(absl::Milliseconds(10));
    for (const SentEvent& event : world.Handle()) {
      const int row = std::stoi(event.occurrence.substr(1));
      const absl::Time at =
          begin + absl::Milliseconds(2) * row + kThird * static_cast<int>(event.index);
      EXPECT_GE(event.at, at);
      EXPECT_LE(event.at, at + absl::Milliseconds(100)) << event.occurrence << ' ' << event.index;
      ++sent;
    }
  }
  EXPECT_EQ(sent, 3u * kRows);
}

// The first of them has its next place before the last has been read.
TEST(WindowsTest, AReadingOfManyThatWaitForTheirPlacesComesToTheirEnd) {
  constexpr int kRows = 100;
  constexpr int kPlaces = 10;
  EvenSchedule even(/*group_rows_max=*/8, kPlaces * absl::Milliseconds(1200));
  TokenWorld& world = even.world;
  world.poor_store.scan_delay = absl::Milliseconds(100);
  const absl::Time begin = world.now() + absl::Seconds(5);
  for (int i = 0; i < kRows; ++i)
    even.AddRow({.due = begin, .count = kPlaces, .occurrence = "o" + std::to_string(100 + i)});
  world.Start("a");
  world.Advance(begin + absl::Seconds(6) - world.now());
  std::set<std::string> begun;
  for (const SentEvent& event : world.Handle()) begun.insert(event.occurrence);
  EXPECT_EQ(begun.size(), size_t{kRows});
}

// They are due later, and stay where they are.
TEST(WindowsTest, RowsNotYetDueAreReadOnce) {
  EvenSchedule even(/*group_rows_max=*/4, absl::Seconds(1));
  TokenWorld& world = even.world;
  for (int i = 0; i < 40; ++i)
    even.AddRow({.due = world.now() + absl::Seconds(30 + i),
                 .count = 2,
                 .occurrence = "o" + std::to_string(i)});
  const TokenManagerService& service = world.Start("a");
  world.Advance(absl::Seconds(69) + kSettle);
  EXPECT_EQ(world.Handle().size(), 2u * 40);
  // Each once while the shard was loaded, and once or twice as those before it ended or waited.
  EXPECT_LE(service.metrics().rows_loaded.Value(), 160u);
}

// A schedule that is paused, and resumed, while its policy grants nothing: what of it waits long
// for a window is to be judged, and comes up for that.
class JudgedEarlyTest : public ::testing::Test {
 protected:
  explicit JudgedEarlyTest() : world_(EvenSchedule::Options(/*group_rows_max=*/4)) {
    storage::v1::PolicyRecord held = TokenWorld::Limits(1);
    held.set_hold_timeout_micros(absl::ToInt64Microseconds(absl::Hours(1)));
    world_.PutPolicy("p", held);
    const TokenWorld::Schedule other{.policy_id = "p"};
    world_.AddRow(world_.AddSchedule("other", other), other, {.due = world_.now()});
    world_.Start("a");
    world_.Advance(kSettle);
    EXPECT_EQ(world_.Handle().size(), 1u);
    schedule_ = {.policy_id = "p",
                 .on_release = false,
                 .window = Window(kWindow, true, storage::v1::ON_CLOSE_KIND_FINISH_LATE)};
    uid_ = world_.AddSchedule("s", schedule_);
  }
  void PauseAndResume() {
    world_.SetState(uid_, storage::v1::SCHEDULE_STATE_KIND_PAUSED);
    world_.Advance(absl::Seconds(70));
    world_.SetState(uid_, storage::v1::SCHEDULE_STATE_KIND_ENABLED);
    // As a resume returns what was due before the pause, and what is still to come.
    for (const auto& [key, row] : world_.Rows(kv::ColumnFamily::kParked)) {
      world_.Put(kv::ColumnFamily::kWaiting, EventKeyOfParked(key), row);
      world_.Delete(kv::ColumnFamily::kParked, key);
    }
    world_.Advance(absl::Milliseconds(100));
    EXPECT_TRUE(world_.Handle().empty());
    world_.PutPolicy("p", TokenWorld::Limits(0));
  }

  static constexpr absl::Duration kWindow = absl::Seconds(200);
  TokenWorld world_;
  TokenWorld::Schedule schedule_;
  Uid uid_;
};

TEST_F(JudgedEarlyTest, RowWithPlaceInOpenWindowKeepsIt) {
  constexpr uint64_t kEvents = 200;  // one a second
  const absl::Time begin = world_.now();
  world_.AddRow(uid_, schedule_,
                {.due = begin - absl::Seconds(100), .count = kEvents, .window_begin = begin});
  PauseAndResume();
  uint64_t sent = 0;
  for (int i = 0; i < 30; ++i) {
    world_.Advance(absl::Milliseconds(100));
    sent += world_.Handle().size();
    EXPECT_LE(sent, static_cast<uint64_t>(absl::ToDoubleSeconds(world_.now() - begin)) + 1);
  }
  EXPECT_GE(sent, 70u);
}

TEST_F(JudgedEarlyTest, RowsThatWaitForTheirPlacesAreOutOfTheWay) {
  constexpr int kRows = 30;
  const absl::Time begin = world_.now() + absl::Seconds(80);
  world_.AddRow(uid_, schedule_,
                {.due = world_.now() - absl::Seconds(100),
                 .occurrence = "far",
                 .window_begin = begin + absl::Hours(1)});
  for (int i = 0; i < kRows; ++i)
    world_.AddRow(
        uid_, schedule_,
        {.due = begin + absl::Milliseconds(i), .count = 2, .occurrence = "o" + std::to_string(i)});
  PauseAndResume();
  for (const absl::Duration place : {absl::ZeroDuration(), kWindow / 2}) {
    world_.Advance(begin + place - absl::Milliseconds(1) - world_.now());
    EXPECT_TRUE(world_.Handle().empty());
    size_t sent = 0;
    for (int i = 0; i < 30; ++i) {
      world_.Advance(absl::Milliseconds(10));
      sent += world_.Handle().size();
    }
    EXPECT_EQ(sent, size_t{kRows});
  }
}

}  // namespace token_manager_windows_test
}  // namespace escapement::token_manager
