// Retries of events with tokens and the schedule's next occurrence.

#include <string>
#include <vector>

#include "common/base/proto_time.h"
#include "gtest/gtest.h"
#include "services/token_manager/testing/token_world.h"

namespace escapement::token_manager {
namespace token_manager_retry_test {

using kv::ColumnFamily;
using storage::v1::GrantReportRecord;
using Entry = TokenWorld::Entry;

constexpr absl::Duration kSettle = absl::Seconds(3);
constexpr char kReason[] = "busy; not tried again past the next occurrence";

// A schedule that fires every minute, two events a run, under a policy that lets one out.
class RetryTest : public ::testing::Test {
 protected:
  void Begin() {
    schedule_.policy_id = "p";
    schedule_.cron = "* * * * *";
    policy_ = world_.PutPolicy("p", TokenWorld::Limits(1));
    uid_ = world_.AddSchedule("s", schedule_);
    minute_ = absl::FromUnixSeconds((absl::ToUnixSeconds(world_.now()) / 60 + 1) * 60);
    world_.AddRow(uid_, schedule_, {.due = minute_, .count = 2, .run_kept = true});
    world_.Start("a");
    To(absl::Seconds(1));
  }
  // Advances to this time within the minute.
  void To(absl::Duration when) { world_.Advance(minute_ + when - world_.now()); }
  // Event 0 is to be tried again at 10 s; event 1 is out instead.
  SentEvent RetryFirst() {
    world_.Handle([&](const SentEvent& event) {
      Entry entry = TokenWorld::EntryOf(event, GrantReportRecord::RETRY);
      entry.set_attempts(1);
      entry.set_retry_at_micros(ToMicros(minute_ + absl::Seconds(10)));
      entry.set_reason("busy");
      return entry;
    });
    world_.Advance(kSettle);
    const std::vector<SentEvent> out = world_.Handle();
    EXPECT_EQ(out.size(), 1u);
    EXPECT_EQ(out.at(0).index, 1u);
    return out.at(0);
  }
  std::vector<storage::v1::DeadLetterRecord> DeadLetters() const {
    std::vector<storage::v1::DeadLetterRecord> letters;
    for (const auto& [key, value] : world_.Rows(ColumnFamily::kDeadLetters))
      letters.emplace_back().ParseFromString(value);
    return letters;
  }

  TokenWorld world_;
  TokenWorld::Schedule schedule_;
  Uid policy_;
  Uid uid_;
  absl::Time minute_;
};

TEST_F(RetryTest, RetryThatWaitsUntilTheNextOccurrenceEnds) {
  Begin();
  const SentEvent second = RetryFirst();
  To(absl::Seconds(61));
  EXPECT_EQ(world_.Waiting().size(), 1u);
  EXPECT_TRUE(world_.Complete("a", second));
  world_.Advance(kSettle);
  EXPECT_TRUE(world_.Handle().empty());
  EXPECT_TRUE(world_.Waiting().empty());
  EXPECT_EQ(world_.DoneEvents(storage::v1::OUTCOME_KIND_FAILED), 1u);
  ASSERT_EQ(DeadLetters().size(), 1u);
  EXPECT_EQ(DeadLetters()[0].reason(), kReason);
  EXPECT_EQ(DeadLetters()[0].schedule_id(), "s");
  EXPECT_EQ(DeadLetters()[0].index(), 0u);
  EXPECT_EQ(world_.Part(uid_, "o1", policy_).failed(), 1u);
  EXPECT_EQ(world_.Part(uid_, "o1", policy_).skipped(), 0u);
  EXPECT_EQ(world_.Part(uid_, "", policy_).failed(), 1u);
  EXPECT_EQ(world_.Part(uid_, "", policy_).succeeded(), 1u);
  EXPECT_EQ(world_.manager("a").metrics().failed.Value(), 1u);
  EXPECT_EQ(world_.Held(policy_), 0u);
}

TEST_F(RetryTest, UnlessItIsKept) {
  world_.retry.set_keep(true);
  Begin();
  const SentEvent second = RetryFirst();
  To(absl::Seconds(61));
  EXPECT_TRUE(world_.Complete("a", second));
  world_.Advance(kSettle);
  const std::vector<SentEvent> again = world_.Handle();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].attempts, 1u);
  EXPECT_TRUE(DeadLetters().empty());
}

