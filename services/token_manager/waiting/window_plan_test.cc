#include "absl/time/civil_time.h"
#include "common/base/proto_time.h"
#include "gtest/gtest.h"
#include "services/token_manager/waiting/policy_state.h"

namespace escapement::token_manager {
namespace window_plan_test {

using storage::v1::DefinitionRecord;
using storage::v1::EventRecord;

constexpr absl::Time kForever = absl::InfiniteFuture();

absl::Time Utc(int day, int hour, int minute = 0) {
  return absl::FromCivil(absl::CivilMinute(2026, 11, day, hour, minute), absl::UTCTimeZone());
}

// Daily at 01:00 UTC with a window of two hours.
DefinitionRecord Definition() {
  DefinitionRecord definition;
  definition.set_cron("0 1 * * *");
  storage::v1::WindowRecord& window = *definition.mutable_throttle()->mutable_window();
  window.set_duration_micros(absl::ToInt64Microseconds(absl::Hours(2)));
  window.set_even(true);
  window.set_on_close(storage::v1::ON_CLOSE_KIND_CARRY_OVER);
  return definition;
}

EventRecord Row(absl::Time begin) {
  EventRecord row;
  row.set_count(100);
  row.set_run_count(100);
  *row.mutable_throttle() = Definition().throttle();
  row.mutable_throttle()->set_window_begin_micros(ToMicros(begin));
  row.mutable_throttle()->set_pace_count(100);
  return row;
}

TEST(WindowPlanTest, PacesEvenWindowsOnly) {
  EventRecord row = Row(Utc(21, 1));
  row.mutable_throttle()->set_pace_first(10);
  const Pacing pacing = PacingOf(row);
  EXPECT_EQ(pacing.count, 100u);
  EXPECT_EQ(pacing.At(10), Utc(21, 1));
  EXPECT_EQ(pacing.At(60), Utc(21, 2));
  row.mutable_throttle()->mutable_window()->set_even(false);
  EXPECT_EQ(PacingOf(row).count, 0u);
  EXPECT_EQ(PacingOf(EventRecord()).count, 0u);
}

TEST(WindowPlanTest, ClosesAtItsEndAsItSays) {
  EventRecord row = Row(Utc(21, 1));
  EXPECT_EQ(OpensAt(row), Utc(21, 1));
  EXPECT_EQ(ClosesAt(row), Utc(21, 3));
  EXPECT_FALSE(Drops(row));
  row.mutable_throttle()->mutable_window()->set_on_close(storage::v1::ON_CLOSE_KIND_DROP);
  EXPECT_EQ(ClosesAt(row), Utc(21, 3));
  EXPECT_TRUE(Drops(row));
  row.mutable_throttle()->mutable_window()->set_on_close(storage::v1::ON_CLOSE_KIND_FINISH_LATE);
  EXPECT_EQ(ClosesAt(row), absl::InfiniteFuture());
  row.mutable_throttle()->clear_window();
  EXPECT_EQ(OpensAt(row), absl::InfinitePast());
  EXPECT_EQ(ClosesAt(row), absl::InfiniteFuture());
}

TEST(WindowPlanTest, CarriesOverToTheNextOccurrence) {
  EventRecord row = Row(Utc(21, 1));
  row.mutable_throttle()->set_taken(40);
  const auto carried = CarryOver(row, /*first=*/200, Definition(), kForever, Utc(21, 3));
  ASSERT_TRUE(carried.has_value());
  EXPECT_EQ(OpensAt(*carried), Utc(22, 1));
  EXPECT_EQ(ClosesAt(*carried), Utc(22, 3));
  // The 60 that are left are spread over it: two minutes each.
  const Pacing pacing = PacingOf(*carried);
  EXPECT_EQ(pacing.first, 240u);
  EXPECT_EQ(pacing.count, 60u);
  EXPECT_EQ(pacing.At(241), Utc(22, 1, 2));
  EXPECT_EQ(pacing.At(299), Utc(22, 2, 58));
  EXPECT_EQ(carried->count(), 100u);
  EXPECT_EQ(carried->throttle().taken(), 40u);
}

TEST(WindowPlanTest, ClosedWindowsAreLeapedOver) {
  EXPECT_EQ(OpensAt(*CarryOver(Row(Utc(1, 1)), 0, Definition(), kForever, Utc(21, 2))), Utc(21, 1));
  EXPECT_EQ(OpensAt(*CarryOver(Row(Utc(1, 1)), 0, Definition(), kForever, Utc(21, 3))), Utc(22, 1));
  EXPECT_EQ(OpensAt(*CarryOver(Row(Utc(1, 1)), 0, Definition(), kForever,
                               Utc(21, 3) - absl::Microseconds(1))),
            Utc(21, 1));
}

// The end that max_runs make.
TEST(WindowPlanTest, BeyondTheFinishThereIsNoOccurrence) {
  EXPECT_EQ(CarryOver(Row(Utc(21, 1)), 0, Definition(), Utc(22, 1), Utc(21, 3)), std::nullopt);
  const auto carried =
      CarryOver(Row(Utc(21, 1)), 0, Definition(), Utc(22, 1) + absl::Microseconds(1), Utc(21, 3));
  ASSERT_TRUE(carried.has_value());
  EXPECT_EQ(OpensAt(*carried), Utc(22, 1));
}

// Windows that are longer than the time between occurrences overlap.
TEST(WindowPlanTest, OverlappingWindowsAreTakenInTurn) {
  DefinitionRecord definition = Definition();
  definition.set_cron("0 * * * *");
  EXPECT_EQ(OpensAt(*CarryOver(Row(Utc(21, 1)), 0, definition, kForever, Utc(21, 3))), Utc(21, 2));
}

TEST(WindowPlanTest, TheZoneOfTheScheduleCounts) {
  DefinitionRecord definition = Definition();
  definition.set_time_zone("Asia/Kolkata");
  EXPECT_EQ(OpensAt(*CarryOver(Row(Utc(20, 19, 30)), 0, definition, kForever, Utc(20, 21, 30))),
            Utc(21, 19, 30));
}

TEST(WindowPlanTest, TheNextWindowHasTheFormOfTheCurrentDefinition) {
  DefinitionRecord definition = Definition();
  definition.mutable_throttle()->mutable_window()->set_even(false);
  definition.mutable_throttle()->mutable_window()->set_duration_micros(
      absl::ToInt64Microseconds(absl::Hours(5)));
  const auto carried = CarryOver(Row(Utc(21, 1)), 0, definition, kForever, Utc(21, 3));
  EXPECT_EQ(ClosesAt(*carried), Utc(22, 6));
  EXPECT_EQ(PacingOf(*carried).count, 0u);
}

TEST(WindowPlanTest, WithoutAnotherOccurrenceOrWindowItFinishesLate) {
  DefinitionRecord definition = Definition();
  definition.mutable_throttle()->clear_window();
  EXPECT_EQ(CarryOver(Row(Utc(21, 1)), 0, definition, kForever, Utc(21, 3)), std::nullopt);
  definition = Definition();
  definition.set_cron("0 0 30 2 *");
  EXPECT_EQ(CarryOver(Row(Utc(21, 1)), 0, definition, kForever, Utc(21, 3)), std::nullopt);
  definition.set_cron("broken");
  EXPECT_EQ(CarryOver(Row(Utc(21, 1)), 0, definition, kForever, Utc(21, 3)), std::nullopt);
  EXPECT_EQ(CarryOver(EventRecord(), 0, Definition(), kForever, Utc(21, 3)), std::nullopt);
}

}  // namespace window_plan_test
}  // namespace escapement::token_manager
