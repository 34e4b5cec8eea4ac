// Tests of granted events (docs/design/throttling.md): their sending and their reports.

#include <map>
#include <set>

#include "common/base/proto_time.h"
#include "common/storage/event_id.h"
#include "common/storage/schedule_table.h"
#include "common/tokens/token_batch.h"
#include "gtest/gtest.h"
#include "services/handler/service/handler_service.h"
#include "services/handler/testing/granted_world.h"
#include "services/handler/testing/handler_world.h"

namespace escapement::handler {
namespace handler_granted_test {

using kv::ColumnFamily;
using storage::v1::GrantReportRecord;

class HandlerGrantedTest : public ::testing::Test {
 protected:
  HandlerGrantedTest() : HandlerGrantedTest(HandlerOptions()) {}
  explicit HandlerGrantedTest(HandlerOptions options)
      : world_(options), uid_(world_.AddSchedule("s")) {
    world_.StartHandler("a");
    world_.Advance(absl::Seconds(2));
  }
  ScriptedTransport& transport() { return world_.transport("a"); }

  // The handler writes only reports on granted events.
  void ExpectOnlyReports() {
    for (const ColumnFamily cf :
         {ColumnFamily::kInflight, ColumnFamily::kEvents, ColumnFamily::kDone,
          ColumnFamily::kRunParts, ColumnFamily::kDeadLetters, ColumnFamily::kEventNames})
      EXPECT_EQ(world_.Count(cf), 0u) << static_cast<int>(cf);
    EXPECT_EQ(world_.handler("a").metrics().events_out.Value(), 0u);
  }

  HandlerWorld world_;
  TestTokenManager manager_{world_};
  Uid uid_;
};

TEST_F(HandlerGrantedTest, AnEventIsSentOnceWithItsTokenAndReportedDelivered) {
  const uint64_t number = manager_.Grant(uid_, {{.first = 5, .attempts = 2}});
  world_.Advance(absl::Seconds(1));
  ASSERT_EQ(transport().sent.size(), 1u);
  const DeliveryAttempt& attempt = transport().sent[0].attempt;
  EXPECT_EQ(attempt.index, 5u);
  EXPECT_EQ(attempt.attempt, 3u);
  EXPECT_EQ(attempt.context->payload, "payload of version 1");
  EXPECT_EQ(attempt.event_id, RunIdentity("default", uid_, "o").EventId(5));
  const TokenMint mint(world_.Rows(ColumnFamily::kMeta).at(std::string(kTokenKeyKey)));
  const std::optional<TokenName> token = mint.Read(attempt.token);
  ASSERT_TRUE(token.has_value());
  EXPECT_EQ(*token, (TokenName{.grant = manager_.Id(number), .index = 5}));

  const std::vector<GrantReport> reports = manager_.TakeReports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].kind(), GrantReportRecord::DELIVERED);
  EXPECT_EQ(reports[0].policy_uid(), manager_.Id(number).policy.bytes());
  EXPECT_EQ(reports[0].epoch(), TestTokenManager::kEpoch);
  EXPECT_EQ(reports[0].number(), number);
  EXPECT_EQ(reports[0].first(), 5u);
  EXPECT_EQ(reports[0].count(), 1u);
  EXPECT_EQ(reports[0].attempts(), 3u);
  EXPECT_GE(reports[0].time_micros(), reports[0].dispatch_time_micros());
  EXPECT_FALSE(reports[0].unreachable());
  ExpectOnlyReports();
  EXPECT_EQ(world_.handler("a").metrics().accepted.Value(), 1u);
  EXPECT_EQ(world_.handler("a").metrics().succeeded.Value(), 0u);
}

