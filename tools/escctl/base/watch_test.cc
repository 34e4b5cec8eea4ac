#include "tools/escctl/base/watch.h"

#include "gtest/gtest.h"

namespace escapement::escctl {
namespace watch_test {

TEST(ChangesTest, FirstReadingIsAllNew) {
  Changes changes;
  const auto result = changes.Take({{"a", "1"}, {"b", "2"}});
  EXPECT_EQ(result.changed, (std::vector<size_t>{0, 1}));
  EXPECT_TRUE(result.gone.empty());
}

TEST(ChangesTest, LaterReadingsShowWhatDiffers) {
  Changes changes;
  changes.Take({{"a", "1"}, {"b", "2"}, {"c", "3"}});
  EXPECT_TRUE(changes.Take({{"a", "1"}, {"b", "2"}, {"c", "3"}}).changed.empty());
  const auto result = changes.Take({{"a", "1"}, {"bb", "2"}, {"c", "4"}});
  EXPECT_EQ(result.changed, (std::vector<size_t>{1, 2}));
  EXPECT_EQ(result.gone, std::vector<std::string>{"b"});
  // A name that comes back is new.
  EXPECT_EQ(changes.Take({{"b", "2"}}).changed, std::vector<size_t>{0});
}

}  // namespace watch_test
}  // namespace escapement::escctl
