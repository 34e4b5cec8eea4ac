#include "common/kv/log/pg/pg_findings.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/kv/log/pg/pg_connection.h"

namespace escapement::kv {
namespace {

using Severity = PgFinding::Severity;

constexpr int kVersionMin = 120000;
constexpr size_t kFactColumns = 11;  // in an answer of kPgServerFactsSql
constexpr char kCheckName[] = "escapement-check";

PgFinding Loss(const PgServerFacts& facts) {
  if (!facts.fsync || !facts.full_page_writes) {
    return {Severity::kDanger, "loss",
            "a crash of PostgreSQL's machine can lose and damage the whole log"};
  }
  if (facts.synchronous_standby_names.empty() && facts.storage_replicated) {
    return {Severity::kNote, "loss",
            "an acknowledged commit is lost only with all copies of PostgreSQL's storage, which "
            "--log_storage_replicated says to be replicated"};
  }
  if (facts.synchronous_standby_names.empty()) {
    return {Severity::kWarning, "loss",
            "if PostgreSQL's storage is lost, all commits since its last backup or standby's copy "
            "are lost: it has no synchronous standby"};
  }
  if (facts.synchronous_commit == "remote_write") {
    return {Severity::kWarning, "loss",
            "if the primary's storage is lost while the standby's machine crashes, the last "
            "commits are lost (synchronous_commit = remote_write)"};
  }
  return {Severity::kNote, "loss",
          "an acknowledged commit is lost only with the storage of the primary and of its "
          "synchronous standbys"};
}

}  // namespace

std::vector<PgFinding> JudgePgServer(const PgServerFacts& facts) {
  std::vector<PgFinding> findings = {Loss(facts)};
  const auto add = [&](Severity severity, std::string name, std::string text) {
    findings.push_back({severity, std::move(name), std::move(text)});
  };
  if (!facts.fsync) add(Severity::kDanger, "fsync", "fsync is off: turn it on");
  if (!facts.full_page_writes) {
    add(Severity::kDanger, "full_page_writes",
        "full_page_writes is off: turn it on, unless the file system never tears a page");
  }
  if (facts.synchronous_commit == "off" || facts.synchronous_commit == "local") {
    add(Severity::kNote, "synchronous_commit",
        absl::StrCat("synchronous_commit is ", facts.synchronous_commit,
                     "; the log's own connections turn it on"));
  }
  if (!facts.synchronous_standby_names.empty() && facts.sees_standbys &&
      facts.synchronous_standbys == 0) {
    add(Severity::kWarning, "synchronous_standby_names",
        "no synchronous standby is connected: commits wait until one is");
  }
  if (facts.in_recovery || facts.read_only) {
    add(Severity::kWarning, "read_only",
        "the server accepts no writes now: it is a standby, or set to read-only");
  }
  if (facts.pooler_mixes_sessions) {
    add(Severity::kDanger, "pooler", kPoolerMixesSessions);
  } else if (facts.pooler) {
    add(Severity::kNote, "pooler", "the connection goes through a pooler in session mode");
  }
  if (facts.version < kVersionMin) {
    add(Severity::kDanger, "version",
        absl::StrCat("PostgreSQL ", facts.version / 10000, " is too old: 12 is the oldest"));
  }
  if (!facts.data_checksums) {
    add(Severity::kNote, "data_checksums",
        "PostgreSQL does not check its pages; the log checks its own rows");
  }
  return findings;
}

// All columns are text, in the text and in the binary format. The log's sessions have set
// synchronous_commit; reset_val is what the server says.
const char kPgServerFactsSql[] = R"(
SELECT current_setting('server_version_num'), current_setting('fsync'),
  current_setting('full_page_writes'), pg_is_in_recovery()::text,
  current_setting('default_transaction_read_only'), current_setting('data_checksums'),
  (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'),
  current_setting('synchronous_standby_names'),
  (SELECT count(*)::text FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')),
  pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')::text, pg_backend_pid()::text)";

absl::StatusOr<PgServerFacts> PgServerFactsOf(absl::Span<const std::string> row) {
  PgServerFacts facts;
  if (row.size() != kFactColumns || !absl::SimpleAtoi(row[0], &facts.version) ||
      !absl::SimpleAtoi(row[8], &facts.synchronous_standbys))
    return absl::InternalError("PostgreSQL's answer has an unknown form");
  facts.fsync = row[1] == "on";
  facts.full_page_writes = row[2] == "on";
  facts.in_recovery = row[3] == "true";
  facts.read_only = row[4] == "on";
  facts.data_checksums = row[5] == "on";
  facts.synchronous_commit = row[6];
  facts.synchronous_standby_names = row[7];
  facts.sees_standbys = row[9] == "true";
  return facts;
}

namespace {

// True if a connection sees a setting of another one's session. A pooler gives the server's session
// to whoever comes, so it is asked several times.
absl::StatusOr<bool> MixesSessions(const std::string& url, PgConnection& first) {
  ASSIGN_OR_RETURN(auto second, PgConnection::Open(url, kCheckName));
  RETURN_IF_ERROR(first.Query("SET escapement.session = 'first'").status());
  for (int tries = 0; tries < 4; ++tries) {
    RETURN_IF_ERROR(second->Query("SET escapement.session = 'second'").status());
    ASSIGN_OR_RETURN(const auto rows,
                     first.Query("SELECT current_setting('escapement.session', true)"));
    if (rows.front().front() != "first") return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<PgServerFacts> ReadPgServerFacts(const std::string& url) {
  ASSIGN_OR_RETURN(auto connection, PgConnection::Open(url, kCheckName));
  const auto rows = connection->Query(kPgServerFactsSql);
  if (!rows.ok()) return rows.status();
  ASSIGN_OR_RETURN(PgServerFacts facts, PgServerFactsOf(rows->front()));
  facts.pooler = rows->front().back() != absl::StrCat(connection->BackendPid());
  if (facts.pooler) {
    ASSIGN_OR_RETURN(facts.pooler_mixes_sessions, MixesSessions(url, *connection));
  }
  return facts;
}

}  // namespace escapement::kv
