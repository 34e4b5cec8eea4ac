#include "common/kv/engine/store_clock.h"
#include "gtest/gtest.h"

namespace escapement::kv {
namespace clock_hold_test {

TEST(ClockHold, HasNoReasonForTenSeconds) {
  EXPECT_EQ(NotReadyReason({absl::ZeroDuration(), absl::ZeroDuration()}), "");
  EXPECT_EQ(NotReadyReason({absl::Seconds(10), absl::Hours(2)}), "");
}

TEST(ClockHold, SaysDurationAndDisagreement) {
  EXPECT_EQ(NotReadyReason({absl::Milliseconds(12'300), absl::Hours(2) + absl::Seconds(5)}),
            "clock: held for 12 s, wall clock 2 h ahead");
  EXPECT_EQ(NotReadyReason({absl::Seconds(11), absl::Hours(2) - absl::Microseconds(3)}),
            "clock: held for 11 s, wall clock 2 h ahead");
  EXPECT_EQ(NotReadyReason({absl::Minutes(3), -absl::Minutes(45)}),
            "clock: held for 3 min, wall clock 45 min behind");
  EXPECT_EQ(NotReadyReason({absl::Hours(50), absl::Seconds(90)}),
            "clock: held for 2 days, wall clock 90 s ahead");
}

}  // namespace clock_hold_test
}  // namespace escapement::kv
