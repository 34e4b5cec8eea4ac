#include "services/handler/sending/send_loop.h"

#include "common/sim/sim_runtime.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/handler/base/options.h"
#include "services/handler/testing/handler_world.h"

namespace escapement::handler {
namespace send_loop_test {

class Owner : public ClaimOwner {
 public:
  Check BeforeSend(const std::shared_ptr<Claim>&, uint32_t, uint64_t, uint64_t) override {
    return check;
  }
  void OnResult(const std::shared_ptr<Claim>&, AttemptEnd end) override {
    results.push_back(end.index);
    times.push_back(end.time);
  }
  Check check = Check::kSend;
  std::vector<uint64_t> results;
  std::vector<absl::Time> times;
};

class SendLoopTest : public ::testing::Test {
 protected:
  // The target has its whole room at once.
  SendLoopTest() { options_.first_out_max = options_.target_events_out_max; }
  std::shared_ptr<Claim> MakeClaim(uint64_t count) {
    auto claim = std::make_shared<Claim>();
    claim->owner = &owner_;
    auto context = std::make_shared<DeliveryContext>();
    context->target_key = "t";
    context->timeout = absl::Seconds(10);
    context->closed = closed_;
    ClaimedEntry entry;
    entry.context = std::move(context);
    storage::v1::EventRecord event;
    event.set_tenant(tenant_);
    event.set_version(1);
    event.set_count(count);
    entry.event = EventRow(std::move(event));
    claim->entries.push_back(std::move(entry));
    return claim;
  }
  void AddAndSend(uint64_t count) {
    loop_.Reserve("t", count);
    loop_.Add(MakeClaim(count), 0, 0, count, now());
    loop_.SendDue(now());
  }
  // Then 100 ms pass. If the target answers them, its rate is 2,500 per quarter of the timeout.
  void SendItAHundred() {
    loop_.Reserve("t", 0);
    EXPECT_EQ(loop_.Room("t"), 256u);
    AddAndSend(100);
    runtime_.AdvanceBy(absl::Milliseconds(100));
  }
  absl::Time now() { return runtime_.world().Now(); }

