// The collection of deliveries of one-off events, on a store in memory.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/schedule_table.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace delivery_sweep_test {

using kv::ColumnFamily;

constexpr absl::Duration kPeriod = absl::Hours(28 * 24);
// After this an unused delivery has been collected: its period is over, one more is kept, and the
// sweep begins.
const absl::Duration kCollected = 2 * kPeriod + absl::Hours(7);

class DeliverySweepTest : public ::testing::Test {
 protected:
  // The key of the new event's row. It is due in an hour.
  std::string Create(const std::string& id) {
    EXPECT_TRUE(
        world_.Call(&EventApi::CreateEvent, ValidEvent(world_.Now() + absl::Hours(1), id)).ok());
    std::string key;
    for (const auto& [row_key, row] : world_.Events()) {
      if (row.event_id() == id) key = EncodeEventKey(row_key);
    }
    return key;
  }
  size_t Stored() const { return world_.Rows(ColumnFamily::kDefinitions).size(); }
  void Wait(absl::Duration time) {
    world_.runtime.RunUntil([] { return false; }, time);
  }
  storage::v1::EventRecord Row(const std::string& key) {
    storage::v1::EventRecord row;
    EXPECT_TRUE(row.ParseFromString(world_.Get(ColumnFamily::kEvents, key).value_or("")));
    return row;
  }
  // The only delivery stays as long as the row, and no longer.
  void ExpectKeptBy(ColumnFamily cf, const std::string& key) {
    Wait(kPeriod + kCollected);
    EXPECT_EQ(Stored(), 1u);
    world_.Delete(cf, key);
    Wait(absl::Hours(7));
    EXPECT_EQ(Stored(), 0u);
  }

  MasterWorld world_;
};

TEST_F(DeliverySweepTest, UnusedDeliveryIsCollectedAfterItsPeriod) {
  const std::string key = Create("e");
  world_.Delete(ColumnFamily::kEvents, key);
  Wait(kPeriod);
  EXPECT_EQ(Stored(), 1u);
  Wait(kCollected);
  EXPECT_EQ(Stored(), 0u);
}

TEST_F(DeliverySweepTest, EventThatWaitsKeepsItsDelivery) {
  const std::string key = Create("e");
  ExpectKeptBy(ColumnFamily::kEvents, key);
}

TEST_F(DeliverySweepTest, RetryKeepsItsDelivery) {
  const std::string key = Create("e");
  EventKey retry = *DecodeEventKey(key);
  retry.lane = kLaneRetry;
  retry.due_time += 10 * kPeriod;
  world_.Put(ColumnFamily::kEvents, EncodeEventKey(retry), Row(key).SerializeAsString());
  world_.Delete(ColumnFamily::kEvents, key);
  ExpectKeptBy(ColumnFamily::kEvents, EncodeEventKey(retry));
}

TEST_F(DeliverySweepTest, DeadLetterKeepsItsDelivery) {
  const std::string key = Create("e");
  storage::v1::DeadLetterRecord letter;
  *letter.mutable_event() = Row(key);
  // It ended late, so it is not collected as old.
  const std::string letter_key = EncodeDeadLetterKey({"default", world_.Now() + 3 * kPeriod, "e"});
  world_.Put(ColumnFamily::kDeadLetters, letter_key, letter.SerializeAsString());
  world_.Delete(ColumnFamily::kEvents, key);
  ExpectKeptBy(ColumnFamily::kDeadLetters, letter_key);
}

TEST_F(DeliverySweepTest, PeriodsInUseStay) {
  const std::string first = Create("first");
  Wait(3 * kPeriod);
  const std::string second = Create("second");
  EXPECT_EQ(Stored(), 2u);
  EXPECT_NE(Row(first).definition_hash(), Row(second).definition_hash());
  world_.Delete(ColumnFamily::kEvents, first);
  Wait(absl::Hours(7));
  EXPECT_EQ(Stored(), 1u);
  EXPECT_TRUE(
      world_
          .Get(ColumnFamily::kDefinitions, InternKey(Uid::FromBytes(Row(second).definition_hash())))
          .has_value());
}

TEST_F(DeliverySweepTest, BrokenRowKeepsAll) {
  const std::string key = Create("e");
  EventKey retry = *DecodeEventKey(key);
  retry.lane = kLaneRetry;
  world_.Put(ColumnFamily::kEvents, EncodeEventKey(retry), "\xff");
  world_.Delete(ColumnFamily::kEvents, key);
  Wait(kPeriod + kCollected);
  EXPECT_EQ(Stored(), 1u);
}

TEST_F(DeliverySweepTest, DefinitionsOfSchedulesAndOfTheEarlierFormStay) {
  world_.Delete(ColumnFamily::kEvents, Create("e"));
  // Their keys are before and between those of the deliveries.
  const Uid uid = Uid::FromHalves(1, 1);
  storage::v1::DefinitionRecord definition;
  definition.set_create_time_micros(1);
  world_.Put(ColumnFamily::kDefinitions, DefinitionKey(uid, 1), definition.SerializeAsString());
  world_.Put(ColumnFamily::kDefinitions, DefinitionKey(uid, 0),
             storage::v1::DefinitionRecord().SerializeAsString());
  Wait(kPeriod + kCollected);
  EXPECT_EQ(Stored(), 2u);
  EXPECT_TRUE(world_.Get(ColumnFamily::kDefinitions, DefinitionKey(uid, 1)).has_value());
  EXPECT_TRUE(world_.Get(ColumnFamily::kDefinitions, DefinitionKey(uid, 0)).has_value());
}

// More rows than one page has, in every table.
TEST_F(DeliverySweepTest, ManyDeliveriesAndRowsAreLookedThrough) {
  const std::string key = Create("e");
  const storage::v1::EventRecord old_row = Row(key);
  std::vector<kv::Group> groups(1);
  const absl::Time old_due = DecodeEventKey(key)->due_time;
  for (int i = 0; i < 2'500; ++i) {
    storage::v1::DeliveryRecord delivery;
    delivery.mutable_target()->mutable_http()->set_uri(absl::StrCat("http://h/", i));
    groups.push_back(InternGroup(Intern(delivery, old_due)));
  }
  // The last row of the last shard's retries uses the old period.
  storage::v1::EventRecord other = old_row;
  other.set_definition_hash(
      std::string(Intern(storage::v1::DeliveryRecord(), old_due + 5 * kPeriod).hash.bytes()));
  EventKey retry = *DecodeEventKey(key);
  retry.shard = static_cast<uint16_t>(world_.layout.queue_shards - 1);
  retry.lane = kLaneRetry;
  for (int i = 0; i < 2'500; ++i) {
    retry.due_time = old_due + 5 * kPeriod + absl::Seconds(i);
    groups[0].mutations.push_back({.cf = ColumnFamily::kEvents,
                                   .key = EncodeEventKey(retry),
                                   .value = (i == 2'499 ? old_row : other).SerializeAsString()});
  }
  world_.Commit(std::move(groups));
  world_.Delete(ColumnFamily::kEvents, key);
  Wait(kPeriod + kCollected);
  EXPECT_EQ(Stored(), 2'501u);
  world_.Put(ColumnFamily::kEvents, EncodeEventKey(retry), other.SerializeAsString());
  Wait(absl::Hours(7));
  EXPECT_EQ(Stored(), 0u);
}

}  // namespace delivery_sweep_test
}  // namespace escapement::master
