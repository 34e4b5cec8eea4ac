// PgConnection: a connection to PostgreSQL that blocks, for start and tools.
//
// Threads: one at a time.

#ifndef COMMON_KV_LOG_PG_PG_CONNECTION_H_
#define COMMON_KV_LOG_PG_PG_CONNECTION_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

struct pg_conn;  // libpq's PGconn

namespace escapement::kv {

class PgConnection {
 public:
  // As MakePgConninfo.
  static absl::StatusOr<std::unique_ptr<PgConnection>> Open(const std::string& url,
                                                            const std::string& application_name);

  using Rows = std::vector<std::vector<std::string>>;  // NULL is ""
  // Runs statements as one transaction, and returns the rows of the last.
  absl::StatusOr<Rows> Query(const std::string& statements);

  // The process that the server has named for this connection; a pooler names another one.
  int BackendPid() const;

 private:
  explicit PgConnection(pg_conn* connection);
  const std::unique_ptr<pg_conn, void (*)(pg_conn*)> connection_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_LOG_PG_PG_CONNECTION_H_
