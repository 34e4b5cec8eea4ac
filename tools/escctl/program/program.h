// All commands of escctl, and how a command line is run.

#ifndef TOOLS_ESCCTL_PROGRAM_PROGRAM_H_
#define TOOLS_ESCCTL_PROGRAM_PROGRAM_H_

#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/string_view.h"
#include "tools/escctl/base/session.h"

namespace escapement::escctl {

void AddAllCommands(CLI::App& app, Session& session);

// Parses and runs the command line. Returns the exit code.
int RunProgram(int argc, char** argv);

// The commands of escctl with their flags, as CLI11 knows them. Completion scripts and the manual
// are made from it, so they always agree with the program. Pure.

struct FlagNode {
  std::vector<std::string> names;  // "--output", "-o"; long names first
  bool takes_value = false;
  std::vector<std::string> choices;  // the values it takes, if only these
  bool takes_file = false;
  bool required = false;
  std::string default_value;
  std::string environment;  // variable that sets it, or ""
  std::string description;
};

struct ArgumentNode {
  std::string name;
  bool required = false;
  bool repeated = false;
  std::vector<std::string> choices;
  std::string description;
};

struct CommandNode {
  std::string name;
  std::string path;         // "schedule create"; "" for the program
  std::string summary;      // the first line of the description
  std::string description;  // all of it
  std::vector<std::string> examples;
  std::vector<FlagNode> flags;  // without hidden ones; flags of the program hold for every command
  std::vector<ArgumentNode> arguments;
  std::vector<CommandNode> commands;
};

CommandNode ReadCommandTree(const CLI::App& app);

// Calls `visit` for the node and everything below it, parents first.
void VisitCommands(const CommandNode& node, const std::function<void(const CommandNode&)>& visit);

// "schedule create", or "" for the program.
std::string PathOf(const CLI::App& app);

// Completion scripts for shells, made from the command tree. Pure.

std::string BashCompletion(const CommandNode& program);
std::string ZshCompletion(const CommandNode& program);
std::string FishCompletion(const CommandNode& program);

// Examples of each command: one to three, at the beginning of its --help and in the manual. Pure.

// `path` is "schedule create", or "" for the program. Empty for unknown commands.
std::vector<std::string> ExamplesOf(absl::string_view path);

// Help that begins with the examples.
std::shared_ptr<CLI::FormatterBase> NewHelpFormatter();

// The manual of escctl in troff, made from the command tree. Pure.

std::string ManPage(const CommandNode& program);

// `escctl completion` and `escctl man`.

void AddTreeCommands(CLI::App& app, Session& session);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_PROGRAM_PROGRAM_H_