  sim::SimRuntime runtime_{1};
  ScriptedTransport transport_{runtime_};
  HandlerOptions options_;
  Metrics registry_;
  HandlerMetrics metrics_{registry_};
  Owner owner_;
  std::string closed_;
  std::string tenant_ = "default";
  int result_batches_ = 0;
  kv::MemKvStore store_{runtime_, kv::MemKvStore::Options()};
  kv::KvClient client_{store_, runtime_, kv::KvClient::Options()};
  MinuteSums statistics_{client_, runtime_, runtime_.NewExecutor("statistics")};
  ClaimLead lead_;
  SendLoop loop_{options_,
                 lead_,
                 runtime_,
                 runtime_.NewExecutor("loop"),
                 transport_,
                 metrics_,
                 statistics_,
                 [this] { return now(); },
                 [this] { ++result_batches_; }};
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

TEST_F(SendLoopTest, EventsOfAllClaimsLeaveByDueTimeAndLane) {
  const absl::Time due = now();
  loop_.Reserve("t", 8);
  const auto add = [&](uint8_t lane, std::vector<std::pair<uint64_t, int>> events) {
    const std::shared_ptr<Claim> claim = MakeClaim(1);
    claim->entries[0].key.lane = lane;
    for (const auto& [index, seconds] : events)
      loop_.Add(claim, 0, index, 1, due + absl::Seconds(seconds));
  };
  add(5, {{1, 1}, {4, 3}, {7, 5}, {2, 1}});
  add(5, {{3, 2}, {6, 4}});
  add(2, {{0, 1}, {5, 4}});
  loop_.SendDue(due + absl::Seconds(3));
  EXPECT_EQ(loop_.NextDue(), due + absl::Seconds(4));
  loop_.SendDue(due + absl::Seconds(5));
  std::vector<uint64_t> indexes;
  for (const SentEvent& sent : transport_.sent) indexes.push_back(sent.attempt.index);
  EXPECT_THAT(indexes, ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(loop_.NextDue(), std::nullopt);
}

TEST_F(SendLoopTest, ResultsFreeReservedRoom) {
  AddAndSend(100);
  EXPECT_EQ(loop_.out(), 100u);
  const absl::Time sent = now();
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(owner_.results.size(), 100u);
  EXPECT_EQ(owner_.times, std::vector<absl::Time>(100, sent + transport_.delay));
  EXPECT_EQ(loop_.out(), 0u);
}

TEST_F(SendLoopTest, ReturningMoreRoomThanIsReservedDies) {
  loop_.Reserve("t", 1);
  EXPECT_DEATH(loop_.Unreserve("t", 2), "more is taken than was counted");
  EXPECT_DEATH(loop_.Unreserve("u", 1), "nothing is reserved for u");
}

TEST_F(SendLoopTest, EventThatMustWaitIsCheckedAgain) {
  owner_.check = ClaimOwner::Check::kWait;
  AddAndSend(1);
  EXPECT_TRUE(transport_.sent.empty());
  ASSERT_TRUE(loop_.NextDue().has_value());
  owner_.check = ClaimOwner::Check::kSend;
  loop_.SendDue(*loop_.NextDue());
  EXPECT_EQ(transport_.sent.size(), 1u);
}

TEST_F(SendLoopTest, ResultsForALostShardHaveNoEffect) {
  auto claim = MakeClaim(3);
  loop_.Reserve("t", 3);
  loop_.Add(claim, 0, 0, 3, now());
  loop_.SendDue(now());
  claim->owner = nullptr;
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_TRUE(owner_.results.empty());
  EXPECT_EQ(loop_.out(), 0u);
}

TEST_F(SendLoopTest, RoomOfATargetFollowsItsAnswerRate) {
  EXPECT_EQ(loop_.Room("t"), 256u);
  SendItAHundred();
  EXPECT_EQ(loop_.Room("t"), 2500u);
  // The target has got no events, so it is not known to have become slower.
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(loop_.Room("t"), 2500u);
  // The target answers no further event.
  transport_.decide = [](const DeliveryAttempt&) { return std::nullopt; };
  AddAndSend(2500);
  runtime_.AdvanceBy(absl::Milliseconds(100));
  EXPECT_EQ(loop_.Room("t"), 0u);
  loop_.Unreserve("t", 2500);
  EXPECT_EQ(loop_.Room("t"), 256u);
}

TEST_F(SendLoopTest, FastAnswersGiveMoreRoomAtOnce) {
  loop_.Reserve("t", 0);
  EXPECT_EQ(loop_.Room("t"), 256u);
  AddAndSend(100);
  runtime_.AdvanceBy(absl::Milliseconds(10));
  ASSERT_EQ(loop_.out(), 0u);
  EXPECT_EQ(loop_.Room("t"), options_.target_events_out_max) << "as if they had been 2,000/s";
}

TEST_F(SendLoopTest, UnsentClaimsDoNotLowerTheLimit) {
  SendItAHundred();
  EXPECT_EQ(loop_.Room("t"), 2500u);
  // The commit of a claim takes a long time.
  loop_.Reserve("t", 2500);
  runtime_.AdvanceBy(absl::Milliseconds(500));
  EXPECT_EQ(loop_.Room("t"), 0u);
  loop_.Unreserve("t", 2500);
  EXPECT_EQ(loop_.Room("t"), 2500u);
}

TEST_F(SendLoopTest, EarlyClaimsHaveRoomOfTheirOwn) {
  SendItAHundred();
  lead_.OnCommitted(absl::Milliseconds(96));
  lead_.Step(now(), runtime_.clock().Elapsed());
  ASSERT_EQ(lead_.extra(), absl::Milliseconds(100));
  EXPECT_EQ(loop_.Room("t"), 2500u + 100u) << "1,000 answers a second";
}

TEST_F(SendLoopTest, EarlyClaimsRaiseTheBoundForAllTargets) {
  options_.events_out_max = 1000;
  loop_.Reserve("t", 999);
  EXPECT_FALSE(loop_.full());
  loop_.Reserve("t", 1);
  EXPECT_TRUE(loop_.full());
  lead_.OnCommitted(kClaimLeadMax);
  lead_.Step(now(), runtime_.clock().Elapsed());
  loop_.Reserve("t", 919);
  EXPECT_FALSE(loop_.full()) << "230 ms earlier, of 250";
  EXPECT_EQ(loop_.Room("u"), 1u);
  loop_.Reserve("u", 1);
  EXPECT_TRUE(loop_.full());
}

TEST_F(SendLoopTest, UnsentResultIsNoAnswer) {
  transport_.decide = [](const DeliveryAttempt& attempt) {
    return DeliveryResult{
        .status = attempt.index == 0 ? DeliveryStatus::kAccepted : DeliveryStatus::kUnsent,
        .message = ""};
  };
  SendItAHundred();
  EXPECT_EQ(loop_.Room("t"), 256u);
}

TEST_F(SendLoopTest, TargetThatStaysFullIsSlowAndGetsLessRoom) {
  transport_.decide = [](const DeliveryAttempt&) { return std::nullopt; };
  loop_.Room("t");
  AddAndSend(256);
  EXPECT_EQ(loop_.Room("t"), 0u);
  EXPECT_FALSE(loop_.IsSlow("t"));
  runtime_.AdvanceBy(absl::Milliseconds(1500));
  EXPECT_EQ(loop_.Room("t"), 0u);
  EXPECT_TRUE(loop_.IsSlow("t"));
  runtime_.AdvanceBy(absl::Seconds(20));
  EXPECT_EQ(loop_.Room("t"), 1u) << "all have timed out: a probe may go";
  transport_.decide = nullptr;
  AddAndSend(1);
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(loop_.Room("t"), 16u) << "the probe was answered";
}

std::optional<DeliveryResult> Failed(const DeliveryAttempt&) {
  return DeliveryResult{.status = DeliveryStatus::kFailed, .message = "HTTP 503"};
}

TEST_F(SendLoopTest, AttemptsAreCountedAndTimedByTransport) {
  AddAndSend(20);
  runtime_.AdvanceBy(absl::Seconds(1));
  transport_.decide = Failed;
  AddAndSend(3);
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(metrics_.Of("t").failures.Value(), 3);
  EXPECT_THAT(
      registry_.Serialize(),
      ::testing::HasSubstr("escapement_handler_attempt_seconds_count{transport=\"other\"} 23\n"));
}

TEST_F(SendLoopTest, DeliveriesAreTheAttemptsThatLeft) {
  AddAndSend(20);
  runtime_.AdvanceBy(absl::Seconds(1));
  transport_.decide = [](const DeliveryAttempt& attempt) {
    return DeliveryResult{.status = attempt.index == 0   ? DeliveryStatus::kUnsent
                                    : attempt.index == 1 ? DeliveryStatus::kUnknown
                                                         : DeliveryStatus::kFailed,
                          .not_sent = attempt.index > 1,
                          .message = "no connection"};
  };
  AddAndSend(10);
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(metrics_.deliveries.Value(), 21) << "20 accepted ones and an unknown one";
}

TEST_F(SendLoopTest, TargetThatIsDownHasNoRoomExceptForAProbe) {
  transport_.decide = Failed;
  AddAndSend(20);
  EXPECT_FALSE(loop_.HoldOf("t").has_value());
  runtime_.AdvanceBy(absl::Milliseconds(500));
  EXPECT_EQ(loop_.Room("t"), 0u);
  EXPECT_TRUE(loop_.IsSlow("t"));
  EXPECT_EQ(metrics_.Of("t").openings.Value(), 1);
  EXPECT_GT(loop_.Room("u"), 0u);
  runtime_.AdvanceBy(absl::Milliseconds(501));
  EXPECT_EQ(loop_.Room("t"), 1u);
  ASSERT_TRUE(loop_.HoldOf("t").has_value());
  EXPECT_EQ(loop_.HoldOf("t")->lasted, absl::Seconds(1));
  EXPECT_TRUE(loop_.HoldOf("t")->down);
  loop_.Reserve("t", 1);
  EXPECT_EQ(loop_.Room("t"), 0u);
  loop_.Unreserve("t", 1);  // its claim has failed
  EXPECT_EQ(loop_.Room("t"), 1u);
  transport_.decide = nullptr;
  AddAndSend(1);
  EXPECT_EQ(loop_.Room("t"), 0u);
  runtime_.AdvanceBy(absl::Milliseconds(2));
  EXPECT_EQ(loop_.Room("t"), 256u);
  EXPECT_FALSE(loop_.HoldOf("t").has_value());
}

TEST_F(SendLoopTest, ResultsOfEarlierAttemptsGiveTheProbeNoCompany) {
  transport_.decide = Failed;
  transport_.delay = absl::Milliseconds(1500);
  AddAndSend(100);  // their results come while the probe is out
  transport_.delay = absl::Milliseconds(1);
  AddAndSend(20);
  runtime_.AdvanceBy(absl::Milliseconds(1100));
  ASSERT_EQ(loop_.Room("t"), 1u);
  transport_.delay = absl::Seconds(5);
  AddAndSend(1);
  runtime_.AdvanceBy(absl::Seconds(1));
  ASSERT_EQ(loop_.out(), 1u);
  EXPECT_EQ(loop_.Room("t"), 0u);
}

TEST_F(SendLoopTest, UnsentEventsFromBeforeTheOutageGiveTheProbeNoCompany) {
  loop_.Reserve("t", 3);  // their claim is slow to commit
  transport_.decide = Failed;
  AddAndSend(20);
  runtime_.AdvanceBy(absl::Milliseconds(1100));
  ASSERT_EQ(loop_.Room("t"), 1u);
  loop_.Reserve("t", 1);
  loop_.Unreserve("t", 3);  // their claim has failed
  EXPECT_EQ(loop_.Room("t"), 0u) << "the probe is out";
  loop_.Unreserve("t", 1);
  EXPECT_EQ(loop_.Room("t"), 1u);
}

TEST_F(SendLoopTest, ClosedTargetsAreNotDown) {
  closed_ = "the secrets cannot be opened";
  transport_.decide = Failed;
  AddAndSend(100);
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_FALSE(loop_.HoldOf("t").has_value());
}

TEST_F(SendLoopTest, UnsentEventsOpenTheBreakerIfNothingIsAnswered) {
  const auto unsent = [](const DeliveryAttempt&) {
    return DeliveryResult{.status = DeliveryStatus::kUnsent, .message = ""};
  };
  AddAndSend(1);
  transport_.decide = unsent;
  transport_.delay = absl::Seconds(2);
  AddAndSend(100);
  runtime_.AdvanceBy(absl::Seconds(30));
  EXPECT_FALSE(loop_.HoldOf("t").has_value()) << "one was answered while they waited";
  AddAndSend(100);
  runtime_.AdvanceBy(absl::Seconds(3));
  EXPECT_TRUE(loop_.HoldOf("t").has_value());
}

TEST_F(SendLoopTest, UsesAreCountedByTenantAndForgottenWhenIdle) {
  AddAndSend(3);
  tenant_ = "other";
  transport_.decide = Failed;
  AddAndSend(2);
  EXPECT_EQ(loop_.targets().at("t").uses.at("default").in_flight(), 3u);
  EXPECT_EQ(loop_.targets().at("t").uses.at("other").in_flight(), 2u);
  runtime_.AdvanceBy(absl::Seconds(1));
  const absl::Duration now = runtime_.clock().Elapsed();
  const auto& uses = loop_.targets().at("t").uses;
  EXPECT_EQ(uses.at("default").CountsAt(now).attempts, 3u);
  EXPECT_EQ(uses.at("default").CountsAt(now).failures, 0u);
  EXPECT_EQ(uses.at("default").LastError(), "");
  EXPECT_EQ(uses.at("other").CountsAt(now).failures, 2u);
  EXPECT_EQ(uses.at("other").LastError(), "HTTP 503");
  tenant_ = "default";
  AddAndSend(1);
  loop_.ForgetIdle(runtime_.clock().Elapsed());
  EXPECT_EQ(loop_.targets().at("t").uses.size(), 1u);
  runtime_.AdvanceBy(absl::Seconds(1));
  loop_.ForgetIdle(runtime_.clock().Elapsed());
  EXPECT_TRUE(loop_.targets().empty());
  loop_.Reserve("t", 1);
  loop_.Unreserve("t", 1);
  loop_.ForgetIdle(runtime_.clock().Elapsed());
  EXPECT_EQ(loop_.targets().size(), 1u) << "it was reserved just now";
}

TEST_F(SendLoopTest, HangingAttemptsTakeNoRoomWhileOthersAreAnswered) {
  transport_.decide = [](const DeliveryAttempt& attempt) -> std::optional<DeliveryResult> {
    if (attempt.index >= 100) return std::nullopt;
    return DeliveryResult{.status = DeliveryStatus::kAccepted, .message = ""};
  };
  loop_.Room("t");
  AddAndSend(110);
  runtime_.AdvanceBy(absl::Milliseconds(200));
  EXPECT_LT(loop_.Room("t"), options_.target_events_out_max);
  const uint64_t room = loop_.Room("t");
  runtime_.AdvanceBy(absl::Milliseconds(1100));
  EXPECT_EQ(loop_.Room("t"), room + 10);
}

TEST_F(SendLoopTest, HangingAttemptsKeepTheirRoomIfNothingIsAnswered) {
  transport_.decide = [](const DeliveryAttempt&) { return std::nullopt; };
  loop_.Room("t");
  AddAndSend(256);
  runtime_.AdvanceBy(absl::Seconds(9));
  EXPECT_EQ(loop_.Room("t"), 0u);
}

// Schedules 1 and 2 have the same target; schedule 2's events fail.
class TroubledGroupTest : public SendLoopTest {
 protected:
  TroubledGroupTest() {
    transport_.decide = [this](const DeliveryAttempt& attempt) {
      return attempt.context->source == "2" && fails_
                 ? Failed(attempt)
                 : DeliveryResult{.status = DeliveryStatus::kAccepted, .message = ""};
    };
  }
  std::string RoomKey(uint64_t schedule) { return loop_.RoomKey(ClaimOf(schedule)->entries[0]); }
  std::shared_ptr<Claim> ClaimOf(uint64_t schedule) {
    auto claim = MakeClaim(1);
    ClaimedEntry& entry = claim->entries[0];
    entry.key.uid = Uid::FromHalves(0, schedule);
    auto context = std::make_shared<DeliveryContext>(*entry.context);
    context->source = std::to_string(schedule);
    entry.context = std::move(context);
    return claim;
  }
  void Send(uint64_t schedule) {
    const std::shared_ptr<Claim> claim = ClaimOf(schedule);
    claim->entries[0].room = loop_.RoomKey(claim->entries[0]);
    loop_.Reserve(claim->entries[0].room, 1);
    loop_.Add(claim, 0, 0, 1, now());
    loop_.SendDue(now());
  }
  // Sends events of both for two seconds.
  void SendBoth() {
    for (int i = 0; i < 20; ++i) {
      Send(1);
      Send(2);
      runtime_.AdvanceBy(absl::Milliseconds(100));
    }
  }
  bool fails_ = true;
};

TEST_F(TroubledGroupTest, GroupThatAloneFailsHasASmallRoomOfItsOwn) {
  SendBoth();
  EXPECT_EQ(RoomKey(1), "t");
  const std::string room = RoomKey(2);
  ASSERT_NE(room, "t");
  EXPECT_EQ(loop_.Room(room), 16u);
  EXPECT_TRUE(loop_.IsSlow(room));
  loop_.Reserve(room, 16);
  EXPECT_EQ(loop_.Room(room), 0u);
  EXPECT_GE(loop_.Room("t"), 256u);
  EXPECT_FALSE(loop_.IsSlow("t"));
  loop_.Unreserve(room, 16);
}

TEST_F(TroubledGroupTest, GoodResultEndsTheTrouble) {
  SendBoth();
  ASSERT_NE(RoomKey(2), "t");
  fails_ = false;
  Send(2);
  runtime_.AdvanceBy(absl::Milliseconds(2));
  EXPECT_EQ(RoomKey(2), "t");
}

TEST_F(TroubledGroupTest, GroupHasItsOwnBreaker) {
  SendBoth();
  SendBoth();
  const std::string room = RoomKey(2);
  EXPECT_EQ(loop_.Room(room), 0u);
  EXPECT_TRUE(loop_.HoldOf(room).has_value());
  EXPECT_FALSE(loop_.HoldOf("t").has_value());
}

TEST_F(TroubledGroupTest, AllGroupsOfATargetThatIsDownWaitForItsProbe) {
  SendBoth();
  const std::string room = RoomKey(2);
  transport_.decide = Failed;
  for (int i = 0; i < 20; ++i) Send(1);
  runtime_.AdvanceBy(kBreakerWindow);
  for (int i = 0; i < 20; ++i) Send(1);
  runtime_.AdvanceBy(absl::Milliseconds(10));
  ASSERT_TRUE(loop_.HoldOf("t").has_value());
  EXPECT_EQ(loop_.Room(room), 0u);
  runtime_.AdvanceBy(kBreakerOpenMin);
  EXPECT_EQ(loop_.Room("t"), 1u);
  EXPECT_EQ(loop_.Room(room), 0u) << "the probe is for groups without trouble, if they have one";
  runtime_.AdvanceBy(absl::Seconds(2));
  EXPECT_EQ(loop_.Room(room), 1u);
}

// Nothing has been answered yet, so only the probe can show that the target answers schedule 1.
TEST_F(TroubledGroupTest, GroupThatHasNotFailedGetsTheFirstProbe) {
  for (int i = 0; i < 30; ++i) Send(2);
  runtime_.AdvanceBy(absl::Milliseconds(10));
  ASSERT_TRUE(loop_.HoldOf("t").has_value());
  const std::string room = RoomKey(2);
  ASSERT_NE(room, "t");
  EXPECT_EQ(RoomKey(1), "t");
  runtime_.AdvanceBy(kBreakerOpenMin);
  EXPECT_EQ(loop_.Room(room), 0u);
  EXPECT_EQ(loop_.Room("t"), 1u);
  Send(1);
  runtime_.AdvanceBy(absl::Milliseconds(10));
  EXPECT_FALSE(loop_.HoldOf("t").has_value());
  EXPECT_EQ(RoomKey(2), room) << "it has not been answered yet";
  EXPECT_EQ(loop_.Room(room), 16u);
  EXPECT_EQ(loop_.Room("t"), 256u);
}

TEST_F(TroubledGroupTest, ProbesTakeTurnsOverGroupsThatFailed) {
  transport_.decide = Failed;
  for (int i = 0; i < 30; ++i) Send(static_cast<uint64_t>(1 + i % 3));
  runtime_.AdvanceBy(kBreakerOpenMin);
  std::vector<uint64_t> probes;
  while (probes.size() < 6) {
    runtime_.AdvanceBy(absl::Milliseconds(100));
    // In the order of their due times, which is always the same.
    for (const uint64_t schedule : {3, 2, 1}) {
      if (loop_.Room(RoomKey(schedule)) == 0) continue;
      Send(schedule);
      probes.push_back(schedule);
      runtime_.AdvanceBy(absl::Milliseconds(10));
    }
  }
  for (const uint64_t schedule : {1, 2, 3})
    EXPECT_EQ(std::count(probes.begin(), probes.end(), schedule), 2) << schedule;
}

}  // namespace send_loop_test
}  // namespace escapement::handler
