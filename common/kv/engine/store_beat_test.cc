#include "common/kv/engine/store_beat.h"

#include "gtest/gtest.h"

namespace escapement::kv {
namespace store_beat_test {

constexpr absl::Duration kSecond = absl::Seconds(1);

absl::Time At(absl::Duration of_second) { return absl::FromUnixSeconds(1'800'000'000) + of_second; }

TEST(StoreBeat, BeatsAreHalfPastEachMultipleOfThePeriod) {
  EXPECT_EQ(UntilBeat(At(absl::ZeroDuration()), kSecond, kSecond), absl::Milliseconds(500));
  EXPECT_EQ(UntilBeat(At(absl::Milliseconds(499)), kSecond, kSecond), absl::Milliseconds(1));
  EXPECT_EQ(UntilBeat(At(absl::Milliseconds(501)), kSecond, kSecond), absl::Milliseconds(999));
  EXPECT_EQ(UntilBeat(At(absl::ZeroDuration()), 2 * kSecond, kSecond), kSecond);
}

TEST(StoreBeat, TheNextBeatIsAfterNow) {
  EXPECT_EQ(UntilBeat(At(absl::Milliseconds(500)), kSecond, kSecond), kSecond);
}

TEST(StoreBeat, SkipsABeatLessThanHalfAPeriodAfterTheLastWork) {
  const absl::Time early = At(absl::Milliseconds(499));  // a lower bound, read at the beat
  EXPECT_EQ(UntilBeat(early, kSecond, absl::ZeroDuration()), absl::Milliseconds(1001));
  EXPECT_EQ(UntilBeat(early, kSecond, absl::Milliseconds(498)), absl::Milliseconds(1001));
  EXPECT_EQ(UntilBeat(early, kSecond, absl::Milliseconds(499)), absl::Milliseconds(1));
}

TEST(StoreBeat, WaitsAPeriodWhileStoreTimeIsUnknown) {
  EXPECT_EQ(UntilBeat(absl::InfinitePast(), kSecond, kSecond), kSecond);
}

TEST(StoreBeat, TimesBeforeTheEpochHaveBeatsToo) {
  EXPECT_EQ(UntilBeat(absl::UnixEpoch() - absl::Milliseconds(600), kSecond, kSecond),
            absl::Milliseconds(100));
  EXPECT_EQ(UntilBeat(absl::UnixEpoch() - absl::Milliseconds(400), kSecond, kSecond),
            absl::Milliseconds(900));
}

}  // namespace store_beat_test
}  // namespace escapement::kv
