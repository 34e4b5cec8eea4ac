// Errors of libpq and PostgreSQL as statuses.
//
// Threads: pure functions.

#ifndef COMMON_KV_LOG_PG_PG_SESSION_H_
#define COMMON_KV_LOG_PG_PG_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/backoff/backoff.h"
#include "common/kv/log/pg/pg_connection.h"
#include "common/kv/log/pg/pg_values.h"
#include "common/runtime/runtime.h"

struct pg_result;  // libpq's PGresult

namespace escapement::kv {

// Codes of PostgreSQL (appendix A of its manual) that callers tell apart.
inline constexpr char kPgLockTimeout[] = "55P03";
inline constexpr char kPgForeignKey[] = "23503";
inline constexpr char kPgDuplicateKey[] = "23505";
inline constexpr char kPgReadOnly[] = "25006";

// libpq's message without its end of line; "" for null.
std::string PgText(const char* message);

std::string PgSqlState(const pg_result* result);

// FAILED_PRECONDITION for a table that does not exist and for missing rights, RESOURCE_EXHAUSTED
// for no room, UNAVAILABLE for anything else. OK if `sqlstate` and `message` are empty.
absl::Status PgStatus(const std::string& sqlstate, const std::string& message);

// PgSession: transactions on one connection to PostgreSQL, in order and pipelined. It connects when
// there is work, and again after each failure, with backoff. A server that has become read-only is
// left, and one that lives on while another one was promoted in its place: the next connection
// looks for the one that accepts writes (ConnectPg).
//
// Threads: any thread may call Run. Callbacks run in the order of Run on the session's thread, or
// in the destructor; they must not destroy the session. A second thread looks at the other hosts.

// Prepared on each new connection.
struct PgStatement {
  const char* name;
  const char* sql;
};

struct PgStep {
  const char* statement;  // a name, or SQL if it is not prepared
  std::vector<PgValue> values = {};
  bool prepared = true;
};

// How a transaction ended.
struct PgAnswer {
  enum class Kind : uint8_t {
    kCommitted,
    kRefused,     // an error of the server; nothing has happened
    kNotStarted,  // nothing was sent
    kUnknown,     // the connection ended before the server has said either
    // Committed here, but the server stopped waiting for its standbys: the transaction may be lost
    // together with this server.
    kUnproven,
  };
  Kind kind = Kind::kUnknown;
  std::vector<PgRows> rows = {};  // one for each step; only if committed or unproven
  std::string sqlstate = {};      // the error's; only for kRefused
  absl::Status why = {};          // not OK unless committed
};

class PgSession {
 public:
  struct Options {
    PgConninfo conninfo;
    std::string thread_name;                   // at most 15 bytes
    absl::Span<const PgStatement> statements;  // must outlive the session
    // Called on the session's thread before it connects, until it has succeeded once. It may block.
    std::function<absl::Status()> before_connect = nullptr;
    // Run on each new connection, before the statements are prepared.
    std::vector<std::string> setup = {};
    // The connection counts as lost if the server neither takes nor sends a byte for so long while
    // it owes an answer.
    absl::Duration silence_max = absl::Seconds(10);
    // How often other hosts are asked whether one was promoted, and a server that has nothing to do
    // whether it still accepts writes.
    absl::Duration hosts_asked_every = absl::Seconds(5);
    BackoffPolicy reconnect = {absl::Milliseconds(20), absl::Seconds(1), 2};
    size_t in_flight_max = 64;  // transactions sent and not answered
    // Bytes of transactions that wait or are in flight; more are not started.
    size_t bytes_max = 256 << 20;
  };

  PgSession(Runtime& runtime, Options options);
  ~PgSession();  // ends the connection; transactions without an answer get kNotStarted or kUnknown
  PgSession(const PgSession&) = delete;
  PgSession& operator=(const PgSession&) = delete;

  using Done = std::function<void(PgAnswer)>;
  // Runs the steps as one transaction, READ COMMITTED: each step sees what was committed before it.
  // While there is no connection, it waits for the next attempt to connect, and fails with it.
  void Run(std::vector<PgStep> steps, Done done);

  // From now on it connects without work, too, and again when the connection ends.
  void KeepOpen();

  // Cuts the connection, as a network may.
  void Disconnect();

 private:
  class Core;
  const std::unique_ptr<Core> core_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_LOG_PG_PG_SESSION_H_