TEST_F(HandlerGrantedTest, RunReleasedOnDeliveryIsReportedAsOneRange) {
  manager_.Grant(uid_, {{.count = 200, .on_release = false}});
  world_.Advance(absl::Seconds(1));
  EXPECT_EQ(transport().sent.size(), 200u);
  for (const SentEvent& sent : transport().sent) EXPECT_TRUE(sent.attempt.token.empty());
  const std::vector<GrantReport> reports = manager_.TakeReports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].kind(), GrantReportRecord::SUCCEEDED);
  EXPECT_EQ(reports[0].count(), 200u);
  EXPECT_EQ(world_.handler("a").metrics().succeeded.Value(), 200u);
  ExpectOnlyReports();
}

// The claim is too large for the watch, so its value is omitted.
TEST_F(HandlerGrantedTest, GrantsOfOneClaimAreSentOnceAndReportedInOneRow) {
  std::vector<Granted> grants;
  for (uint64_t i = 0; i < 100; ++i) grants.push_back({.first = i});
  manager_.Grant(uid_, grants);
  world_.Advance(absl::Seconds(1));
  std::set<std::string> tokens;
  for (const SentEvent& sent : transport().sent) tokens.insert(sent.attempt.token);
  EXPECT_EQ(transport().sent.size(), 100u);
  EXPECT_EQ(tokens.size(), 100u);
  EXPECT_EQ(EventsOf(manager_.TakeReports(), GrantReportRecord::DELIVERED), 100u);
  EXPECT_EQ(manager_.report_rows(), 1u);
  ExpectOnlyReports();
}

TEST_F(HandlerGrantedTest, NothingIsSentBeforeItIsDue) {
  const absl::Time due = world_.now() + absl::Seconds(3);
  manager_.Grant(uid_, {{.due = due}});
  world_.Advance(absl::Seconds(5));
  ASSERT_EQ(transport().sent.size(), 1u);
  EXPECT_GE(transport().sent[0].at, due);
}

TEST_F(HandlerGrantedTest, FailuresAreReportedWithTheRetryDecision) {
  std::map<uint64_t, DeliveryResult> results = {
      {0, {.status = DeliveryStatus::kFailed, .message = std::string(1000, 'x')}},
      {1, {.status = DeliveryStatus::kRejected, .message = "no"}},
      {2, {.status = DeliveryStatus::kFailed, .message = "last"}},
      {3, {.status = DeliveryStatus::kUnsent, .message = ""}}};
  transport().decide = [&](const DeliveryAttempt& attempt) { return results[attempt.index]; };
  manager_.Grant(uid_, {{.first = 0},
                        {.first = 1},
                        {.first = 2, .attempts = 3},  // the policy allows 4
                        {.first = 3, .attempts = 1}});
  world_.Advance(absl::Seconds(1));
  std::map<uint64_t, GrantReport> reports;
  for (const GrantReport& report : manager_.TakeReports()) reports[report.first()] = report;
  ASSERT_EQ(reports.size(), 4u);
  EXPECT_EQ(reports[0].kind(), GrantReportRecord::RETRY);
  EXPECT_GE(reports[0].retry_at_micros(), reports[0].time_micros());
  EXPECT_EQ(reports[0].attempts(), 1u);
  EXPECT_EQ(reports[0].reason(), std::string(256, 'x'));
  EXPECT_FALSE(reports[0].unreachable());
  EXPECT_EQ(reports[1].kind(), GrantReportRecord::FAILED);
  EXPECT_EQ(reports[1].reason(), "no");
  EXPECT_EQ(reports[2].kind(), GrantReportRecord::FAILED);
  EXPECT_EQ(reports[2].attempts(), 4u);
  EXPECT_EQ(reports[3].kind(), GrantReportRecord::RETURNED);
  EXPECT_EQ(reports[3].attempts(), 1u);
  EXPECT_TRUE(reports[3].unreachable());
  ExpectOnlyReports();
  EXPECT_EQ(world_.handler("a").metrics().retries.Value(), 1u);
  EXPECT_EQ(world_.handler("a").metrics().dead_letters.Value(), 2u);
}

