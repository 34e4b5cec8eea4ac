// The tables of PgLog, in the schema `escapement`, and their versions.
//
// Threads: pure data; MigratePgSchema blocks on IO.

#ifndef COMMON_KV_LOG_PG_PG_SCHEMA_H_
#define COMMON_KV_LOG_PG_PG_SCHEMA_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace escapement::kv {

// Statements that turn the schema of one version into that of the next. A released step never
// changes. Programs of the former version may run during and after the step.
using PgSchemaStep = const char*;
absl::Span<const PgSchemaStep> PgSchemaSteps();

// Brings the schema at `url` (pg_conninfo.h) to the version steps.size(), in one transaction, and
// returns the version that it had (0: no schema). Two processes may call it at once. Without the
// right to create a schema it succeeds if there is nothing to do. FAILED_PRECONDITION if the schema
// is newer than the steps, or the rights do not suffice; UNAVAILABLE without a connection.
absl::StatusOr<int> MigratePgSchema(const std::string& url, absl::Span<const PgSchemaStep> steps);

}  // namespace escapement::kv

#endif  // COMMON_KV_LOG_PG_PG_SCHEMA_H_
