#include "common/storage/occurrence_rows.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "common/base/proto_time.h"
#include "common/storage/children_table.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "gtest/gtest.h"

namespace escapement {
namespace occurrence_rows_test {

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
                    kLayout, kNow, rows);
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

TEST(OccurrenceRowsTest, RowsAreSerializedMessages) {
  for (const bool triggered : {false, true}) {
    OccurrenceSource source = SourceOf(Definition(1));
    source.run_kept = triggered;
    std::vector<Mutation> rows;
    AddLaunchedRows(source,
                    {.id = "o", .nominal_time = kNow, .launch_time = kNow, .triggered = triggered},
                    kLayout, kNow + absl::Seconds(1), rows);
    storage::v1::EventRecord record;
    ASSERT_TRUE(record.ParseFromString(rows.back().value));
    EXPECT_EQ(record.SerializeAsString(), rows.back().value);
    EXPECT_EQ(record.tenant(), "default");
    EXPECT_EQ(record.nominal_time_micros(), ToMicros(kNow));
    EXPECT_EQ(record.launch_time_micros(), ToMicros(kNow));
    EXPECT_EQ(record.triggered(), triggered);
    EXPECT_EQ(record.run_kept(), triggered);
    EXPECT_EQ(record.trigger_time_micros(), triggered ? ToMicros(kNow + absl::Seconds(1)) : 0);
  }
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

TEST(OccurrenceRowsTest, RunOfSeveralEventsHasItsWindow) {
  const auto run_of = [](const OccurrenceSource& source, const EmittedOccurrence& occurrence) {
    std::vector<Mutation> rows;
    AddLaunchedRows(source, occurrence, kLayout, kNow, rows);
    storage::v1::RunRecord run;
    EXPECT_EQ(rows[0].cf, ColumnFamily::kRuns);
    EXPECT_TRUE(run.ParseFromString(rows[0].value));
    return run;
  };
  EmittedOccurrence occurrence{
      .id = "o", .nominal_time = kNow - absl::Seconds(5), .launch_time = kNow};
  OccurrenceSource source = SourceOf(Definition(9));
  source.run_kept = true;
  EXPECT_EQ(run_of(source, occurrence).window_close_micros(), 0);
  storage::v1::ThrottleRecord& throttle = source.throttle.emplace();
  throttle.set_policy_id("p");
  EXPECT_EQ(run_of(source, occurrence).window_close_micros(), 0);
  throttle.mutable_window()->set_duration_micros(60'000'000);
  EXPECT_EQ(run_of(source, occurrence).window_open_micros(), ToMicros(kNow));
  EXPECT_EQ(run_of(source, occurrence).window_close_micros(), ToMicros(kNow + absl::Minutes(1)));
  EXPECT_FALSE(run_of(source, occurrence).window_even());
  throttle.mutable_window()->set_even(true);
  EXPECT_TRUE(run_of(source, occurrence).window_even());
  occurrence.window_begin = kNow + absl::Seconds(7);  // an overlap policy held it up
  EXPECT_EQ(run_of(source, occurrence).window_close_micros(), ToMicros(kNow + absl::Seconds(67)));
  source.event_count = 1;
  EXPECT_EQ(run_of(source, occurrence).window_close_micros(), 0);
}

TEST(OccurrenceRowsTest, LateOccurrenceGoesToTheCatchUpLane) {
  EXPECT_EQ(DecodeEventKey(Rows(1, kNow - kCatchUpAfter)[0].key)->lane, 4);
  EXPECT_EQ(DecodeEventKey(Rows(1, kNow - kCatchUpAfter - absl::Microseconds(1))[0].key)->lane,
            kLaneCatchUp);
}

TEST(OccurrenceRowsTest, OccurrenceRowCountIsTheNumberOfRows) {
  for (uint64_t event_count : {1, 2, 7, 8, 9, 1'000'000}) {
    for (const bool throttled : {false, true}) {
      for (const bool run_kept : {false, true}) {
        OccurrenceSource source = SourceOf(Definition(event_count));
        if (throttled) source.throttle.emplace().set_policy_id("p");
        source.run_kept = run_kept;
        std::vector<Mutation> rows;
        AddOccurrenceRows(source, {.id = "o", .nominal_time = kNow, .launch_time = kNow}, kLayout,
                          kNow, rows);
        EXPECT_EQ(rows.size(), OccurrenceRowCount(source, kLayout)) << event_count << throttled;
      }
    }
  }
}

TEST(OccurrenceRowsTest, OverlapPolicyDelaysRowsToLaunchUnlessTriggered) {
  storage::v1::DefinitionRecord definition = Definition(3);
  definition.set_run_overlap(storage::v1::RUN_OVERLAP_KIND_BUFFER_ONE);
  const OccurrenceSource source = SourceOf(definition);
  EmittedOccurrence occurrence = {
      .id = "o", .nominal_time = kNow, .launch_time = kNow + absl::Seconds(2)};
  std::vector<Mutation> rows;
  AddOccurrenceRows(source, occurrence, kLayout, kNow, rows);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].cf, ColumnFamily::kCheckpoints);
  const auto key = DecodeLaunchKey(rows[0].key);
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(key->launch_time, occurrence.launch_time);
  EXPECT_EQ(key->uid, source.uid);
  storage::v1::LaunchRecord launch;
  ASSERT_TRUE(launch.ParseFromString(rows[0].value));
  EXPECT_EQ(FromMicros(launch.nominal_time_micros()), kNow);
  // The launch writes the rows that would have been written without an overlap policy.
  std::vector<Mutation> launched, wanted;
  AddLaunchedRows(SourceOf(source.uid, launch), occurrence, kLayout, kNow, launched);
  AddLaunchedRows(source, occurrence, kLayout, kNow, wanted);
  ASSERT_EQ(launched.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(launched[i].key, wanted[i].key);
    EXPECT_EQ(launched[i].value, wanted[i].value);
  }
  occurrence.triggered = true;
  rows.clear();
  AddOccurrenceRows(source, occurrence, kLayout, kNow, rows);
  EXPECT_EQ(rows.size(), wanted.size());
}

