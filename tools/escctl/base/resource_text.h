// Operations as rows of a table.

#ifndef TOOLS_ESCCTL_BASE_RESOURCE_TEXT_H_
#define TOOLS_ESCCTL_BASE_RESOURCE_TEXT_H_

#include <string>
#include <vector>

#include "escapement/v1/operation_service.pb.h"
#include "escapement/v1/resources.pb.h"
#include "escapement/v1/schedule_service.pb.h"
#include "tools/escctl/base/output.h"
#include "tools/escctl/base/session.h"

namespace escapement::escctl {

const Row& OperationHeader();
Row OperationRow(const v1::Operation& operation);
// In the session's format.
void PrintOperation(Session& session, const v1::Operation& operation);

// Texts about the times of schedules, for tables. Pure.

// A short form: the cron expression (also for cron fields), "every 90s", "3 times".
std::string WhenOf(const v1::Schedule& schedule);

Row PreviewHeader();
std::vector<Row> PreviewRows(const v1::PreviewScheduleResponse& preview);
// The lines beside the table: description, warnings, zone data.
std::vector<std::string> PreviewWords(const v1::PreviewScheduleResponse& preview);

// Tables of a forecast: its hours (UTC), its groups, its busiest minutes and the quiet ones. A
// table without rows is left out, but never that of the hours.
std::string ForecastTables(const v1::ForecastLoadResponse& forecast);
// The line beside the tables: how much there is in all.
std::string ForecastWords(const v1::ForecastLoadResponse& forecast);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_BASE_RESOURCE_TEXT_H_
