// Tests of retries around the next occurrence of their schedule.

#include <map>
#include <string>
#include <vector>

#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/run_table.h"
#include "gtest/gtest.h"
#include "services/handler/testing/handler_world.h"

namespace escapement::handler {
namespace handler_retry_test {

using kv::ColumnFamily;
using storage::v1::OUTCOME_KIND_FAILED;
using storage::v1::OUTCOME_KIND_SUCCEEDED;

constexpr char kReason[] = "busy; not tried again past the next occurrence";

// A schedule that fires every minute. A retry waits for `retry_after`.
class HandlerRetryTest : public ::testing::Test {
 protected:
  HandlerRetryTest() { world_.Advance(absl::Seconds(1)); }

  void Fail(absl::Duration retry_after) {
    world_.transport("a").decide = [retry_after](const DeliveryAttempt&) {
      return DeliveryResult{
          .status = DeliveryStatus::kFailed, .message = "busy", .retry_after = retry_after};
    };
  }
  // The next whole minute. The next occurrence is one minute later.
  absl::Time Minute() {
    return absl::FromUnixSeconds((absl::ToUnixSeconds(world_.now()) / 60 + 1) * 60);
  }
  Uid AddSchedule() {
    const Uid uid = world_.AddSchedule("s");
    world_.AddDefinition(uid, 1, "* * * * *");
    return uid;
  }
  std::vector<storage::v1::DeadLetterRecord> DeadLetters() const {
    std::vector<storage::v1::DeadLetterRecord> letters;
    for (const auto& [key, value] : world_.Rows(ColumnFamily::kDeadLetters))
      letters.emplace_back().ParseFromString(value);
    return letters;
  }
  // Expects that the event has failed because of the next occurrence, after this many attempts.
  void ExpectGivenUp(uint32_t attempts) {
    ASSERT_EQ(world_.Done().size(), 1u);
    EXPECT_EQ(world_.Done()[0].outcome(), OUTCOME_KIND_FAILED);
    EXPECT_EQ(world_.Done()[0].reason(), kReason);
    EXPECT_EQ(world_.Done()[0].attempts(), attempts);
    ASSERT_EQ(DeadLetters().size(), 1u);
    EXPECT_EQ(DeadLetters()[0].reason(), kReason);
    EXPECT_EQ(DeadLetters()[0].schedule_id(), "s");
    EXPECT_EQ(DeadLetters()[0].event().attempts(), attempts);
    EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
    EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 0u);
  }
  // A retry is due within the minute, but its handler dies and the next handler starts later.
  Uid LeaveARetryBehind(bool run) {
    const Uid uid = AddSchedule();
    world_.StartHandler("a");
    world_.Advance(absl::Seconds(1));
    Fail(absl::Seconds(20));
    const absl::Time due = Minute();
    world_.AddRow(uid, {.due = due, .run_count = run ? 2u : 1u});
    world_.Advance(due + absl::Seconds(5) - world_.now());
    EXPECT_EQ(world_.Sent().size(), 1u);
    EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 1u);
    world_.KillHandler("a");
    world_.Advance(due + absl::Seconds(60) - world_.now());
    world_.StartHandler("b");
    world_.Advance(absl::Seconds(30));
    return uid;
  }

  HandlerWorld world_;
};

TEST_F(HandlerRetryTest, AnEventIsNotTriedAgainAtItsSchedulesNextOccurrence) {
  const Uid uid = AddSchedule();
  world_.StartHandler("a");
  Fail(absl::Seconds(25));
  const absl::Time due = Minute();
  world_.AddRow(uid, {.due = due});
  world_.Advance(absl::Minutes(3));
  // Attempts at 0, 25 and 50 s. The fourth and last one would be at 75 s.
  ASSERT_EQ(world_.Sent().size(), 3u);
  EXPECT_LT(world_.Sent()[2].at, due + absl::Minutes(1));
  ExpectGivenUp(3);
  EXPECT_EQ(world_.handler("a").metrics().dead_letters.Value(), 1u);
}

TEST_F(HandlerRetryTest, KeptRetriesContinuePastTheNextOccurrence) {
  world_.retry.set_keep(true);
  const Uid uid = AddSchedule();
  world_.StartHandler("a");
  Fail(absl::Seconds(25));
  world_.AddRow(uid, {.due = Minute()});
  world_.Advance(absl::Minutes(3));
  EXPECT_EQ(world_.Sent().size(), 4u);
  ASSERT_EQ(world_.Done().size(), 1u);
  EXPECT_EQ(world_.Done()[0].reason(), "busy");
}

