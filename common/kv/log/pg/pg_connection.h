// PgConnection: a connection to PostgreSQL that blocks, for start and tools.
//
// Threads: one at a time.

#ifndef COMMON_KV_LOG_PG_PG_CONNECTION_H_
#define COMMON_KV_LOG_PG_PG_CONNECTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

struct pg_conn;  // libpq's PGconn

namespace escapement::kv {

class PgConnection {
 public:
  // As MakePgConninfo and ConnectPg.
  static absl::StatusOr<std::unique_ptr<PgConnection>> Open(const std::string& url,
                                                            const std::string& application_name);

  using Rows = std::vector<std::vector<std::string>>;  // NULL is ""
  // Runs statements as one transaction, and returns the rows of the last.
  absl::StatusOr<Rows> Query(const std::string& statements);

  // The process that the server has named for this connection; a pooler names another one.
  int BackendPid() const;

 private:
  using Owned = std::unique_ptr<pg_conn, void (*)(pg_conn*)>;
  explicit PgConnection(Owned connection) : connection_(std::move(connection)) {}
  const Owned connection_;
};

// The options of a connection: what the operator's URL says, and our defaults for the rest.
//
// Threads: pure functions.

using PgConninfo = std::vector<std::pair<std::string, std::string>>;  // keyword, value

// `url` is a URL (postgresql://…) or a list of keyword=value, with any option of libpq; libpq's
// environment variables and files count, too. If it says nothing else: only a host that accepts
// writes is used (target_session_attrs), an attempt to connect takes at most 3 s, and a peer that
// is gone is noticed within 10 s. `application_name` is ours: it marks our connections for their
// successors. INVALID_ARGUMENT without the URL's text, which may have a password.
absl::StatusOr<PgConninfo> MakePgConninfo(const std::string& url,
                                          const std::string& application_name);

// Which of several servers is used.
//
// Threads: any; ConnectPg blocks on IO.

// One field, of 8 hexadecimal digits: the server's timeline, which grows with each promotion. "0"
// if the server takes no writes. Needs no rights.
inline constexpr char kPgTimelineQuery[] =
    "SELECT CASE WHEN pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' "
    "THEN '0' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END";

struct PgServer {
  std::unique_ptr<pg_conn, void (*)(pg_conn*)> connection;  // never null
  uint64_t timeline = 0;  // 0: takes no writes, or does not know the query above
  std::string place;      // host, address and port, to compare
};

// Tries all hosts at once, and all addresses of each name, and returns the one with the newest
// timeline; among equal ones the first. So one that is frozen or refuses is no obstacle, and a
// former primary that lives on is not used beside the promoted one. It waits for an answer as long
// as the option connect_timeout says (0: 10 s), but not for hosts that answer 0.5 s later than the
// first one. `except`: a place that is not tried. It ends early once the descriptor `stop` (-1:
// none) can be read. UNAVAILABLE without a server.
absl::StatusOr<PgServer> ConnectPg(const PgConninfo& conninfo, int stop = -1,
                                   const std::string& except = "");

// The tables of PgLog, in the schema `escapement`, and their versions.
//
// Threads: pure data; MigratePgSchema blocks on IO.

// Statements that turn the schema of one version into that of the next. A released step never
// changes. Programs of the former version may run during and after the step.
using PgSchemaStep = const char*;
absl::Span<const PgSchemaStep> PgSchemaSteps();

// Brings the schema at `url` to the version steps.size(), in one transaction, and
// returns the version that it had (0: no schema). Any number of processes may call it at once.
// Without the right to create a schema it succeeds if there is nothing to do. FAILED_PRECONDITION
// if the schema is newer than the steps, or the rights do not suffice; UNAVAILABLE without a
// connection.
absl::StatusOr<int> MigratePgSchema(const std::string& url, absl::Span<const PgSchemaStep> steps);

// Makes this process the only one of the log `store` with this name, as long as the connection
// lives: a second one waits up to 3 s for the first to end, and then gets FAILED_PRECONDITION.
// UNAVAILABLE without a connection. Blocks on IO.
absl::StatusOr<std::unique_ptr<PgConnection>> HoldReplicaName(const std::string& url,
                                                              const std::string& store,
                                                              const std::string& name);

}  // namespace escapement::kv

#endif  // COMMON_KV_LOG_PG_PG_CONNECTION_H_
