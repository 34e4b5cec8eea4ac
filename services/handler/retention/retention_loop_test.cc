// Tests how long outcomes, names and runs are kept.

#include <optional>
#include <string>

#include "common/base/proto_time.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/run_table.h"
#include "escapement/storage/v1/access_records.pb.h"
#include "gtest/gtest.h"
#include "services/handler/service/handler_service.h"
#include "services/handler/testing/handler_world.h"

namespace escapement::handler {
namespace retention_loop_test {

using kv::ColumnFamily;

constexpr absl::Duration kDay = absl::Hours(24);
constexpr absl::Duration kRetention = absl::Hours(24 * 7);

DoneKey KeyOf(absl::Time launch, const std::string& occurrence, uint16_t shard = 0) {
  return {.shard = shard, .day = DoneDay(launch), .uid = {}, .occurrence = occurrence};
}

void AddDone(HandlerWorld& world, const DoneKey& key, absl::Time complete, uint64_t run_count = 1,
             const std::string& tenant = "default") {
  storage::v1::DoneRecord done;
  done.set_tenant(tenant);
  done.set_count(run_count);
  done.set_run_count(run_count);
  done.set_complete_time_micros(ToMicros(complete));
  world.Put(ColumnFamily::kDone, EncodeDoneKey(key), done.SerializeAsString());
}

bool Has(const HandlerWorld& world, const DoneKey& key) {
  return world.Rows(ColumnFamily::kDone).contains(EncodeDoneKey(key));
}

void PutTenant(HandlerWorld& world, const std::string& tenant, absl::Duration retention) {
  storage::v1::TenantRecord record;
  record.set_tenant(tenant);
  record.set_retention_micros(absl::ToInt64Microseconds(retention));
  world.Put(ColumnFamily::kTenants, TenantKey(tenant), record.SerializeAsString());
}

TEST(RetentionLoopTest, BackfilledOutcomeIsKeptFromItsEndAndDelaysNoLaterDay) {
  HandlerWorld world;
  const absl::Time now = world.now();
  const DoneKey backfilled = KeyOf(now - 30 * kDay, "b");
  const DoneKey beside = KeyOf(now - 30 * kDay, "a");  // an old record of the same day
  const DoneKey later = KeyOf(now - 20 * kDay, "l");
  const DoneKey other_shard = KeyOf(now - 30 * kDay, "o", 1);
  AddDone(world, backfilled, now - kRetention + absl::Minutes(10));
  AddDone(world, beside, now - 30 * kDay);
  AddDone(world, later, now - 20 * kDay);
  AddDone(world, other_shard, now - 30 * kDay);
  world.StartHandler("a");
  world.Advance(absl::Minutes(9));
  EXPECT_TRUE(Has(world, backfilled));
  EXPECT_TRUE(Has(world, beside));
  EXPECT_FALSE(Has(world, later));
  EXPECT_FALSE(Has(world, other_shard));
  world.Advance(absl::Minutes(3));
  EXPECT_EQ(world.Count(ColumnFamily::kDone), 0u);
}

TEST(RetentionLoopTest, KeptDayIsReadInFullBeforeItIsDropped) {
  HandlerWorld world;
  const absl::Time now = world.now();
  AddDone(world, KeyOf(now - 30 * kDay, "b"), now - kRetention + absl::Minutes(5));
  world.StartHandler("a");
  world.Advance(absl::Minutes(2));
  AddDone(world, KeyOf(now - 30 * kDay, "a"), now - kRetention + absl::Minutes(15));
  world.Advance(absl::Minutes(11));
  EXPECT_EQ(world.Count(ColumnFamily::kDone), 2u);
  world.Advance(absl::Minutes(4));
  EXPECT_EQ(world.Count(ColumnFamily::kDone), 0u);
}

TEST(RetentionLoopTest, KeptDayIsNotReadAgainBeforeItsTime) {
  HandlerWorld world;
  const absl::Time now = world.now();
  const DoneKey key = KeyOf(now - 30 * kDay, "b");
  AddDone(world, key, now - kRetention + absl::Minutes(10));
  world.StartHandler("a");
  world.Advance(absl::Minutes(2));
  AddDone(world, key, now - 30 * kDay);  // if the day were read, it would be dropped
  world.Advance(absl::Minutes(7));
  EXPECT_TRUE(Has(world, key));
  world.Advance(absl::Minutes(3));
  EXPECT_FALSE(Has(world, key));
}

TEST(RetentionLoopTest, DaysBeyondKeptDaysMaxWait) {
  HandlerOptions options;
  options.kept_days_max = 1;
  HandlerWorld world(options);
  const absl::Time now = world.now();
  AddDone(world, KeyOf(now - 30 * kDay, "a"), now - kRetention + absl::Minutes(5));
  AddDone(world, KeyOf(now - 29 * kDay, "b"), now - kRetention + absl::Minutes(15));
  const DoneKey old = KeyOf(now - 20 * kDay, "c");
  AddDone(world, old, now - 20 * kDay);
  world.StartHandler("a");
  world.Advance(absl::Minutes(4));
  EXPECT_TRUE(Has(world, old));
  world.Advance(absl::Minutes(3));
  EXPECT_FALSE(Has(world, old));
  EXPECT_EQ(world.Count(ColumnFamily::kDone), 1u);
}

TEST(RetentionLoopTest, ARunIsKeptFromItsEndWithTheOutcomesOfItsFirstEvents) {
  HandlerWorld world;
  const absl::Time now = world.now();
  const absl::Time launch = now - 9 * kDay;
  AddDone(world, KeyOf(launch, "r"), launch, 10);
  const RunKey key{.uid = {}, .occurrence = "r"};
  storage::v1::RunRecord run;
  run.set_complete_time_micros(ToMicros(now - kRetention + absl::Minutes(5)));
  world.Put(ColumnFamily::kRuns, EncodeRunKey(key), run.SerializeAsString());
  world.StartHandler("a");
  world.Advance(absl::Minutes(4));
  EXPECT_EQ(world.Count(ColumnFamily::kDone), 1u);
  EXPECT_EQ(world.Count(ColumnFamily::kRuns), 1u);
  world.Advance(absl::Minutes(3));
  EXPECT_EQ(world.Count(ColumnFamily::kDone), 0u);
  EXPECT_EQ(world.Count(ColumnFamily::kRuns), 0u);
}

TEST(RetentionLoopTest, DueRowKeepsItsOwnDayOnly) {
  HandlerWorld world;
  const absl::Time now = world.now();
  const Uid uid = world.AddSchedule("s");
  world.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED);
  const DoneKey held = KeyOf(now - 30 * kDay, "h");
  AddDone(world, held, now - 30 * kDay);
  AddDone(world, KeyOf(now - 20 * kDay, "l"), now - 20 * kDay);
  world.StartHandler("a");
  world.transport("a").decide = [](const DeliveryAttempt&) { return std::nullopt; };
  // More rows than one target may have out: the rest waits in its lane.
  for (int i = 0; i < 1000; ++i)
    world.AddRow(uid, {.due = now - 30 * kDay, .occurrence = "o" + std::to_string(i)});
  world.Advance(absl::Seconds(8));
  EXPECT_TRUE(Has(world, held));
  EXPECT_EQ(world.Count(ColumnFamily::kDone), 1u);
}

TEST(RetentionLoopTest, RecordWrittenWhileItsDayIsReadIsKept) {
  // Repeats until the day is dropped before the record is written.
  for (absl::Duration at = absl::Milliseconds(5);; at += absl::Milliseconds(50)) {
    ASSERT_LT(at, absl::Seconds(10));
    HandlerWorld world({}, /*read_delay=*/absl::Milliseconds(100));
    const absl::Time launch = world.now() - 30 * kDay;
    for (int i = 0; i < 2500; ++i) AddDone(world, KeyOf(launch, "o" + std::to_string(i)), launch);
    world.StartHandler("a");
    world.Advance(at);
    if (world.Count(ColumnFamily::kDone) == 0) break;
    const DoneKey late = KeyOf(launch, "a");  // sorts before the others
    AddDone(world, late, world.now());
    world.Advance(absl::Minutes(2));
    ASSERT_TRUE(Has(world, late)) << at;
  }
}

// The client has used the id again, after an interrupted sweep had dropped the first name.
TEST(RetentionLoopTest, NameIsDroppedWithItsEventNotWithAnEarlierOne) {
  HandlerWorld world;
  const absl::Time launch = world.now() - 30 * kDay;
  const auto put = [&](const std::string& id, absl::Time named) {
    storage::v1::DoneRecord done;
    done.set_tenant("t");
    done.set_event_id(id);
    done.set_count(1);
    done.set_complete_time_micros(ToMicros(launch));
    DoneKey key = KeyOf(launch, "");
    key.uid = UidOfClientChosenId("t", id);
    world.Put(ColumnFamily::kDone, EncodeDoneKey(key), done.SerializeAsString());
    storage::v1::EventNameRecord name;
    name.set_launch_time_micros(ToMicros(named));
    world.Put(ColumnFamily::kEventNames, EventNameKey("t", id), name.SerializeAsString());
  };
  put("ended", launch + absl::Minutes(1));
  put("used-again", world.now() + kDay);
  world.StartHandler("a");
  world.Advance(absl::Minutes(3));
  EXPECT_EQ(world.Count(ColumnFamily::kDone), 0u);
  const auto names = world.Rows(ColumnFamily::kEventNames);
  ASSERT_EQ(names.size(), 1u);
  EXPECT_EQ(names.begin()->first, EventNameKey("t", "used-again"));
}

// An earlier generation of the id has ended on the day on which the present one was due.
TEST(RetentionLoopTest, NameOfALaterGenerationStays) {
  HandlerWorld world;
  const absl::Time launch = world.now() - 30 * kDay;
  storage::v1::DoneRecord done;
  done.set_tenant("t");
  done.set_event_id("id");
  done.set_count(1);
  done.set_complete_time_micros(ToMicros(launch));
  DoneKey key = KeyOf(launch, "");
  key.uid = UidOfClientChosenId("t", "id");
  world.Put(ColumnFamily::kDone, EncodeDoneKey(key), done.SerializeAsString());
  storage::v1::EventNameRecord name;
  name.set_launch_time_micros(ToMicros(launch));
  name.set_event_key(EncodeEventKey(
      {.shard = 0, .lane = 5, .due_time = launch, .uid = Uid::FromHalves(1, 2), .occurrence = ""}));
  world.Put(ColumnFamily::kEventNames, EventNameKey("t", "id"), name.SerializeAsString());
  world.StartHandler("a");
  world.Advance(absl::Minutes(3));
  EXPECT_EQ(world.Count(ColumnFamily::kDone), 0u);
  EXPECT_EQ(world.Count(ColumnFamily::kEventNames), 1u);
}

TEST(RetentionLoopTest, EachTenantHasItsOwnRetention) {
  HandlerWorld world;
  const absl::Time now = world.now();
  PutTenant(world, "short", kDay);
  PutTenant(world, "long", 30 * kDay);
  const absl::Time launch = now - 3 * kDay;
  const DoneKey of_short = KeyOf(launch, "s");
  const DoneKey of_default = KeyOf(launch, "d");
  const DoneKey of_long = KeyOf(now - 20 * kDay, "l");
  const DoneKey old = KeyOf(now - 20 * kDay, "o");
  AddDone(world, of_short, launch, 1, "short");
  AddDone(world, of_default, launch);
  AddDone(world, of_long, now - 20 * kDay, 1, "long");
  AddDone(world, old, now - 20 * kDay);
  world.StartHandler("a");
  world.Advance(absl::Minutes(3));
  EXPECT_FALSE(Has(world, of_short));
  EXPECT_TRUE(Has(world, of_default));
  EXPECT_TRUE(Has(world, of_long));
  EXPECT_FALSE(Has(world, old));
  world.Advance(4 * kDay + absl::Hours(1));
  EXPECT_FALSE(Has(world, of_default));
  EXPECT_TRUE(Has(world, of_long));
  world.Advance(6 * kDay);
  EXPECT_EQ(world.Count(ColumnFamily::kDone), 0u);
}

TEST(RetentionLoopTest, RunsAndNamesGoWithTheOutcomesOfTheirTenant) {
  HandlerWorld world;
  const absl::Time now = world.now();
  PutTenant(world, "short", kDay);
  const absl::Time launch = now - 3 * kDay;
  for (const std::string tenant : {"short", "default"}) {
    AddDone(world, KeyOf(launch, "run of " + tenant), launch, 10, tenant);
    const RunKey key{.uid = {}, .occurrence = "run of " + tenant};
    storage::v1::RunRecord run;
    run.set_tenant(tenant);
    run.set_complete_time_micros(ToMicros(launch));
    world.Put(ColumnFamily::kRuns, EncodeRunKey(key), run.SerializeAsString());
    for (const uint16_t part : {uint16_t{0}, PolicyRunPart(5), kMasterRunPart})
      world.Put(ColumnFamily::kRunParts, RunPartKey(key, part), "");
    storage::v1::DoneRecord done;
    done.set_tenant(tenant);
    done.set_event_id("event");
    done.set_count(1);
    done.set_complete_time_micros(ToMicros(launch));
    DoneKey event = KeyOf(launch, "");
    event.uid = UidOfClientChosenId(tenant, "event");
    world.Put(ColumnFamily::kDone, EncodeDoneKey(event), done.SerializeAsString());
    storage::v1::EventNameRecord name;
    name.set_launch_time_micros(ToMicros(launch));
    world.Put(ColumnFamily::kEventNames, EventNameKey(tenant, "event"), name.SerializeAsString());
  }
  world.StartHandler("a");
  world.Advance(absl::Minutes(3));
  EXPECT_EQ(world.Count(ColumnFamily::kDone), 2u);
  EXPECT_EQ(world.Count(ColumnFamily::kRunParts), 3u);
  const auto runs = world.Rows(ColumnFamily::kRuns);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(DecodeRunKey(runs.begin()->first)->occurrence, "run of default");
  const auto names = world.Rows(ColumnFamily::kEventNames);
  ASSERT_EQ(names.size(), 1u);
  EXPECT_EQ(names.begin()->first, EventNameKey("default", "event"));
}

TEST(RetentionLoopTest, ChangedRetentionCountsFromTheNextSweep) {
  HandlerWorld world;
  const absl::Time launch = world.now() - 3 * kDay;
  const DoneKey key = KeyOf(launch, "d");
  AddDone(world, key, launch);
  PutTenant(world, "default", 5 * kDay);
  world.StartHandler("a");
  world.Advance(absl::Minutes(3));
  EXPECT_TRUE(Has(world, key));
  PutTenant(world, "default", 2 * kDay);
  world.Advance(absl::Minutes(2));
  EXPECT_FALSE(Has(world, key));
}

// More records than one reading takes.
TEST(RetentionLoopTest, ManyOldOutcomesGoFromBetweenKeptOnes) {
  HandlerWorld world;
  PutTenant(world, "short", kDay);
  const absl::Time launch = world.now() - 3 * kDay;
  for (int i = 0; i < 2500; ++i) {
    AddDone(world, KeyOf(launch, "o" + std::to_string(i)), launch, 1,
            i % 5 == 0 ? "default" : "short");
  }
  world.StartHandler("a");
  world.Advance(absl::Minutes(3));
  EXPECT_EQ(world.Count(ColumnFamily::kDone), 500u);
}

}  // namespace retention_loop_test
}  // namespace escapement::handler
