#include "services/handler/target_health/target_use.h"

#include <algorithm>
#include <string>

#include "gtest/gtest.h"

namespace escapement::handler {
namespace target_use_test {

TEST(TargetUse, CountsTheAttemptsOfTheLastMinute) {
  const absl::Duration begin = absl::Seconds(100);
  TargetUse use(begin);
  // One attempt each second. Every fourth fails.
  for (int second = 0; second < 200; ++second) {
    const absl::Duration now = begin + absl::Seconds(second);
    use.OnSent(1, now);
    if (second % 4 == 0) {
      use.OnFailed("HTTP 503", now);
    } else {
      use.OnSucceeded(now);
    }
    const TargetUse::Counts counts = use.CountsAt(now);
    EXPECT_LE(counts.measured, absl::Minutes(1));
    EXPECT_GE(counts.measured, absl::Seconds(std::min(second, 30)));
    EXPECT_EQ(counts.attempts, absl::ToInt64Seconds(counts.measured) + 1u) << second;
    EXPECT_NEAR(counts.failures, counts.attempts / 4.0, 1) << second;
  }
  // Nothing is sent any more.
  const absl::Duration end = begin + absl::Seconds(199);
  EXPECT_EQ(use.last_used(), end);
  EXPECT_GT(use.CountsAt(end + absl::Seconds(25)).attempts, 0u);
  EXPECT_EQ(use.CountsAt(end + absl::Seconds(61)).attempts, 0u);
  EXPECT_EQ(use.CountsAt(end + absl::Seconds(61)).measured, absl::Minutes(1));
}

TEST(TargetUse, HalvesBeforeAPauseDoNotCount) {
  TargetUse use(absl::Seconds(1));
  use.OnSent(2, absl::Seconds(1));
  use.OnFailed("old", absl::Seconds(1));
  use.OnSucceeded(absl::Hours(1));
  EXPECT_EQ(use.CountsAt(absl::Hours(1)).attempts, 1u);
  EXPECT_EQ(use.CountsAt(absl::Hours(1)).failures, 0u);
  EXPECT_EQ(use.LastError(), "old");
  EXPECT_EQ(use.last_error_at(), absl::Seconds(1));
}

TEST(TargetUse, UnsentEventsAreNoAttempts) {
  TargetUse use(absl::Seconds(1));
  use.OnSent(3, absl::Seconds(1));
  EXPECT_EQ(use.in_flight(), 3u);
  use.OnUnsent();
  EXPECT_EQ(use.in_flight(), 2u);
  EXPECT_EQ(use.CountsAt(absl::Seconds(2)).attempts, 0u);
}

TEST(TargetUse, LastErrorIsCleanAndShort) {
  TargetUse use(absl::Seconds(1));
  use.OnSent(1, absl::Seconds(1));
  use.OnFailed("line\n\x1b[31m" + std::string(1000, 'x'), absl::Seconds(1));
  EXPECT_EQ(use.LastError(), "line  [31m" + std::string(246, 'x'));
}

}  // namespace target_use_test
}  // namespace escapement::handler
