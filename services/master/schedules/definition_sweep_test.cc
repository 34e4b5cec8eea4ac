// The collection of old versions of definitions and of tombstones, on a store in memory.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace definition_sweep_test {

using kv::ColumnFamily;

constexpr int kVersions = 50;
constexpr char kName[] = "tenants/default/schedules/s";

class DefinitionSweepTest : public ::testing::Test {
 protected:
  // A schedule with kVersions versions, made within a minute.
  void MakeVersions(const std::string& policy = "") {
    v1::CreateScheduleRequest create = ValidSchedule("s", "0 0 1 1 *");
    create.mutable_schedule()->set_policy(policy);
    const auto made = world_.Call(&ScheduleApi::CreateSchedule, create);
    ASSERT_TRUE(made.ok()) << made.status();
    uid_ = Uid::FromHex(made->uid());
    for (int i = 1; i < kVersions; ++i) {
      v1::UpdateScheduleRequest update;
      update.mutable_schedule()->set_name(kName);
      update.mutable_schedule()->set_payload(absl::StrCat(i));
      update.mutable_update_mask()->add_paths("payload");
      const auto updated = world_.Call(&ScheduleApi::UpdateSchedule, update);
      ASSERT_TRUE(updated.ok()) << updated.status();
      world_.runtime.AdvanceBy(absl::Seconds(1));
    }
    ASSERT_EQ(Versions().size(), static_cast<size_t>(kVersions));
  }
  std::vector<uint64_t> Versions() const {
    std::vector<uint64_t> versions;
    for (const auto& [key, value] : world_.Rows(ColumnFamily::kDefinitions)) {
      storage::v1::DefinitionRecord definition;
      EXPECT_TRUE(definition.ParseFromString(value));
      versions.push_back(definition.version());
    }
    return versions;
  }
  void Wait(absl::Duration time) {
    world_.runtime.RunUntil([] { return false; }, time);
  }
  void Delete() {
    v1::DeleteScheduleRequest remove;
    remove.set_name(kName);
    ASSERT_TRUE(world_.Call(&ScheduleApi::DeleteSchedule, remove).ok());
  }

  MasterWorld world_;
  Uid uid_;
};

TEST_F(DefinitionSweepTest, OldVersionsAreCollectedAndNewestKept) {
  MakeVersions();
  Wait(kVersionKeptFor - absl::Hours(1));
  EXPECT_EQ(Versions().size(), static_cast<size_t>(kVersions));
  Wait(absl::Hours(14));
  const std::vector<uint64_t> left = Versions();
  ASSERT_EQ(left.size(), kVersionsKept);
  EXPECT_EQ(left.front(), kVersions - kVersionsKept + 1);
  EXPECT_EQ(left.back(), static_cast<uint64_t>(kVersions));
  v1::GetScheduleRequest get;
  get.set_name(kName);
  const auto schedule = world_.Call(&ScheduleApi::GetSchedule, get);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->version(), kVersions);
}

TEST_F(DefinitionSweepTest, VersionsStayWhileARowIsParkedOrWaits) {
  storage::v1::PolicyRecord policy;
  policy.set_max_concurrent(1);
  world_.Put(ColumnFamily::kPolicies, PolicyKey("default", "p"), policy.SerializeAsString());
  MakeVersions("tenants/default/policies/p");
  storage::v1::EventRecord row;
  row.set_tenant("default");
  row.set_version(3);
  row.set_count(1);
  row.set_priority(5);
  row.mutable_throttle()->set_policy_id("p");
  const std::string waiting =
      EncodeWaitingKey(WaitingKeyOf(row, uid_, "o1", 0, world_.Now(), world_.layout.policy_shards));
  world_.Put(ColumnFamily::kWaiting, waiting, row.SerializeAsString());
  Wait(kVersionKeptFor + absl::Hours(14));
  EXPECT_EQ(Versions().size(), static_cast<size_t>(kVersions));
  const std::string parked = ParkedKey(uid_, waiting);
  world_.Delete(ColumnFamily::kWaiting, waiting);
  world_.Put(ColumnFamily::kParked, parked, row.SerializeAsString());
  Wait(absl::Hours(14));
  EXPECT_EQ(Versions().size(), static_cast<size_t>(kVersions));
  world_.Delete(ColumnFamily::kParked, parked);
  Wait(absl::Hours(14));
  EXPECT_EQ(Versions().size(), kVersionsKept);
}