TEST_F(RetryTest, OrIsCarriedOverToTheWindowOfThatOccurrence) {
  storage::v1::WindowRecord window;
  window.set_duration_micros(20'000'000);
  window.set_on_close(storage::v1::ON_CLOSE_KIND_CARRY_OVER);
  schedule_.window = window;
  Begin();
  const SentEvent second = RetryFirst();
  To(absl::Seconds(30));
  EXPECT_TRUE(world_.Complete("a", second));
  To(absl::Seconds(61));
  const std::vector<SentEvent> again = world_.Handle();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].index, 0u);
  EXPECT_EQ(again[0].attempts, 1u);
  EXPECT_TRUE(DeadLetters().empty());
}

TEST_F(RetryTest, WorkThatFailedIsNotTriedAgainPastIt) {
  world_.retry.set_min_backoff_micros(200'000'000);
  Begin();
  const std::vector<SentEvent> first = world_.Handle();
  ASSERT_EQ(first.size(), 1u);
  To(absl::Seconds(59));
  EXPECT_TRUE(world_.Complete("a", first[0], GrantReportRecord::COMPLETION_FAILED));
  world_.Advance(kSettle);
  ASSERT_EQ(DeadLetters().size(), 1u);
  EXPECT_EQ(DeadLetters()[0].reason(), "not tried again past the next occurrence");
  EXPECT_EQ(DeadLetters()[0].event().attempts(), 1u);
  // First attempts are late, not too late.
  const std::vector<SentEvent> second = world_.Handle();
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].index, 1u);
}

// As a backfill sets them off.
TEST(TokenRetryTest, AgeOfAnEventFirstTriedLateCountsFromTheFirstTry) {
  for (const GrantReportRecord::Kind kind :
       {GrantReportRecord::RETURNED, GrantReportRecord::COMPLETION_FAILED}) {
    for (const bool ends : {false, true}) {
      SCOPED_TRACE(testing::Message() << kind << ' ' << ends);
      TokenWorld world;
      world.retry.set_keep(true);
      world.retry.set_max_attempts(100);
      world.retry.set_min_backoff_micros(1'000'000);
      world.retry.set_max_backoff_micros(1'000'000);
      world.retry.set_max_age_micros(20'000'000);
      const TokenWorld::Schedule schedule{.policy_id = "p"};
      const Uid policy = world.PutPolicy("p", TokenWorld::Limits(1));
      const Uid uid = world.AddSchedule("s", schedule);
      world.AddRow(uid, schedule, {.due = world.now() - absl::Hours(72), .run_kept = true});
      world.Start("a");
      const absl::Time begin = world.now();
      int tries = 0;
      const auto ended = [&] { return world.Count(ColumnFamily::kDone) > 0; };
      while (!ended() && world.now() < begin + absl::Seconds(60)) {
        world.Advance(absl::Milliseconds(100));
        world.Handle([&](const SentEvent& event) {
          const bool well = !ends && ++tries == 3;
          Entry entry = TokenWorld::EntryOf(event, well ? GrantReportRecord::COMPLETED : kind);
          entry.set_unreachable(entry.kind() == GrantReportRecord::RETURNED);
          entry.set_reason("busy");
          return entry;
        });
      }
      const auto outcome =
          ends ? storage::v1::OUTCOME_KIND_FAILED : storage::v1::OUTCOME_KIND_SUCCEEDED;
      EXPECT_EQ(world.DoneEvents(outcome), 1u);
      if (ends) {
        EXPECT_GE(world.now() - begin, absl::Seconds(18));
      }
      world.Advance(kSettle);
      EXPECT_EQ(world.Held(policy), 0u);
      EXPECT_TRUE(world.Waiting().empty());
    }
  }
}

}  // namespace token_manager_retry_test
}  // namespace escapement::token_manager
