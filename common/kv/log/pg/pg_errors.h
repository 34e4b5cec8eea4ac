// Errors of libpq and PostgreSQL as statuses.
//
// Threads: pure functions.

#ifndef COMMON_KV_LOG_PG_PG_ERRORS_H_
#define COMMON_KV_LOG_PG_PG_ERRORS_H_

#include <string>

#include "absl/status/status.h"

struct pg_result;  // libpq's PGresult

namespace escapement::kv {

// Codes of PostgreSQL (appendix A of its manual) that callers tell apart.
inline constexpr char kPgLockTimeout[] = "55P03";
inline constexpr char kPgForeignKey[] = "23503";
inline constexpr char kPgDuplicateKey[] = "23505";

// libpq's message without its end of line; "" for null.
std::string PgText(const char* message);

std::string PgSqlState(const pg_result* result);

// FAILED_PRECONDITION for a table that does not exist and for missing rights, RESOURCE_EXHAUSTED
// for no room, UNAVAILABLE for anything else. OK if `sqlstate` and `message` are empty.
absl::Status PgStatus(const std::string& sqlstate, const std::string& message);

}  // namespace escapement::kv

#endif  // COMMON_KV_LOG_PG_PG_ERRORS_H_
