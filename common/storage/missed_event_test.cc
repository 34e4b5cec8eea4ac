#include <string>

#include "common/base/proto_time.h"
#include "common/storage/event_table.h"
#include "gtest/gtest.h"

namespace escapement {
namespace missed_event_test {

const absl::Time kDue = absl::FromUnixSeconds(1'800'000'000);

storage::v1::EventRecord Row(absl::Duration max_lateness) {
  storage::v1::EventRecord row;
  row.set_nominal_time_micros(ToMicros(kDue));
  row.set_launch_time_micros(ToMicros(kDue + absl::Hours(1)));
  row.set_max_lateness_micros(absl::ToInt64Microseconds(max_lateness));
  return row;
}

TEST(MissedEventTest, EventIsMissedItsMaxLatenessAfterItsDueTime) {
  EXPECT_EQ(MissedAt(Row(absl::Hours(2))), kDue + absl::Hours(2));
  EXPECT_EQ(MissedAt(Row(absl::ZeroDuration())), absl::InfiniteFuture());
}

TEST(MissedEventTest, EventThatMayHaveBegunIsNeverMissed) {
  storage::v1::EventRecord row = Row(absl::Hours(2));
  row.set_attempts(1);
  EXPECT_EQ(MissedAt(row), absl::InfiniteFuture());
  row = Row(absl::Hours(2));
  row.set_redrives(1);
  EXPECT_EQ(MissedAt(row), absl::InfiniteFuture());
  row = Row(absl::Hours(2));
  row.set_lost_claims(1);
  EXPECT_EQ(MissedAt(row), absl::InfiniteFuture());
  row = Row(absl::Hours(2));
  row.set_maybe_sent(true);
  EXPECT_EQ(MissedAt(row), absl::InfiniteFuture());
}

TEST(MissedEventTest, ReasonSaysHowLateItWas) {
  const storage::v1::EventRecord row = Row(absl::Seconds(1));
  EXPECT_EQ(MissedBy(row, kDue + absl::Hours(49) + absl::Seconds(59)), "missed by 49h0m");
  EXPECT_EQ(MissedBy(row, kDue + absl::Minutes(61)), "missed by 1h1m");
  EXPECT_EQ(MissedBy(row, kDue + absl::Seconds(3599)), "missed by 59m59s");
  EXPECT_EQ(MissedBy(row, kDue + absl::Milliseconds(1500)), "missed by 0m1s");
}

}  // namespace missed_event_test
}  // namespace escapement
