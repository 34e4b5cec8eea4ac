// One-off events under a policy: they wait, hold tokens, are tried again, end, and can be cancelled
// until they are granted.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/proto_time.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "gtest/gtest.h"
#include "services/token_manager/testing/one_off_events.h"
#include "services/token_manager/testing/token_world.h"

namespace escapement::token_manager {
namespace token_manager_one_offs_test {

using kv::ColumnFamily;
using storage::v1::GrantReportRecord;
using Entry = TokenWorld::Entry;

TEST_F(OneOffsTest, NeverMoreAreOutThanThePolicyAllows) {
  Begin(2);
  for (int i = 0; i < 5; ++i) Add();
  Add({.id = "mine"});
  size_t ended = 0;
  while (ended < 6) {
    const std::vector<SentEvent> out = Settle();
    ASSERT_EQ(out.size(), 2u);
    EXPECT_EQ(world_.Held(policy_), 2u);
    EXPECT_TRUE(Settle().empty()) << "both tokens are held";
    for (const SentEvent& event : out) EXPECT_TRUE(world_.Complete("a", event));
    ended += out.size();
  }
  ExpectOnlyOutcomes(6, /*names=*/1);
  EXPECT_EQ(world_.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 6u);
  for (const auto& [key, value] : world_.Rows(ColumnFamily::kDone)) {
    storage::v1::DoneRecord done;
    ASSERT_TRUE(done.ParseFromString(value));
    const std::string id = EndedEventId(*DecodeDoneKey(key), done);
    if (id == "mine") continue;
    EXPECT_EQ(ParseServerMadeEventId(id)->lane, kLaneLimited);
  }
}

TEST_F(OneOffsTest, EventWithoutATokenWithinItsMaxLatenessExpires) {
  Begin(1);
  Add({.id = "first"});
  const std::vector<SentEvent> first = Settle();
  ASSERT_EQ(first.size(), 1u);
  Add({.id = "missed", .max_lateness = absl::Seconds(20)});
  Add({.id = "patient", .max_lateness = absl::Hours(1)});
  world_.Advance(absl::Seconds(18));
  EXPECT_EQ(world_.Waiting().size(), 2u);
  world_.Advance(absl::Seconds(3));
  EXPECT_EQ(world_.Waiting().size(), 1u);
  EXPECT_EQ(world_.DoneEvents(storage::v1::OUTCOME_KIND_EXPIRED), 1u);
  storage::v1::DoneRecord done;
  ASSERT_TRUE(done.ParseFromString(world_.Rows(ColumnFamily::kDone).begin()->second));
  EXPECT_EQ(done.event_id(), "missed");
  EXPECT_EQ(done.reason(), "missed by 0m20s");
  EXPECT_EQ(world_.Count(ColumnFamily::kDeadLetters), 0u);
  EXPECT_TRUE(world_.Complete("a", first[0]));
  for (const SentEvent& event : Settle()) EXPECT_TRUE(world_.Complete("a", event));
  ExpectOnlyOutcomes(3, /*names=*/3);
}

TEST_F(OneOffsTest, EventThatHasHadAnAttemptIsNotMissed) {
  Begin(1);
  Add({.max_lateness = absl::Seconds(10)});
  ASSERT_EQ(Settle(Reports(GrantReportRecord::RETRY, world_.now() + absl::Seconds(30))).size(), 1u);
  world_.Advance(absl::Seconds(27));
  const std::vector<SentEvent> again = Settle();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_TRUE(world_.Complete("a", again[0]));
  ExpectOnlyOutcomes(1);
  EXPECT_EQ(world_.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 1u);
}

TEST_F(OneOffsTest, TheyTakeTurnsWithASchedule) {
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid uid = world_.AddSchedule("s", schedule);
  Begin(2);
  world_.AddRow(uid, schedule, {.due = world_.now(), .count = 10, .run_kept = true});
  for (int i = 0; i < 10; ++i) Add();
  std::map<bool, int> out;
  for (int round = 0; round < 8; ++round) {
    for (const SentEvent& event : Settle()) {
      ++out[event.uid == uid];
      EXPECT_TRUE(world_.Complete("a", event));
    }
  }
  EXPECT_GE(out[true], 6);
  EXPECT_GE(out[false], 6);
}

TEST_F(OneOffsTest, WaitsForItsDueTime) {
  Begin(5);
  Add({.due = world_.now() + absl::Minutes(5)});
  EXPECT_TRUE(Settle().empty());
  world_.Advance(absl::Minutes(5));
  EXPECT_EQ(Settle().size(), 1u);
}

TEST_F(OneOffsTest, CancelledWhileItWaitsItIsNeverSent) {
  Begin(1);
  const Uid first = Add();
  const std::vector<SentEvent> out = Settle();
  ASSERT_EQ(out.size(), 1u);
  const Uid second = Add();
  const Uid third = Add();
  world_.Advance(kSettle);
  EXPECT_TRUE(world_.CancelOneOff(second));
  EXPECT_FALSE(world_.CancelOneOff(first)) << "it holds a token";
  EXPECT_TRUE(world_.Complete("a", out[0]));
  const std::vector<SentEvent> next = Settle();
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].uid, third);
  EXPECT_TRUE(world_.Complete("a", next[0]));
  ExpectOnlyOutcomes(2);
}

