// The manual of escctl in troff, made from the command tree. Pure.

#ifndef TOOLS_ESCCTL_PROGRAM_MAN_PAGE_H_
#define TOOLS_ESCCTL_PROGRAM_MAN_PAGE_H_

#include <string>

#include "tools/escctl/program/command_tree.h"

namespace escapement::escctl {

std::string ManPage(const CommandNode& program);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_PROGRAM_MAN_PAGE_H_
