#include "common/kv/layout.h"

#include <string>

#include "absl/status/status.h"
#include "common/base/key_codec.h"
#include "gtest/gtest.h"

namespace escapement::kv {
namespace {

constexpr Layout kLayout = {.partitions = 4, .queue_shards = 5, .policy_shards = 6};

Layout OfCell(uint32_t cell) {
  Layout layout = kLayout;
  layout.cell = cell;
  return layout;
}

// Stores from before there were cells are those of cell 0.
TEST(LayoutTest, CellZeroHasThreeNumbersOnDisk) {
  const std::string bytes = EncodeLayout(kLayout);
  EXPECT_EQ(bytes, std::string("\0\0\0\4\0\0\0\5\0\0\0\6", 12));
  EXPECT_EQ(DecodeLayout(bytes).value(), kLayout);
}

TEST(LayoutTest, OtherCellsAreReadBack) {
  for (const uint32_t cell : {1u, kCellsMax - 1})
    EXPECT_EQ(DecodeLayout(EncodeLayout(OfCell(cell))).value(), OfCell(cell));
}

TEST(LayoutTest, ImpossibleNumbersAreRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(ValidateLayout(OfCell(kCellsMax))));
  EXPECT_TRUE(absl::IsInvalidArgument(ValidateLayout({.partitions = 0})));
  EXPECT_TRUE(absl::IsInvalidArgument(ValidateLayout({.queue_shards = kLayoutNumberMax + 1})));
  EXPECT_TRUE(absl::IsDataLoss(DecodeLayout(EncodeLayout(OfCell(kCellsMax))).status()));
  EXPECT_TRUE(absl::IsDataLoss(DecodeLayout(EncodeLayout(kLayout) + "\1").status()));
}

}  // namespace
}  // namespace escapement::kv
