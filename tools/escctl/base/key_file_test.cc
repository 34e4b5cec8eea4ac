#include "tools/escctl/base/key_file.h"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::escctl {
namespace key_file_test {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kSecret(64, 'a');
const std::string kKey = absl::StrCat("esc_0123456789abcdef_", kSecret);

class KeyFileTest : public ::testing::Test {
 protected:
  KeyFileTest() {
    folder_ = ::testing::TempDir() + "/keys.XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    path_ = folder_ + "/key";
  }
  absl::Status ReadOf(const std::string& content) {
    std::ofstream(path_) << content;
    return ReadKeyFile(path_).status();
  }

  std::string folder_;
  std::string path_;
};

TEST_F(KeyFileTest, WrittenKeyIsReadAgainAndOnlyTheOwnerMayReadIt) {
  auto file = NewKeyFile::Create(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Write(kKey).ok());
  struct stat info = {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(*ReadKeyFile(path_), kKey);
}

TEST_F(KeyFileTest, ExistingFileIsNeverOverwritten) {
  std::ofstream(path_) << "mine";
  EXPECT_THAT(NewKeyFile::Create(path_).status().message(), HasSubstr("exists already"));
  std::string content;
  std::ifstream(path_) >> content;
  EXPECT_EQ(content, "mine");
  EXPECT_FALSE(NewKeyFile::Create(folder_ + "/none/key").ok());
}

TEST_F(KeyFileTest, FileWithoutAKeyIsRemoved) {
  { ASSERT_TRUE(NewKeyFile::Create(path_).ok()); }
  EXPECT_FALSE(std::ifstream(path_).is_open());
}

TEST_F(KeyFileTest, OnlyOneWordIsAKey) {
  EXPECT_TRUE(ReadOf(absl::StrCat("  ", kKey, "\n")).ok());
  EXPECT_THAT(ReadOf(" \n").message(), HasSubstr("is empty"));
  for (const std::string& content : {absl::StrCat(kKey, " ", kKey), absl::StrCat(kKey, "\n# mine"),
                                     std::string("\x01"), std::string(10'000, 'a')}) {
    EXPECT_THAT(ReadOf(content).message(), HasSubstr("must hold one API key")) << content;
    EXPECT_THAT(ReadOf(content).message(), Not(HasSubstr(kSecret)));
  }
  EXPECT_THAT(ReadKeyFile(folder_).status().message(), HasSubstr("cannot be read"));
  EXPECT_THAT(ReadKeyFile(folder_ + "/none").status().message(), HasSubstr("cannot be read"));
}

TEST_F(KeyFileTest, KeyInsteadOfAPathIsRefusedWithoutShowingIt) {
  for (const std::string& path : {kKey, absl::StrCat("/home/", kKey)}) {
    EXPECT_THAT(ReadKeyFile(path).status().message(), HasSubstr("not the key"));
    EXPECT_THAT(ReadKeyFile(path).status().message(), Not(HasSubstr(kSecret)));
    EXPECT_THAT(NewKeyFile::Create(path).status().message(), HasSubstr("not the key"));
  }
}

TEST_F(KeyFileTest, TextsAreShownWithoutSecrets) {
  EXPECT_EQ(WithoutKeys(absl::StrCat("a ", kKey, kKey, " esc_ b")),
            "a esc_0123456789abcdef_...esc_0123456789abcdef_... esc_ b");
  EXPECT_EQ(WithoutKeys("esc_0123456789abcdef"), "esc_0123456789abcdef");
  EXPECT_EQ(WithoutKeys(""), "");
}

}  // namespace key_file_test
}  // namespace escapement::escctl
