#include "services/emitter/emission/emission_plan.h"

#include "common/base/proto_time.h"
#include "common/storage/children_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "gtest/gtest.h"
#include "services/emitter/base/options.h"

namespace escapement::emitter {
namespace emission_plan_test {

absl::Time At(int hour, int minute, int second) {
  // A Monday.
  return absl::FromCivil(absl::CivilSecond(2026, 3, 2, hour, minute, second), absl::UTCTimeZone());
}

storage::v1::DefinitionRecord Definition(const std::string& cron, const std::string& zone) {
  storage::v1::DefinitionRecord definition;
  definition.set_tenant("default");
  definition.set_schedule_id("s");
  definition.set_uid(std::string(Uid::FromHalves(1, 2).bytes()));
  definition.set_version(1);
  definition.set_cron(cron);
  definition.set_time_zone(zone);
  definition.set_event_count(1);
  return definition;
}

struct Indexed {
  std::vector<kv::Mutation> children;
  InUse in_use;
  uint16_t partition = 0;
};

Indexed Index(const storage::v1::DefinitionRecord& definition, absl::Time from) {
  Indexed indexed;
  std::vector<kv::Mutation> rows;
  AddChildren(definition, TimetableOf(definition).value(), from, kv::Layout(), rows);
  for (kv::Mutation& row : rows) {
    if (row.cf == kv::ColumnFamily::kInUse) {
      EXPECT_TRUE(AddInUse(row.key, indexed.in_use));
    }
    if (row.cf != kv::ColumnFamily::kChildren) continue;
    if (const auto key = DecodeChildKey(row.key)) indexed.partition = key->expression.partition;
    indexed.children.push_back(std::move(row));
  }
  return indexed;
}

size_t CountIn(const std::vector<KeyRange>& ranges, const Indexed& indexed) {
  size_t count = 0;
  for (const kv::Mutation& row : indexed.children) {
    for (const KeyRange& range : ranges) count += range.begin <= row.key && row.key < range.end;
  }
  return count;
}

TEST(EmissionPlanTest, PlansWholeSecondsAhead) {
  EXPECT_EQ(PlannedTo(At(3, 0, 0) + absl::Milliseconds(700), absl::Seconds(5)), At(3, 0, 5));
  EXPECT_EQ(PlannedTo(At(3, 0, 0), absl::Milliseconds(500)), At(3, 0, 0));
}

TEST(EmissionPlanTest, AWindowIsBoundedAndEndsAtThePlan) {
  EXPECT_EQ(WindowEnd(At(3, 0, 0), At(3, 0, 5)), At(3, 0, 5));
  EXPECT_EQ(WindowEnd(At(1, 0, 0), At(3, 0, 5)), At(1, 0, 0) + kWindowMax);
}

TEST(EmissionPlanTest, ReadsOnlyTheChildrenOfTheWindow) {
  const Indexed indexed = Index(Definition("0 3,6,9 * * *", "UTC"), At(0, 0, 0));
  EXPECT_EQ(
      CountIn(RangesToRead(indexed.partition, indexed.in_use, At(3, 0, 0), At(3, 0, 1)).ranges,
              indexed),
      1u);
  EXPECT_EQ(
      CountIn(RangesToRead(indexed.partition, indexed.in_use, At(3, 0, 1), At(3, 0, 2)).ranges,
              indexed),
      0u);
  EXPECT_EQ(
      CountIn(RangesToRead(indexed.partition, indexed.in_use, At(2, 0, 0), At(7, 0, 0)).ranges,
              indexed),
      2u);
  EXPECT_EQ(CountIn(RangesToRead(static_cast<uint16_t>(indexed.partition + 1), indexed.in_use,
                                 At(2, 0, 0), At(7, 0, 0))
                        .ranges,
                    indexed),
            0u);
}

TEST(EmissionPlanTest, RangesAscendAndGoOnAfterACursor) {
  const Indexed indexed = Index(Definition("*/20 1-8 13 * FRI", "Asia/Kolkata"), At(0, 0, 0));
  const auto ranges = RangesToRead(indexed.partition, indexed.in_use, At(0, 0, 0),
                                   At(12, 0, 0) + absl::Hours(24 * 20))
                          .ranges;
  ASSERT_GT(ranges.size(), 3u);
  for (size_t i = 1; i < ranges.size(); ++i) EXPECT_LE(ranges[i - 1].end, ranges[i].begin);
  const size_t all = CountIn(ranges, indexed);
  ASSERT_EQ(all, indexed.children.size());
  size_t left = all;
  for (const kv::Mutation& row : indexed.children)
    EXPECT_EQ(CountIn(After(ranges, row.key), indexed), --left);
}

TEST(EmissionPlanTest, AZoneThatIsNotKnownIsReported) {
  InUse in_use;
  in_use["Mars/Olympus_Mons"].insert(cron::LaunchExpression{});
  EXPECT_EQ(RangesToRead(0, in_use, At(0, 0, 0), At(1, 0, 0)).unknown_zones.size(), 1u);
  EXPECT_FALSE(AddInUse("x", in_use));
}

TEST(EmissionPlanTest, InstantsAreReadUpToTheEndOfTheWindow) {
  storage::v1::DefinitionRecord definition = Definition("", "UTC");
  for (const int second : {0, 5, 10})
    definition.mutable_timing()->add_times_micros(ToMicros(At(3, 0, second)));
  const Indexed indexed = Index(definition, At(0, 0, 0));
  ASSERT_EQ(indexed.children.size(), 3u);
  EXPECT_TRUE(indexed.in_use.empty());
  const auto read = [&](absl::Time begin, absl::Time end) {
    const uint16_t partition = DecodeInstantChildKey(indexed.children[0].key)->partition;
    return CountIn(RangesToRead(partition, indexed.in_use, begin, end).ranges, indexed);
  };
  EXPECT_EQ(read(At(2, 59, 59), At(3, 0, 0)), 0u);
  EXPECT_EQ(read(At(3, 0, 0), At(3, 0, 1)), 1u);
  EXPECT_EQ(read(At(3, 0, 7), At(3, 0, 11)), 3u) << "what was left behind, too";
}

TEST(EmissionPlanTest, OnlyTheCurrentVersionOfAnEnabledScheduleFires) {
  storage::v1::StateRecord state;
  state.set_version(2);
  state.set_kind(storage::v1::SCHEDULE_STATE_KIND_ENABLED);
  EXPECT_TRUE(Fires(2, state));
  state.set_version(3);
  EXPECT_FALSE(Fires(2, state));
  state.set_version(2);
  state.set_kind(storage::v1::SCHEDULE_STATE_KIND_PAUSED);
  EXPECT_FALSE(Fires(2, state));
}

}  // namespace emission_plan_test
}  // namespace escapement::emitter
