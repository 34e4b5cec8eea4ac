// Tests of the order in which due events go when their target cannot take all of them at once.

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "services/handler/base/options.h"
#include "services/handler/testing/handler_world.h"

namespace escapement::handler {
namespace handler_priority_test {

class HandlerPriorityTest : public ::testing::Test {
 protected:
  static HandlerOptions Options(uint64_t out_max) {
    HandlerOptions options;
    options.target_events_out_max = out_max;
    return options;
  }

  // The target may have this many events out.
  void Start(uint64_t out_max) {
    world_ = std::make_unique<HandlerWorld>(Options(out_max));
    urgent_ = world_->AddSchedule("urgent");
    patient_ = world_->AddSchedule("patient");
    world_->StartHandler("a");
    world_->transport("a").delay = absl::Milliseconds(100);
    world_->Advance(absl::Seconds(1));
  }

  // Events of priorities 0 and 9, in both shards.
  void AddUrgent(absl::Time due) { Add(urgent_, 0, "u", due); }
  void AddPatient(absl::Time due) { Add(patient_, 9, "p", due); }

  // The events that were sent, by time: "u" for an urgent one, "p" for a patient one.
  std::string Sent() const {
    std::string kinds;
    for (const SentEvent& sent : world_->Sent()) kinds += sent.attempt.context->occurrence[0];
    return kinds;
  }

  std::unique_ptr<HandlerWorld> world_;

 private:
  void Add(const Uid& uid, uint8_t lane, const std::string& kind, absl::Time due) {
    world_->AddRow(uid, {.shard = static_cast<uint16_t>(added_ / 2 % HandlerWorld::kShards),
                         .lane = lane,
                         .due = due,
                         .occurrence = kind + std::to_string(added_)});
    added_ += 1;
  }

  Uid urgent_;
  Uid patient_;
  int added_ = 0;
};

TEST_F(HandlerPriorityTest, LowerNumberGoesFirstInAllShardsWhileRoomIsShort) {
  Start(40);
  const absl::Time due = world_->now() + absl::Seconds(2);
  for (int i = 0; i < 750; ++i) {
    AddPatient(due);
    AddUrgent(due);
  }
  world_->Advance(absl::Seconds(10));
  EXPECT_EQ(Sent(), std::string(750, 'u') + std::string(750, 'p'));
  EXPECT_GE(world_->Sent().front().at, due);
}

// The answers come so fast that a shard has no commit to spare for each place that they free.
TEST_F(HandlerPriorityTest, LowerNumberKeepsItsPlaceWhileCommitsAreUnderWay) {
  Start(200);
  int sent = 0;
  world_->transport("a").decide = [&](const DeliveryAttempt&) {
    world_->transport("a").delay = absl::Milliseconds(50) + absl::Microseconds(60) * (++sent % 100);
    return DeliveryResult{.status = DeliveryStatus::kAccepted, .message = ""};
  };
  const absl::Time due = world_->now() + absl::Seconds(2);
  for (int i = 0; i < 750; ++i) {
    AddPatient(due);
    AddUrgent(due);
  }
  world_->Advance(absl::Seconds(10));
  EXPECT_EQ(Sent(), std::string(750, 'u') + std::string(750, 'p'));
}

TEST_F(HandlerPriorityTest, LowerNumberLeavesFirstAtOneInstant) {
  Start(HandlerOptions().target_events_out_max);
  const absl::Time due = world_->now() + absl::Seconds(2);
  for (int i = 0; i < 100; ++i) {
    AddPatient(due);
    AddUrgent(due);
  }
  world_->Advance(absl::Seconds(2) + absl::Milliseconds(10));
  EXPECT_EQ(Sent(), std::string(100, 'u') + std::string(100, 'p'));
}

TEST_F(HandlerPriorityTest, LowerNumberDueLaterOvertakesRowsThatWait) {
  Start(10);
  const absl::Time due = world_->now() + absl::Seconds(2);
  for (int i = 0; i < 300; ++i) AddPatient(due);
  for (int i = 0; i < 20; ++i) AddUrgent(due + absl::Seconds(1));
  world_->Advance(absl::Seconds(6));
  const std::string sent = Sent();
  EXPECT_EQ(sent.size(), 320u);
  const size_t first = sent.find('u');
  EXPECT_NEAR(static_cast<double>(first), 100, 10);
  EXPECT_EQ(sent.substr(first, 20), std::string(20, 'u'));
}

// The target takes ten events a second, and twenty of priority 0 become due.
TEST_F(HandlerPriorityTest, NineGoesBeforeLaterZeroesAfterNinetySeconds) {
  Start(1);
  const absl::Time due = world_->now() + absl::Seconds(2);
  for (int i = 0; i < 2; ++i) AddUrgent(due);
  AddPatient(due);  // in the second shard
  for (int i = 0; i < 2000; ++i) AddUrgent(due + absl::Milliseconds(50) * i);
  world_->Advance(absl::Seconds(95));
  ASSERT_NE(Sent().find('p'), std::string::npos);
  const absl::Time patient = world_->Sent()[Sent().find('p')].at;
  EXPECT_GE(patient, due + absl::Seconds(89));
  EXPECT_LE(patient, due + absl::Seconds(91));
}

}  // namespace handler_priority_test
}  // namespace escapement::handler
