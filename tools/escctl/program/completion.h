// Completion scripts for shells, made from the command tree. Pure.

#ifndef TOOLS_ESCCTL_PROGRAM_COMPLETION_H_
#define TOOLS_ESCCTL_PROGRAM_COMPLETION_H_

#include <string>

#include "tools/escctl/program/command_tree.h"

namespace escapement::escctl {

std::string BashCompletion(const CommandNode& program);
std::string ZshCompletion(const CommandNode& program);
std::string FishCompletion(const CommandNode& program);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_PROGRAM_COMPLETION_H_
