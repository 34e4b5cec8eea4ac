#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tools/escctl/apply/applier.h"

namespace escapement::escctl {
namespace line_diff_test {

std::string Diff(absl::string_view before, absl::string_view after) {
  return UnifiedDiff("a", before, "b", after);
}

TEST(LineDiffTest, SameTextsHaveNoDifference) {
  EXPECT_EQ(Diff("x\ny\n", "x\ny\n"), "");
  EXPECT_EQ(Diff("", ""), "");
}

TEST(LineDiffTest, ShowsChangesWithThreeLinesOfContext) {
  EXPECT_EQ(Diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n"),
            "--- a\n+++ b\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
}

TEST(LineDiffTest, NewAndRemovedTextsHaveOneSide) {
  EXPECT_EQ(Diff("", "x\ny\n"), "--- a\n+++ b\n@@ -0,0 +1,2 @@\n+x\n+y\n");
  EXPECT_EQ(Diff("x\n", ""), "--- a\n+++ b\n@@ -1 +0,0 @@\n-x\n");
}

TEST(LineDiffTest, DistantChangesHaveTheirOwnHunks) {
  std::string before;
  std::string after;
  for (int i = 1; i <= 20; ++i) {
    absl::StrAppend(&before, i, "\n");
    absl::StrAppend(&after, i == 2 || i == 19 ? "x" : absl::StrCat(i), "\n");
  }
  EXPECT_EQ(Diff(before, after),
            "--- a\n+++ b\n@@ -1,5 +1,5 @@\n 1\n-2\n+x\n 3\n 4\n 5\n"
            "@@ -16,5 +16,5 @@\n 16\n 17\n 18\n-19\n+x\n 20\n");
}

TEST(LineDiffTest, KeepsCommonLinesBetweenInsertions) {
  EXPECT_EQ(Diff("a\nb\nc\n", "x\na\nb\ny\nc\n"),
            "--- a\n+++ b\n@@ -1,3 +1,5 @@\n+x\n a\n b\n+y\n c\n");
}

TEST(LineDiffTest, VeryDifferentTextsAreOneReplacement) {
  std::string before;
  std::string after;
  for (int i = 0; i < 3000; ++i) {
    absl::StrAppend(&before, "a", i, "\n");
    absl::StrAppend(&after, "b", i, "\n");
  }
  const std::string diff = Diff(before, after);
  EXPECT_TRUE(absl::StartsWith(diff, "--- a\n+++ b\n@@ -1,3000 +1,3000 @@\n-a0\n-a1\n"));
}

}  // namespace line_diff_test
}  // namespace escapement::escctl
