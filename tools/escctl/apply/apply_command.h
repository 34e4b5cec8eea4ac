// `escctl apply`.

#ifndef TOOLS_ESCCTL_APPLY_APPLY_COMMAND_H_
#define TOOLS_ESCCTL_APPLY_APPLY_COMMAND_H_

#include "tools/escctl/base/session.h"

namespace escapement::escctl {

void AddApplyCommand(CLI::App& app, Session& session);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_APPLY_APPLY_COMMAND_H_
