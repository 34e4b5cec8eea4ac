#include "services/token_manager/holding/grant_set.h"

#include "gtest/gtest.h"

namespace escapement::token_manager {
namespace grant_set_test {

Grant GrantOf(uint64_t number, uint64_t first, uint64_t count) {
  auto source = std::make_shared<RowSource>();
  source->event.set_run_count(100);
  source->uid = Uid::FromHalves(1, 2);
  source->occurrence = "o";
  Grant grant{.epoch = 1,
              .number = number,
              .source = source,
              .holders = {{.first = first, .count = count}}};
  grant.record.set_send_before_micros(1000);
  grant.record.set_delivery_timeout_micros(500);
  grant.record.set_queue_shard(1);
  return grant;
}

class GrantSetTest : public ::testing::Test {
 protected:
  Totals totals_{.undelivered_by_shard = {0, 0}};
  GrantSet set_{absl::Microseconds(100), &totals_};
};

TEST_F(GrantSetTest, AHolderIsRemovedOnce) {
  set_.Add(GrantOf(1, 10, 10));
  EXPECT_EQ(set_.held(), 10);
  EXPECT_EQ(set_.Remove({1, 1}, 12, 3).size(), 1);
  EXPECT_TRUE(set_.Remove({1, 1}, 12, 3).empty());
  EXPECT_EQ(set_.held(), 7);
  EXPECT_TRUE(set_.Remove({1, 2}, 12, 3).empty());
  const HeldRanges rest = set_.Remove({1, 1}, 0, ~uint64_t{0});
  ASSERT_EQ(rest.size(), 2);
  EXPECT_EQ(rest[0].first, 10);
  EXPECT_EQ(rest[0].count, 2);
  EXPECT_EQ(rest[1].first, 15);
  EXPECT_EQ(rest[1].count, 5);
  EXPECT_EQ(set_.held(), 0);
  EXPECT_TRUE(set_.Find({1, 1})->holders.empty());
  set_.Forget({1, 1});
  EXPECT_TRUE(set_.empty());
  EXPECT_EQ(totals_.held, 0);
}

TEST_F(GrantSetTest, UndeliveredOnesAreCountedByQueueShard) {
  set_.Add(GrantOf(1, 0, 10));
  EXPECT_EQ(totals_.undelivered_by_shard[1], 10);
  EXPECT_EQ(set_.Deliver({1, 1}, 3, 4, 50, 60).delivered, 4);
  EXPECT_EQ(set_.Deliver({1, 1}, 3, 5, 50, 60).delivered, 1);
  EXPECT_EQ(totals_.undelivered_by_shard[1], 5);
  storage::v1::GrantRecord again = set_.Find({1, 1})->record;
  again.set_queue_shard(0);
  set_.SetClaim({1, 1}, again);
  EXPECT_EQ(totals_.undelivered_by_shard[1], 0);
  EXPECT_EQ(totals_.undelivered_by_shard[0], 5);
  set_.Remove({1, 1}, 0, 4);
  EXPECT_EQ(totals_.undelivered_by_shard[0], 2);
  set_.Forget({1, 1});
  EXPECT_EQ(totals_.undelivered_by_shard[0], 0);
  EXPECT_EQ(totals_.undelivered, 0);
  EXPECT_EQ(totals_.held, 0);
}

TEST_F(GrantSetTest, GrantThatSleepsHoldsItsTokenAndIsWithNoHandler) {
  Grant grant = GrantOf(1, 4, 1);
  grant.record.set_retry_at_micros(3000);
  set_.Add(std::move(grant));
  EXPECT_EQ(set_.held(), 1);
  EXPECT_EQ(totals_.undelivered, 0);
  EXPECT_EQ(set_.NextDeadline(), 3000);
  EXPECT_TRUE(set_.Expired({1, 1}, 1'000'000, /*delivered=*/false).empty());
  EXPECT_FALSE(set_.Extend({1, 1}, 4, 1, 60, 9000).effect);
  EXPECT_FALSE(set_.Deliver({1, 1}, 4, 1, 50, 60).effect);
  set_.WakeAt({1, 1}, 3500);
  EXPECT_EQ(set_.NextDeadline(), 3500);
  set_.WakeAt({1, 1}, 0);
  EXPECT_EQ(set_.NextDeadline(), std::nullopt);
  const storage::v1::GrantRecord asleep = set_.Find({1, 1})->record;
  storage::v1::GrantRecord awake = asleep;
  awake.set_queue_shard(0);
  awake.clear_retry_at_micros();
  set_.SetClaim({1, 1}, awake);
  EXPECT_EQ(totals_.undelivered_by_shard[0], 1);
  EXPECT_FALSE(set_.Find({1, 1})->sleeps());
  set_.SetClaim({1, 1}, asleep);
  EXPECT_EQ(totals_.undelivered, 0);
  EXPECT_TRUE(set_.Find({1, 1})->sleeps());
  set_.Remove({1, 1}, 4, 1);
  EXPECT_TRUE(set_.Find({1, 1})->holders.empty());
  EXPECT_EQ(totals_.held, 0);
}

TEST_F(GrantSetTest, DeadlinesFollowWhatIsKnown) {
  set_.Add(GrantOf(1, 0, 2));
  EXPECT_EQ(set_.NextDeadline(), 1600);
  EXPECT_EQ(set_.Undelivered({1, 1}, 0, 5)[0].count, 2);
  EXPECT_TRUE(set_.Expired({1, 1}, 1599, /*delivered=*/false).empty());
  EXPECT_EQ(set_.Expired({1, 1}, 1600, /*delivered=*/false).size(), 1);
  set_.Deliver({1, 1}, 0, 1, 50, 5000);
  EXPECT_EQ(set_.NextDeadline(), 1600);
  set_.Deliver({1, 1}, 1, 1, 50, 6000);
  EXPECT_EQ(set_.NextDeadline(), 5000);
  EXPECT_TRUE(set_.Extend({1, 1}, 0, 2, 60, 9000).effect);
  EXPECT_TRUE(set_.Undelivered({1, 1}, 0, 2).empty());
  EXPECT_EQ(set_.NextDeadline(), 9000);
  EXPECT_EQ(set_.DueBy(8999, 10).size(), 0);
  ASSERT_EQ(set_.DueBy(9000, 10).size(), 1);
  EXPECT_EQ(set_.Expired({1, 1}, 9000, /*delivered=*/true)[0].count, 2);
  EXPECT_EQ(set_.MarkOverdue({1, 1}, 9000), 2);
  EXPECT_EQ(set_.MarkOverdue({1, 1}, 9000), 0);
  EXPECT_FALSE(set_.NextDeadline().has_value());
  EXPECT_TRUE(set_.Extend({1, 1}, 0, 1, 70, 9500).effect);
  EXPECT_EQ(set_.NextDeadline(), 9500);
  set_.ForgetOverdue();
  EXPECT_EQ(set_.NextDeadline(), 9000);
  EXPECT_EQ(set_.Expired({1, 1}, 9000, /*delivered=*/true).size(), 1);
}

// The consumer has what it extends, whenever the handler's word of the delivery comes.
TEST_F(GrantSetTest, EventExtendedBeforeItsDeliveryIsNotedIsDelivered) {
  for (const bool on_release : {true, false}) {
    GrantSet set(absl::Microseconds(100), &totals_);
    Grant grant = GrantOf(1, 0, 2);
    RowSource source = *grant.source;
    source.event.mutable_throttle()->set_on_release(on_release);
    grant.source = std::make_shared<RowSource>(source);
    set.Add(std::move(grant));
    const GrantSet::Marked extended = set.Extend({1, 1}, 0, 1, 40, 9000);
    EXPECT_TRUE(extended.effect);
    EXPECT_EQ(extended.delivered, on_release ? 1 : 0);
    EXPECT_EQ(set.Deliver({1, 1}, 0, 2, 50, 5000).delivered, on_release ? 1 : 2);
    EXPECT_EQ(set.Expired({1, 1}, 5000, /*delivered=*/true)[0].count, on_release ? 1 : 2);
    EXPECT_EQ(totals_.undelivered, 0);
    // It takes nothing away either.
    set.Forget({1, 1});
    set.Add(GrantOf(1, 0, 1));
    set.Extend({1, 1}, 0, 1, 40, 3000);
    set.Deliver({1, 1}, 0, 1, 50, 5000);
    EXPECT_EQ(set.NextDeadline(), 5000);
    // As it may arrive twice, or be told of twice.
    for (const bool changed : {true, false}) {
      const GrantSet::Marked again = set.Deliver({1, 1}, 0, 1, 60, 6000);
      EXPECT_EQ(again.delivered, 0);
      EXPECT_EQ(again.effect, changed);
      EXPECT_EQ(set.NextDeadline(), 6000);
    }
  }
}

TEST_F(GrantSetTest, ARecordIsReadAsItWasWritten) {
  set_.Add(GrantOf(1, 0, 10));
  set_.Deliver({1, 1}, 3, 2, 50, 60);
  set_.Remove({1, 1}, 8, 1);
  const Grant& grant = *set_.Find({1, 1});
  const std::optional<Grant> read = DecodeGrant(3, 1, 1, EncodeGrant(grant));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->holders, grant.holders);
  EXPECT_EQ(read->source->uid, grant.source->uid);
  EXPECT_FALSE(read->source->part_key.empty());
  EXPECT_EQ(read->record.SerializeAsString(), grant.record.SerializeAsString());
  storage::v1::GrantRecord record;
  ASSERT_TRUE(record.ParseFromString(EncodeGrant(grant)));
  EXPECT_EQ(record.SerializeAsString(), EncodeGrant(grant));
  EXPECT_FALSE(DecodeGrant(3, 1, 1, "no record").has_value());
  EXPECT_FALSE(DecodeGrant(3, 1, 1, "").has_value());
}

}  // namespace grant_set_test
}  // namespace escapement::token_manager
