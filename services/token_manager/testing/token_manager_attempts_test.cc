// The records remember the attempts of throttled events, and their schedule counts them.

#include <string>
#include <vector>

#include "common/base/proto_time.h"
#include "gtest/gtest.h"
#include "services/token_manager/testing/token_world.h"

namespace escapement::token_manager {
namespace token_manager_attempts_test {

using kv::ColumnFamily;
using storage::v1::AttemptRecord;
using storage::v1::GrantReportRecord;
using Entry = TokenWorld::Entry;

class AttemptsTest : public ::testing::Test {
 protected:
  void Begin(uint64_t count = 1) {
    schedule_ = {.policy_id = "p"};
    policy_ = world_.PutPolicy("p", TokenWorld::Limits(count));
    uid_ = world_.AddSchedule("s", schedule_);
    world_.AddRow(uid_, schedule_, {.due = world_.now(), .count = count});
    world_.Start("a");
    world_.Advance(kSettle);
  }
  // A handler's report of an attempt that began 40 ms ago and was answered now.
  Entry Attempted(const SentEvent& event, GrantReportRecord::Kind kind, AttemptRecord::Kind attempt,
                  int32_t status, const std::string& answer) {
    Entry entry = TokenWorld::EntryOf(event, kind);
    entry.set_attempts(event.attempts + 1);
    entry.set_dispatch_time_micros(ToMicros(world_.now()) - 40'000);
    entry.set_time_micros(ToMicros(world_.now()));
    entry.set_attempt(attempt);
    entry.set_status(status);
    entry.set_output(answer);
    return entry;
  }
  // The handler reports this of the one event that it has now.
  SentEvent HandleOne(GrantReportRecord::Kind kind, AttemptRecord::Kind attempt, int32_t status,
                      const std::string& answer, const std::string& reason = "") {
    const std::vector<SentEvent> sent = world_.Handle([&](const SentEvent& event) {
      Entry entry = Attempted(event, kind, attempt, status, answer);
      entry.set_reason(reason);
      entry.set_retry_at_micros(ToMicros(world_.now() + absl::Seconds(1)));
      return entry;
    });
    EXPECT_EQ(sent.size(), 1u);
    world_.Advance(kSettle);
    return sent.empty() ? SentEvent() : sent[0];
  }
  storage::v1::DoneRecord OnlyDone() {
    EXPECT_EQ(world_.Done().size(), 1u);
    return world_.Done().empty() ? storage::v1::DoneRecord() : world_.Done()[0];
  }
  storage::v1::RunPartRecord ScheduleCounts() { return world_.Part(uid_, "", policy_); }

  TokenWorld world_;
  TokenWorld::Schedule schedule_;
  Uid policy_;
  Uid uid_;
};

TEST_F(AttemptsTest, DoneHasTheStatusAndTheAnswerThatEndedTheEvent) {
  Begin();
  HandleOne(GrantReportRecord::SUCCEEDED, AttemptRecord::ACCEPTED, 200, "order 7");
  const storage::v1::DoneRecord done = OnlyDone();
  EXPECT_EQ(done.status(), 200);
  EXPECT_EQ(done.output(), "order 7");
  EXPECT_EQ(done.complete_time_micros() - done.dispatch_time_micros(), 40'000);
  EXPECT_EQ(done.last_duration_micros(), 0);
  EXPECT_EQ(done.tried_size(), 0);
}

TEST_F(AttemptsTest, FailedAttemptsAreRememberedUntilTheEnd) {
  Begin();
  HandleOne(GrantReportRecord::RETRY, AttemptRecord::UNKNOWN, 0, "", "timeout");
  ASSERT_EQ(world_.Waiting().size() + world_.Grants().size(), 1u);
  HandleOne(GrantReportRecord::FAILED, AttemptRecord::REJECTED, 400, "bad order", "HTTP 400");
  const storage::v1::DoneRecord done = OnlyDone();
  ASSERT_EQ(done.tried_size(), 1);
  EXPECT_EQ(done.tried(0).number(), 1u);
  EXPECT_EQ(done.tried(0).kind(), AttemptRecord::UNKNOWN);
  EXPECT_EQ(done.tried(0).error(), "timeout");
  EXPECT_EQ(done.tried(0).duration_micros(), 40'000);
  EXPECT_EQ(done.last_attempt(), AttemptRecord::REJECTED);
  EXPECT_EQ(done.status(), 400);
  EXPECT_EQ(done.answer(), "bad order");
  EXPECT_EQ(done.output(), "");
  storage::v1::DeadLetterRecord letter;
  ASSERT_EQ(world_.Count(ColumnFamily::kDeadLetters), 1u);
  letter.ParseFromString(world_.Rows(ColumnFamily::kDeadLetters).begin()->second);
  ASSERT_EQ(letter.event().tried_size(), 2);
  EXPECT_EQ(letter.event().tried(1).number(), 2u);
  EXPECT_EQ(letter.event().tried(1).answer(), "bad order");
}

// The attempt is the delivery, not the work. A new owner of the shard knows it, too.
TEST_F(AttemptsTest, CompletionHasTheAttemptOfItsDelivery) {
  Begin();
  const absl::Time delivered = world_.now();
  const SentEvent event =
      HandleOne(GrantReportRecord::DELIVERED, AttemptRecord::ACCEPTED, 202, "queued");
  world_.Kill("a");
  world_.Start("b");
  world_.Advance(absl::Seconds(20));
  ASSERT_TRUE(world_.Complete("b", event));
  world_.Advance(kSettle);
  const storage::v1::DoneRecord done = OnlyDone();
  EXPECT_EQ(done.outcome(), storage::v1::OUTCOME_KIND_SUCCEEDED);
  EXPECT_EQ(done.dispatch_time_micros(), ToMicros(delivered) - 40'000);
  EXPECT_EQ(done.last_duration_micros(), 40'000);
  EXPECT_EQ(done.status(), 202);
  EXPECT_GT(done.complete_time_micros(), ToMicros(delivered) + 1'000'000);
}

TEST_F(AttemptsTest, FailedWorkIsAFailedAttempt) {
  Begin();
  const SentEvent event =
      HandleOne(GrantReportRecord::DELIVERED, AttemptRecord::ACCEPTED, 202, "queued");
  Entry failed = TokenWorld::EntryOf(event, GrantReportRecord::COMPLETION_FAILED_FINALLY);
  failed.set_reason("no stock");
  failed.set_output("details");
  ASSERT_TRUE(world_.Apply("a", static_cast<uint16_t>(event.grant.policy_shard()), {failed}).ok());
  world_.Advance(kSettle);
  const storage::v1::DoneRecord done = OnlyDone();
  EXPECT_EQ(done.last_attempt(), AttemptRecord::FAILED);
  EXPECT_EQ(done.status(), 202);
  EXPECT_EQ(done.answer(), "details");
  EXPECT_EQ(done.reason(), "no stock");
  EXPECT_EQ(ScheduleCounts().failed(), 1u);
}

TEST_F(AttemptsTest, EndedHoldTimeIsAnAttemptWithoutAnAnswer) {
  Begin();
  HandleOne(GrantReportRecord::DELIVERED, AttemptRecord::ACCEPTED, 202, "");
  world_.Advance(absl::Seconds(61));
  HandleOne(GrantReportRecord::SUCCEEDED, AttemptRecord::ACCEPTED, 200, "");
  const storage::v1::DoneRecord done = OnlyDone();
  ASSERT_EQ(done.tried_size(), 1);
  EXPECT_EQ(done.tried(0).kind(), AttemptRecord::UNKNOWN);
  EXPECT_EQ(done.tried(0).error(), "hold_expired");
  EXPECT_EQ(done.tried(0).duration_micros(), 40'000);
}

TEST_F(AttemptsTest, EndsCountInTheSchedule) {
  Begin(3);
  const int64_t began = ToMicros(world_.now());
  world_.Handle([&](const SentEvent& event) {
    return event.index == 1
               ? Attempted(event, GrantReportRecord::FAILED, AttemptRecord::REJECTED, 400, "")
               : Attempted(event, GrantReportRecord::SUCCEEDED, AttemptRecord::ACCEPTED, 200, "");
  });
  const int64_t ended = ToMicros(world_.now());
  world_.Advance(kSettle);
  EXPECT_EQ(ScheduleCounts().succeeded(), 2u);
  EXPECT_EQ(ScheduleCounts().failed(), 1u);
  EXPECT_GE(ScheduleCounts().last_end_time_micros(), began);
  EXPECT_LE(ScheduleCounts().last_end_time_micros(), ended);
  // Another run, under another owner of the shard: the counts go on.
  world_.Kill("a");
  world_.AddRow(uid_, schedule_, {.due = world_.now(), .occurrence = "o2"});
  world_.Start("b");
  world_.Advance(absl::Seconds(20));
  HandleOne(GrantReportRecord::SUCCEEDED, AttemptRecord::ACCEPTED, 200, "");
  EXPECT_EQ(ScheduleCounts().succeeded(), 3u);
  EXPECT_EQ(ScheduleCounts().failed(), 1u);
  EXPECT_EQ(ScheduleCounts().last_outcome(), storage::v1::OUTCOME_KIND_SUCCEEDED);
  EXPECT_GT(ScheduleCounts().last_end_time_micros(), ended);
}

}  // namespace token_manager_attempts_test
}  // namespace escapement::token_manager
