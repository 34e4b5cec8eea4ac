// The commands for tenants, quotas, API keys and the audit, and the first key of an installation.

#ifndef TOOLS_ESCCTL_COMMANDS_ACCESS_COMMANDS_H_
#define TOOLS_ESCCTL_COMMANDS_ACCESS_COMMANDS_H_

#include "tools/escctl/base/session.h"

namespace escapement::escctl {

void AddTenantCommands(CLI::App& app, Session& session);
void AddQuotaCommands(CLI::App& app, Session& session);
void AddKeyCommands(CLI::App& app, Session& session);
void AddAuditCommands(CLI::App& app, Session& session);
void AddAdminCommands(CLI::App& app, Session& session);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_COMMANDS_ACCESS_COMMANDS_H_
