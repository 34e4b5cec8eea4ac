// GetPolicyUsage over rows as the owner of the policy shard writes them.

#include "services/master/policies/policy_usage.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "common/tokens/token_batch.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace policy_usage_test {

using kv::ColumnFamily;

constexpr char kName[] = "tenants/default/policies/backup";

class PolicyUsageTest : public ::testing::Test {
 protected:
  PolicyUsageTest() {
    v1::CreatePolicyRequest request;
    request.set_parent("tenants/default");
    request.set_policy_id("backup");
    request.mutable_policy()->set_max_concurrent(50);
    EXPECT_TRUE(fixture_.Call(&PolicyApi::CreatePolicy, request).ok());
    fixture_.runtime.AdvanceBy(absl::Seconds(100));
    now_ = fixture_.Now();
  }

  v1::PolicyUsage Usage(int page_size = 0, const std::string& page_token = "") {
    v1::GetPolicyUsageRequest request;
    request.set_name(kName);
    request.set_page_size(page_size);
    request.set_page_token(page_token);
    const auto usage = fixture_.Call(&PolicyApi::GetPolicyUsage, request);
    EXPECT_TRUE(usage.ok()) << usage.status();
    return usage.value_or(v1::PolicyUsage());
  }

  static Uid Schedule(int n) { return Uid::FromHalves(77, n); }
  void NameSchedule(int n, const std::string& id) {
    storage::v1::StateRecord state;
    state.set_tenant("default");
    state.set_schedule_id(id);
    fixture_.Put(ColumnFamily::kStates, StateKey(Schedule(n)), state.SerializeAsString());
  }

  // Events [first, first + count) of schedule n, due so many seconds ago.
  kv::Mutation WaitingRow(int n, uint64_t count, int due_ago, uint64_t first = 0,
                          uint8_t priority = 5, uint64_t taken = 0) {
    storage::v1::EventRecord row;
    row.set_tenant("default");
    row.set_count(count);
    row.mutable_throttle()->set_taken(taken);
    const WaitingKey key{.policy_shard = shard_,
                         .policy = uid_,
                         .priority = priority,
                         .uid = Schedule(n),
                         .due_time = now_ - absl::Seconds(due_ago),
                         .occurrence = "o",
                         .first = first};
    return {.cf = ColumnFamily::kWaiting,
            .key = EncodeWaitingKey(key),
            .value = row.SerializeAsString()};
  }
  void PutWaiting(const std::vector<kv::Mutation>& rows) {
    kv::Group group;
    group.mutations = rows;
    fixture_.Commit({group});
  }

  storage::v1::GrantRecord Grant(int n, bool on_release = true) {
    storage::v1::GrantRecord grant;
    grant.set_uid(std::string(Schedule(n).bytes()));
    grant.set_occurrence("20260101T000000Z");
    grant.set_grant_time_micros(ToMicros(now_ - absl::Seconds(30)));
    grant.mutable_event()->mutable_throttle()->set_on_release(on_release);
    return grant;
  }
  static storage::v1::GrantRecord::Holders* AddHolders(storage::v1::GrantRecord& grant,
                                                       uint64_t first, uint64_t count) {
    auto* holders = grant.add_holders();
    holders->set_first(first);
    holders->set_count(count);
    return holders;
  }
  void PutGrant(uint64_t epoch, uint64_t number, const storage::v1::GrantRecord& grant) {
    fixture_.Put(ColumnFamily::kGrants, EncodeGrantKey({shard_, uid_, epoch, number}),
                 grant.SerializeAsString());
  }
  void PutCounts(const storage::v1::PolicyCountsRecord& counts) {
    fixture_.Put(ColumnFamily::kGrants, PolicyCountsKey(shard_, uid_), counts.SerializeAsString());
  }

  MasterWorld fixture_;
  const Uid uid_ = PolicyUid("default", "backup");
  const uint16_t shard_ = fixture_.PolicyShardOfTenant();
  absl::Time now_;
};

TEST_F(PolicyUsageTest, FreshPolicyHasNoHoldersAndNothingWaits) {
  const v1::PolicyUsage usage = Usage();
  EXPECT_EQ(usage.policy().name(), kName);
  EXPECT_EQ(usage.policy().max_concurrent(), 50);
  EXPECT_EQ(usage.held_count(), 0);
  EXPECT_EQ(usage.waiting_count(), 0);
  EXPECT_FALSE(usage.has_oldest_waiter_time());
  EXPECT_TRUE(usage.next_page_token().empty());
}

