#include "gtest/gtest.h"
#include "services/token_manager/turns/fair_queue.h"

namespace escapement::token_manager {
namespace queued_slice_test {

absl::Time At(double seconds) {
  return absl::FromUnixSeconds(1'800'000'000) + absl::Seconds(seconds);
}

TEST(PacingTest, SpreadsAndKnowsTheReverse) {
  const Pacing pacing{.begin = At(0), .duration = absl::Seconds(10), .first = 100, .count = 7};
  EXPECT_EQ(pacing.At(0), At(0));
  EXPECT_EQ(pacing.At(100), At(0));
  EXPECT_EQ(pacing.At(101), At(0) + absl::Microseconds(1'428'572));
  EXPECT_EQ(pacing.At(106), At(0) + absl::Microseconds(8'571'429));
  EXPECT_EQ(pacing.At(5000), At(10));
  EXPECT_EQ(pacing.EndAt(At(0) - absl::Nanoseconds(1)), 0u);
  EXPECT_EQ(pacing.EndAt(At(10)), ~uint64_t{0});
  for (uint64_t i = 100; i < 107; ++i) {
    EXPECT_EQ(pacing.EndAt(pacing.At(i)), i + 1);
    EXPECT_LE(pacing.EndAt(pacing.At(i) - absl::Nanoseconds(1)), i);
  }
  const Pacing large{.begin = At(0), .duration = absl::Hours(24 * 365), .count = 1'000'000'000'000};
  for (uint64_t i : {uint64_t{1}, uint64_t{999'999'999'999}, uint64_t{123'456'789'012}})
    EXPECT_GT(large.EndAt(large.At(i)), i);
  EXPECT_EQ(Pacing().EndAt(At(0)), ~uint64_t{0});
}

}  // namespace queued_slice_test
}  // namespace escapement::token_manager
