#include "tests/integration/child_process.h"

#include <signal.h>

#include <fstream>
#include <iterator>

#include "gtest/gtest.h"

namespace escapement::integration {
namespace {

std::unique_ptr<ChildProcess> Shell(const std::string& script, const std::string& log = "") {
  auto child = ChildProcess::Start({.program = "/bin/sh",
                                    .arguments = {"-c", script},
                                    .environment = {"GIVEN=word"},
                                    .log = log});
  EXPECT_TRUE(child.ok()) << child.status();
  return *std::move(child);
}

TEST(ChildProcessTest, ReadsLinesAndTheExitCode) {
  auto child = Shell("echo noise; echo value $GIVEN; exit 3");
  EXPECT_EQ(*child->AwaitLine("value ", absl::Seconds(10)), "value word");
  EXPECT_EQ(child->AwaitLine("more", absl::Seconds(10)).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(*child->Wait(absl::Seconds(10)), 3);
}

TEST(ChildProcessTest, WritesLinesToItsStdin) {
  auto child = ChildProcess::Start(
      {.program = "/bin/sh", .arguments = {"-c", "read a; read b; echo got $b $a"}, .input = true});
  ASSERT_TRUE(child.ok()) << child.status();
  ASSERT_TRUE((*child)->WriteLine("one").ok());
  ASSERT_TRUE((*child)->WriteLine("two").ok());
  EXPECT_EQ(*(*child)->AwaitLine("got ", absl::Seconds(10)), "got two one");
  EXPECT_EQ(*(*child)->Wait(absl::Seconds(10)), 0);
  EXPECT_EQ((*child)->WriteLine("three").code(), absl::StatusCode::kUnavailable);
}

TEST(ChildProcessTest, WaitsNoLongerThanTold) {
  auto child = Shell("read line < /dev/zero");
  EXPECT_EQ(child->AwaitLine("x", absl::Milliseconds(5)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(child->Wait(absl::Milliseconds(5)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  child->Kill();
  EXPECT_EQ(*child->Wait(absl::Seconds(10)), 128 + SIGKILL);
}

TEST(ChildProcessTest, KeepsStderrInAFile) {
  const std::string log = ::testing::TempDir() + "/child.log";
  EXPECT_EQ(*Shell("echo words >&2", log)->Wait(absl::Seconds(10)), 0);
  std::ifstream in(log);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "words\n");
}

TEST(ChildProcessTest, AProgramThatIsNotThereEndsWith127) {
  auto child = ChildProcess::Start({.program = "/nonexistent/program"});
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(*(*child)->Wait(absl::Seconds(10)), 127);
}

}  // namespace
}  // namespace escapement::integration
