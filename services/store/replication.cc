#include "services/store/replication.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/kv/log/pg/pg_findings.h"
#include "common/kv/log/pg/pg_log.h"
#include "common/kv/log/pg/pg_schema.h"
#include "common/service/log.h"

namespace escapement::store {
namespace {

LogLevel LevelOf(kv::PgFinding::Severity severity) {
  switch (severity) {
    case kv::PgFinding::Severity::kNote:
      return LogLevel::kInfo;
    case kv::PgFinding::Severity::kWarning:
      return LogLevel::kWarning;
    case kv::PgFinding::Severity::kDanger:
      return LogLevel::kError;
  }
  return LogLevel::kError;
}

void LogFindings(const std::string& url) {
  auto facts = kv::ReadPgServerFacts(url);
  if (!facts.ok()) return;  // said already
  for (const kv::PgFinding& finding : kv::JudgePgServer(*facts))
    Log(LevelOf(finding.severity), "replication", finding.text, {{"setting", finding.name}});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Replication>> Replication::Open(const Options& options,
                                                               kv::RocksKvStore::Options rocks,
                                                               Runtime& runtime) {
  std::unique_ptr<Replication> replication(new Replication());
  auto log = kv::PgLog::Make(runtime, {.url = options.url, .store = options.log_name});
  if (!log.ok()) return log.status();
  replication->log_ = *std::move(log);
  const auto migrated = kv::MigratePgSchema(options.url, kv::PgSchemaSteps());
  if (migrated.ok()) {
    LogFindings(options.url);
  } else if (absl::IsUnavailable(migrated.status())) {
    Log(LogLevel::kWarning, "replication", "PostgreSQL does not answer; the replica waits for it",
        {{"error", migrated.status().message()}});
  } else {
    return migrated.status();
  }
  kv::ReplicatedKvStore::Options store;
  store.rocks = std::move(rocks);
  store.on_append = options.on_append;
  store.replica.owner =
      absl::StrCat(options.store_id, "-", absl::Hex(runtime.random().Next(), absl::kZeroPad16));
  store.replica.address = options.advertise;
  auto opened = kv::ReplicatedKvStore::Open(std::move(store), runtime, *replication->log_);
  if (!opened.ok()) return opened.status();
  replication->store_ = *std::move(opened);
  return replication;
}

Replication::~Replication() = default;

std::string Replication::NotReadyReason() const {
  const kv::ReplicaStatus status = store_->status();
  if (status.role == kv::ReplicaRole::kLeader) return {};
  std::string reason = "replica: does not lead";
  if (!status.leader_address.empty())
    absl::StrAppend(&reason, "; the leader is at ", status.leader_address);
  if (!status.problem.ok()) absl::StrAppend(&reason, "; ", status.problem.message());
  return reason;
}

}  // namespace escapement::store
