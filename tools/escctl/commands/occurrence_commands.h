// `escctl schedule preview` and `escctl schedule backfill`.

#ifndef TOOLS_ESCCTL_COMMANDS_OCCURRENCE_COMMANDS_H_
#define TOOLS_ESCCTL_COMMANDS_OCCURRENCE_COMMANDS_H_

#include "tools/escctl/base/session.h"

namespace escapement::escctl {

void AddPreviewCommand(CLI::App& group, Session& session);
void AddBackfillCommand(CLI::App& group, Session& session);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_COMMANDS_OCCURRENCE_COMMANDS_H_
