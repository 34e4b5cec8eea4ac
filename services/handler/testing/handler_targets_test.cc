// Tests of what a handler writes about its targets: their states, and requests to pause schedules
// whose targets are gone.

#include <map>
#include <optional>
#include <set>
#include <string>

#include "common/storage/name_tables.h"
#include "escapement/storage/v1/target_records.pb.h"
#include "gtest/gtest.h"
#include "services/handler/sending/target_state_loop.h"
#include "services/handler/testing/granted_world.h"
#include "services/handler/testing/handler_world.h"

namespace escapement::handler {
namespace handler_targets_test {

using kv::ColumnFamily;
using storage::v1::GrantReportRecord;
using storage::v1::OUTCOME_KIND_FAILED;
using storage::v1::TargetRowRecord;
using storage::v1::TargetStateRecord;

class HandlerTargetsTest : public ::testing::Test {
 protected:
  HandlerTargetsTest() {
    uid_ = world_.AddSchedule("s");
    world_.StartHandler("a");
    world_.transport("a").decide = [this](const DeliveryAttempt&) { return result_; };
    world_.Advance(absl::Seconds(6));
  }

  void AddRow(const Uid& uid, uint64_t count) {
    world_.AddRow(uid, {.due = world_.now() + absl::Seconds(1),
                        .occurrence = "o" + std::to_string(++occurrences_),
                        .count = count,
                        .run_count = count});
  }
  // The rows of `target_states`, by handler.
  std::map<std::string, TargetRowRecord> States() const {
    std::map<std::string, TargetRowRecord> states;
    for (const auto& [key, value] : world_.Rows(ColumnFamily::kTargetStates)) {
      const auto name = DecodeTargetRowKey(key);
      EXPECT_TRUE(name.has_value() && name->tenant == "default");
      EXPECT_EQ(name->target, TargetIdOf("grpc:consumer"));
      EXPECT_TRUE(states[name->handler].ParseFromString(value));
    }
    return states;
  }

  HandlerWorld world_;
  Uid uid_;
  int occurrences_ = 0;
  std::optional<DeliveryResult> result_ =
      DeliveryResult{.status = DeliveryStatus::kAccepted, .message = ""};
};

TEST_F(HandlerTargetsTest, StateOfATargetIsWrittenWhenItIsUsedAndWhenItGoesDown) {
  AddRow(uid_, 10);
  world_.Advance(absl::Seconds(4));
  ASSERT_EQ(States().size(), 1u);
  TargetRowRecord row = States()["a"];
  EXPECT_EQ(row.state().target_key(), "grpc:consumer");
  EXPECT_EQ(row.state().breaker(), TargetStateRecord::CLOSED);
  EXPECT_EQ(row.state().attempts(), 10u);
  EXPECT_EQ(row.state().failures(), 0u);
  EXPECT_EQ(row.in_flight_max(), 256u);
  EXPECT_EQ(row.state().last_error(), "");
  world_.Advance(absl::Seconds(11));
  result_ = DeliveryResult{.status = DeliveryStatus::kFailed, .message = "HTTP 503"};
  AddRow(uid_, 50);
  world_.Advance(absl::Seconds(4));
  row = States()["a"];
  EXPECT_NE(row.state().breaker(), TargetStateRecord::CLOSED);
  EXPECT_EQ(row.state().last_error(), "HTTP 503");
  EXPECT_GE(row.state().failures(), 50u);
  EXPECT_GT(row.down_since_micros(), 0);
  EXPECT_EQ(row.state().in_flight(), 0u);
}

TEST_F(HandlerTargetsTest, RowsAreWrittenRarelyAndDeletedWhenIdle) {
  AddRow(uid_, 1);
  world_.Advance(absl::Seconds(5));
  // Nothing is sent any more. Every 30 s the row says that the handler lives.
  std::set<int64_t> writes;  // times in the row
  for (int second = 0; second < 480; ++second) {
    world_.Advance(absl::Seconds(1));
    ASSERT_EQ(States().size(), 1u);
    writes.insert(States()["a"].state().update_time_micros());
  }
  EXPECT_GE(writes.size(), 15u);
  EXPECT_LE(writes.size(), 17u);
  world_.Advance(absl::Minutes(3));
  EXPECT_TRUE(States().empty());
}

TEST_F(HandlerTargetsTest, BusyTargetsAreWrittenAtMostEveryTenSeconds) {
  std::set<int64_t> writes;  // times in the row
  for (int i = 0; i < 120; ++i) {
    AddRow(uid_, 1);
    world_.Advance(absl::Milliseconds(500));
    if (!States().empty()) writes.insert(States()["a"].state().update_time_micros());
  }
  EXPECT_GE(writes.size(), 5u);
  EXPECT_LE(writes.size(), 7u);
}

TEST_F(HandlerTargetsTest, EveryHandlerHasItsRow) {
  AddRow(uid_, 2);
  world_.Advance(absl::Seconds(4));
  world_.StartHandler("b");
  world_.Advance(absl::Seconds(20));
  for (uint16_t shard = 0; shard < HandlerWorld::kShards; ++shard) {
    world_.AddRow(uid_, {.shard = shard,
                         .due = world_.now() + absl::Seconds(1),
                         .occurrence = "b" + std::to_string(shard)});
  }
  world_.Advance(absl::Seconds(5));
  EXPECT_EQ(States().size(), 2u);
}

TEST_F(HandlerTargetsTest, GoneTargetEndsTheEventAndAsksForAPause) {
  result_ = DeliveryResult{.status = DeliveryStatus::kRejected,
                           .message = "HTTP 410: bye",
                           .status_code = 410,
                           .gone = true};
  AddRow(uid_, 3);  // three events that end in one commit
  world_.Advance(absl::Seconds(4));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_FAILED), 3u);
  EXPECT_EQ(world_.Count(ColumnFamily::kDeadLetters), 3u);
  EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 0u);
  EXPECT_EQ(world_.handler("a").metrics().refused_ends.Value(), 0);
  const auto requests = world_.Rows(ColumnFamily::kPauseRequests);
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests.begin()->first, PauseRequestKey(uid_));
  storage::v1::PauseRequestRecord request;
  ASSERT_TRUE(request.ParseFromString(requests.begin()->second));
  EXPECT_EQ(request.tenant(), "default");
  EXPECT_EQ(request.schedule_id(), "s");
  EXPECT_EQ(request.version(), 1u);
  EXPECT_EQ(request.reason(), "the target answered 410 Gone");
}

