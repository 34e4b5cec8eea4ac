#include "common/tzdata/tzdata_table.h"
#include "gtest/gtest.h"

namespace escapement::tzdata {
namespace revision_test {

TEST(RevisionTest, RevisionsSortByYearThenLettersThenRest) {
  const char* const ascending[] = {"2019z",   "2025b", "2026a",  "2026b",
                                   "2026b.1", "2026c", "2026aa", "2027a"};
  for (size_t i = 0; i < std::size(ascending); ++i) {
    for (size_t j = 0; j < std::size(ascending); ++j)
      EXPECT_EQ(Newer(ascending[i], ascending[j]), i > j) << ascending[i] << " " << ascending[j];
  }
}

TEST(RevisionTest, TextWithoutVersionIsNeitherNewerNorOlder) {
  for (const char* other : {"unknown-0123456789abcdef", "", "2026", "26b", "2026B", "x2026b"}) {
    EXPECT_FALSE(Newer(other, "2026b")) << other;
    EXPECT_FALSE(Newer("2026b", other)) << other;
    EXPECT_FALSE(Newer(other, other)) << other;
  }
}

}  // namespace revision_test
}  // namespace escapement::tzdata
