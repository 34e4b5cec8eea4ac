// ListPolicyKeys over rows as the owner of the policy shard writes them; KeyTally.

#include "services/master/policies/policy_keys.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace policy_keys_test {

using kv::ColumnFamily;
using Strings = std::vector<std::string>;

constexpr char kName[] = "tenants/default/policies/backup";

class PolicyKeysTest : public ::testing::Test {
 protected:
  PolicyKeysTest() {
    v1::CreatePolicyRequest request;
    request.set_parent("tenants/default");
    request.set_policy_id("backup");
    request.mutable_policy()->mutable_per_key()->set_max_concurrent(5);
    EXPECT_TRUE(world_.Call(&PolicyApi::CreatePolicy, request).ok());
    world_.runtime.AdvanceBy(absl::Seconds(100));
    now_ = world_.Now();
  }

  // `count` events of the key, due so many seconds ago.
  kv::Mutation Row(const std::string& key, uint64_t count, int due_ago, uint64_t taken = 0) {
    storage::v1::EventRecord row;
    row.set_tenant("default");
    row.set_count(count);
    row.mutable_throttle()->set_taken(taken);
    row.mutable_throttle()->set_policy_key(key);
    const WaitingKey waiting{.policy_shard = shard_,
                             .policy = uid_,
                             .uid = Uid::FromHalves(7, 7),
                             .due_time = now_ - absl::Seconds(due_ago),
                             .occurrence = "o",
                             .first = ++rows_};
    return {.cf = ColumnFamily::kWaiting,
            .key = EncodeWaitingKey(waiting),
            .value = row.SerializeAsString()};
  }
  kv::Mutation Grant(const std::string& key, std::vector<uint64_t> counts) {
    storage::v1::GrantRecord grant;
    for (const uint64_t count : counts) grant.add_holders()->set_count(count);
    grant.mutable_event()->mutable_throttle()->set_policy_key(key);
    return {.cf = ColumnFamily::kGrants,
            .key = EncodeGrantKey({shard_, uid_, 3, ++rows_}),
            .value = grant.SerializeAsString()};
  }
  void Put(std::vector<kv::Mutation> rows) {
    kv::Group group;
    group.mutations = std::move(rows);
    world_.Commit({group});
  }

  absl::StatusOr<v1::ListPolicyKeysResponse> Page(int size = 0, const std::string& prefix = "",
                                                  const std::string& token = "") {
    v1::ListPolicyKeysRequest request;
    request.set_name(kName);
    request.set_page_size(size);
    request.set_prefix(prefix);
    request.set_page_token(token);
    return world_.Call(&PolicyApi::ListPolicyKeys, request);
  }
  // All pages: "key held/waiting/later".
  Strings All(int size, const std::string& prefix = "") {
    Strings keys;
    std::string token;
    do {
      const auto page = Page(size, prefix, token);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) break;
      EXPECT_LE(page->keys_size(), size);
      EXPECT_FALSE(page->truncated());
      for (const v1::PolicyKeyUsage& key : page->keys()) {
        keys.push_back(absl::StrCat(key.policy_key(), " ", key.held_count(), "/",
                                    key.waiting_count(), "/", key.later_count()));
      }
      token = page->next_page_token();
    } while (!token.empty());
    return keys;
  }

  MasterWorld world_;
  const Uid uid_ = PolicyUid("default", "backup");
  const uint16_t shard_ = world_.PolicyShardOfTenant();
  absl::Time now_;
  uint64_t rows_ = 0;
};

TEST_F(PolicyKeysTest, PolicyWithoutEventsHasNoKeys) {
  const auto page = Page();
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->DebugString(), "");
}

TEST_F(PolicyKeysTest, EventsOfAKeyAreCountedAllInOnePlace) {
  Put({Grant("a", {2, 1}), Grant("a", {4}), Grant("", {1}), Row("a", 10, 30, /*taken=*/4),
       Row("b", 3, 20), Row("a", 1, 40), Row("b", 5, -60), Row("c", 2, -60),
       Row("gone", 3, 5, /*taken=*/3)});
  // No grants, though in the same column family.
  Put({{.cf = ColumnFamily::kGrants, .key = PolicyHistoryKey(shard_, uid_), .value = "\xff"},
       {.cf = ColumnFamily::kGrants, .key = KeyRateKey(shard_, uid_, "r"), .value = "\xff"}});
  EXPECT_EQ(All(10), (Strings{" 1/0/0", "a 7/7/0", "b 0/3/5", "c 0/0/2"}));
  const auto page = Page();
  EXPECT_FALSE(page->keys(0).has_oldest_due_time());
  EXPECT_EQ(TimestampMicros(page->keys(1).oldest_due_time()), ToMicros(now_ - absl::Seconds(40)));
  EXPECT_FALSE(page->keys(3).has_oldest_due_time());
}

TEST_F(PolicyKeysTest, KeysComePageByPageInTheirOrder) {
  Strings wanted;
  std::vector<kv::Mutation> rows;
  for (int i = 0; i < 20; ++i) {
    const std::string key = i == 0 ? "" : absl::StrCat("k", 100 + i);
    wanted.push_back(absl::StrCat(key, " ", i % 3, "/", 1, "/0"));
    // Those with the greatest keys were due first, so that smaller ones push them out.
    rows.push_back(Row(key, 1, 10 + i));
    if (i % 3 > 0) rows.push_back(Grant(key, {static_cast<uint64_t>(i % 3)}));
  }
  Put(rows);
  for (const int size : {1, 3, 19, 20, 21}) EXPECT_EQ(All(size), wanted) << size;
}

