// Tests of one-off events whose max_lateness is over before their first attempt.

#include <optional>
#include <string>

#include "common/base/proto_time.h"
#include "common/storage/event_table.h"
#include "gtest/gtest.h"
#include "services/handler/testing/handler_world.h"

namespace escapement::handler {
namespace handler_missed_test {

using kv::ColumnFamily;
using storage::v1::OUTCOME_KIND_EXPIRED;
using storage::v1::OUTCOME_KIND_SUCCEEDED;

class HandlerMissedTest : public ::testing::Test {
 protected:
  HandlerMissedTest() { world_.max_lateness = absl::Hours(1); }

  void Start() {
    world_.StartHandler("a");
    world_.transport("a").decide = [this](const DeliveryAttempt&) { return result_; };
  }
  void ExpectMissed(const std::string& reason) {
    ASSERT_EQ(world_.DoneEvents(OUTCOME_KIND_EXPIRED), 1u);
    for (const storage::v1::DoneRecord& done : world_.Done()) {
      if (done.outcome() != OUTCOME_KIND_EXPIRED) continue;
      EXPECT_EQ(done.event_id(), "e");
      EXPECT_EQ(done.reason(), reason);
      EXPECT_EQ(done.attempts(), 0u);
    }
    EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
    EXPECT_EQ(world_.Count(ColumnFamily::kDeadLetters), 0u);
    EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 0u);
  }

  HandlerWorld world_;
  std::optional<DeliveryResult> result_ =
      DeliveryResult{.status = DeliveryStatus::kAccepted, .message = ""};
};

TEST_F(HandlerMissedTest, EventThatNoHandlerClaimedInTimeExpires) {
  world_.AddOneOff("e", world_.now(), "payload");
  world_.Advance(absl::Hours(49));
  Start();
  world_.Advance(absl::Seconds(2));
  ExpectMissed("missed by 49h0m");
  EXPECT_TRUE(world_.Sent().empty());
}

TEST_F(HandlerMissedTest, EventWithinItsMaxLatenessIsSent) {
  world_.AddOneOff("e", world_.now(), "payload");
  world_.max_lateness = absl::ZeroDuration();
  world_.AddOneOff("any", world_.now() - absl::Hours(49), "other");
  world_.Advance(absl::Minutes(59));
  Start();
  world_.Advance(absl::Seconds(2));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 2u);
}

TEST_F(HandlerMissedTest, RetryOfAnEventIsNeverMissed) {
  world_.AddOneOff("e", world_.now(), "payload");
  result_ = DeliveryResult{
      .status = DeliveryStatus::kFailed, .message = "busy", .retry_after = absl::Hours(2)};
  Start();
  world_.Advance(absl::Seconds(2));
  ASSERT_EQ(world_.Sent().size(), 1u);
  result_ = DeliveryResult{.status = DeliveryStatus::kAccepted, .message = ""};
  world_.Advance(absl::Hours(3));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 1u);
}

// The target has asked for a pause of two hours.
TEST_F(HandlerMissedTest, EventThatWaitsForItsTargetExpires) {
  result_ = DeliveryResult{
      .status = DeliveryStatus::kFailed, .message = "busy", .retry_after = absl::Hours(2)};
  Start();
  world_.AddOneOff("first", world_.now(), "first");
  world_.Advance(absl::Seconds(1));
  world_.AddOneOff("e", world_.now(), "payload");
  world_.Advance(absl::Minutes(59));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_EXPIRED), 0u);
  world_.Advance(absl::Minutes(1) + absl::Seconds(6));
  ASSERT_EQ(world_.DoneEvents(OUTCOME_KIND_EXPIRED), 1u);
  EXPECT_EQ(world_.Done()[0].event_id(), "e");
  EXPECT_EQ(world_.Sent().size(), 1u);
}

TEST(FullTargetTest, EventThatWaitsForRoomExpires) {
  HandlerOptions options;
  options.target_events_out_max = 1;
  HandlerWorld world(options);
  world.timeout = absl::Hours(3);
  world.StartHandler("a");
  world.transport("a").delay = absl::Hours(2);
  world.AddOneOff("first", world.now(), "first");
  world.Advance(absl::Seconds(1));
  world.max_lateness = absl::Hours(1);
  world.AddOneOff("e", world.now(), "payload");
  world.Advance(absl::Minutes(59));
  EXPECT_EQ(world.DoneEvents(OUTCOME_KIND_EXPIRED), 0u);
  world.Advance(absl::Minutes(1) + absl::Seconds(6));
  EXPECT_EQ(world.DoneEvents(OUTCOME_KIND_EXPIRED), 1u);
  EXPECT_EQ(world.Sent().size(), 1u);
}

// The event is claimed in time, but the claim is known to be committed only after its time.
TEST_F(HandlerMissedTest, ClaimedEventIsNotSentWhenItIsMissed) {
  world_.max_lateness = absl::Seconds(1);
  world_.AddOneOff("e", world_.now() + absl::Seconds(5), "payload");
  Start();
  world_.Advance(absl::Seconds(4));
  world_.quiet_store.BeQuiet();
  world_.Advance(absl::Seconds(3));
  world_.quiet_store.TellAll();
  world_.Advance(absl::Seconds(1));
  ExpectMissed("missed by 0m2s");
  EXPECT_TRUE(world_.Sent().empty());
}

}  // namespace handler_missed_test
}  // namespace escapement::handler
