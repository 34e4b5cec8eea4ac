// `escctl completion` and `escctl man`.

#ifndef TOOLS_ESCCTL_PROGRAM_TREE_COMMANDS_H_
#define TOOLS_ESCCTL_PROGRAM_TREE_COMMANDS_H_

#include "tools/escctl/base/session.h"

namespace escapement::escctl {

void AddTreeCommands(CLI::App& app, Session& session);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_PROGRAM_TREE_COMMANDS_H_
