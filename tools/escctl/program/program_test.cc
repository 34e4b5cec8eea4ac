// Rules that hold for every command of escctl.

#include "tools/escctl/program/program.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tools/escctl/doctor/testing/wrong_facts.h"

namespace escapement::escctl {
namespace program_test {

class ProgramTest : public ::testing::Test {
 protected:
  ProgramTest() {
    AddAllCommands(app_, session_);
    tree_ = ReadCommandTree(app_);
  }

  CLI::App app_;
  Session session_;
  CommandNode tree_;
};

TEST_F(ProgramTest, EveryCommandHasOneToThreeExamples) {
  VisitCommands(tree_, [](const CommandNode& command) {
    EXPECT_GE(command.examples.size(), 1u) << command.path;
    EXPECT_LE(command.examples.size(), 3u) << command.path;
    for (const std::string& example : command.examples)
      EXPECT_TRUE(absl::StrContains(example, absl::StrCat("escctl ", command.path))) << example;
  });
}

TEST_F(ProgramTest, ExamplesUseOnlyFlagsThatExist) {
  const auto flags_of = [](const CommandNode& command) {
    std::set<std::string> names;
    for (const FlagNode& flag : command.flags) names.insert(flag.names.begin(), flag.names.end());
    return names;
  };
  const std::set<std::string> everywhere = flags_of(tree_);
  VisitCommands(tree_, [&](const CommandNode& command) {
    if (!command.commands.empty()) return;  // its examples belong to the commands below it
    const std::set<std::string> own = flags_of(command);
    for (const std::string& example : command.examples) {
      // Behind a pipe or in quotes stands something else.
      const std::string ours = example.substr(0, example.find('|'));
      for (const std::string& word : std::vector<std::string>(absl::StrSplit(ours, ' '))) {
        if (word.size() < 2 || word[0] != '-') continue;
        EXPECT_TRUE(own.contains(word) || everywhere.contains(word)) << example << ": " << word;
      }
    }
  });
}

TEST_F(ProgramTest, HelpOfEveryCommandBeginsWithItsExamples) {
  VisitCommands(tree_, [&](const CommandNode& command) {
    CLI::App* app = &app_;
    for (const auto name : absl::StrSplit(command.path, ' ', absl::SkipEmpty()))
      app = app->get_subcommand(std::string(name));
    EXPECT_TRUE(
        absl::StartsWith(app->help(), absl::StrCat("Examples:\n  ", command.examples.at(0), "\n")))
        << app->help();
  });
}

TEST_F(ProgramTest, EveryCommandAndFlagIsDescribed) {
  VisitCommands(tree_, [](const CommandNode& command) {
    EXPECT_NE(command.summary, "") << command.path;
    for (const FlagNode& flag : command.flags)
      EXPECT_NE(flag.description, "") << command.path << " " << flag.names.at(0);
    for (const ArgumentNode& argument : command.arguments)
      EXPECT_NE(argument.description, "") << command.path << " " << argument.name;
  });
}

// "" if the words after `escctl` are a command with flags that exist, otherwise the wrong word.
std::string WrongWordOf(const CommandNode& program, const std::vector<std::string>& words) {
  const CommandNode* node = &program;
  std::vector<FlagNode> flags = program.flags;
  size_t arguments = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i][0] == '-') {
      const auto flag = std::find_if(flags.begin(), flags.end(), [&](const FlagNode& known) {
        return std::find(known.names.begin(), known.names.end(), words[i]) != known.names.end();
      });
      if (flag == flags.end()) return words[i];
      if (flag->takes_value) ++i;
      continue;
    }
    const auto command = std::find_if(node->commands.begin(), node->commands.end(),
                                      [&](const auto& known) { return known.name == words[i]; });
    if (command != node->commands.end()) {
      node = &*command;
      flags.insert(flags.end(), node->flags.begin(), node->flags.end());
    } else if (++arguments > node->arguments.size()) {
      return words[i];
    }
  }
  return node->commands.empty() ? "" : node->path;
}

TEST_F(ProgramTest, CommandsThatTheDoctorNamesExist) {
  // Where the command ends and other words begin.
  const std::set<std::string> ends = {"shows", "names", "says", "does"};
  std::set<std::string> commands;
  for (const Facts& facts : testing::WrongFacts()) {
    for (const Finding& finding : Diagnose(facts)) {
      const size_t begin = finding.action.find("escctl ");
      if (begin == std::string::npos) continue;
      std::string command = finding.action.substr(begin + 7);
      command = command.substr(0, command.find_first_of(";,"));
      std::vector<std::string> words = absl::StrSplit(command, ' ', absl::SkipEmpty());
      words.erase(std::find_if(words.begin(), words.end(),
                               [&](const std::string& word) { return ends.contains(word); }),
                  words.end());
      EXPECT_EQ(WrongWordOf(tree_, words), "") << finding.action;
      commands.insert(command);
    }
  }
  EXPECT_GE(commands.size(), 10u);
  EXPECT_EQ(WrongWordOf(tree_, {"store", "stats"}), "stats");
  EXPECT_EQ(WrongWordOf(tree_, {"store", "status", "--all"}), "--all");
  EXPECT_EQ(WrongWordOf(tree_, {"store"}), "store");
}

}  // namespace program_test
}  // namespace escapement::escctl
