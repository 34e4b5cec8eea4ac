#include "common/cron/cron_expression.h"
#include "common/records/row_judge.h"
#include "gtest/gtest.h"

namespace escapement {
namespace retry_end_test {

constexpr int64_t kHour = 1'798'761'600;  // a whole hour

class RetryEndTest : public testing::Test {
 protected:
  RetryEndTest() {
    row_.set_version(1);
    row_.set_attempts(1);
    At(kHour, kHour);
  }

  void At(int64_t nominal, int64_t launch) {
    row_.set_nominal_time_micros(nominal * 1'000'000);
    row_.set_launch_time_micros(launch * 1'000'000);
  }
  void Window(int64_t begin) {
    row_.mutable_throttle()->mutable_window()->set_duration_micros(60'000'000);
    row_.mutable_throttle()->set_window_begin_micros(begin * 1'000'000);
  }
  std::optional<absl::Time> End() const { return RetryEnd(row_, definition_, &hourly_, &state_); }
  static absl::Time Second(int64_t seconds) { return absl::FromUnixSeconds(seconds); }
  static cron::Timetable Hourly(absl::Time end) {
    cron::TimetableSpec spec;
    spec.cron = *cron::ParseCron("0 * * * *");
    spec.end = end;
    return cron::Timetable(std::move(spec));
  }

  storage::v1::EventRecord row_;
  storage::v1::DefinitionRecord definition_;
  CachedState state_{.bytes = "", .record = storage::v1::StateRecord()};
  const cron::Timetable hourly_ = Hourly(absl::InfiniteFuture());
};

TEST_F(RetryEndTest, RetriesEndAtTheOccurrenceAfterTheirOwn) {
  EXPECT_EQ(End(), Second(kHour + 3600));
  EXPECT_FALSE(RetryIsOver(row_, definition_, &hourly_, &state_,
                           Second(kHour + 3600) - absl::Microseconds(1)));
  EXPECT_TRUE(RetryIsOver(row_, definition_, &hourly_, &state_, Second(kHour + 3600)));
}

TEST_F(RetryEndTest, TheFirstAttemptIsNeverRefused) {
  row_.set_attempts(0);
  EXPECT_FALSE(RetryIsOver(row_, definition_, &hourly_, &state_, Second(kHour + 36'000)));
}

TEST_F(RetryEndTest, TheNominalTimeCountsAndNotTheLaunch) {
  At(kHour, kHour + 4000);
  EXPECT_EQ(End(), Second(kHour + 3600));
}

TEST_F(RetryEndTest, TriggeredOneOffAndKeptRetriesHaveNoEnd) {
  row_.set_triggered(true);
  EXPECT_EQ(End(), std::nullopt);
  row_.set_triggered(false);
  row_.set_version(0);
  EXPECT_EQ(End(), std::nullopt);
  row_.set_version(1);
  definition_.mutable_delivery()->mutable_retry()->set_keep(true);
  EXPECT_EQ(End(), std::nullopt);
  EXPECT_FALSE(RetryIsOver(row_, definition_, &hourly_, &state_, Second(kHour + 36'000)));
}

TEST_F(RetryEndTest, TheLastOccurrenceHasNoEnd) {
  const cron::Timetable ending = Hourly(Second(kHour + 3600));
  EXPECT_EQ(RetryEnd(row_, definition_, &ending, nullptr), std::nullopt);
  EXPECT_EQ(RetryEnd(row_, definition_, nullptr, nullptr), std::nullopt);
  EXPECT_EQ(RetryEnd(row_, definition_, &hourly_, nullptr), Second(kHour + 3600));
  state_.record->set_finish_micros((kHour + 3600) * 1'000'000 + 1);
  EXPECT_EQ(End(), Second(kHour + 3600));
  state_.record->set_finish_micros((kHour + 3600) * 1'000'000);
  EXPECT_EQ(End(), std::nullopt);
}

TEST_F(RetryEndTest, CarriedOverRowEndsAfterTheOccurrenceOfItsWindow) {
  Window(kHour);
  EXPECT_EQ(End(), Second(kHour + 3600));
  Window(kHour + 7200);
  EXPECT_EQ(End(), Second(kHour + 10'800));
  // If only jitter makes the window begin late, it is the occurrence's own window.
  At(kHour, kHour + 4000);
  Window(kHour + 4000);
  EXPECT_EQ(End(), Second(kHour + 3600));
}

TEST_F(RetryEndTest, TheAgeCountsFromTheFirstAttempt) {
  EXPECT_EQ(TriedSince(row_, Second(kHour + 5)), Second(kHour + 5));
  row_.set_tried_since_micros((kHour + 2) * 1'000'000);
  EXPECT_EQ(TriedSince(row_, Second(kHour + 5)), Second(kHour + 2));
}

TEST_F(RetryEndTest, RedriveBeginsANewRoundOfAttempts) {
  EXPECT_EQ(AttemptsOfRound(row_, 3), 3u);
  row_.set_attempts_before_redrive(4);
  EXPECT_EQ(AttemptsOfRound(row_, 4), 0u);
  EXPECT_EQ(AttemptsOfRound(row_, 5), 1u);
}

}  // namespace retry_end_test
}  // namespace escapement