TEST_F(HandlerRetryTest, OneOffEventsHaveNoNextOccurrence) {
  world_.StartHandler("a");
  Fail(absl::Seconds(90));
  world_.AddOneOff("event-1", Minute(), "hello");
  world_.Advance(absl::Minutes(8));
  EXPECT_EQ(world_.Sent().size(), 4u);
}

TEST_F(HandlerRetryTest, FirstAttemptIsMadeAtAnyLateness) {
  const Uid uid = AddSchedule();
  const absl::Time due = Minute();
  world_.AddRow(uid, {.due = due, .nominal_micros = ToMicros(due - absl::Hours(1))});
  world_.StartHandler("a");
  Fail(absl::ZeroDuration());
  world_.Advance(absl::Minutes(5));
  EXPECT_EQ(world_.Sent().size(), 1u);
  ExpectGivenUp(1);
}

// A backfill triggers such runs.
TEST_F(HandlerRetryTest, AgeCountsFromAFirstAttemptLongAfterTheDueTime) {
  for (const DeliveryStatus status : {DeliveryStatus::kFailed, DeliveryStatus::kUnsent}) {
    for (const bool ends : {false, true}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(status) << ' ' << ends);
      HandlerWorld world;
      world.retry.set_keep(true);
      world.retry.set_max_attempts(100);
      world.retry.set_max_age_micros(10'000'000);
      const Uid uid = world.AddSchedule("s");
      world.AddRow(uid, {.due = world.now() - absl::Hours(72)});
      world.StartHandler("a");
      std::map<std::string, int> tries;
      world.transport("a").decide = [&](const DeliveryAttempt& attempt) {
        const bool well = !ends && ++tries[attempt.event_id] == 3;
        return DeliveryResult{.status = well ? DeliveryStatus::kAccepted : status,
                              .message = "busy",
                              .retry_after = absl::Seconds(4)};
      };
      world.Advance(absl::Seconds(30));
      EXPECT_EQ(world.DoneEvents(ends ? OUTCOME_KIND_FAILED : OUTCOME_KIND_SUCCEEDED), 1u);
      if (status == DeliveryStatus::kFailed) {
        EXPECT_EQ(world.Sent().size(), 3u);  // attempts at 0, 4 and 8 s
      }
    }
  }
}

TEST_F(HandlerRetryTest, LateRetryEndsWithoutAnAttempt) {
  LeaveARetryBehind(/*run=*/false);
  EXPECT_EQ(world_.Sent().size(), 1u);
  ExpectGivenUp(1);
  EXPECT_EQ(world_.handler("b").metrics().dead_letters.Value(), 1u);
  EXPECT_EQ(world_.handler("b").metrics().skipped.Value(), 0u);
}

TEST_F(HandlerRetryTest, LateRetryCountsAsFailedInItsRun) {
  const Uid uid = LeaveARetryBehind(/*run=*/true);
  EXPECT_EQ(world_.Sent().size(), 1u);
  ExpectGivenUp(1);
  storage::v1::RunPartRecord part;
  const auto parts = world_.Rows(ColumnFamily::kRunParts);
  const auto found = parts.find(RunPartKey({.uid = uid, .occurrence = "o1"}, 0));
  ASSERT_NE(found, parts.end());
  ASSERT_TRUE(part.ParseFromString(found->second));
  EXPECT_EQ(part.failed(), 1u);
  EXPECT_EQ(part.retries(), 1u);
  EXPECT_EQ(part.skipped(), 0u);
}

TEST_F(HandlerRetryTest, LateRetryIsSentIfRetriesAreKept) {
  world_.retry.set_keep(true);
  LeaveARetryBehind(/*run=*/false);
  EXPECT_EQ(world_.Sent().size(), 2u);
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 1u);
  EXPECT_TRUE(DeadLetters().empty());
}

