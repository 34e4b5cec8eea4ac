#include "common/kv/log/pg/pg_connection.h"

#include <postgresql/libpq-fe.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/status_macros.h"
#include "common/kv/log/pg/pg_session.h"

namespace escapement::kv {

absl::StatusOr<std::unique_ptr<PgConnection>> PgConnection::Open(
    const std::string& url, const std::string& application_name) {
  ASSIGN_OR_RETURN(const auto conninfo, MakePgConninfo(url, application_name));
  ASSIGN_OR_RETURN(PgServer server, ConnectPg(conninfo));
  return std::unique_ptr<PgConnection>(new PgConnection(std::move(server.connection)));
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

namespace {

constexpr std::pair<const char*, const char*> kDefaults[] = {
    {"target_session_attrs", "read-write"},
    {"connect_timeout", "3"},       // seconds
    {"keepalives_idle", "3"},       // seconds
    {"keepalives_interval", "2"},   // seconds
    {"keepalives_count", "3"},      //
    {"tcp_user_timeout", "10000"},  // milliseconds
};

}  // namespace

absl::StatusOr<PgConninfo> MakePgConninfo(const std::string& url,
                                          const std::string& application_name) {
  char* error = nullptr;
  PQconninfoOption* const options = PQconninfoParse(url.c_str(), &error);
  if (options == nullptr) {
    // The message may repeat parts of the URL.
    PQfreemem(error);
    return absl::InvalidArgumentError("not a PostgreSQL URL, or it has an unknown option");
  }
  PgConninfo conninfo;
  for (const PQconninfoOption* option = options; option->keyword != nullptr; ++option) {
    if (option->val != nullptr) conninfo.emplace_back(option->keyword, option->val);
  }
  PQconninfoFree(options);
  // A service file may set any option, and our defaults would override it.
  const auto has = [&](absl::string_view keyword) {
    return std::any_of(conninfo.begin(), conninfo.end(),
                       [&](const auto& option) { return option.first == keyword; });
  };
  const bool by_service = has("service") || std::getenv("PGSERVICE") != nullptr;
  for (const auto& [keyword, value] : kDefaults) {
    if (by_service || has(keyword)) continue;
    // libpq's own variables are weaker than the URL and stronger than our defaults.
    if (keyword == absl::string_view("connect_timeout") && std::getenv("PGCONNECT_TIMEOUT"))
      continue;
    if (keyword == absl::string_view("target_session_attrs") && std::getenv("PGTARGETSESSIONATTRS"))
      continue;
    conninfo.emplace_back(keyword, value);
  }
  std::erase_if(conninfo, [](const auto& option) { return option.first == "application_name"; });
  conninfo.emplace_back("application_name", application_name);
  return conninfo;
}

namespace {

// Rows and parts of snapshots are stored as they come (EXTERNAL): they are compressed already, or
// not worth it.
constexpr PgSchemaStep kSteps[] = {R"(
CREATE TABLE escapement.log_stores (
  store text PRIMARY KEY,
  genesis bigint NOT NULL,
  epoch bigint NOT NULL,
  owner text NOT NULL,
  address text NOT NULL
);
CREATE TABLE escapement.log_rows (
  store text NOT NULL,
  seq bigint NOT NULL,
  epoch bigint NOT NULL,
  chain bigint NOT NULL,
  data bytea NOT NULL,
  PRIMARY KEY (store, seq)
);
ALTER TABLE escapement.log_rows ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE escapement.log_files (
  store text NOT NULL,
  hash bytea NOT NULL,
  PRIMARY KEY (store, hash)
);
CREATE TABLE escapement.log_file_parts (
  store text NOT NULL,
  hash bytea NOT NULL,
  part bigint NOT NULL,
  check_value bigint NOT NULL,
  data bytea NOT NULL,
  PRIMARY KEY (store, hash, part),
  FOREIGN KEY (store, hash) REFERENCES escapement.log_files ON DELETE CASCADE
);
ALTER TABLE escapement.log_file_parts ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE escapement.log_snapshots (
  store text NOT NULL,
  seq bigint NOT NULL,
  chain bigint NOT NULL,
  whole boolean NOT NULL,
  manifest bytea NOT NULL,
  PRIMARY KEY (store, seq)
);
CREATE TABLE escapement.log_snapshot_files (
  store text NOT NULL,
  seq bigint NOT NULL,
  hash bytea NOT NULL,
  PRIMARY KEY (store, seq, hash),
  FOREIGN KEY (store, seq) REFERENCES escapement.log_snapshots ON DELETE CASCADE,
  FOREIGN KEY (store, hash) REFERENCES escapement.log_files
);
CREATE INDEX log_snapshot_files_by_hash ON escapement.log_snapshot_files (store, hash);
)",
                                   R"(
CREATE TABLE escapement.log_reports (
  store text NOT NULL,
  replica text NOT NULL,
  put_at timestamptz NOT NULL,
  details bytea NOT NULL,
  PRIMARY KEY (store, replica)
))"};

// -1 if there is no schema.
absl::StatusOr<int> Version(PgConnection& connection) {
  ASSIGN_OR_RETURN(const auto exists,
                   connection.Query("SELECT to_regclass('escapement.log_version') IS NOT NULL"));
  if (exists.front().front() != "t") return -1;
  ASSIGN_OR_RETURN(const auto rows, connection.Query("SELECT version FROM escapement.log_version"));
  int version = -1;
  if (rows.size() != 1 || !absl::SimpleAtoi(rows.front().front(), &version))
    return absl::DataLossError("escapement.log_version does not have one row");
  return version;
}

absl::Status Newer(int version, size_t known) {
  return absl::FailedPreconditionError(
      absl::StrCat("the log's schema has version ", version, "; this program knows ", known));
}

}  // namespace

absl::Span<const PgSchemaStep> PgSchemaSteps() { return kSteps; }

absl::StatusOr<int> MigratePgSchema(const std::string& url, absl::Span<const PgSchemaStep> steps) {
  const int known = static_cast<int>(steps.size());
  // An attempt that fails ends with its connection, and so does its transaction.
  ASSIGN_OR_RETURN(auto connection, PgConnection::Open(url, "escapement-migration"));
  const auto run = [&](const std::string& sql) { return connection->Query(sql).status(); };
  ASSIGN_OR_RETURN(int version, Version(*connection));
  if (version > known) return Newer(version, steps.size());
  if (version == known) return version;
  // One program at a time. IF NOT EXISTS is no protection: two could both see that nothing is
  // there. The lock comes before the transaction, which then sees what its former holder has made.
  RETURN_IF_ERROR(run("SET lock_timeout = '10s'"));
  RETURN_IF_ERROR(run("SELECT pg_advisory_lock(hashtext('escapement.log_version'))"));
  RETURN_IF_ERROR(run("BEGIN"));
  ASSIGN_OR_RETURN(version, Version(*connection));
  if (version > known) return Newer(version, steps.size());
  if (version < 0) {
    // A role without the right to create schemas may use one that is there.
    ASSIGN_OR_RETURN(const auto schema,
                     connection->Query("SELECT to_regnamespace('escapement') IS NOT NULL"));
    if (schema.front().front() != "t") RETURN_IF_ERROR(run("CREATE SCHEMA escapement"));
    RETURN_IF_ERROR(run("CREATE TABLE escapement.log_version AS SELECT 0 AS version"));
    version = 0;
  }
  for (int step = version; step < known; ++step)
    RETURN_IF_ERROR(run(steps[static_cast<size_t>(step)]));
  RETURN_IF_ERROR(run(absl::StrCat("UPDATE escapement.log_version SET version = ", known)));
  RETURN_IF_ERROR(run("COMMIT"));
  return version;
}

absl::StatusOr<std::unique_ptr<PgConnection>> HoldReplicaName(const std::string& url,
                                                              const std::string& store,
                                                              const std::string& name) {
  ASSIGN_OR_RETURN(auto connection, PgConnection::Open(url, "escapement-name"));
  // The connection is idle for the life of the process. Old servers do not have the setting.
  RETURN_IF_ERROR(connection
                      ->Query("SELECT set_config(name, '0', false) FROM pg_settings "
                              "WHERE name = 'idle_session_timeout'")
                      .status());
  const std::string key =
      absl::StrCat("(hashtextextended('escapement replica ",
                   absl::StrReplaceAll(absl::StrCat(store, " ", name), {{"'", "''"}}), "', 0))");
  const std::string try_lock = absl::StrCat("SELECT pg_try_advisory_lock", key);
  ASSIGN_OR_RETURN(auto locked, connection->Query(try_lock));
  if (locked.front().front() != "t") {
    // The former process may just be ending. An error says that the time is over.
    connection->Query(absl::StrCat("SET lock_timeout = '3s'; SELECT pg_advisory_lock", key))
        .IgnoreError();
    ASSIGN_OR_RETURN(locked, connection->Query(try_lock));
  }
  if (locked.front().front() == "t") return connection;
  return absl::FailedPreconditionError(absl::StrCat("--store_id: another process with the name ",
                                                    name, " uses the log ", store,
                                                    ": give each replica a name of its own"));
}

}  // namespace escapement::kv
