#include "common/storage/occurrence_rows.h"

#include <set>
#include <vector>

#include "common/storage/child_rows.h"
#include "common/storage/children_table.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "gtest/gtest.h"

namespace escapement {
namespace {

using kv::ColumnFamily;
using kv::Mutation;

const absl::Time kNow = absl::FromUnixSeconds(1'772'323'200);
const kv::Layout kLayout{.partitions = 16, .queue_shards = 8};

storage::v1::DefinitionRecord Definition(uint64_t event_count) {
  storage::v1::DefinitionRecord definition;
  definition.set_tenant("default");
  definition.set_schedule_id("nightly");
  definition.set_uid(std::string(Uid::FromHalves(1, 2).bytes()));
  definition.set_version(3);
  definition.set_cron("0 3,6,9 * * *");
  definition.set_time_zone("Asia/Kolkata");
  definition.set_event_count(event_count);
  definition.set_priority(4);
  return definition;
}

std::vector<Mutation> Rows(uint64_t event_count, absl::Time launch_time) {
  std::vector<Mutation> rows;
  AddOccurrenceRows(SourceOf(Definition(event_count)),
                    {.id = "20260301T030000-0-Asia~Kolkata",
                     .nominal_time = launch_time,
                     .launch_time = launch_time},
                    kLayout, kNow, &rows);
  return rows;
}

TEST(OccurrenceRowsTest, OneEventIsOneRowInTheShardOfItsId) {
  const auto rows = Rows(1, kNow + absl::Seconds(3));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].cf, ColumnFamily::kEvents);
  const auto key = DecodeEventKey(rows[0].key);
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(key->lane, 4);
  EXPECT_EQ(key->due_time, kNow + absl::Seconds(3));
  const std::string id = RunIdentity("default", Uid::FromHalves(1, 2), key->occurrence).EventId(0);
  EXPECT_EQ(key->shard, ShardOfEventId(id, kLayout.queue_shards));
  storage::v1::EventRecord record;
  ASSERT_TRUE(record.ParseFromString(rows[0].value));
  EXPECT_EQ(record.version(), 3u);
  EXPECT_EQ(record.count(), 1u);
  EXPECT_EQ(record.run_count(), 1u);
  EXPECT_TRUE(record.payload().empty());
}

TEST(OccurrenceRowsTest, AMillionEventsAreARunAndOneSliceForEachShard) {
  const auto rows = Rows(1'000'000, kNow);
  ASSERT_EQ(rows.size(), 2u + kLayout.queue_shards);
  EXPECT_EQ(rows[0].cf, ColumnFamily::kRuns);
  const auto active = DecodeActiveRunKey(rows[1].key);
  ASSERT_TRUE(active.has_value());
  EXPECT_EQ(active->uid, Uid::FromHalves(1, 2));
  uint64_t next = 0;
  std::set<uint16_t> shards;
  for (size_t i = 2; i < rows.size(); ++i) {
    const auto key = DecodeEventKey(rows[i].key);
    storage::v1::EventRecord record;
    ASSERT_TRUE(key.has_value() && record.ParseFromString(rows[i].value));
    EXPECT_EQ(key->first, next);
    next += record.count();
    shards.insert(key->shard);
  }
  EXPECT_EQ(next, 1'000'000u);
  EXPECT_EQ(shards.size(), kLayout.queue_shards);
  EXPECT_EQ(Rows(3, kNow).size(), 2u + 3u) << "no row for a shard without events";
}

TEST(OccurrenceRowsTest, WhatIsLateGoesToTheCatchUpLane) {
  EXPECT_EQ(DecodeEventKey(Rows(1, kNow - kCatchUpAfter)[0].key)->lane, 4);
  EXPECT_EQ(DecodeEventKey(Rows(1, kNow - kCatchUpAfter - absl::Microseconds(1))[0].key)->lane,
            kLaneCatchUp);
}

TEST(OccurrenceRowsTest, TheirNumberIsKnownBeforehand) {
  for (uint64_t event_count : {1, 2, 7, 8, 9, 1'000'000}) {
    for (const bool throttled : {false, true}) {
      for (const bool run_kept : {false, true}) {
        OccurrenceSource source = SourceOf(Definition(event_count));
        if (throttled) source.throttle.emplace().set_policy_id("p");
        source.run_kept = run_kept;
        std::vector<Mutation> rows;
        AddOccurrenceRows(source, {.id = "o", .nominal_time = kNow, .launch_time = kNow}, kLayout,
                          kNow, &rows);
        EXPECT_EQ(rows.size(), OccurrenceRowCount(source, kLayout)) << event_count << throttled;
      }
    }
  }
}

TEST(ChildRowsTest, ChildrenAreReadBackAsTheirPlacesAndRemovedWhole) {
  const auto timetable = TimetableOf(Definition(1));
  ASSERT_TRUE(timetable.ok()) << timetable.status();
  const Uid uid = Uid::FromHalves(1, 2);
  std::vector<Mutation> put, remove;
  AddChildren(Definition(1), *timetable, kNow, kLayout, &put);
  RemoveChildren(*timetable, uid, kNow, kLayout, &remove);
  ASSERT_EQ(put.size(), 3u + 1u + 1u);  // three hours of one LaunchExpression, and the mark
  std::vector<cron::Place> places;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(put[i].key, remove[i].key);
    const auto key = DecodeChildKey(put[i].key);
    ASSERT_TRUE(key.has_value());
    EXPECT_EQ(key->uid, uid);
    EXPECT_EQ(key->expression.partition, PartitionOf(uid, kLayout.partitions));
    EXPECT_EQ(key->expression.zone, "Asia/Kolkata");
    places.push_back(PlaceOf(*key).value());
  }
  EXPECT_EQ(places, cron::ChildPlaces(*timetable->spec().cron));
  EXPECT_EQ(put[3].cf, ColumnFamily::kInUse);
  EXPECT_EQ(put[3].key, ExpressionPrefix(DecodeChildKey(put[0].key)->expression));
  EXPECT_EQ(put[4].key, InUseMarkKey(PartitionOf(uid, kLayout.partitions)));
  EXPECT_EQ(remove.size(), 3u);
}

TEST(ChildRowsTest, ADefinitionThatCannotBeReadIsAnErrorNotACrash) {
  storage::v1::DefinitionRecord definition = Definition(1);
  definition.set_time_zone("Mars/Olympus_Mons");
  EXPECT_FALSE(TimetableOf(definition).ok());
  definition.set_time_zone("");
  EXPECT_EQ(TimetableOf(definition)->spec().zone.name(), "UTC");
  definition.set_cron("61 * * * *");
  EXPECT_FALSE(TimetableOf(definition).ok());
}

TEST(EmissionCursorTest, ReadsWhatItWrote) {
  const EmissionCursor cursor{.window_end = kNow, .last_key = std::string("a\0b", 3)};
  EXPECT_EQ(DecodeCursor(EncodeCursor(cursor)), cursor);
  EXPECT_FALSE(DecodeCursor("short").has_value());
}

TEST(ActiveRunKeyTest, IsToldFromTheCheckpoints) {
  EXPECT_FALSE(DecodeActiveRunKey(PlannedToKey(7)).has_value());
  EXPECT_FALSE(DecodeActiveRunKey(CursorKey(7)).has_value());
  const auto run = DecodeActiveRunKey(ActiveRunKey(7, Uid::FromHalves(3, 4), "x"));
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->partition, 7);
  EXPECT_EQ(run->occurrence, "x");
}

}  // namespace
}  // namespace escapement
