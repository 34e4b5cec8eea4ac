// Events under several limits, with weights: all or none, never above any of them, and none of them
// starves.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "gtest/gtest.h"
#include "services/token_manager/shard/limit_gates.h"
#include "services/token_manager/testing/token_world.h"

namespace escapement::token_manager {
namespace token_manager_limits_test {

using kv::ColumnFamily;
using storage::v1::GrantReportRecord;
using Entry = TokenWorld::Entry;

storage::v1::LimitRecord Further(const std::string& policy, uint64_t weight = 1,
                                 const std::string& key = "") {
  storage::v1::LimitRecord limit;
  limit.set_policy_id(policy);
  limit.set_policy_key(key);
  limit.set_weight(weight);
  return limit;
}

class LimitsTest : public ::testing::Test {
 protected:
  void Policy(const std::string& id, uint64_t max_concurrent, uint64_t per_key = 0) {
    storage::v1::PolicyRecord limits = TokenWorld::Limits(max_concurrent);
    limits.set_by_tenant(true);
    limits.set_hold_timeout_micros(absl::ToInt64Microseconds(absl::Hours(10)));
    if (per_key > 0) limits.mutable_per_key()->set_max_concurrent(per_key);
    limits_[id] = limits;
    world_.PutPolicy(id, limits);
  }
  void Start() {
    world_.Start("a");
    world_.Advance(kSettle);
  }
  // `kind` tells them apart.
  void Add(const std::string& kind, TokenWorld::OneOff event) {
    event.by_tenant = true;
    if (event.due == absl::Time()) event.due = world_.now();
    kind_of_[world_.AddOneOff(event)] = kind;
  }
  // The events that go out, by kind.
  std::map<std::string, int> Settle() {
    world_.Advance(kSettle);
    std::map<std::string, int> kinds;
    for (const SentEvent& event : world_.Handle()) {
      out_.push_back(event);
      ++kinds[kind_of_.at(event.uid)];
    }
    ExpectWithinLimits();
    return kinds;
  }
  // Gives the tokens of `count` events of this kind back.
  void GiveBack(const std::string& kind, int count) {
    for (auto event = out_.begin(); event != out_.end() && count > 0;) {
      if (kind_of_.at(event->uid) != kind) {
        ++event;
        continue;
      }
      EXPECT_TRUE(world_.Complete(name_, *event));
      event = out_.erase(event);
      --count;
    }
    EXPECT_EQ(count, 0);
  }
  // Tokens that are held, by policy and by policy and key, as the grants in the store say.
  std::map<std::string, uint64_t> Held() const {
    std::map<std::string, uint64_t> held;
    for (const storage::v1::GrantRecord& grant : world_.Grants()) {
      uint64_t events = 0;
      for (const auto& holders : grant.holders()) events += holders.count();
      const storage::v1::ThrottleRecord& throttle = grant.event().throttle();
      const auto add = [&](const std::string& policy, const std::string& key, uint64_t weight) {
        const uint64_t tokens = std::max<uint64_t>(weight, 1) * events;
        held[policy] += tokens;
        held[absl::StrCat(policy, "/", key)] += tokens;
      };
      add(throttle.policy_id(), throttle.policy_key(), throttle.weight());
      for (const auto& limit : throttle.more())
        add(limit.policy_id(), limit.policy_key(), limit.weight());
    }
    return held;
  }
  void ExpectWithinLimits() const {
    for (const auto& [name, tokens] : Held()) {
      const size_t slash = name.find('/');
      const storage::v1::PolicyRecord& limits = limits_.at(name.substr(0, slash));
      if (slash == std::string::npos) {
        EXPECT_LE(tokens, limits.max_concurrent() > 0 ? limits.max_concurrent() : tokens) << name;
      } else if (limits.has_per_key()) {
        EXPECT_LE(tokens, limits.per_key().max_concurrent()) << name;
      }
    }
  }
  storage::v1::PolicyCountsRecord CountsOf(const std::string& policy) const {
    storage::v1::PolicyCountsRecord counts;
    const WaitingPlace place = WaitingPlaceOf(PolicyOf(policy), TokenWorld::kPolicyShards);
    const auto rows = world_.Rows(ColumnFamily::kGrants);
    const auto row = rows.find(PolicyCountsKey(place.policy_shard, place.policy));
    if (row != rows.end()) counts.ParseFromString(row->second);
    return counts;
  }
  storage::v1::PolicyRecord PolicyOf(const std::string& id) const {
    storage::v1::PolicyRecord policy = limits_.at(id);
    policy.set_tenant("default");
    policy.set_policy_id(id);
    return policy;
  }