TEST(OccurrenceRowsTest, JitterMovesOnlyTheLaunch) {
  storage::v1::DefinitionRecord definition = Definition(1);
  definition.mutable_timing()->set_jitter_micros(30'000'000);
  const cron::Timetable timetable = TimetableOf(definition).value();
  const OccurrenceSource source = SourceOf(definition);
  absl::Duration least = absl::InfiniteDuration(), most = absl::ZeroDuration();
  for (const cron::Occurrence& o : timetable.Enumerate(kNow, kNow + absl::Hours(24 * 60), 180)) {
    const EmittedOccurrence emitted = ToEmitted(source, timetable, o);
    EXPECT_EQ(emitted.id, timetable.IdOf(o));
    EXPECT_EQ(emitted.nominal_time, o.instant);
    EXPECT_EQ(ToEmitted(source, timetable, o).launch_time, emitted.launch_time);
    least = std::min(least, emitted.launch_time - o.instant);
    most = std::max(most, emitted.launch_time - o.instant);
  }
  EXPECT_GE(least, absl::ZeroDuration());
  EXPECT_LT(least, absl::Seconds(3));
  EXPECT_LE(most, absl::Seconds(30));
  EXPECT_GT(most, absl::Seconds(27));
}

// For example a run that waited for another one, or that a backfill fired later: its window begins
// after its launch time.
TEST(OccurrenceRowsTest, AMovedRowKeepsTheBeginOfItsWindow) {
  constexpr absl::Duration kHour = absl::Hours(1);
  OccurrenceSource to = SourceOf(Definition(2));
  to.throttle.emplace().set_policy_id("q");
  to.throttle->mutable_window()->set_duration_micros(absl::ToInt64Microseconds(kHour));
  absl::Duration former_length = absl::Microseconds(1);
  const auto moved_begin = [&](std::optional<absl::Time> begin, absl::Time launched) {
    storage::v1::EventRecord row;
    row.set_count(2);
    row.set_run_count(2);
    row.set_launch_time_micros(ToMicros(launched));
    row.mutable_throttle()->set_policy_id("p");
    if (begin.has_value()) {
      row.mutable_throttle()->mutable_window()->set_duration_micros(
          absl::ToInt64Microseconds(former_length));
      row.mutable_throttle()->set_window_begin_micros(ToMicros(*begin));
    }
    std::vector<Mutation> rows;
    AddMovedRow(to, row, "o", /*first=*/0, launched, kLayout, kNow, rows);
    storage::v1::EventRecord moved;
    EXPECT_EQ(rows.size(), 1u);
    EXPECT_TRUE(moved.ParseFromString(rows.at(0).value));
    return FromMicros(moved.throttle().window_begin_micros());
  };
  const absl::Time yesterday = kNow - absl::Hours(24);
  for (const absl::Duration ago : {absl::ZeroDuration(), 2 * kHour, -kHour})
    EXPECT_EQ(moved_begin(kNow - ago, yesterday), kNow - ago);
  EXPECT_EQ(moved_begin(std::nullopt, kNow - kHour / 2), kNow - kHour / 2);
  EXPECT_EQ(moved_begin(std::nullopt, yesterday), kNow) << "one that is over ends nothing";
  former_length = 8 * kHour;
  EXPECT_EQ(moved_begin(kNow - kHour / 2, yesterday), kNow - kHour / 2);
  EXPECT_EQ(moved_begin(kNow - 4 * kHour, yesterday), kNow) << "its own is not over";
}

