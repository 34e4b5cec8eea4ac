#include "common/base/memory_file.h"

#include <memory>
#include <string>

#include "common/base/bounded_file.h"
#include "gtest/gtest.h"

namespace escapement {
namespace memory_file_test {

TEST(MemoryFile, PathHasTheLatestTextUntilTheFileEnds) {
  auto file = std::make_unique<MemoryFile>("a long text");
  const std::string path = file->path();
  EXPECT_EQ(*ReadBoundedFile(path, 100), "a long text");
  EXPECT_TRUE(file->Replace("short"));
  EXPECT_EQ(file->path(), path);
  EXPECT_EQ(*ReadBoundedFile(path, 100), "short");
  EXPECT_TRUE(file->Replace(""));
  EXPECT_EQ(*ReadBoundedFile(path, 100), "");
  file.reset();
  EXPECT_FALSE(ReadBoundedFile(path, 100).ok());
}

}  // namespace memory_file_test
}  // namespace escapement
