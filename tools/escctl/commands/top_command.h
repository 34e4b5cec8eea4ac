// `escctl top`: a live view.

#ifndef TOOLS_ESCCTL_COMMANDS_TOP_COMMAND_H_
#define TOOLS_ESCCTL_COMMANDS_TOP_COMMAND_H_

#include "tools/escctl/base/session.h"

namespace escapement::escctl {

void AddTopCommand(CLI::App& app, Session& session);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_COMMANDS_TOP_COMMAND_H_