TEST(OccurrenceRowsTest, ASkippedOccurrenceIsARecordUnderItsFirstEvent) {
  const OccurrenceSource source = SourceOf(Definition(5));
  const EmittedOccurrence first = {
      .id = "o", .nominal_time = kNow, .launch_time = kNow + absl::Hours(24)};
  const Mutation one = SkippedOccurrence(source, first, "misfire", kLayout, kNow);
  EXPECT_EQ(one.cf, ColumnFamily::kDone);
  const auto key = DecodeDoneKey(one.key);
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(key->uid, source.uid);
  EXPECT_EQ(key->first, 0u);
  EXPECT_EQ(key->day, DoneDay(first.launch_time));
  EXPECT_EQ(key->shard, ShardOfEventId(RunIdentity("default", source.uid, "o").EventId(0),
                                       kLayout.queue_shards));
  storage::v1::DoneRecord done;
  ASSERT_TRUE(done.ParseFromString(one.value));
  EXPECT_EQ(done.outcome(), storage::v1::OUTCOME_KIND_SKIPPED);
  EXPECT_TRUE(done.run_skipped());
  EXPECT_EQ(done.count(), 5u);
  EXPECT_EQ(done.skipped_occurrences(), 0u);
  const Mutation many =
      SkippedOccurrences(source, first, 7, kNow + absl::Hours(6), "misfire", kLayout, kNow);
  EXPECT_EQ(many.key, one.key);
  ASSERT_TRUE(done.ParseFromString(many.value));
  EXPECT_EQ(done.skipped_occurrences(), 7u);
  EXPECT_EQ(FromMicros(done.last_nominal_time_micros()), kNow + absl::Hours(6));
}

