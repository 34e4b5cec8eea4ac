// `escctl config`: the contexts of the user.

#ifndef TOOLS_ESCCTL_COMMANDS_CONTEXT_COMMANDS_H_
#define TOOLS_ESCCTL_COMMANDS_CONTEXT_COMMANDS_H_

#include "tools/escctl/base/session.h"

namespace escapement::escctl {

void AddContextCommands(CLI::App& app, Session& session);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_COMMANDS_CONTEXT_COMMANDS_H_