TEST_F(HandlerGrantedTest, OnlyASilentTargetIsUnreachable) {
  transport().decide = [](const DeliveryAttempt& attempt) -> std::optional<DeliveryResult> {
    if (attempt.index == 0) return std::nullopt;
    return DeliveryResult{.status = DeliveryStatus::kAccepted, .message = ""};
  };
  manager_.Grant(uid_, {{.first = 0}});
  world_.Advance(absl::Seconds(12));
  std::vector<GrantReport> reports = manager_.TakeReports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].kind(), GrantReportRecord::RETRY);
  EXPECT_TRUE(reports[0].unreachable());

  manager_.Grant(uid_, {{.first = 0}});
  world_.Advance(absl::Seconds(1));
  manager_.Grant(uid_, {{.first = 1}});
  world_.Advance(absl::Seconds(12));
  reports = manager_.TakeReports();
  ASSERT_EQ(reports.size(), 2u);
  for (const GrantReport& report : reports) EXPECT_FALSE(report.unreachable());
}

TEST_F(HandlerGrantedTest, EventPastSendBeforeIsReturnedUnsent) {
  manager_.Grant(uid_, {{.send_within = -absl::Milliseconds(1)}});
  // The event is due only after its send_before.
  manager_.Grant(uid_, {{.due = world_.now() + absl::Seconds(3), .send_within = absl::Seconds(2)}});
  world_.Advance(absl::Seconds(5));
  EXPECT_TRUE(transport().sent.empty());
  const std::vector<GrantReport> reports = manager_.TakeReports();
  ASSERT_EQ(reports.size(), 2u);
  for (const GrantReport& report : reports) {
    EXPECT_EQ(report.kind(), GrantReportRecord::RETURNED);
    EXPECT_EQ(report.attempts(), 0u);
    EXPECT_FALSE(report.unreachable());
  }
  ExpectOnlyReports();
}

TEST_F(HandlerGrantedTest, PausedDeletedOrSupersededEventsAreReturned) {
  const absl::Time due = world_.now() + absl::Seconds(2);
  const Uid deleted = world_.AddSchedule("deleted");
  const Uid updated = world_.AddSchedule("updated");
  for (const Uid& uid : {uid_, deleted, updated}) manager_.Grant(uid, {{.due = due}});
  world_.Advance(absl::Seconds(1));
  world_.SetState(uid_, storage::v1::SCHEDULE_STATE_KIND_PAUSED);
  world_.SetState(deleted, storage::v1::SCHEDULE_STATE_KIND_DELETED);
  world_.SetState(updated, storage::v1::SCHEDULE_STATE_KIND_ENABLED, 2);
  world_.Advance(absl::Seconds(3));
  EXPECT_TRUE(transport().sent.empty());
  EXPECT_EQ(EventsOf(manager_.TakeReports(), GrantReportRecord::RETURNED), 3u);
  ExpectOnlyReports();
}

// The cached state of the schedule may be older than the grant.
TEST_F(HandlerGrantedTest, ScheduleResumedInTheGrantsCommitIsSent) {
  manager_.Grant(uid_, {{.first = 0}});
  world_.SetState(uid_, storage::v1::SCHEDULE_STATE_KIND_PAUSED);
  world_.Advance(absl::Seconds(1));
  manager_.TakeReports();
  kv::Group group = manager_.GrantGroup(uid_, {{.first = 1}}, 0);
  storage::v1::StateRecord state;
  state.set_kind(storage::v1::SCHEDULE_STATE_KIND_ENABLED);
  state.set_version(1);
  group.mutations.push_back(
      {.cf = ColumnFamily::kStates, .key = StateKey(uid_), .value = state.SerializeAsString()});
  EXPECT_TRUE(world_.Commit(std::move(group)));
  world_.Advance(absl::Seconds(1));
  EXPECT_EQ(EventsOf(manager_.TakeReports(), GrantReportRecord::DELIVERED), 1u);
}

