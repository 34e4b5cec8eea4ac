#include "common/base/proto_time.h"

#include <cstdint>
#include <optional>

#include "gtest/gtest.h"

namespace escapement {
namespace proto_time_test {

google::protobuf::Timestamp TimeOf(int64_t seconds, int32_t nanos) {
  google::protobuf::Timestamp time;
  time.set_seconds(seconds);
  time.set_nanos(nanos);
  return time;
}

TEST(ProtoTime, TimesAreRoundedUpToMicroseconds) {
  EXPECT_EQ(TimestampMicros(TimeOf(5, 0)), 5'000'000);
  EXPECT_EQ(TimestampMicros(TimeOf(5, 1)), 5'000'001);
  EXPECT_EQ(TimestampMicros(TimeOf(5, 1000)), 5'000'001);
  EXPECT_EQ(TimestampMicros(TimeOf(5, 999'999'001)), 6'000'000);
  EXPECT_EQ(TimestampMicros(TimeOf(-1, 1)), -999'999);
  EXPECT_EQ(TimestampMicros(TimeOf(5, -1)), std::nullopt);
  EXPECT_EQ(TimestampMicros(TimeOf(5, 1'000'000'000)), std::nullopt);
}

TEST(ProtoTime, TimesThatOthersFollowAreRoundedDown) {
  EXPECT_EQ(TimestampMicrosDown(TimeOf(5, 999)), 5'000'000);
  EXPECT_EQ(TimestampMicrosDown(TimeOf(-1, 1999)), -999'999);
  EXPECT_EQ(TimestampMicrosDown(TimeOf(int64_t{1} << 60, 0)), std::nullopt);
}

TEST(ProtoTime, DurationsAreExactUntilTheyAreStoredAndThenRoundedUp) {
  google::protobuf::Duration duration;
  duration.set_seconds(1);
  duration.set_nanos(1001);
  EXPECT_EQ(ToDuration(duration), absl::Seconds(1) + absl::Nanoseconds(1001));
  EXPECT_EQ(MicrosUp(*ToDuration(duration)), 1'000'002);
  EXPECT_EQ(MicrosUp(absl::Microseconds(7)), 7);
}

}  // namespace proto_time_test
}  // namespace escapement
