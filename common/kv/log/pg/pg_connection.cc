#include "common/kv/log/pg/pg_connection.h"

#include <postgresql/libpq-fe.h>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/kv/log/pg/pg_conninfo.h"
#include "common/kv/log/pg/pg_errors.h"

namespace escapement::kv {

PgConnection::PgConnection(pg_conn* connection) : connection_(connection, &PQfinish) {
  // Notices would go to stderr.
  PQsetNoticeProcessor(
      connection, [](void*, const char*) {}, nullptr);
}

absl::StatusOr<std::unique_ptr<PgConnection>> PgConnection::Open(
    const std::string& url, const std::string& application_name) {
  const auto conninfo = MakePgConninfo(url, application_name);
  if (!conninfo.ok()) return conninfo.status();
  std::vector<const char*> keywords, values;
  for (const auto& [keyword, value] : *conninfo) {
    keywords.push_back(keyword.c_str());
    values.push_back(value.c_str());
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  std::unique_ptr<PgConnection> connection(
      new PgConnection(PQconnectdbParams(keywords.data(), values.data(), /*expand_dbname=*/0)));
  if (PQstatus(connection->connection_.get()) != CONNECTION_OK) {
    return absl::UnavailableError(absl::StrCat(
        "cannot connect to PostgreSQL: ", PgText(PQerrorMessage(connection->connection_.get()))));
  }
  return connection;
}

absl::StatusOr<PgConnection::Rows> PgConnection::Query(const std::string& statements) {
  PGresult* const result = PQexec(connection_.get(), statements.c_str());
  const absl::Cleanup clear = [result] { PQclear(result); };
  const ExecStatusType status = PQresultStatus(result);
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
    const absl::Status error =
        PgStatus(PgSqlState(result), PgText(PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY)));
    return error.ok() ? absl::UnavailableError(PgText(PQerrorMessage(connection_.get()))) : error;
  }
  Rows rows(static_cast<size_t>(PQntuples(result)));
  for (size_t row = 0; row < rows.size(); ++row) {
    for (int column = 0; column < PQnfields(result); ++column)
      rows[row].emplace_back(PQgetvalue(result, static_cast<int>(row), column));
  }
  return rows;
}

int PgConnection::BackendPid() const { return PQbackendPID(connection_.get()); }

}  // namespace escapement::kv