TEST_F(HandlerGrantedTest, WorkDoneAtOnceIsReportedWithTheAnswer) {
  transport().decide = [](const DeliveryAttempt& attempt) {
    return DeliveryResult{
        .status = DeliveryStatus::kAccepted,
        .message = attempt.index < 10 ? "" : "broken",
        .work = attempt.index < 10 ? DeliveryWork::kSucceeded : DeliveryWork::kFailed};
  };
  manager_.Grant(uid_, {{.count = 12}, {.count = 12, .on_release = false, .occurrence = "p"}});
  world_.Advance(absl::Seconds(1));
  const std::vector<GrantReport> reports = manager_.TakeReports();
  EXPECT_EQ(EventsOf(reports, GrantReportRecord::COMPLETED), 10u);
  EXPECT_EQ(EventsOf(reports, GrantReportRecord::COMPLETION_FAILED), 2u);
  EXPECT_EQ(EventsOf(reports, GrantReportRecord::SUCCEEDED), 12u);
  ASSERT_EQ(reports.size(), 4u);
  for (const GrantReport& report : reports) {
    EXPECT_EQ(report.reason(),
              report.kind() == GrantReportRecord::COMPLETION_FAILED ? "broken" : "");
  }
  ExpectOnlyReports();
}

TEST_F(HandlerGrantedTest, EventWithoutRoomIsReturnedAsUnreachable) {
  const Uid other = world_.AddSchedule("other", "other");
  transport().decide = [](const DeliveryAttempt& attempt) -> std::optional<DeliveryResult> {
    if (attempt.context->target_key == "grpc:consumer") return std::nullopt;
    return DeliveryResult{.status = DeliveryStatus::kAccepted, .message = ""};
  };
  manager_.Grant(uid_, {{.count = 300, .send_within = absl::Seconds(2)}});
  manager_.Grant(uid_, {{.first = 300, .count = 10, .send_within = absl::Seconds(2)}});
  manager_.Grant(other, {{.count = 10}});
  world_.Advance(absl::Milliseconds(1900));
  EXPECT_EQ(transport().CountTo("grpc:other"), 10u);
  EXPECT_EQ(EventsOf(manager_.TakeReports(), GrantReportRecord::DELIVERED), 10u);
  world_.Advance(absl::Milliseconds(400));
  EXPECT_EQ(transport().CountTo("grpc:consumer"), 256u);
  const std::vector<GrantReport> reports = manager_.TakeReports();
  EXPECT_EQ(EventsOf(reports, GrantReportRecord::RETURNED), 54u);
  for (const GrantReport& report : reports) EXPECT_TRUE(report.unreachable());
  world_.Advance(absl::Seconds(10));
  EXPECT_EQ(EventsOf(manager_.TakeReports(), GrantReportRecord::RETRY), 256u);
  ExpectOnlyReports();
}

TEST_F(HandlerGrantedTest, EventsOfATargetGetRoomInOrder) {
  transport().delay = absl::Milliseconds(100);
  for (uint64_t i = 0; i < 8; ++i) manager_.Grant(uid_, {{.first = i * 100, .count = 100}});
  world_.Advance(absl::Seconds(3));
  ASSERT_EQ(transport().sent.size(), 800u);
  for (uint64_t i = 0; i < 800; ++i) EXPECT_EQ(transport().sent[i].attempt.index, i);
  EXPECT_EQ(EventsOf(manager_.TakeReports(), GrantReportRecord::DELIVERED), 800u);
}

// While the store is down the lease cannot be trusted, and afterwards it is too late to send.
TEST_F(HandlerGrantedTest, EventThatWaitedTooLongForTheLeaseIsNotSent) {
  manager_.Grant(uid_, {{.due = world_.now() + absl::Seconds(6), .send_within = absl::Seconds(8)}});
  world_.Advance(absl::Milliseconds(100));
  world_.store.Crash(kv::MemKvStore::Unsynced::kKept);
  world_.Advance(absl::Seconds(10));
  EXPECT_TRUE(transport().sent.empty());
  world_.store.Restart();
  world_.Advance(absl::Seconds(40));
  EXPECT_TRUE(transport().sent.empty());
  const std::vector<GrantReport> reports = manager_.TakeReports();
  EXPECT_EQ(
      EventsOf(reports, GrantReportRecord::RETURNED) + EventsOf(reports, GrantReportRecord::RESEND),
      1u);
  ExpectOnlyReports();
}