// The watch does not tell of the cancellation before the token is free.
TEST_F(OneOffsTest, CancelledBehindTheTokenManagersBackItIsNeverSent) {
  world_.poor_store.delay = absl::Seconds(30);
  Begin(1);
  Add();
  world_.Advance(absl::Seconds(40));
  const std::vector<SentEvent> out = world_.Handle();
  ASSERT_EQ(out.size(), 1u);
  const Uid second = Add();
  const Uid third = Add();
  world_.Advance(absl::Seconds(40));
  EXPECT_TRUE(world_.CancelOneOff(second));
  EXPECT_TRUE(world_.Complete("a", out[0]));
  world_.Advance(absl::Seconds(10));
  const std::vector<SentEvent> next = world_.Handle();
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].uid, third);
  EXPECT_TRUE(world_.Complete("a", next[0]));
  world_.Advance(absl::Seconds(60));
  ExpectOnlyOutcomes(2);
}

TEST_F(OneOffsTest, RetryIsFoundByItsNameAndWaitsForItsTime) {
  Begin(1);
  const Uid uid = Add();
  const absl::Time retry_at = world_.now() + absl::Minutes(1);
  ASSERT_EQ(Settle(Reports(GrantReportRecord::RETRY, retry_at)).size(), 1u);
  world_.Advance(kSettle);
  EXPECT_EQ(world_.Held(policy_), 0u) << "a retry waits without its token";
  ASSERT_EQ(world_.Waiting().size(), 1u);
  EXPECT_EQ(world_.Waiting()[0].first.due_time, retry_at);
  EXPECT_EQ(world_.Waiting()[0].second.attempts(), 1u);
  EXPECT_EQ(world_.Waiting()[0].second.tried_size(), 1);
  const auto names = world_.Rows(ColumnFamily::kEventNames);
  ASSERT_EQ(names.size(), 1u);
  storage::v1::EventNameRecord name;
  ASSERT_TRUE(name.ParseFromString(names.begin()->second));
  EXPECT_EQ(name.waiting_key(), EncodeWaitingKey(world_.Waiting()[0].first));
  EXPECT_EQ(DecodeEventKey(name.event_key())->uid, uid);
  EXPECT_TRUE(Settle().empty());
  world_.Advance(absl::Minutes(1));
  const std::vector<SentEvent> again = Settle();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_GE(again[0].at, retry_at);
  EXPECT_EQ(again[0].attempts, 1u);
  EXPECT_TRUE(world_.Complete("a", again[0]));
  ExpectOnlyOutcomes(1);
  EXPECT_EQ(world_.Done()[0].attempts(), 2u);
}

TEST_F(OneOffsTest, ReturnedItWaitsAsBefore) {
  Begin(1);
  Add();
  const auto before = world_.Waiting();
  ASSERT_EQ(Settle(Reports(GrantReportRecord::RETURNED)).size(), 1u);
  const std::vector<SentEvent> again = Settle();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].attempts, 0u);
  EXPECT_TRUE(world_.Complete("a", again[0]));
  ExpectOnlyOutcomes(1);
}

TEST_F(OneOffsTest, DeadLetterHasThePayload) {
  Begin(3);
  Add({.id = "rejected", .payload = "one"});
  Add({.id = "failed", .payload = "two"});
  Add({.id = "silent", .payload = "three"});
  world_.retry.set_max_attempts(1);
  const std::vector<SentEvent> out = Settle();
  ASSERT_EQ(out.size(), 3u);
  std::map<Uid, SentEvent> by_uid;
  for (const SentEvent& event : out) by_uid[event.uid] = event;
  std::map<std::string, SentEvent> by_payload;
  for (const auto& [key, value] : world_.Rows(ColumnFamily::kEvents)) {
    storage::v1::EventRecord row;
    ASSERT_TRUE(row.ParseFromString(value));
    by_payload[row.payload()] = by_uid[DecodeEventKey(key)->uid];
  }
  world_.Report(TokenWorld::ShardOf(policy_),
                {TokenWorld::EntryOf(by_payload["one"], GrantReportRecord::FAILED)});
  EXPECT_TRUE(
      world_.Complete("a", by_payload["two"], GrantReportRecord::COMPLETION_FAILED_FINALLY));
  // The third one's hold time ends, attempt after attempt.
  for (int attempt = 0; attempt < 4; ++attempt) {
    world_.Advance(absl::Minutes(10));
    world_.Handle();
  }
  ExpectOnlyOutcomes(3, /*names=*/3);
  EXPECT_EQ(world_.DoneEvents(storage::v1::OUTCOME_KIND_FAILED), 3u);
  std::map<std::string, std::string> payloads;
  for (const auto& [key, value] : world_.Rows(ColumnFamily::kDeadLetters)) {
    storage::v1::DeadLetterRecord letter;
    ASSERT_TRUE(letter.ParseFromString(value));
    payloads[letter.event().event_id()] = letter.event().payload();
  }
  EXPECT_EQ(payloads, (std::map<std::string, std::string>{
                          {"rejected", "one"}, {"failed", "two"}, {"silent", "three"}}));
}

