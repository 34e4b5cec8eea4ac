#include "common/base/bounded_file.h"

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace escapement {
namespace bounded_file_test {

std::string Written(const std::string& text) {
  const std::string path = absl::StrCat(testing::TempDir(), "/bounded_file_test");
  std::ofstream(path) << text;
  return path;
}

TEST(BoundedFile, ReadsTheWholeFile) {
  EXPECT_EQ(*ReadBoundedFile(Written("a\nb"), 3), "a\nb");
  EXPECT_EQ(*ReadBoundedFile(Written(""), 3), "");
}

TEST(BoundedFile, RefusesALargerFileWithoutQuotingIt) {
  const absl::Status status = ReadBoundedFile(Written("hunter2"), 6).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_TRUE(absl::StrContains(status.message(), "bounded_file_test has more than 6 bytes"));
  EXPECT_FALSE(absl::StrContains(status.message(), "hunter"));
}

TEST(BoundedFile, NamesAFileThatIsMissingOrAFolder) {
  const absl::Status missing = ReadBoundedFile("/nonexistent/file", 6).status();
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_TRUE(absl::StrContains(missing.message(), "/nonexistent/file"));
  EXPECT_TRUE(absl::IsUnavailable(ReadBoundedFile(testing::TempDir(), 6).status()));
}

}  // namespace bounded_file_test
}  // namespace escapement