TEST_F(HandlerGrantedTest, ClaimsWrittenDuringAWatchGapAreSentOnce) {
  transport().delay = absl::Milliseconds(500);
  manager_.Grant(uid_, {{.first = 0, .count = 20}});
  world_.Advance(absl::Milliseconds(100));
  // A restart ends all watches.
  world_.store.Crash(kv::MemKvStore::Unsynced::kKept);
  world_.store.Restart();
  manager_.Grant(uid_, {{.first = 20, .count = 20}});
  world_.Advance(absl::Seconds(8));
  EXPECT_EQ(transport().sent.size(), 40u);
  EXPECT_EQ(EventsOf(manager_.TakeReports(), GrantReportRecord::DELIVERED), 40u);
  manager_.Grant(uid_, {{.first = 40, .count = 20}});
  world_.Advance(absl::Seconds(1));
  EXPECT_EQ(EventsOf(manager_.TakeReports(), GrantReportRecord::DELIVERED), 20u);
  ExpectOnlyReports();
}

TEST_F(HandlerGrantedTest, DrainingHandlerReturnsUnsentAndAwaitsSentEvents) {
  transport().delay = absl::Seconds(3);
  manager_.Grant(uid_, {{.count = 300}});
  world_.Advance(absl::Milliseconds(100));
  bool drained = false;
  world_.handler("a").Drain([&] { drained = true; });
  world_.Advance(absl::Seconds(1));
  EXPECT_EQ(EventsOf(manager_.TakeReports(), GrantReportRecord::RETURNED), 44u);
  EXPECT_FALSE(drained);
  manager_.Grant(uid_, {{.first = 300, .count = 7}});
  world_.Advance(absl::Seconds(3));
  EXPECT_TRUE(drained);
  const std::vector<GrantReport> reports = manager_.TakeReports();
  EXPECT_EQ(EventsOf(reports, GrantReportRecord::DELIVERED), 256u);
  EXPECT_EQ(EventsOf(reports, GrantReportRecord::RETURNED), 7u);
  EXPECT_EQ(transport().sent.size(), 256u);
  ExpectOnlyReports();
}

TEST_F(HandlerGrantedTest, UnreadableClaimStaysAndIsCounted) {
  kv::Group group = manager_.GrantGroup(uid_, {{.first = 0}}, 0);
  storage::v1::ClaimRecord record;
  record.ParseFromString(group.mutations[0].value);
  record.mutable_entries(0)->set_event_key("x");
  group.mutations[0].value = record.SerializeAsString();
  world_.Commit(std::move(group));
  manager_.Grant(uid_, {{.first = 1}});
  world_.Advance(absl::Seconds(1));
  EXPECT_EQ(transport().sent.size(), 1u);
  EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 1u);
  EXPECT_EQ(world_.handler("a").metrics().broken_rows.Value(), 1u);
}

// The shard had no owner at the grant, so the event cannot have been sent.
TEST_F(HandlerGrantedTest, ClaimWrittenAfterTheFormerOwnersEndIsSentAtOnce) {
  world_.KillHandler("a");
  world_.Advance(absl::Seconds(8));
  manager_.Grant(uid_, {{.count = 10}});
  world_.StartHandler("b");
  world_.Advance(absl::Seconds(3));
  EXPECT_EQ(world_.transport("b").sent.size(), 10u);
  EXPECT_EQ(EventsOf(manager_.TakeReports(), GrantReportRecord::DELIVERED), 10u);
  EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 0u);
}