TEST_F(HandlerTargetsTest, OtherGoneAnswersAreInTheReason) {
  result_ = DeliveryResult{.status = DeliveryStatus::kRejected,
                           .message = "Slack answered 404: no_service\n" + std::string(300, 'x'),
                           .status_code = 404,
                           .gone = true};
  AddRow(uid_, 1);
  world_.Advance(absl::Seconds(4));
  storage::v1::PauseRequestRecord request;
  ASSERT_EQ(world_.Count(ColumnFamily::kPauseRequests), 1u);
  ASSERT_TRUE(request.ParseFromString(world_.Rows(ColumnFamily::kPauseRequests).begin()->second));
  EXPECT_EQ(request.reason().substr(0, 50), "the target is gone: Slack answered 404: no_service");
  EXPECT_EQ(request.reason().size(), 200u);
}

TEST_F(HandlerTargetsTest, OneOffEventsOfAGoneTargetJustFail) {
  result_ =
      DeliveryResult{.status = DeliveryStatus::kRejected, .message = "HTTP 410", .gone = true};
  world_.AddOneOff("e", world_.now() + absl::Seconds(1), "payload");
  world_.Advance(absl::Seconds(4));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_FAILED), 1u);
  EXPECT_EQ(world_.Count(ColumnFamily::kPauseRequests), 0u);
}

TEST_F(HandlerTargetsTest, RejectedEventsAskForNoPause) {
  result_ = DeliveryResult{.status = DeliveryStatus::kRejected, .message = "too large"};
  AddRow(uid_, 1);
  world_.Advance(absl::Seconds(4));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_FAILED), 1u);
  EXPECT_EQ(world_.Count(ColumnFamily::kPauseRequests), 0u);
}

TEST_F(HandlerTargetsTest, GrantedEventsOfAGoneTargetAskForAPauseToo) {
  TestTokenManager manager(world_);
  result_ =
      DeliveryResult{.status = DeliveryStatus::kRejected, .message = "HTTP 410", .gone = true};
  manager.Grant(uid_, {{.count = 4}});
  world_.Advance(absl::Seconds(4));
  EXPECT_EQ(EventsOf(manager.TakeReports(), GrantReportRecord::FAILED), 4u);
  EXPECT_EQ(world_.Count(ColumnFamily::kPauseRequests), 1u);
}

}  // namespace handler_targets_test
}  // namespace escapement::handler
