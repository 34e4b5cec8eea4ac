// The statements of PgLog. Each is prepared once for each connection. Parameters are named in the
// comments of pg_statements.cc.
//
// Threads: constants.

#ifndef COMMON_KV_LOG_PG_PG_STATEMENTS_H_
#define COMMON_KV_LOG_PG_PG_STATEMENTS_H_

#include "absl/types/span.h"
#include "common/kv/log/pg/pg_session.h"
#include "common/kv/log/pg/pg_values.h"
#include "common/kv/log/shared_log.h"

namespace escapement::kv::pg {

inline constexpr char kAppend[] = "append";
inline constexpr char kAppendDiagnose[] = "append_diagnose";
inline constexpr char kEndOthers[] = "end_others";
inline constexpr char kLeadCreate[] = "lead_create";
inline constexpr char kLeadFirstRow[] = "lead_first_row";
inline constexpr char kLeadLock[] = "lead_lock";
inline constexpr char kLeadRaise[] = "lead_raise";
inline constexpr char kState[] = "state";
// The answer of kState.
LogState StateOf(const PgRows& rows);
// For the connection that appends and leads.
absl::Span<const PgStatement> WriterStatements();

inline constexpr char kRead[] = "read";
inline constexpr char kMissingFiles[] = "missing_files";
inline constexpr char kAddFiles[] = "add_files";
inline constexpr char kPutPart[] = "put_part";
inline constexpr char kSnapshotBegin[] = "snapshot_begin";
inline constexpr char kSnapshotClear[] = "snapshot_clear";
inline constexpr char kSnapshotFiles[] = "snapshot_files";
inline constexpr char kSnapshotEnd[] = "snapshot_end";
inline constexpr char kSnapshotCheck[] = "snapshot_check";
inline constexpr char kListSnapshots[] = "list_snapshots";
inline constexpr char kReadPart[] = "read_part";
inline constexpr char kTrimSnapshots[] = "trim_snapshots";
inline constexpr char kTrimFiles[] = "trim_files";
inline constexpr char kTrimRows[] = "trim_rows";
inline constexpr char kPutReport[] = "put_report";
inline constexpr char kTrimReports[] = "trim_reports";
inline constexpr char kListReports[] = "list_reports";
// For the connection that does everything else. It has kState, too.
absl::Span<const PgStatement> WorkerStatements();

}  // namespace escapement::kv::pg

#endif  // COMMON_KV_LOG_PG_PG_STATEMENTS_H_
