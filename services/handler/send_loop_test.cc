#include "services/handler/send_loop.h"

#include "common/sim/sim_runtime.h"
#include "gtest/gtest.h"
#include "services/handler/handler_world.h"

namespace escapement::handler {
namespace {

class Owner : public ClaimOwner {
 public:
  Check BeforeSend(const std::shared_ptr<Claim>&, uint32_t, uint64_t, uint64_t) override {
    return check;
  }
  void OnResult(const std::shared_ptr<Claim>&, uint32_t, uint64_t index, int64_t, DeliveryResult,
                bool) override {
    results.push_back(index);
  }
  Check check = Check::kSend;
  std::vector<uint64_t> results;
};

class SendLoopTest : public ::testing::Test {
 protected:
  std::shared_ptr<Claim> MakeClaim(uint64_t count) {
    auto claim = std::make_shared<Claim>();
    claim->owner = &owner_;
    auto context = std::make_shared<DeliveryContext>();
    context->target_key = "t";
    context->timeout = absl::Seconds(10);
    ClaimedEntry entry;
    entry.context = std::move(context);
    entry.event.set_version(1);
    entry.event.set_count(count);
    claim->entries.push_back(std::move(entry));
    return claim;
  }
  void AddAndSend(uint64_t count) {
    loop_.Reserve("t", count);
    loop_.Add(MakeClaim(count), 0, 0, count, now());
    loop_.SendDue(now());
  }
  absl::Time now() { return runtime_.world().Now(); }

  sim::SimRuntime runtime_{1};
  ScriptedTransport transport_{runtime_};
  HandlerOptions options_;
  HandlerStats stats_;
  Owner owner_;
  int result_batches_ = 0;
  SendLoop loop_{options_,   runtime_, runtime_.NewExecutor("loop"),
                 transport_, stats_,   [this] { ++result_batches_; }};
};

TEST_F(SendLoopTest, NothingIsSentBeforeItIsDue) {
  const absl::Time due = now() + absl::Seconds(1);
  loop_.Reserve("t", 5);
  loop_.Add(MakeClaim(5), 0, 0, 5, due);
  loop_.SendDue(due - absl::Microseconds(1));
  EXPECT_TRUE(transport_.sent.empty());
  EXPECT_EQ(loop_.NextDue(), due);
  loop_.SendDue(due);
  EXPECT_EQ(transport_.sent.size(), 5u);
}

TEST_F(SendLoopTest, ResultsFreeWhatWasReserved) {
  AddAndSend(100);
  EXPECT_EQ(loop_.out(), 100u);
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(owner_.results.size(), 100u);
  EXPECT_EQ(loop_.out(), 0u);
}

TEST_F(SendLoopTest, WhatMayNotBeSentNowIsAskedForAgain) {
  owner_.check = ClaimOwner::Check::kWait;
  AddAndSend(1);
  EXPECT_TRUE(transport_.sent.empty());
  ASSERT_TRUE(loop_.NextDue().has_value());
  owner_.check = ClaimOwner::Check::kSend;
  loop_.SendDue(*loop_.NextDue());
  EXPECT_EQ(transport_.sent.size(), 1u);
}

TEST_F(SendLoopTest, ResultsForALostShardChangeNothing) {
  auto claim = MakeClaim(3);
  loop_.Reserve("t", 3);
  loop_.Add(claim, 0, 0, 3, now());
  loop_.SendDue(now());
  claim->owner = nullptr;
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_TRUE(owner_.results.empty());
  EXPECT_EQ(loop_.out(), 0u);
}

TEST_F(SendLoopTest, ATargetsRoomFollowsWhatItAnswers) {
  EXPECT_EQ(loop_.Room("t"), 256u);
  // 100 in 100 ms are 2,500 in a quarter of the timeout.
  loop_.Reserve("t", 0);
  EXPECT_EQ(loop_.Room("t"), 256u);
  AddAndSend(100);
  runtime_.AdvanceBy(absl::Milliseconds(100));
  EXPECT_EQ(loop_.Room("t"), 2500u);
  // Nothing was asked of it: it is not known to have become slower.
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(loop_.Room("t"), 2500u);
  // It answers nothing more of all that it may have out.
  transport_.decide = [](const DeliveryAttempt&) { return std::nullopt; };
  AddAndSend(2500);
  runtime_.AdvanceBy(absl::Milliseconds(100));
  EXPECT_EQ(loop_.Room("t"), 0u);
  loop_.Unreserve("t", 2500);
  EXPECT_EQ(loop_.Room("t"), 256u);
}

TEST_F(SendLoopTest, WhatWasNotSentIsNoAnswer) {
  transport_.decide = [](const DeliveryAttempt&) {
    return DeliveryResult{.status = DeliveryStatus::kUnsent, .message = ""};
  };
  loop_.Reserve("t", 0);
  EXPECT_EQ(loop_.Room("t"), 256u);
  AddAndSend(100);
  runtime_.AdvanceBy(absl::Milliseconds(100));
  EXPECT_EQ(loop_.Room("t"), 256u);
}

TEST_F(SendLoopTest, ATargetThatStaysFullIsSlowAndGetsLess) {
  transport_.decide = [](const DeliveryAttempt&) { return std::nullopt; };
  loop_.Room("t");
  AddAndSend(256);
  EXPECT_EQ(loop_.Room("t"), 0u);
  EXPECT_FALSE(loop_.Slow("t"));
  runtime_.AdvanceBy(absl::Milliseconds(1500));
  EXPECT_EQ(loop_.Room("t"), 0u);
  EXPECT_TRUE(loop_.Slow("t"));
  runtime_.AdvanceBy(absl::Seconds(20));
  EXPECT_EQ(loop_.Room("t"), 16u) << "all have timed out";
}

}  // namespace
}  // namespace escapement::handler
