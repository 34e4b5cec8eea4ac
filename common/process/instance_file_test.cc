#include "common/process/instance_file.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement {
namespace instance_file_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class InstanceFileTest : public ::testing::Test {
 protected:
  const std::string path_ = (std::filesystem::path(::testing::TempDir()) /
                             ::testing::UnitTest::GetInstance()->current_test_info()->name())
                                .string();
};

TEST_F(InstanceFileTest, TheLastOwnersAreDeadOnceTheirLockIsFree) {
  EXPECT_THAT((*InstanceFile::Lock(path_, "a", "boot"))->dead_instances(), IsEmpty());
  EXPECT_THAT((*InstanceFile::Lock(path_, "b", "boot"))->dead_instances(), ElementsAre("a"));
  EXPECT_THAT((*InstanceFile::Lock(path_, "c", "boot"))->dead_instances(), ElementsAre("b", "a"));
}

TEST_F(InstanceFileTest, ALivingOwnerKeepsTheFile) {
  const auto owner = InstanceFile::Lock(path_, "a", "boot");
  ASSERT_TRUE(owner.ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(InstanceFile::Lock(path_, "b", "boot").status()));
}

TEST_F(InstanceFileTest, AKilledProcessIsDead) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto owner = InstanceFile::Lock(path_, "a", "boot");
    const char byte = owner.ok() ? 1 : 0;
    if (write(ready[1], &byte, 1) != 1) _exit(1);
    while (true) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(InstanceFile::Lock(path_, "b", "boot").status()));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  const auto successor = InstanceFile::Lock(path_, "b", "boot");
  ASSERT_TRUE(successor.ok()) << successor.status();
  EXPECT_THAT((*successor)->dead_instances(), ElementsAre("a"));
}

TEST_F(InstanceFileTest, AnotherBootOrMachineProvesNothing) {
  ASSERT_TRUE(InstanceFile::Lock(path_, "a", "boot").ok());
  EXPECT_THAT((*InstanceFile::Lock(path_, "b", "other boot"))->dead_instances(), IsEmpty());
  EXPECT_THAT((*InstanceFile::Lock(path_, "c", ""))->dead_instances(), IsEmpty());
  EXPECT_THAT((*InstanceFile::Lock(path_, "d", ""))->dead_instances(), IsEmpty());
}

TEST_F(InstanceFileTest, ACopyProvesNothing) {
  const auto owner = InstanceFile::Lock(path_, "a", "boot");
  ASSERT_TRUE(owner.ok());
  std::filesystem::copy_file(path_, path_ + ".copy");
  EXPECT_THAT((*InstanceFile::Lock(path_ + ".copy", "b", "boot"))->dead_instances(), IsEmpty());
}

TEST_F(InstanceFileTest, ATornFileProvesNothing) {
  ASSERT_TRUE(InstanceFile::Lock(path_, "a", "boot").ok());
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 1);
  EXPECT_THAT((*InstanceFile::Lock(path_, "b", "boot"))->dead_instances(), IsEmpty());
}

TEST_F(InstanceFileTest, AtMostSixteenAreRemembered) {
  for (int i = 0; i < 30; ++i)
    ASSERT_TRUE(InstanceFile::Lock(path_, "i" + std::to_string(i), "boot").ok());
  const auto last = InstanceFile::Lock(path_, "last", "boot");
  EXPECT_EQ((*last)->dead_instances().size(), 16u);
  EXPECT_EQ((*last)->dead_instances().front(), "i29");
}

TEST_F(InstanceFileTest, AMissingFolderIsMade) {
  EXPECT_TRUE(InstanceFile::Lock(path_ + "/new/file", "a", "boot").ok());
  EXPECT_TRUE(absl::IsUnavailable(InstanceFile::Lock("/proc/none/file", "a", "boot").status()));
}

}  // namespace instance_file_test
}  // namespace escapement
