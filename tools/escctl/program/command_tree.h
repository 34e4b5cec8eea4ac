// The commands of escctl with their flags, as CLI11 knows them. Completion scripts and the manual
// are made from it, so they always agree with the program. Pure.

#ifndef TOOLS_ESCCTL_PROGRAM_COMMAND_TREE_H_
#define TOOLS_ESCCTL_PROGRAM_COMMAND_TREE_H_

#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace escapement::escctl {

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

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_PROGRAM_COMMAND_TREE_H_
