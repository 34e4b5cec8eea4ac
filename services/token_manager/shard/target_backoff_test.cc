#include "services/token_manager/shard/target_backoff.h"

#include "absl/strings/str_cat.h"
#include "common/storage/name_tables.h"
#include "gtest/gtest.h"

namespace escapement::token_manager {
namespace target_backoff_test {

constexpr uint64_t kAny = TargetBackoff::kAnyNumber;

constexpr TargetBackoff::Probe kGrant = {.policy_shard = 0, .epoch = 7, .number = 1};

absl::Time At(double seconds) {
  return absl::FromUnixSeconds(1'800'000'000) + absl::Seconds(seconds);
}

TEST(TargetBackoffTest, DoublesFromASecondToAMinute) {
  TargetBackoff targets;
  EXPECT_EQ(targets.Allowed("a", At(0)), kAny);
  double now = 0;
  for (double backoff : {1, 2, 4, 8, 16, 32, 60, 60, 60}) {
    targets.OnUnreachable("a", At(now));
    EXPECT_EQ(targets.Allowed("a", At(now + backoff - 0.001)), 0u);
    EXPECT_EQ(targets.NextAt(At(now)), At(now + backoff));
    now += backoff;
    EXPECT_EQ(targets.Allowed("a", At(now)), 1u);
    EXPECT_EQ(targets.NextAt(At(now)), absl::InfiniteFuture());
  }
  EXPECT_EQ(targets.Allowed("b", At(now)), kAny);
}

TEST(TargetBackoffTest, ReportsOfOneOutageCountOnce) {
  TargetBackoff targets;
  for (int i = 0; i < 10; ++i) targets.OnUnreachable("a", At(i / 100.0));
  EXPECT_EQ(targets.Allowed("a", At(1)), 1u);
}

TEST(TargetBackoffTest, OneProbeAtATimeUntilAnAnswer) {
  TargetBackoff targets;
  targets.OnUnreachable("a", At(0));
  targets.OnGranted("a", kGrant, At(1));
  EXPECT_EQ(targets.Allowed("a", At(1)), 0u);
  EXPECT_EQ(targets.NextAt(At(1)), At(1) + kProbePatience);
  targets.OnUnreachable("a", At(2));
  EXPECT_EQ(targets.Allowed("a", At(3.999)), 0u);
  EXPECT_EQ(targets.Allowed("a", At(4)), 1u);
  targets.OnGranted("a", kGrant, At(4));
  EXPECT_TRUE(targets.OnAnswered("a", {}));
  EXPECT_EQ(targets.Allowed("a", At(4)), kAny);
  EXPECT_FALSE(targets.OnAnswered("a", {}));
  EXPECT_EQ(targets.unhealthy(), 0u);
  targets.OnUnreachable("a", At(5));
  EXPECT_EQ(targets.NextAt(At(5)), At(6));
}

// Its answer goes to the shard's next owner.
TEST(TargetBackoffTest, AProbeOfAShardThatIsLostDoesNotStandInTheWay) {
  TargetBackoff targets;
  for (const char* target : {"a", "b", "c"}) targets.OnUnreachable(target, At(0));
  targets.OnGranted("a", kGrant, At(1));
  targets.OnGranted("b", {.policy_shard = 1, .epoch = 7, .number = 1}, At(1));
  ASSERT_NE(targets.TargetOf(kGrant), nullptr);
  EXPECT_EQ(*targets.TargetOf(kGrant), "a");
  EXPECT_EQ(targets.TargetOf({.policy_shard = 0, .epoch = 7, .number = 2}), nullptr);
  targets.OnShardLost(1, At(2));
  EXPECT_EQ(targets.TargetOf({.policy_shard = 1, .epoch = 7, .number = 1}), nullptr);
  EXPECT_EQ(targets.Allowed("a", At(2)), 0u);
  EXPECT_EQ(targets.Allowed("b", At(2)), 1u);
  EXPECT_EQ(targets.TakeOpened(At(2), 10), (std::vector<std::string>{"c", "b"}));
  targets.OnUnreachable("b", At(3));  // still known to be unhealthy: 2 s
  EXPECT_EQ(targets.Allowed("b", At(4.999)), 0u);
  EXPECT_EQ(targets.Allowed("b", At(5)), 1u);
}

TEST(TargetBackoffTest, AProbeOfWhichNothingIsHeardDoesNotBlockForEver) {
  TargetBackoff targets;
  targets.OnUnreachable("a", At(0));
  targets.OnGranted("a", kGrant, At(1));
  EXPECT_EQ(targets.Allowed("a", At(1) + kProbePatience), 1u);
  targets.OnGranted("a", kGrant, At(100));
  EXPECT_EQ(targets.Allowed("a", At(100)), 0u);
  targets.OnProbeVoid("a", At(101));
  EXPECT_EQ(targets.Allowed("a", At(101)), 1u);
  targets.OnProbeVoid("a", At(102));
  targets.OnProbeVoid("b", At(102));
  EXPECT_EQ(targets.Allowed("b", At(102)), kAny);
}

TEST(TargetBackoffTest, TellsEachOpeningOnce) {
  TargetBackoff targets;
  targets.OnUnreachable("a", At(0));
  targets.OnUnreachable("b", At(0.5));
  targets.OnUnreachable("c", At(0.6));
  EXPECT_TRUE(targets.TakeOpened(At(0.9), 10).empty());
  EXPECT_EQ(targets.NextAt(At(0.9)), At(1));
  EXPECT_EQ(targets.TakeOpened(At(1), 10), std::vector<std::string>{"a"});
  EXPECT_TRUE(targets.TakeOpened(At(1.4), 10).empty());
  EXPECT_EQ(targets.TakeOpened(At(2), 1), std::vector<std::string>{"b"});
  targets.OnAnswered("c", {});
  EXPECT_TRUE(targets.TakeOpened(At(2), 10).empty());
  targets.OnGranted("a", kGrant, At(2));
  targets.OnUnreachable("a", At(3));
  EXPECT_EQ(targets.TakeOpened(At(5), 10), std::vector<std::string>{"a"});
}

TEST(TargetBackoffTest, IsBounded) {
  TargetBackoff targets(/*targets_max=*/100);
  for (int i = 0; i < 1000; ++i) targets.OnUnreachable(absl::StrCat("t", i), At(i));
  EXPECT_EQ(targets.unhealthy(), 100u);
  EXPECT_EQ(targets.Allowed("t999", At(999)), 0u);
  EXPECT_EQ(targets.Allowed("t900", At(999)), 1u);
  EXPECT_EQ(targets.Allowed("t899", At(999)), kAny);
  EXPECT_EQ(targets.TakeOpened(At(2000), 2000).size(), 1000u) << "those that made room, too";
}

// Else what stands aside for it would do so for ever.
TEST(TargetBackoffTest, TellsOfATargetThatMadeRoomForAnother) {
  TargetBackoff targets(1);
  targets.OnPauseAsked("a", At(1000));
  targets.OnPauseAsked("b", At(2000));
  EXPECT_EQ(targets.Allowed("a", At(1)), kAny);
  EXPECT_EQ(targets.TakeOpened(At(1), 10), std::vector<std::string>{"a"});
  EXPECT_TRUE(targets.TakeOpened(At(1), 10).empty());
}

TEST(TargetBackoffTest, PauseLastsAsLongAsWasAskedFor) {
  TargetBackoff targets;
  targets.OnPauseAsked("a", At(30));
  targets.OnPauseAsked("a", At(20));  // another attempt's; the longer one counts
  EXPECT_FALSE(targets.OnAnswered("a", {.number = 7})) << "an attempt from before the pause";
  EXPECT_EQ(targets.Allowed("a", At(29.9)), 0u);
  EXPECT_EQ(targets.Allowed("a", At(30)), 1u);
}

TEST(TargetBackoffTest, ProbeEndsThePauseOrRenewsIt) {
  TargetBackoff targets;
  targets.OnPauseAsked("a", At(30));
  targets.OnGranted("a", {.number = 8}, At(30));
  EXPECT_EQ(targets.Allowed("a", At(31)), 0u) << "the probe is out";
  targets.OnPauseAsked("a", At(60));
  EXPECT_EQ(targets.Allowed("a", At(59)), 0u);
  EXPECT_EQ(targets.Allowed("a", At(60)), 1u);
  targets.OnGranted("a", {.number = 9}, At(60));
  EXPECT_FALSE(targets.OnAnswered("a", {.number = 8}));
  EXPECT_TRUE(targets.OnAnswered("a", {.number = 9}));
  EXPECT_EQ(targets.unhealthy(), 0u);
  EXPECT_FALSE(targets.IsProbe({.number = 9}));
}

TEST(TargetBackoffTest, ProbeMayGoWhenTheTargetIsSeenWellOrReset) {
  TargetBackoff targets;
  for (const double at : {0.0, 1.0, 3.0, 7.0}) targets.OnUnreachable("a", At(at));
  targets.OnPauseAsked("b", At(100));
  EXPECT_EQ(targets.Allowed("a", At(8)), 0u);
  EXPECT_TRUE(targets.TakeOpened(At(8), 10).empty());
  targets.OnSeenWell("a", At(8));
  EXPECT_EQ(targets.Allowed("a", At(8)), 1u) << "one probe; it is not healthy yet";
  EXPECT_EQ(targets.TakeOpened(At(8), 10), std::vector<std::string>{"a"});
  targets.OnGranted("a", kGrant, At(8));
  targets.OnSeenWell("a", At(9));
  EXPECT_EQ(targets.Allowed("a", At(9)), 0u) << "its probe is out";
  targets.OnSeenWell("b", At(9));
  EXPECT_EQ(targets.Allowed("b", At(9)), 0u) << "it asked for a pause";
  targets.OnReset(TargetIdOf("c"), At(9));
  EXPECT_EQ(targets.Allowed("b", At(9)), 0u);
  targets.OnReset(TargetIdOf("b"), At(9));
  EXPECT_EQ(targets.Allowed("b", At(9)), 1u);
}

TEST(TargetBackoffTest, GrantMayBeTheProbeOfItsTargetAndOfItsKey) {
  TargetBackoff targets;
  const std::string key = PausedKey(Uid::FromHalves(1, 2), "customer");
  targets.OnPauseAsked(key, At(1));
  targets.OnUnreachable("a", At(0));
  const TargetBackoff::Probe grant{.policy_shard = 3, .number = 5};
  for (const std::string& name : {key, std::string("a")}) targets.OnGranted(name, grant, At(1));
  ASSERT_NE(targets.TargetOf(grant), nullptr);
  EXPECT_EQ(*targets.TargetOf(grant), "a");
  EXPECT_TRUE(targets.OnAnswered("a", grant));
  EXPECT_EQ(targets.TargetOf(grant), nullptr);
  EXPECT_TRUE(targets.IsProbe(grant));
  targets.OnShardLost(3, At(2));
  EXPECT_FALSE(targets.IsProbe(grant));
  EXPECT_EQ(targets.Allowed(key, At(2)), 1u);
}

}  // namespace target_backoff_test
}  // namespace escapement::token_manager