TEST_F(PolicyUsageTest, APolicyThatIsNotThereHasNoUsage) {
  v1::GetPolicyUsageRequest request;
  request.set_name("tenants/default/policies/none");
  EXPECT_EQ(fixture_.Call(&PolicyApi::GetPolicyUsage, request).status().code(),
            absl::StatusCode::kNotFound);
  request.set_name(kName);
  request.set_page_token("x");
  EXPECT_EQ(fixture_.Call(&PolicyApi::GetPolicyUsage, request).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(PolicyUsageTest, CountsAreShownAndRatesOnlyWhileTheyAreFresh) {
  storage::v1::PolicyCountsRecord counts;
  counts.set_held(7);
  counts.set_granted(20);
  counts.set_released(13);
  counts.set_expired(2);
  counts.set_returns(storage::v1::PolicyCountsRecord::HOLD_ENDED);
  counts.set_measure_time_micros(ToMicros(now_ - absl::Seconds(5)));
  counts.set_grants_per_second(3.5);
  counts.set_releases_per_second(1.5);
  PutCounts(counts);
  v1::PolicyUsage usage = Usage();
  EXPECT_EQ(usage.held_count(), 7);
  EXPECT_EQ(usage.granted_count(), 20);
  EXPECT_EQ(usage.released_count(), 13);
  EXPECT_EQ(usage.expired_count(), 2);
  EXPECT_TRUE(usage.never_given_back());
  EXPECT_EQ(usage.grants_per_second(), 3.5);
  EXPECT_EQ(usage.releases_per_second(), 1.5);

  fixture_.runtime.AdvanceBy(absl::Seconds(6));
  usage = Usage();
  EXPECT_EQ(usage.held_count(), 7);
  EXPECT_EQ(usage.grants_per_second(), 0);
  EXPECT_EQ(usage.releases_per_second(), 0);
}

TEST_F(PolicyUsageTest, AHolderIsNamedWithItsTimesAndTheTokenThatReleasesIt) {
  NameSchedule(1, "nightly");
  storage::v1::GrantRecord grant = Grant(1);
  AddHolders(grant, 4, 1);
  auto* delivered = AddHolders(grant, 6, 2);
  delivered->set_delivered_time_micros(ToMicros(now_ - absl::Seconds(20)));
  delivered->set_expire_time_micros(ToMicros(now_ - absl::Seconds(1)));
  delivered->set_overdue(true);
  PutGrant(3, 9, grant);

  const v1::PolicyUsage usage = Usage();
  ASSERT_EQ(usage.holders_size(), 3);
  const std::string run = "tenants/default/schedules/nightly/runs/20260101T000000Z/events/";
  EXPECT_EQ(usage.holders(0).event(), run + "4");
  EXPECT_EQ(usage.holders(1).event(), run + "6");
  EXPECT_EQ(usage.holders(2).event(), run + "7");
  EXPECT_FALSE(usage.holders(0).has_delivered_time());
  EXPECT_FALSE(usage.holders(0).has_expire_time());
  EXPECT_FALSE(usage.holders(0).overdue());
  EXPECT_EQ(TimestampMicros(usage.holders(2).delivered_time()), ToMicros(now_ - absl::Seconds(20)));
  EXPECT_EQ(TimestampMicros(usage.holders(2).expire_time()), ToMicros(now_ - absl::Seconds(1)));
  EXPECT_TRUE(usage.holders(2).overdue());
  EXPECT_EQ(usage.holders(0).age().seconds(), 30);

  const TokenMint mint(*fixture_.Get(ColumnFamily::kMeta, std::string(kTokenKeyKey)));
  EXPECT_EQ(mint.Read(usage.holders(2).token()),
            (TokenName{.grant = {shard_, uid_, 3, 9}, .index = 7}));
}

TEST_F(PolicyUsageTest, EventEndedByItsDeliveryHasNoTokenToGiveBack) {
  NameSchedule(1, "nightly");
  storage::v1::GrantRecord grant = Grant(1, /*on_release=*/false);
  AddHolders(grant, 0, 1);
  PutGrant(1, 1, grant);
  ASSERT_EQ(Usage().holders_size(), 1);
  EXPECT_EQ(Usage().holders(0).token(), "");
}

TEST_F(PolicyUsageTest, HoldersComePageByPageInTheOrderOfTheirGrants) {
  NameSchedule(1, "s");
  std::vector<std::string> wanted;
  for (uint64_t number = 1; number <= 4; ++number) {
    storage::v1::GrantRecord grant = Grant(1);
    for (uint64_t first : {number * 100, number * 100 + 50}) {
      AddHolders(grant, first, 3);
      for (uint64_t i = 0; i < 3; ++i) {
        wanted.push_back(
            absl::StrCat("tenants/default/schedules/s/runs/20260101T000000Z/events/", first + i));
      }
    }
    PutGrant(2, number, grant);
  }
  // A holder of another policy of the shard is not shown.
  fixture_.Put(ColumnFamily::kGrants,
               EncodeGrantKey({shard_, Uid::FromHalves(~uint64_t{0}, 1), 2, 1}), "");
  for (const int size : {1, 4, 6, 7, 24, 100}) {
    std::vector<std::string> seen;
    std::string token;
    do {
      const v1::PolicyUsage page = Usage(size, token);
      EXPECT_LE(page.holders_size(), size);
      for (const auto& holder : page.holders()) seen.push_back(holder.event());
      token = page.next_page_token();
    } while (!token.empty());
    EXPECT_EQ(seen, wanted) << size;
  }
}

TEST_F(PolicyUsageTest, AGrantThatEndedBetweenTwoPagesHidesNothingOfTheNextOne) {
  NameSchedule(1, "s");
  for (uint64_t number = 1; number <= 2; ++number) {
    storage::v1::GrantRecord grant = Grant(1);
    AddHolders(grant, 0, 3);
    PutGrant(2, number, grant);
  }
  const v1::PolicyUsage page = Usage(2);
  fixture_.Delete(ColumnFamily::kGrants, EncodeGrantKey({shard_, uid_, 2, 1}));
  EXPECT_EQ(Usage(10, page.next_page_token()).holders_size(), 3);
}

TEST_F(PolicyUsageTest, WaitingEventsThatAreDueAreCountedByScheduleLargestFirst) {
  NameSchedule(1, "small");
  NameSchedule(2, "large");
  PutWaiting({WaitingRow(1, 3, 10), WaitingRow(1, 1, 5, 7), WaitingRow(1, 100, -60),
              WaitingRow(2, 10, 40, 0, 9, /*taken=*/4), WaitingRow(3, 2, 1)});
  WaitingKey other;  // another policy's row is not counted
  other.policy_shard = shard_;
  other.policy = Schedule(9);
  fixture_.Put(ColumnFamily::kWaiting, EncodeWaitingKey(other), "");
  const v1::PolicyUsage usage = Usage();
  EXPECT_EQ(usage.waiting_count(), 12);
  EXPECT_FALSE(usage.waiting_truncated());
  EXPECT_EQ(TimestampMicros(usage.oldest_waiter_time()), ToMicros(now_ - absl::Seconds(40)));
  ASSERT_EQ(usage.waiters_size(), 3);
  EXPECT_EQ(usage.waiters(0).schedule(), "tenants/default/schedules/large");
  EXPECT_EQ(usage.waiters(0).waiting_count(), 6);
  EXPECT_EQ(usage.waiters(1).schedule(), "tenants/default/schedules/small");
  EXPECT_EQ(usage.waiters(1).waiting_count(), 4);
  EXPECT_EQ(TimestampMicros(usage.waiters(1).oldest_due_time()),
            ToMicros(now_ - absl::Seconds(10)));
  EXPECT_EQ(usage.waiters(2).schedule(), "");  // nothing is known of it
}

TEST_F(PolicyUsageTest, RowsThatAreNotDueYetAreSteppedOver) {
  NameSchedule(1, "future");
  NameSchedule(2, "present");
  std::vector<kv::Mutation> rows;
  // More than are read at all.
  for (int i = 0; i < static_cast<int>(kUsageRowsMax) + 500; ++i)
    rows.push_back(WaitingRow(1, 1, -60 - i));
  rows.push_back(WaitingRow(2, 5, 1));
  PutWaiting(rows);
  const v1::PolicyUsage usage = Usage();
  EXPECT_EQ(usage.waiting_count(), 5);
  EXPECT_FALSE(usage.waiting_truncated());
}

TEST_F(PolicyUsageTest, TheCountIsCutOffAndSaysSo) {
  NameSchedule(1, "s");
  std::vector<kv::Mutation> rows;
  for (int i = 0; i < static_cast<int>(kUsageRowsMax); ++i)
    rows.push_back(WaitingRow(1, 1, 10, static_cast<uint64_t>(i)));
  PutWaiting(rows);
  EXPECT_FALSE(Usage().waiting_truncated());
  PutWaiting({WaitingRow(1, 1, 10, kUsageRowsMax)});
  const v1::PolicyUsage usage = Usage();
  EXPECT_EQ(usage.waiting_count(), static_cast<int64_t>(kUsageRowsMax));
  EXPECT_TRUE(usage.waiting_truncated());
}

TEST_F(PolicyUsageTest, NoMoreWaitersAreNamedThanFit) {
  std::vector<kv::Mutation> rows;
  for (int n = 0; n < 150; ++n) rows.push_back(WaitingRow(n, n == 149 ? 2 : 1, 10));
  PutWaiting(rows);
  const v1::PolicyUsage usage = Usage();
  EXPECT_EQ(usage.waiting_count(), 151);
  ASSERT_EQ(usage.waiters_size(), static_cast<int>(kUsageWaitersMax));
  EXPECT_EQ(usage.waiters(0).waiting_count(), 2);
}

TEST_F(PolicyUsageTest, LastHourIsShown) {
  EXPECT_EQ(Usage().history_size(), 0);
  storage::v1::PolicyHistoryRecord history;
  for (const int minutes_ago : {61, 59, 1}) {
    auto* sample = history.add_samples();
    sample->set_time_micros(ToMicros(now_ - absl::Minutes(minutes_ago)));
    sample->set_held(static_cast<uint64_t>(minutes_ago));
    sample->set_waiting(7);
    sample->set_max_concurrent(50);
  }
  fixture_.Put(ColumnFamily::kGrants, PolicyHistoryKey(shard_, uid_), history.SerializeAsString());
  const v1::PolicyUsage usage = Usage();
  ASSERT_EQ(usage.history_size(), 2);
  EXPECT_EQ(TimestampMicros(usage.history(0).time()), ToMicros(now_ - absl::Minutes(59)));
  EXPECT_EQ(usage.history(0).held_count(), 59);
  EXPECT_EQ(usage.history(0).waiting_count(), 7);
  EXPECT_EQ(usage.history(0).max_concurrent(), 50);
  EXPECT_EQ(usage.history(1).held_count(), 1);
  EXPECT_EQ(usage.holders_size(), 0);
}

TEST_F(PolicyUsageTest, KeysThatWaitLongestComeBeforeThoseThatHoldMost) {
  kv::Mutation late = WaitingRow(1, 3, 10), early = WaitingRow(2, 2, 40);
  const auto of_key = [](kv::Mutation& row, const std::string& key) {
    storage::v1::EventRecord record;
    ASSERT_TRUE(record.ParseFromString(row.value));
    record.mutable_throttle()->set_policy_key(key);
    row.value = record.SerializeAsString();
  };
  of_key(late, "late");
  of_key(early, "early");
  PutWaiting({late, early});
  storage::v1::GrantRecord grant = Grant(1);
  grant.mutable_event()->mutable_throttle()->set_policy_key("held");
  AddHolders(grant, 0, 4);
  PutGrant(1, 1, grant);
  EXPECT_EQ(Usage().keys_size(), 0);  // the policy has no limits for keys

  v1::UpdatePolicyRequest update;
  update.mutable_policy()->set_name(kName);
  update.mutable_policy()->mutable_per_key()->set_max_concurrent(5);
  ASSERT_TRUE(fixture_.Call(&PolicyApi::UpdatePolicy, update).ok());
  const v1::PolicyUsage usage = Usage();
  ASSERT_EQ(usage.keys_size(), 3);
  EXPECT_EQ(usage.keys(0).policy_key(), "early");
  EXPECT_EQ(usage.keys(0).waiting_count(), 2);
  EXPECT_EQ(TimestampMicros(usage.keys(0).oldest_due_time()), ToMicros(now_ - absl::Seconds(40)));
  EXPECT_EQ(usage.keys(1).policy_key(), "late");
  EXPECT_EQ(usage.keys(1).waiting_count(), 3);
  EXPECT_EQ(usage.keys(2).policy_key(), "held");
  EXPECT_EQ(usage.keys(2).held_count(), 4);
  EXPECT_EQ(Usage(/*page_size=*/1).keys(2).held_count(), 1);  // the page has one holder
}

TEST_F(PolicyUsageTest, RowsThatCannotBeReadAreAnError) {
  fixture_.Put(ColumnFamily::kGrants, EncodeGrantKey({shard_, uid_, 1, 1}), "\xff");
  v1::GetPolicyUsageRequest request;
  request.set_name(kName);
  EXPECT_EQ(fixture_.Call(&PolicyApi::GetPolicyUsage, request).status().code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace policy_usage_test
}  // namespace escapement::master
