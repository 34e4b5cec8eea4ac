#include "common/base/proto_time.h"
#include "common/cron/timetable.h"
#include "common/records/row_judge.h"
#include "common/storage/children_table.h"
#include "gtest/gtest.h"

namespace escapement {
namespace currency_test {

using storage::v1::DefinitionRecord;
using storage::v1::EventRecord;
using storage::v1::StateRecord;
using Action = RowVerdict::Action;

const absl::CivilSecond kCivil(2026, 11, 21, 3, 0, 0);

class CurrencyTest : public ::testing::Test {
 protected:
  CurrencyTest() {
    row_.set_version(1);
    row_.set_nominal_time_micros(ToMicros(absl::FromCivil(kCivil, absl::UTCTimeZone())));
    state_.set_kind(storage::v1::SCHEDULE_STATE_KIND_ENABLED);
    state_.set_version(1);
    current_.set_cron("0 3 * * *");
    current_.set_time_zone("UTC");
    current_.set_version(2);
  }
  RowVerdict Judge(const DefinitionRecord* current) {
    if (current == nullptr) return JudgeRow(row_, occurrence_, &state_, std::nullopt);
    const auto timetable = TimetableOf(*current);
    return JudgeRow(row_, occurrence_, &state_,
                    HasOccurrence(timetable.ok() ? &*timetable : nullptr, occurrence_,
                                  row_.nominal_time_micros(), FinishOf(state_)));
  }

  EventRecord row_;
  StateRecord state_;
  DefinitionRecord current_;
  std::string occurrence_ = cron::FormatCalendarOccurrence(kCivil, 0, "UTC");
};

TEST_F(CurrencyTest, ARowOfTheCurrentVersionIsSent) {
  EXPECT_EQ(Judge(nullptr).action, Action::kSend);
}

TEST_F(CurrencyTest, RowAtOrAfterItsOwnFinishIsSuperseded) {
  state_.set_finish_micros(row_.nominal_time_micros() + 1);
  EXPECT_EQ(Judge(nullptr).action, Action::kSend);
  state_.set_finish_micros(row_.nominal_time_micros());
  EXPECT_TRUE(Judge(nullptr).superseded());
  row_.set_triggered(true);
  EXPECT_EQ(Judge(nullptr).action, Action::kSend);
}

TEST_F(CurrencyTest, RowsOfPausedSchedulesArePark) {
  state_.set_kind(storage::v1::SCHEDULE_STATE_KIND_PAUSED);
  EXPECT_EQ(Judge(nullptr).action, Action::kPark);
}

TEST_F(CurrencyTest, RowTriggeredSinceThePauseBeganIsSent) {
  state_.set_kind(storage::v1::SCHEDULE_STATE_KIND_PAUSED);
  state_.set_pause_time_micros(1000);
  row_.set_triggered(true);
  for (const auto& [trigger_time, wanted] :
       {std::pair(0, Action::kPark), std::pair(1000, Action::kPark),
        std::pair(1001, Action::kSend)}) {
    row_.set_trigger_time_micros(trigger_time);
    EXPECT_EQ(Judge(nullptr).action, wanted) << trigger_time;
  }
}

TEST_F(CurrencyTest, RowsOfDeletedSchedulesAreSkipped) {
  state_.set_kind(storage::v1::SCHEDULE_STATE_KIND_DELETED);
  EXPECT_EQ(Judge(nullptr).reason, kScheduleDeleted);
  EXPECT_EQ(JudgeRow(row_, occurrence_, nullptr, std::nullopt).reason, kScheduleDeleted);
}

TEST_F(CurrencyTest, NewExpressionDecidesAfterAnUpdate) {
  state_.set_version(2);
  EXPECT_EQ(Judge(nullptr).action, Action::kFetch);
  EXPECT_EQ(Judge(&current_).action, Action::kSend);
  current_.set_cron("30 3 * * *");
  EXPECT_TRUE(Judge(&current_).superseded());
}

TEST_F(CurrencyTest, TheSameInstantUnderAnotherZoneIsAnotherOccurrence) {
  state_.set_version(2);
  current_.set_cron("0 * * * *");
  current_.set_time_zone("Europe/London");
  EXPECT_TRUE(Judge(&current_).superseded());
}

TEST_F(CurrencyTest, TriggeredRowsOutliveUpdates) {
  state_.set_version(2);
  row_.set_triggered(true);
  EXPECT_EQ(Judge(nullptr).action, Action::kSend);
}

TEST_F(CurrencyTest, OccurrenceAfterTheFinishIsSuperseded) {
  state_.set_version(2);
  state_.set_finish_micros(row_.nominal_time_micros() + 1);
  EXPECT_EQ(Judge(&current_).action, Action::kSend);
  state_.set_finish_micros(row_.nominal_time_micros());
  EXPECT_TRUE(Judge(&current_).superseded());
}

TEST_F(CurrencyTest, ATimetableThatCannotBeReadHasNoOccurrence) {
  state_.set_version(2);
  current_.set_time_zone("Mars/Base");
  EXPECT_TRUE(Judge(&current_).superseded());
}

TEST_F(CurrencyTest, OverlappedRunsAreCancelled) {
  state_.set_cancelled_before_micros(row_.nominal_time_micros());
  EXPECT_EQ(Judge(nullptr).action, Action::kSend);
  state_.set_cancelled_before_micros(row_.nominal_time_micros() + 1);
  EXPECT_EQ(Judge(nullptr).outcome, storage::v1::OUTCOME_KIND_CANCELLED);
  state_.set_kind(storage::v1::SCHEDULE_STATE_KIND_PAUSED);
  EXPECT_EQ(Judge(nullptr).outcome, storage::v1::OUTCOME_KIND_CANCELLED);
  state_.set_kind(storage::v1::SCHEDULE_STATE_KIND_DELETED);
  EXPECT_EQ(Judge(nullptr).reason, kScheduleDeleted);
}

TEST_F(CurrencyTest, TriggeredRunsAreNotCancelled) {
  state_.set_cancelled_before_micros(row_.nominal_time_micros() + 1);
  row_.set_triggered(true);
  EXPECT_EQ(Judge(nullptr).action, Action::kSend);
}

TEST_F(CurrencyTest, CancelRunCancelsTheRunItNamesAndNoOther) {
  state_.add_cancelled_runs()->set_occurrence("20261121T030001-0-UTC");
  EXPECT_EQ(Judge(nullptr).action, Action::kSend);
  EXPECT_EQ(CancelReason(row_, occurrence_, state_), std::nullopt);
  state_.add_cancelled_runs()->set_occurrence(occurrence_);
  for (const bool triggered : {false, true}) {
    row_.set_triggered(triggered);
    EXPECT_EQ(Judge(nullptr).outcome, storage::v1::OUTCOME_KIND_CANCELLED);
    EXPECT_EQ(CancelReason(row_, occurrence_, state_), kCancelledByUser);
  }
  state_.set_kind(storage::v1::SCHEDULE_STATE_KIND_PAUSED);
  EXPECT_EQ(Judge(nullptr).outcome, storage::v1::OUTCOME_KIND_CANCELLED);
}

}  // namespace currency_test
}  // namespace escapement
