#include "common/kv/log/pg/pg_errors.h"

#include <postgresql/libpq-fe.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace escapement::kv {

std::string PgText(const char* message) {
  return std::string(absl::StripAsciiWhitespace(message == nullptr ? "" : message));
}

std::string PgSqlState(const pg_result* result) {
  return PgText(PQresultErrorField(result, PG_DIAG_SQLSTATE));
}

absl::Status PgStatus(const std::string& sqlstate, const std::string& message) {
  if (sqlstate.empty() && message.empty()) return absl::OkStatus();
  const std::string text = absl::StrCat("PostgreSQL: ", message, " (", sqlstate, ")");
  if (sqlstate == "3F000" || sqlstate == "42P01" || sqlstate == "42703") {
    return absl::FailedPreconditionError(
        absl::StrCat(text, "; the schema is not that of this version"));
  }
  if (sqlstate == "42501") return absl::FailedPreconditionError(text);  // insufficient privilege
  if (absl::StartsWith(sqlstate, "53")) return absl::ResourceExhaustedError(text);
  return absl::UnavailableError(text);
}

}  // namespace escapement::kv
