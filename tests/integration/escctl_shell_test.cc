// The completion scripts of escctl in their shells, and its manual as man shows it. No server runs.

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/process/child_process.h"

namespace escapement::integration {
namespace escctl_shell_test {

using ::testing::HasSubstr;
using ::testing::Not;

struct Shown {
  int exit_code = -1;
  std::string out;
  std::string words;
};

// Runs a script of bash, with escctl on its PATH.
Shown Bash(const std::string& script) {
  static int runs = 0;
  const std::string log = absl::StrCat(::testing::TempDir(), "/bash", ++runs);
  const std::string folder = absl::StrCat(BuiltFolder(), "/tools/escctl");
  auto child = ChildProcess::Start(
      {.program = "/bin/bash",
       .arguments = {"-c", script},
       .environment = {absl::StrCat("PATH=", folder, ":/usr/bin:/bin"), "MANWIDTH=200"},
       .log = log});
  EXPECT_TRUE(child.ok()) << child.status();
  Shown shown;
  for (auto line = (*child)->AwaitLine("", absl::Seconds(30)); line.ok();
       line = (*child)->AwaitLine("", absl::Seconds(30))) {
    absl::StrAppend(&shown.out, *line, "\n");
  }
  shown.exit_code = *(*child)->Wait(absl::Seconds(30));
  std::ifstream in(log);
  shown.words = std::string(std::istreambuf_iterator<char>(in), {});
  return shown;
}

// Returns the words that bash offers for the last of these words.
std::string Complete(const std::string& words) {
  const Shown shown = Bash(
      absl::StrCat("set -u; source <(escctl completion bash); COMP_WORDS=(", words,
                   "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _escctl; echo \"${COMPREPLY[*]}\""));
  EXPECT_EQ(shown.words, "");
  return shown.out;
}

TEST(EscctlShellTest, BashCompletesCommands) {
  EXPECT_EQ(Complete("escctl sch"), "schedule\n");
  EXPECT_EQ(Complete("escctl schedule re"), "resume\n");
  EXPECT_EQ(Complete("escctl --server 127.0.0.1 : 7410 policy us"), "usage\n");
  EXPECT_EQ(Complete("escctl --context schedule config use"), "use-context\n");
  EXPECT_EQ(Complete("escctl completion z"), "zsh\n");
  EXPECT_EQ(Complete("escctl quota s"), "set\n");
  EXPECT_EQ(Complete("escctl tenant u"), "update\n");
  EXPECT_THAT(Complete("escctl ''"),
              HasSubstr("apply schedule account event run deadletter operation policy calendar "
                        "subscription token target"));
}

TEST(EscctlShellTest, BashCompletesFlagsAndTheirValues) {
  EXPECT_EQ(Complete("escctl schedule create x --time"), "--time-zone --timeout\n");
  EXPECT_EQ(Complete("escctl apply --dry"), "--dry-run\n");
  EXPECT_EQ(Complete("escctl schedule list -o y"), "yaml\n");
  EXPECT_EQ(Complete("escctl schedule list --output = j"), "json\n");
  EXPECT_EQ(Complete("escctl token complete t --outcome F"), "FAILED\n");
  // The command's own --output is a text.
  EXPECT_EQ(Complete("escctl token complete t --output j"), "\n");
  EXPECT_EQ(Complete("escctl apply -f /etc/os-rel"), "/etc/os-release\n");
  EXPECT_EQ(Complete("escctl --key-file /etc/os-rel"), "/etc/os-release\n");
  EXPECT_EQ(Complete("escctl key create --role E"), "EDITOR\n");
  EXPECT_EQ(Complete("escctl key create --key-file /etc/os-rel"), "/etc/os-release\n");
}

TEST(EscctlShellTest, OtherShellsReadTheirScripts) {
  for (const char* shell : {"zsh", "fish"}) {
    const Shown script = Bash(absl::StrCat("escctl completion ", shell));
    EXPECT_EQ(script.exit_code, 0);
    EXPECT_THAT(script.out, HasSubstr("time-zone"));
    EXPECT_THAT(script.out, HasSubstr("use-context"));
  }
  // zsh finds the script by its first line.
  const Shown read = Bash(
      "escctl completion zsh > $TEST_TMPDIR/_escctl && zsh -n $TEST_TMPDIR/_escctl && "
      "zsh -fc 'fpath=($TEST_TMPDIR $fpath); autoload -Uz compinit; "
      "compinit -u -d $TEST_TMPDIR/dump; print -r -- $_comps[escctl]'");
  EXPECT_EQ(read.out, "_escctl\n") << read.words;
  const Shown offered =
      Bash("fish -c 'escctl completion fish | source; complete -C \"escctl schedule pa\"'");
  EXPECT_THAT(offered.out, HasSubstr("pause")) << offered.words;
  EXPECT_EQ(Bash("escctl completion csh").exit_code, 2);
}

TEST(EscctlShellTest, ManShowsTheManual) {
  const Shown page = Bash("escctl man | groff -man -Tutf8 -ww | col -bx");
  EXPECT_EQ(page.words, "");
  for (const char* part :
       {"NAME", "SYNOPSIS", "COMMANDS", "escctl schedule create [id]", "--time-zone",
        "escctl key create", "ESCAPEMENT_SERVER", "ESCAPEMENT_KEY_FILE", "EXIT STATUS",
        "kind: ThrottlePolicy", "escctl apply -f schedules.yaml --prune -l team=a"}) {
    EXPECT_THAT(page.out, HasSubstr(part));
  }
  EXPECT_THAT(page.out, Not(HasSubstr("\\f")));
  // Needs the package man-db, which tools/setup does not install.
  if (Bash("command -v man >/dev/null").exit_code != 0) return;
  const Shown man = Bash("escctl man > $TEST_TMPDIR/escctl.1; man -l $TEST_TMPDIR/escctl.1 | cat");
  EXPECT_EQ(man.exit_code, 0) << man.words;
  EXPECT_THAT(man.out, HasSubstr("escctl schedule preview"));
}

TEST(EscctlShellTest, WrongUsageIsOneLine) {
  for (const char* command :
       {"escctl", "escctl fly", "escctl schedule", "escctl schedule list --limit x", "escctl apply",
        "escctl config set-context a", "escctl schedule list --fly"}) {
    const Shown shown = Bash(command);
    EXPECT_EQ(shown.exit_code, 2) << command;
    EXPECT_EQ(shown.out, "");
    EXPECT_EQ(shown.words.find('\n'), shown.words.size() - 1) << shown.words;
    EXPECT_THAT(shown.words, HasSubstr("--help\n"));
  }
  EXPECT_EQ(Bash("escctl policy usage p --limit 0").words,
            "escctl: --limit: Value 0 must be more than 0; see: escctl policy usage --help\n");
  EXPECT_THAT(Bash("escctl schedule list --limit x").words,
              HasSubstr("see: escctl schedule list --help"));
}

}  // namespace escctl_shell_test
}  // namespace escapement::integration