TEST(ChildRowsTest, AnIntervalHasOneChildUnderItsNextInstant) {
  storage::v1::DefinitionRecord definition = Definition(1);
  definition.clear_cron();
  definition.mutable_timing()->mutable_interval()->set_every_micros(90'000'000);
  definition.mutable_timing()->mutable_interval()->set_anchor_micros(ToMicros(kNow));
  definition.mutable_timing()->set_max_runs(10);
  const cron::Timetable timetable = TimetableOf(definition, kNow + absl::Minutes(15)).value();
  std::vector<Mutation> put, remove;
  AddChildren(definition, timetable, kNow + absl::Seconds(1), kLayout, put);
  ASSERT_EQ(put.size(), 1u) << "nothing in in_use";
  const auto key = DecodeInstantChildKey(put[0].key);
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(key->instant, kNow + absl::Seconds(90));
  RemoveChildren(timetable, key->uid, kNow + absl::Seconds(80), kLayout, remove);
  ASSERT_EQ(remove.size(), 1u);
  EXPECT_EQ(remove[0].key, put[0].key);
  // The child has the end at which max_runs is used up, and the definition's zone.
  storage::v1::ChildRecord record;
  ASSERT_TRUE(record.ParseFromString(put[0].value));
  const auto of_child = TimetableOf(record, record.time_zone());
  ASSERT_TRUE(of_child.ok());
  EXPECT_EQ(of_child->spec().end, kNow + absl::Minutes(15));
  EXPECT_EQ(of_child->spec().zone.name(), "Asia/Kolkata");
  EXPECT_EQ(of_child->Enumerate(kNow, absl::InfiniteFuture(), 100).size(), 10u);
  put.clear();
  AddChildren(definition, timetable, kNow + absl::Minutes(15), kLayout, put);
  EXPECT_TRUE(put.empty()) << "it has none any more";
}

TEST(ChildRowsTest, ListHasOneChildForEachRemainingInstant) {
  storage::v1::DefinitionRecord definition = Definition(1);
  definition.clear_cron();
  for (int i = 0; i < 5; ++i)
    definition.mutable_timing()->add_times_micros(ToMicros(kNow + absl::Seconds(i)));
  const cron::Timetable timetable = TimetableOf(definition).value();
  std::vector<Mutation> put, remove;
  AddChildren(definition, timetable, kNow + absl::Seconds(2), kLayout, put);
  ASSERT_EQ(put.size(), 3u);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(DecodeInstantChildKey(put[i].key)->instant, kNow + absl::Seconds(2 + i));
  RemoveChildren(timetable, DecodeInstantChildKey(put[0].key)->uid, kNow + absl::Seconds(3),
                 kLayout, remove);
  ASSERT_EQ(remove.size(), 2u) << "the first has been emitted";
  EXPECT_EQ(remove[1].key, put[2].key);
}

TEST(ChildRowsTest, ChildrenReadBackAsTheirPlacesAndAreAllRemoved) {
  const auto timetable = TimetableOf(Definition(1));
  ASSERT_TRUE(timetable.ok()) << timetable.status();
  const Uid uid = Uid::FromHalves(1, 2);
  std::vector<Mutation> put, remove;
  AddChildren(Definition(1), *timetable, kNow, kLayout, put);
  RemoveChildren(*timetable, uid, kNow, kLayout, remove);
  ASSERT_EQ(put.size(), 3u + 1u + 1u);  // three hours of one LaunchExpression, its in_use key, and
                                        // the mark
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
  EXPECT_EQ(places, timetable->ChildPlaces());
  EXPECT_EQ(put[3].cf, ColumnFamily::kInUse);
  EXPECT_EQ(put[3].key, ExpressionPrefix(DecodeChildKey(put[0].key)->expression));
  EXPECT_EQ(put[4].key, InUseMarkKey(PartitionOf(uid, kLayout.partitions)));
  EXPECT_EQ(remove.size(), 3u);
}

TEST(ChildRowsTest, UnreadableDefinitionIsAnError) {
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

TEST(ActiveRunKeyTest, DiffersFromOtherCheckpoints) {
  EXPECT_FALSE(DecodeActiveRunKey(PlannedToKey(7)).has_value());
  EXPECT_FALSE(DecodeActiveRunKey(CursorKey(7)).has_value());
  const auto run = DecodeActiveRunKey(ActiveRunKey(7, Uid::FromHalves(3, 4), "x"));
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->partition, 7);
  EXPECT_EQ(run->occurrence, "x");
}

}  // namespace occurrence_rows_test
}  // namespace escapement
