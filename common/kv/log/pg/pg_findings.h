// Findings: facts of a PostgreSQL server that decide what a PgLog there can lose.
//
// Threads: JudgePgServer and PgServerFactsOf are pure; ReadPgServerFacts blocks on IO.

#ifndef COMMON_KV_LOG_PG_PG_FINDINGS_H_
#define COMMON_KV_LOG_PG_PG_FINDINGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace escapement::kv {

struct PgFinding {
  enum class Severity : uint8_t {
    kNote,     // as it should be, or without influence on safety
    kWarning,  // one failure can lose acknowledged commits, or stop the log
    kDanger,   // a crash of the server can lose or damage the log
  };
  Severity severity = Severity::kNote;
  std::string name;  // the setting, or what was looked for
  std::string text;  // one line for the log and for people

  friend bool operator==(const PgFinding&, const PgFinding&) = default;
};

struct PgServerFacts {
  int version = 0;  // as server_version_num: 150018
  bool fsync = true;
  bool full_page_writes = true;
  bool in_recovery = false;
  bool read_only = false;
  bool data_checksums = false;
  bool pooler = false;
  bool pooler_mixes_sessions = false;  // not in session mode
  std::string synchronous_commit = "on";
  std::string synchronous_standby_names;
  uint64_t synchronous_standbys = 0;  // connected now, as far as the role may see them
  bool sees_standbys = true;          // the role may see them
  // The server does not say it: an operator does. A write is on several storages before it is
  // synced, as with a service that replicates its storage.
  bool storage_replicated = false;
};

inline constexpr char kPoolerMixesSessions[] =
    "PostgreSQL is reached through a pooler that mixes sessions: set its pool_mode to session, or "
    "name the server itself in the URL";

// Pure. The first finding always says in one line what can be lost.
std::vector<PgFinding> JudgePgServer(const PgServerFacts& facts);

// The answer of kPgServerFactsSql, one row: all facts but those of a pooler and
// `storage_replicated`.
// INTERNAL: an unknown form.
extern const char kPgServerFactsSql[];
absl::StatusOr<PgServerFacts> PgServerFactsOf(absl::Span<const std::string> row);

// Asks the server of the URL (pg_connection.h). UNAVAILABLE without a connection.
absl::StatusOr<PgServerFacts> ReadPgServerFacts(const std::string& url);

}  // namespace escapement::kv

#endif  // COMMON_KV_LOG_PG_PG_FINDINGS_H_