// More payloads than are read at once; what needs none is in the same report.
TEST_F(OneOffsTest, ManyDeadLettersOfOneReportOrCallHaveTheirPayloads) {
  constexpr size_t kEach = 100;
  Begin(1000);
  for (size_t i = 0; i < 2 * kEach + 1; ++i) Add();
  const std::vector<SentEvent> out = Settle();
  ASSERT_EQ(out.size(), 2 * kEach + 1);
  std::vector<Entry> reported = {TokenWorld::EntryOf(out.back(), GrantReportRecord::COMPLETED)};
  std::vector<Entry> called;
  for (size_t i = 0; i < kEach; ++i) {
    reported.push_back(TokenWorld::EntryOf(out[i], GrantReportRecord::FAILED));
    called.push_back(
        TokenWorld::EntryOf(out[kEach + i], GrantReportRecord::COMPLETION_FAILED_FINALLY));
  }
  world_.Report(TokenWorld::ShardOf(policy_), reported);
  const absl::StatusOr<std::vector<bool>> effects =
      world_.Apply("a", TokenWorld::ShardOf(policy_), called);
  ASSERT_TRUE(effects.ok()) << effects.status();
  EXPECT_EQ(*effects, std::vector<bool>(kEach, true));
  ExpectOnlyOutcomes(2 * kEach + 1);
  EXPECT_EQ(world_.DoneEvents(storage::v1::OUTCOME_KIND_FAILED), 2 * kEach);
  for (const auto& [key, value] : world_.Rows(ColumnFamily::kDeadLetters)) {
    storage::v1::DeadLetterRecord letter;
    ASSERT_TRUE(letter.ParseFromString(value));
    EXPECT_EQ(letter.event().payload(), "payload");
  }
}

TEST_F(OneOffsTest, AnotherTokenManagerGoesOn) {
  Begin(1);
  for (int i = 0; i < 3; ++i) Add();
  std::vector<SentEvent> out = Settle();
  ASSERT_EQ(out.size(), 1u);
  world_.Kill("a");
  world_.Start("b");
  world_.Advance(absl::Minutes(1));
  EXPECT_TRUE(world_.Handle().empty()) << "the token is still held";
  for (int left = 3; left > 0; --left) {
    ASSERT_EQ(out.size(), 1u);
    EXPECT_TRUE(world_.Complete("b", out[0]));
    out = Settle();
  }
  ExpectOnlyOutcomes(3);
}

TEST_F(OneOffsTest, TargetThatIsDownHoldsUpItsOwnEventsOnly) {
  Begin(1);
  for (int i = 0; i < 3; ++i) Add({.target = "down"});
  std::vector<SentEvent> out = Settle([](const SentEvent& event) {
    Entry entry = TokenWorld::EntryOf(event, GrantReportRecord::RETURNED);
    entry.set_unreachable(true);
    return entry;
  });
  ASSERT_EQ(out.size(), 1u);
  for (int i = 0; i < 5; ++i) Add({.target = "up", .on_release = false});
  size_t up = 0;
  for (int i = 0; i < 20; ++i) {
    world_.Advance(absl::Milliseconds(200));
    const auto sent = world_.Handle([&](const SentEvent& event) {
      storage::v1::EventRecord row;
      for (const auto& [key, value] : world_.Rows(ColumnFamily::kEvents)) {
        if (DecodeEventKey(key)->uid == event.uid) row.ParseFromString(value);
      }
      const bool is_up = !row.throttle().on_release();
      up += is_up ? 1 : 0;
      Entry entry = TokenWorld::EntryOf(
          event, is_up ? GrantReportRecord::SUCCEEDED : GrantReportRecord::RETURNED);
      entry.set_unreachable(!is_up);
      return entry;
    });
  }
  EXPECT_EQ(up, 5u);
  EXPECT_EQ(world_.Waiting().size(), 3u);
}

}  // namespace token_manager_one_offs_test
}  // namespace escapement::token_manager
