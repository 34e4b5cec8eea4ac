// escctl store snapshot …: backups of a store, as files.

#ifndef TOOLS_ESCCTL_COMMANDS_SNAPSHOT_COMMANDS_H_
#define TOOLS_ESCCTL_COMMANDS_SNAPSHOT_COMMANDS_H_

#include "CLI/CLI.hpp"
#include "tools/escctl/base/session.h"

namespace escapement::escctl {

// `store` is the command's group.
void AddSnapshotCommands(CLI::App& store, Session& session);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_COMMANDS_SNAPSHOT_COMMANDS_H_