TEST_F(HandlerRetryTest, LongRetryAfterIsCutToTheMaxAgeAndSaysSo) {
  world_.retry.set_keep(true);
  world_.retry.set_max_age_micros(30'000'000);
  const Uid uid = AddSchedule();
  world_.StartHandler("a");
  Fail(absl::Hours(24));
  const absl::Time due = Minute();
  world_.AddRow(uid, {.due = due});
  world_.Advance(due + absl::Seconds(10) - world_.now());
  ASSERT_EQ(world_.Count(ColumnFamily::kEvents), 1u);
  storage::v1::EventRecord row;
  ASSERT_TRUE(row.ParseFromString(world_.Rows(ColumnFamily::kEvents).begin()->second));
  EXPECT_EQ(
      row.last_error(),
      "busy; its Retry-After ends after the event's max_age: tried again shortly before that");
  world_.transport("a").decide = [](const DeliveryAttempt&) {
    return DeliveryResult{.status = DeliveryStatus::kAccepted, .message = ""};
  };
  world_.Advance(absl::Seconds(25));
  EXPECT_EQ(world_.Sent().size(), 2u);
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 1u);
}

// As a master redrives it from its dead letter.
TEST_F(HandlerRetryTest, RedrivenEventHasANewRoundOfAttempts) {
  world_.retry.set_max_attempts(2);
  const Uid uid = AddSchedule();
  world_.StartHandler("a");
  world_.Advance(absl::Seconds(1));
  Fail(absl::Seconds(2));
  const absl::Time due = Minute();
  world_.AddRow(uid, {.due = due});
  world_.Advance(due + absl::Seconds(30) - world_.now());
  EXPECT_EQ(world_.Sent().size(), 2u);
  ASSERT_EQ(DeadLetters().size(), 1u);
  storage::v1::EventRecord row = DeadLetters()[0].event();
  row.set_redrives(1);
  row.set_attempts_before_redrive(row.attempts());
  row.clear_tried_since_micros();
  row.set_triggered(true);
  row.set_trigger_time_micros(ToMicros(world_.now()));
  // Long after the next occurrence.
  world_.Advance(absl::Minutes(5));
  world_.Put(ColumnFamily::kEvents,
             EncodeEventKey({.shard = 0,
                             .lane = kLaneRetry,
                             .due_time = world_.now(),
                             .uid = uid,
                             .occurrence = "o1",
                             .first = 0}),
             row.SerializeAsString());
  world_.Advance(absl::Seconds(30));
  ASSERT_EQ(world_.Sent().size(), 4u);
  EXPECT_EQ(world_.Sent()[2].attempt.attempt, 3u);
  EXPECT_EQ(world_.Sent()[3].attempt.attempt, 4u);
  EXPECT_EQ(DeadLetters().size(), 2u);
  EXPECT_EQ(DeadLetters()[1].event().attempts(), 4u);
  EXPECT_EQ(world_.Done()[0].attempts(), 4u);
}

// A redrive gives a one-off event a name, also if it was never sent.
TEST_F(HandlerRetryTest, NameOfARedrivenEventGoesWithItsEnd) {
  const std::string key = world_.AddOneOff("", Minute() + absl::Hours(1), "hello");
  storage::v1::EventRecord row;
  ASSERT_TRUE(row.ParseFromString(world_.Rows(ColumnFamily::kEvents).at(key)));
  EventKey redriven = *DecodeEventKey(key);
  redriven.lane = kLaneRetry;
  redriven.due_time = Minute();
  row.set_event_id(ServerMadeEventId(key));
  row.set_redrives(1);
  storage::v1::EventNameRecord name;
  name.set_event_key(EncodeEventKey(redriven));
  name.set_launch_time_micros(row.launch_time_micros());
  kv::Group group;
  group.mutations = {kv::Delete(ColumnFamily::kEvents, key),
                     kv::Put(ColumnFamily::kEvents, name.event_key(), row.SerializeAsString()),
                     kv::Put(ColumnFamily::kEventNames, EventNameKey(row.tenant(), row.event_id()),
                             name.SerializeAsString())};
  ASSERT_TRUE(world_.Commit(group));
  world_.StartHandler("a");
  world_.Advance(absl::Minutes(2));
  EXPECT_EQ(world_.Sent().size(), 1u);
  EXPECT_EQ(world_.Done().size(), 1u);
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
  EXPECT_EQ(world_.Count(ColumnFamily::kEventNames), 0u);
}

}  // namespace handler_retry_test
}  // namespace escapement::handler