  TokenWorld world_;
  std::string name_ = "a";
  std::map<std::string, storage::v1::PolicyRecord> limits_;
  std::map<Uid, std::string> kind_of_;
  std::vector<SentEvent> out_;
};

using Kinds = std::map<std::string, int>;

TEST_F(LimitsTest, EachLimitHolds) {
  Policy("p", 10);
  Policy("licence", 3);
  Start();
  for (int i = 0; i < 8; ++i) Add("both", {.policy_id = "p", .more = {Further("licence")}});
  EXPECT_EQ(Settle(), (Kinds{{"both", 3}}));
  EXPECT_EQ(CountsOf("licence").held(), 3u);
  EXPECT_EQ(CountsOf("p").held(), 3u);
  GiveBack("both", 2);
  EXPECT_EQ(Settle(), (Kinds{{"both", 2}}));
  for (int left = 3; left > 0; --left) {
    GiveBack("both", static_cast<int>(out_.size()));
    Settle();
  }
  EXPECT_EQ(CountsOf("licence").held(), 0u);
  EXPECT_EQ(CountsOf("licence").granted(), 8u);
  EXPECT_EQ(CountsOf("licence").released(), 8u);
  EXPECT_TRUE(world_.Grants().empty());
}

TEST_F(LimitsTest, FullLimitHoldsBackNoEventThatDoesNotNeedIt) {
  Policy("p", 10);
  Policy("full", 1);
  Start();
  Add("holder", {.policy_id = "full"});
  ASSERT_EQ(Settle(), (Kinds{{"holder", 1}}));
  for (int i = 0; i < 5; ++i) Add("needs", {.policy_id = "p", .more = {Further("full")}});
  for (int i = 0; i < 5; ++i) Add("free", {.policy_id = "p"});
  EXPECT_EQ(Settle(), (Kinds{{"free", 5}}));
  GiveBack("holder", 1);
  EXPECT_EQ(Settle(), (Kinds{{"needs", 1}}));
}

TEST_F(LimitsTest, AnEventHoldsAsManyTokensAsItWeighs) {
  Policy("p", 10);
  Start();
  Add("heavy", {.policy_id = "p", .weight = 7});
  Add("heavy", {.policy_id = "p", .weight = 7});
  for (int i = 0; i < 5; ++i) Add("light", {.policy_id = "p"});
  const Kinds out = Settle();
  EXPECT_EQ(out, (Kinds{{"heavy", 1}, {"light", 3}}));
  EXPECT_EQ(CountsOf("p").held(), 10u);
  GiveBack("heavy", 1);
  EXPECT_EQ(CountsOf("p").released(), 7u);
}

TEST_F(LimitsTest, KeysOfFurtherPoliciesHaveTheirLimits) {
  Policy("p", 100);
  Policy("customers", 10, /*per_key=*/2);
  Start();
  for (int i = 0; i < 5; ++i) {
    Add("a", {.policy_id = "p", .more = {Further("customers", 1, "a")}});
    Add("b", {.policy_id = "p", .more = {Further("customers", 1, "b")}});
  }
  EXPECT_EQ(Settle(), (Kinds{{"a", 2}, {"b", 2}}));
  Add("own", {.policy_id = "customers", .policy_key = "a"});
  Add("other", {.policy_id = "customers", .policy_key = "c"});
  EXPECT_EQ(Settle(), (Kinds{{"other", 1}}));
  GiveBack("a", 2);
  const Kinds next = Settle();
  EXPECT_EQ(next.size() > 1 ? next.at("a") + next.at("own") : 0, 2) << "both take their turn";
}

TEST_F(LimitsTest, HeavyEventIsNotOvertakenForEver) {
  Policy("p", 8);
  Start();
  for (int i = 0; i < 8; ++i) Add("light", {.policy_id = "p", .target = "light"});
  ASSERT_EQ(Settle(), (Kinds{{"light", 8}}));
  Add("heavy", {.policy_id = "p", .target = "heavy", .weight = 8});
  bool sent = false;
  for (int i = 0; i < 60 && !sent; ++i) {
    // There is always a light one that could go.
    for (int n = 0; n < 8; ++n) Add("light", {.policy_id = "p", .target = "light"});
    if (!out_.empty()) GiveBack("light", 1);
    sent = Settle().contains("heavy");
  }
  EXPECT_TRUE(sent);
}

TEST_F(LimitsTest, EventOfTwoBusyLimitsIsNotOvertakenForEver) {
  Policy("p", 2);
  Policy("q", 2);
  Start();
  for (int i = 0; i < 2; ++i) {
    Add("p", {.policy_id = "p", .target = "p"});
    Add("q", {.policy_id = "q", .target = "q"});
  }
  Settle();
  Add("both", {.policy_id = "p", .target = "both", .more = {Further("q")}});
  bool sent = false;
  for (int i = 0; i < 60 && !sent; ++i) {
    const std::string of = i % 2 == 0 ? "p" : "q";
    for (int n = 0; n < 2; ++n) Add(of, {.policy_id = of, .target = of});
    if (std::any_of(out_.begin(), out_.end(),
                    [&](const SentEvent& event) { return kind_of_.at(event.uid) == of; }))
      GiveBack(of, 1);
    sent = Settle().contains("both");
  }
  EXPECT_TRUE(sent);
}

// The other limit never has room: what is kept back of the first would be kept for nothing.
TEST_F(LimitsTest, NothingIsKeptBackForAnEventThatCannotHope) {
  Policy("p", 1);
  Policy("stuck", 1);
  Start();
  Add("stuck", {.policy_id = "stuck", .target = "stuck"});
  Settle();
  Add("both", {.policy_id = "p", .target = "both", .more = {Further("stuck")}});
  world_.Advance(absl::Minutes(2));
  for (int i = 0; i < 10; ++i) {
    Add("p", {.policy_id = "p", .target = "p"});
    EXPECT_EQ(Settle(), (Kinds{{"p", 1}}));
    GiveBack("p", 1);
  }
}

// Tokens that are kept back for a heavy event would lie idle until its rate has room.
TEST_F(LimitsTest, NothingIsKeptBackForAnEventThatWaitsForARate) {
  Policy("p", 4);
  Policy("slow", 0);
  limits_["slow"].set_max_per_second(0.001);
  limits_["slow"].set_burst(1);
  world_.PutPolicy("slow", limits_["slow"]);
  Start();
  Add("slow", {.policy_id = "slow", .target = "slow"});
  for (int i = 0; i < 4; ++i) Add("light", {.policy_id = "p", .target = "light"});
  ASSERT_EQ(Settle(), (Kinds{{"light", 4}, {"slow", 1}}));
  Add("heavy", {.policy_id = "p", .target = "heavy", .weight = 4, .more = {Further("slow")}});
  GiveBack("light", 1);
  ASSERT_EQ(Settle(), Kinds());
  world_.Advance(absl::Seconds(10));
  GiveBack("light", 1);
  ASSERT_EQ(Settle(), Kinds());
  for (int i = 0; i < 2; ++i) Add("light", {.policy_id = "p", .target = "light"});
  EXPECT_EQ(Settle(), (Kinds{{"light", 2}}));
}

// The same until its target may be tried.
TEST_F(LimitsTest, NothingIsKeptBackForAnEventOfAPausedTarget) {
  Policy("p", 4);
  Start();
  Add("asks", {.policy_id = "p", .target = "paused"});
  world_.Advance(kSettle);
  const auto sent = world_.Handle([&](const SentEvent& event) -> std::optional<Entry> {
    Entry entry = TokenWorld::EntryOf(event, GrantReportRecord::FAILED);
    entry.set_paused_until_micros(ToMicros(world_.now() + absl::Minutes(10)));
    entry.set_attempts(1);
    return entry;
  });
  ASSERT_EQ(sent.size(), 1u);
  for (int i = 0; i < 4; ++i) Add("light", {.policy_id = "p", .target = "light"});
  ASSERT_EQ(Settle(), (Kinds{{"light", 4}}));
  Add("heavy", {.policy_id = "p", .target = "paused", .weight = 4});
  GiveBack("light", 1);
  ASSERT_EQ(Settle(), Kinds());
  world_.Advance(absl::Seconds(10));
  GiveBack("light", 1);
  ASSERT_EQ(Settle(), Kinds());
  for (int i = 0; i < 2; ++i) Add("light", {.policy_id = "p", .target = "light"});
  EXPECT_EQ(Settle(), (Kinds{{"light", 2}}));
}

TEST_F(LimitsTest, PausedOrMissingFurtherPolicyLetsNothingGo) {
  Policy("p", 10);
  Policy("q", 10);
  Start();
  storage::v1::PolicyRecord paused = limits_["q"];
  paused.set_paused(true);
  world_.PutPolicy("q", paused);
  world_.Advance(kSettle);
  Add("paused", {.policy_id = "p", .more = {Further("q")}});
  Add("missing", {.policy_id = "p", .more = {Further("r")}});
  EXPECT_EQ(Settle(), Kinds());
  Policy("r", 1);
  EXPECT_EQ(Settle(), (Kinds{{"missing", 1}}));
  Policy("q", 10);
  EXPECT_EQ(Settle(), (Kinds{{"paused", 1}}));
}

TEST_F(LimitsTest, RateOfAFurtherPolicyCounts) {
  Policy("p", 100);
  Policy("slow", 0);
  limits_["slow"].set_max_per_second(0.1);
  limits_["slow"].set_burst(1);
  world_.PutPolicy("slow", limits_["slow"]);
  Start();
  for (int i = 0; i < 5; ++i) Add("slow", {.policy_id = "p", .more = {Further("slow")}});
  EXPECT_EQ(Settle(), (Kinds{{"slow", 1}}));
  EXPECT_EQ(Settle(), Kinds());
  world_.Advance(absl::Seconds(20));
  EXPECT_EQ(Settle(), (Kinds{{"slow", 2}}));
}

TEST_F(LimitsTest, AnotherTokenManagerKnowsWhoHoldsWhat) {
  Policy("p", 10);
  Policy("licence", 3);
  Start();
  for (int i = 0; i < 8; ++i) Add("both", {.policy_id = "p", .more = {Further("licence", 2)}});
  ASSERT_EQ(Settle(), (Kinds{{"both", 1}}));
  world_.Kill("a");
  world_.Start(name_ = "b");
  world_.Advance(absl::Minutes(1));
  Add("own", {.policy_id = "licence"});
  Add("own", {.policy_id = "licence"});
  EXPECT_EQ(Settle(), (Kinds{{"own", 1}}));
  GiveBack("both", 1);
  const Kinds next = Settle();
  EXPECT_FALSE(next.empty());
}

// Random events under random limits; consumers give back at random, handlers fail and are lost.
class RandomLimitsTest : public LimitsTest, public ::testing::WithParamInterface<int> {};

TEST_P(RandomLimitsTest, NoLimitIsEverExceededAndAllEventsEnd) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  const auto below = [&](uint64_t n) { return random() % n; };
  std::vector<std::string> policies;
  for (int i = 0; i < 8; ++i) {
    policies.push_back(absl::StrCat("p", i));
    Policy(policies.back(), below(4) == 0 ? 0 : 7 + below(20), below(2) == 0 ? 0 : 7 + below(5));
    limits_[policies.back()].set_keep_token(below(3) == 0);
    limits_[policies.back()].set_by_key(below(3) == 0 && limits_[policies.back()].has_per_key());
    world_.PutPolicy(policies.back(), limits_[policies.back()]);
  }
  Start();
  size_t added = 0;
  for (int round = 0; round < 60; ++round) {
    for (uint64_t n = below(12); n > 0 && round < 40; --n) {
      std::vector<std::string> chosen = policies;
      std::shuffle(chosen.begin(), chosen.end(), random);
      TokenWorld::OneOff event{.policy_id = chosen[0],
                               .target = absl::StrCat("t", below(3)),
                               .policy_key = absl::StrCat("k", below(3)),
                               .weight = 1 + below(7),
                               .priority = static_cast<uint8_t>(below(3))};
      for (uint64_t i = 1; i <= below(4); ++i)
        event.more.push_back(Further(chosen[i], 1 + below(7), absl::StrCat("k", below(3))));
      Add("event", event);
      ++added;
    }
    if (below(15) == 0) {
      const std::string next = name_ == "a" ? "b" : "a";
      world_.Kill(name_);
      world_.Start(name_ = next);
      world_.Advance(absl::Seconds(40));
    }
    world_.Advance(absl::Milliseconds(static_cast<int64_t>(below(3000))));
    for (const SentEvent& event : world_.Handle([&](const SentEvent& sent) -> std::optional<Entry> {
           Entry entry = TokenWorld::EntryOf(
               sent, below(4) == 0 ? GrantReportRecord::RETRY : GrantReportRecord::DELIVERED);
           if (below(9) == 0) entry = TokenWorld::EntryOf(sent, GrantReportRecord::RETURNED);
           if (entry.kind() == GrantReportRecord::RETRY) {
             entry.set_retry_at_micros(ToMicros(world_.now() + absl::Seconds(below(20))));
             entry.set_attempts(sent.attempts + 1);
             entry.set_attempt(storage::v1::AttemptRecord::FAILED);
           }
           return entry;
         }))
      out_.push_back(event);
    ExpectWithinLimits();
    while (!out_.empty() && (round >= 50 || below(3) > 0)) {
      std::swap(out_.back(), out_[below(out_.size())]);
      // One that was not delivered holds nothing under this token.
      world_.Complete(name_, out_.back());
      out_.pop_back();
    }
  }
  for (int i = 0; i < 400 && world_.Count(ColumnFamily::kDone) < added; ++i) {
    world_.Advance(absl::Seconds(2));
    for (const SentEvent& event : world_.Handle()) world_.Complete(name_, event);
    ExpectWithinLimits();
  }
  EXPECT_EQ(world_.Count(ColumnFamily::kDone), added);
  world_.Advance(kSettle);
  EXPECT_TRUE(world_.Grants().empty());
  EXPECT_TRUE(world_.Waiting().empty());
  for (const std::string& policy : policies) EXPECT_EQ(CountsOf(policy).held(), 0u) << policy;
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomLimitsTest, ::testing::Range(1, 13));

Uid PolicyN(uint64_t n) { return Uid::FromHalves(0, n); }

TEST(LimitGatesTest, PoliciesTakeTurnsAndNoneIsWokenTwiceForOneOpening) {
  LimitGates gates;
  const LimitName limit{PolicyN(9)};
  for (uint64_t n = 0; n < 3; ++n) gates.Close(limit, PolicyN(n));
  std::vector<Uid> woken;
  uint64_t room = 0;
  const auto round = [&] {
    gates.Wake([&](const LimitName&) { return room > 0; },
               [&](const Uid& policy, const std::string&, size_t) {
                 woken.push_back(policy);
                 gates.Close(limit, policy);  // its group is too heavy
                 return FairQueue::Woken{.groups = 1};
               });
  };
  gates.Open(limit);
  round();
  EXPECT_TRUE(woken.empty()) << "no room";
  EXPECT_FALSE(gates.open());
  room = 1;
  gates.Open(limit);
  round();
  EXPECT_EQ(woken, (std::vector<Uid>{PolicyN(0), PolicyN(1), PolicyN(2)}));
  EXPECT_FALSE(gates.open());
  round();
  EXPECT_EQ(woken.size(), 3u);
  gates.OpenAll(PolicyN(9));
  round();
  EXPECT_EQ(woken.size(), 6u);
}

TEST(LimitGatesTest, PoliciesThatWereNotWokenAreFirst) {
  LimitGates gates;
  const LimitName limit{PolicyN(9), "key"};
  for (uint64_t n = 0; n < 3; ++n) gates.Close(limit, PolicyN(n));
  std::vector<Uid> woken;
  const auto round = [&] {
    gates.Open(limit);
    gates.Wake([&](const LimitName&) { return true; },
               [&](const Uid& policy, const std::string&, size_t max) {
                 woken.push_back(policy);
                 gates.Close(limit, policy);
                 return FairQueue::Woken{.groups = max};  // as many as may be
               });
  };
  for (int i = 0; i < 6; ++i) round();
  EXPECT_EQ(woken, (std::vector<Uid>{PolicyN(0), PolicyN(1), PolicyN(2), PolicyN(0), PolicyN(1),
                                     PolicyN(2)}));
}

TEST(ReservationsTest, KeepBackFromAllThatWaitForLessLong) {
  storage::v1::EventRecord event;
  event.set_tenant("t");
  event.mutable_throttle()->set_policy_id("p");
  event.mutable_throttle()->set_policy_key("k");
  event.mutable_throttle()->set_weight(3);
  *event.mutable_throttle()->add_more() = Further("q", 2, "l");
  const auto source = RowSourceOf(std::move(event), PolicyN(1), "", 0);
  const Uid p = PolicyUid("t", "p");
  const Uid q = PolicyUid("t", "q");
  const GroupKey old{5, PolicyN(1)};
  const GroupKey young{5, PolicyN(2)};
  const GroupKey none{5, PolicyN(3)};
  Reservations reservations;
  EXPECT_TRUE(reservations.Add({p, young}, {absl::FromUnixSeconds(20), source}));
  EXPECT_TRUE(reservations.Add({p, old}, {absl::FromUnixSeconds(10), source}));
  EXPECT_FALSE(reservations.Add({p, old}, {absl::FromUnixSeconds(5), source}));
  EXPECT_EQ(reservations.KeptFrom({p}, {p, old}), 0u);
  EXPECT_EQ(reservations.KeptFrom({p}, {p, young}), 3u);
  EXPECT_EQ(reservations.KeptFrom({p}, {p, none}), 6u);
  EXPECT_EQ(reservations.KeptFrom({q}, {p, none}), 4u);
  EXPECT_EQ(reservations.KeptFrom({q, "l"}, {p, none}), 4u);
  EXPECT_EQ(reservations.KeptFrom({q, "other"}, {p, none}), 0u);
  EXPECT_EQ(reservations.Remove({p, old}).size(), 4u);
  EXPECT_TRUE(reservations.Remove({p, old}).empty());
  EXPECT_EQ(reservations.KeptFrom({p}, {p, none}), 3u);
}

}  // namespace token_manager_limits_test
}  // namespace escapement::token_manager
