#include "common/base/check.h"

#include <cstdint>
#include <memory>

#include "gtest/gtest.h"

namespace escapement {
namespace check_test {

TEST(Check, HoldsWithoutEvaluatingTheMessage) {
  int printed = 0;
  const auto message = [&printed] { return ++printed; };
  CHECK(true) << message();
  CHECK_EQ(2, 2) << message();
  EXPECT_EQ(printed, 0);
}

TEST(Check, StandsInAnIfWithoutBraces) {
  bool reached = false;
  if (reached)
    CHECK(true);
  else
    reached = true;
  EXPECT_TRUE(reached);
}

TEST(CheckDeathTest, PrintsPlaceConditionAndMessage) {
  const int held = 4;
  EXPECT_DEATH(CHECK(held < 4) << "policy " << 7,
               "common/base/check_test.cc:[0-9]+: check failed: held < 4 policy 7");
}

TEST(CheckDeathTest, PrintsBothSidesOfAComparison) {
  const int held = 4;
  EXPECT_DEATH(CHECK_LE(held, 3) << "limit", "4 against 3 limit");
}

TEST(CheckDeathTest, NullPointerAborts) {
  const std::unique_ptr<int> none;
  EXPECT_DEATH(CheckNotNull(none), "pointer != nullptr");
  EXPECT_EQ(*CheckNotNull(std::make_unique<int>(3)), 3);
}

TEST(CheckDeathTest, TakingMoreThanWasCountedAborts) {
  int64_t bytes = 5;
  TakeFrom<int64_t>(bytes, 5);
  EXPECT_EQ(bytes, 0);
  EXPECT_DEATH(TakeFrom<int64_t>(bytes, 1), "more is taken than was counted");
}

}  // namespace check_test
}  // namespace escapement
