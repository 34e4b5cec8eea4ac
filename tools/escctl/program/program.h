// All commands of escctl, and how a command line is run.

#ifndef TOOLS_ESCCTL_PROGRAM_PROGRAM_H_
#define TOOLS_ESCCTL_PROGRAM_PROGRAM_H_

#include "tools/escctl/base/session.h"

namespace escapement::escctl {

void AddAllCommands(CLI::App& app, Session& session);

// Parses and runs the command line. Returns the exit code.
int RunProgram(int argc, char** argv);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_PROGRAM_PROGRAM_H_