TEST_F(DefinitionSweepTest, TombstoneGoesWithAllVersionsOnceOutcomesAreGone) {
  MakeVersions();
  for (const uint16_t part : {uint16_t{0}, PolicyRunPart(1)})
    world_.Put(ColumnFamily::kRunParts, ScheduleCountsKey(uid_, part), "");
  Delete();
  const absl::Duration kept = kTombstoneRetentionMin + kTombstoneEventsEnd;
  Wait(kept - absl::Hours(1));
  EXPECT_EQ(world_.Rows(ColumnFamily::kStates).size(), 1u);
  EXPECT_FALSE(Versions().empty());
  EXPECT_EQ(world_.Rows(ColumnFamily::kSchedules).size(), 1u);
  EXPECT_EQ(world_.Rows(ColumnFamily::kRunParts).size(), 2u);
  Wait(absl::Hours(14));
  EXPECT_TRUE(world_.Rows(ColumnFamily::kStates).empty());
  EXPECT_TRUE(Versions().empty());
  EXPECT_TRUE(world_.Rows(ColumnFamily::kSchedules).empty());
  EXPECT_TRUE(world_.Rows(ColumnFamily::kRunParts).empty());
}

TEST_F(DefinitionSweepTest, NameOfALaterDeletedScheduleStays) {
  MakeVersions();
  Delete();
  const absl::Duration kept = kTombstoneRetentionMin + kTombstoneEventsEnd;
  Wait(kept - absl::Hours(48));
  ASSERT_TRUE(world_.Call(&ScheduleApi::CreateSchedule, ValidSchedule("s", "0 0 1 1 *")).ok());
  Delete();
  Wait(absl::Hours(96));
  EXPECT_EQ(world_.Rows(ColumnFamily::kStates).size(), 1u);
  EXPECT_EQ(world_.Rows(ColumnFamily::kSchedules).size(), 1u);
  Wait(kept);
  EXPECT_TRUE(world_.Rows(ColumnFamily::kStates).empty());
  EXPECT_TRUE(world_.Rows(ColumnFamily::kSchedules).empty());
}

TEST_F(DefinitionSweepTest, TombstoneStaysForTheRetentionOfItsTenant) {
  storage::v1::TenantRecord tenant;
  tenant.set_tenant("default");
  tenant.set_version(1);
  tenant.set_retention_micros(ToMicros(absl::UnixEpoch() + absl::Hours(24 * 100)));
  MakeVersions();
  world_.Put(ColumnFamily::kTenants, TenantKey("default"), tenant.SerializeAsString());
  Delete();
  Wait(absl::Hours(24 * 130));
  EXPECT_EQ(world_.Rows(ColumnFamily::kStates).size(), 1u);
  Wait(absl::Hours(24 * 2));
  EXPECT_TRUE(world_.Rows(ColumnFamily::kStates).empty());
}

TEST_F(DefinitionSweepTest, OlderTombstoneWithoutATimeCountsFromTheSweep) {
  MakeVersions();
  Delete();
  storage::v1::StateRecord state;
  ASSERT_TRUE(state.ParseFromString(*world_.Get(ColumnFamily::kStates, StateKey(uid_))));
  EXPECT_NE(state.pause_time_micros(), 0);
  state.clear_pause_time_micros();
  world_.Put(ColumnFamily::kStates, StateKey(uid_), state.SerializeAsString());
  const absl::Duration kept = kTombstoneRetentionMin + kTombstoneEventsEnd;
  Wait(kept - absl::Hours(1));
  EXPECT_EQ(world_.Rows(ColumnFamily::kStates).size(), 1u);
  Wait(absl::Hours(21));
  EXPECT_TRUE(world_.Rows(ColumnFamily::kStates).empty());
  EXPECT_TRUE(Versions().empty());
}

}  // namespace definition_sweep_test
}  // namespace escapement::master