TEST_F(PolicyKeysTest, PrefixSelectsKeysByTheirText) {
  Put({Row("customer-1", 1, 1), Row("customer-10", 1, 1), Row("customer-2", 1, 1),
       Row("other", 1, 1), Grant("customer-10", {1}), Grant("other", {1})});
  EXPECT_EQ(All(1, "customer-1"), (Strings{"customer-1 0/1/0", "customer-10 1/1/0"}));
  EXPECT_EQ(All(10, "customer-10"), Strings{"customer-10 1/1/0"});
  EXPECT_EQ(All(10, "customer-100"), Strings{});
}

TEST_F(PolicyKeysTest, OverrideOfAKeyIsShownWhileItIsInForce) {
  v1::OverridePolicyRequest request;
  request.set_name(kName);
  request.mutable_override()->set_max_concurrent(2);
  request.mutable_override()->set_reason("drain");
  SetTimestamp(ToMicros(now_ + absl::Minutes(1)),
               *request.mutable_override()->mutable_expire_time());
  request.mutable_override()->set_policy_key("a");
  ASSERT_TRUE(world_.Call(&PolicyApi::OverridePolicy, request).ok());
  Put({Row("a", 1, 1), Row("b", 1, 1)});
  auto page = Page();
  EXPECT_EQ(page->keys(0).override().max_concurrent(), 2);
  EXPECT_EQ(page->keys(0).override().policy_key(), "a");
  EXPECT_FALSE(page->keys(1).has_override());
  world_.runtime.AdvanceBy(absl::Minutes(2));
  EXPECT_FALSE(Page()->keys(0).has_override());
}

TEST_F(PolicyKeysTest, ListIsCutOffAndSaysSo) {
  const std::vector<kv::Mutation> one = {Row("last", 1, -1'000'000)};
  for (size_t i = 1; i < kPolicyKeyRowsMax;) {
    std::vector<kv::Mutation> rows;
    for (; i < kPolicyKeyRowsMax && rows.size() < 10'000; ++i) rows.push_back(Row("k", 1, 10));
    Put(std::move(rows));
  }
  Put({Grant("k", {1})});
  EXPECT_FALSE(Page()->truncated());
  Put({Row("k", 1, 10)});
  EXPECT_FALSE(Page()->truncated());
  Put(one);
  const auto page = Page();
  EXPECT_TRUE(page->truncated());
  ASSERT_EQ(page->keys_size(), 1);
  EXPECT_EQ(page->keys(0).waiting_count(), static_cast<int64_t>(kPolicyKeyRowsMax));
  EXPECT_EQ(page->keys(0).held_count(), 1);
}

TEST_F(PolicyKeysTest, WrongRequestsAreRefused) {
  Put({Row("a", 1, 1), Row("b", 1, 1)});
  const std::string token = Page(1)->next_page_token();
  ASSERT_FALSE(token.empty());
  v1::ListPolicyKeysRequest request;
  request.set_name(kName);
  request.set_page_size(-1);
  request.set_page_token(token);
  request.set_prefix("a");  // another list
  const auto refused = world_.Call(&PolicyApi::ListPolicyKeys, request);
  ASSERT_EQ(FieldViolationsOf(refused.status()).size(), 2u) << refused.status();
  request.Clear();
  request.set_name("tenants/default/policies/none");
  EXPECT_EQ(world_.Call(&PolicyApi::ListPolicyKeys, request).status().code(),
            absl::StatusCode::kNotFound);
  request.set_name("policies/none");
  EXPECT_EQ(world_.Call(&PolicyApi::ListPolicyKeys, request).status().code(),
            absl::StatusCode::kInvalidArgument);
  world_.Put(ColumnFamily::kGrants, EncodeGrantKey({shard_, uid_, 1, 1}), "\xff");
  EXPECT_EQ(Page().status().code(), absl::StatusCode::kDataLoss);
}

DueEvents DueSince(int64_t second) { return {.count = 1, .oldest = absl::FromUnixSeconds(second)}; }

storage::v1::EventRecord RowOf(const std::string& key) {
  storage::v1::EventRecord row;
  row.set_count(1);
  row.mutable_throttle()->set_policy_key(key);
  return row;
}

TEST(KeyTally, KeepsAllCountsOfTheSmallestKeys) {
  KeyTally tally(2);
  for (int round = 0; round < 3; ++round)
    for (const std::string key : {"d", "b", "c", "a", "b"}) tally.AddHeld(key, 1);
  ASSERT_EQ(tally.keys().size(), 2u);
  EXPECT_EQ(tally.keys().at("a").held, 3u);
  EXPECT_EQ(tally.keys().at("b").held, 6u);
}

TEST(KeyTally, BusiestAreThoseThatWaitLongestAndThenThoseThatHoldMost) {
  KeyTally tally(100);
  tally.AddWaiting(RowOf("w3"), DueSince(30));
  tally.AddWaiting(RowOf("w1"), DueSince(10));
  tally.AddWaiting(RowOf("w2"), DueSince(20));
  tally.AddWaiting(RowOf("later"), {});
  tally.AddHeld("w1", 50);
  tally.AddHeld("h2", 2);
  tally.AddHeld("h9", 9);
  const auto names = [&](size_t limit) {
    Strings keys;
    for (const auto& [key, use] : tally.Busiest(limit)) keys.push_back(key);
    return keys;
  };
  EXPECT_EQ(names(1), (Strings{"w1", "h9"}));
  EXPECT_EQ(names(2), (Strings{"w1", "w2", "h9", "h2"}));
  EXPECT_EQ(names(5), (Strings{"w1", "w2", "w3", "h9", "h2"}));
}

}  // namespace policy_keys_test
}  // namespace escapement::master