// The watch reports the claims, or the scan finds them, or both.
TEST(GrantedAtAcquisitionTest, ClaimsPutWhileTheShardIsTakenAreEachSentOnce) {
  constexpr absl::Duration kReadDelay = absl::Milliseconds(1);
  absl::Duration acquired;
  {
    HandlerWorld world(HandlerOptions(), kReadDelay);
    const absl::Time begin = world.now();
    const HandlerService& handler = world.StartHandler("a");
    while (handler.metrics().shards_held.Value() < HandlerWorld::kShards)
      world.Advance(absl::Microseconds(50));
    acquired = world.now() - begin;
  }
  for (int offset = 0; offset < 20; ++offset) {
    HandlerWorld world(HandlerOptions(), kReadDelay);
    TestTokenManager manager(world);
    const absl::Time begin = world.now();
    world.StartHandler("a");
    world.Advance(acquired - absl::Milliseconds(3));
    const Uid uid = world.AddSchedule("s");
    world.Advance(begin + acquired - world.now() - absl::Milliseconds(1) +
                  absl::Microseconds(7) * offset);
    for (uint64_t i = 0; i < 30; ++i) manager.Grant(uid, {{.first = i}}, i % 2);
    EXPECT_GT(world.now(), begin + acquired + absl::Milliseconds(1));
    world.Advance(absl::Seconds(15));
    EXPECT_EQ(world.transport("a").sent.size(), 30u);
    EXPECT_EQ(EventsOf(manager.TakeReports(), GrantReportRecord::DELIVERED), 30u);
  }
}

// Kills the handler at one instant between grant, send and report, and lets another one take over.
class GrantedTakeoverTest : public ::testing::TestWithParam<int> {};

TEST_P(GrantedTakeoverTest, EventsAreReportedOnceAndOpenOnesAsResend) {
  HandlerWorld world;
  world.timeout = absl::Seconds(2);
  TestTokenManager manager(world);
  const Uid uid = world.AddSchedule("s");
  world.StartHandler("a");
  world.transport("a").decide =
      [](const DeliveryAttempt& attempt) -> std::optional<DeliveryResult> {
    if (attempt.index % 7 == 0) return std::nullopt;
    return DeliveryResult{.status = DeliveryStatus::kAccepted, .message = ""};
  };
  world.Advance(absl::Seconds(2));
  const uint64_t number = manager.Grant(uid, {{.count = 40}, {.count = 30, .occurrence = "p"}});
  manager.Grant(uid, {{.count = 20, .occurrence = "q"}}, 1);
  world.Advance(absl::Microseconds(100) * GetParam());
  const absl::Time killed = world.now();
  world.KillHandler("a");
  world.StartHandler("b");
  world.Advance(absl::Milliseconds(5));  // a commit of "a" may be under way
  std::vector<GrantReport> reports = manager.TakeReports();
  world.Advance(absl::Milliseconds(1900));
  EXPECT_TRUE(manager.TakeReports().empty());  // attempts of "a" may still be answered
  world.Advance(absl::Seconds(10));
  for (const GrantReport& report : manager.TakeReports()) {
    EXPECT_EQ(report.kind(), GrantReportRecord::RESEND);
    EXPECT_GE(FromMicros(report.time_micros()), killed + world.timeout);
    reports.push_back(report);
  }
  EXPECT_TRUE(world.transport("b").sent.empty());
  EXPECT_EQ(world.Count(ColumnFamily::kInflight), 0u);
  // Each event is reported once; events without an answer are reported as RESEND.
  std::set<std::pair<uint64_t, uint64_t>> seen;
  for (const GrantReport& report : reports) {
    for (uint64_t i = 0; i < report.count(); ++i)
      EXPECT_TRUE(seen.insert({report.number(), report.first() + i}).second);
  }
  EXPECT_EQ(seen.size(), 90u);
  EXPECT_GE(seen.begin()->first, number);
}

INSTANTIATE_TEST_SUITE_P(Instants, GrantedTakeoverTest, ::testing::Range(0, 120, 3));

}  // namespace handler_granted_test
}  // namespace escapement::handler
