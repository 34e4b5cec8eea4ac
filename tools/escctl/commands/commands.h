// The commands of escctl. Each adds itself to `app`, and runs with the session once parsing has
// succeeded.

#ifndef TOOLS_ESCCTL_COMMANDS_COMMANDS_H_
#define TOOLS_ESCCTL_COMMANDS_COMMANDS_H_

#include "CLI/CLI.hpp"
#include "tools/escctl/base/session.h"

namespace escapement::escctl {

void AddScheduleCommands(CLI::App& app, Session& session);
void AddEventCommands(CLI::App& app, Session& session);
void AddRunCommands(CLI::App& app, Session& session);
// After AddRunCommands: also adds `run redrive`.
void AddDeadLetterCommands(CLI::App& app, Session& session);
void AddOperationCommands(CLI::App& app, Session& session);
void AddPolicyCommands(CLI::App& app, Session& session);
void AddCalendarCommands(CLI::App& app, Session& session);
void AddSubscriptionCommands(CLI::App& app, Session& session);
void AddTokenCommands(CLI::App& app, Session& session);
void AddTargetCommands(CLI::App& app, Session& session);
// `escctl statistics`: what happened in each minute.
void AddStatisticsCommand(CLI::App& app, Session& session);
void AddStoreCommands(CLI::App& app, Session& session);
// `escctl config`: the contexts of the user.
void AddContextCommands(CLI::App& app, Session& session);
// `escctl doctor`: what is wrong with an installation.
void AddDoctorCommand(CLI::App& app, Session& session);
// `escctl why`: why an event waits, and when a schedule fires next.
void AddWhyCommand(CLI::App& app, Session& session);
// `escctl top`: a live view.
void AddTopCommand(CLI::App& app, Session& session);

// The commands for tenants, cells, quotas, API keys and the audit, and the first key of an
// installation.

void AddTenantCommands(CLI::App& app, Session& session);
void AddCellCommands(CLI::App& app, Session& session);
void AddQuotaCommands(CLI::App& app, Session& session);
void AddKeyCommands(CLI::App& app, Session& session);
void AddAuditCommands(CLI::App& app, Session& session);
void AddAdminCommands(CLI::App& app, Session& session);

// escctl store snapshot …: backups of a store, as files.

// `store` is the command's group.
void AddSnapshotCommands(CLI::App& store, Session& session);

// `escctl schedule preview`, `escctl schedule backfill`, `escctl schedule account` and
// `escctl account`.

void AddPreviewCommand(CLI::App& group, Session& session);
void AddBackfillCommand(CLI::App& group, Session& session);
void AddAccountCommands(CLI::App& app, CLI::App& group, Session& session);
// `escctl forecast`: the load of the hours to come.
void AddForecastCommand(CLI::App& app, Session& session);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_COMMANDS_COMMANDS_H_
