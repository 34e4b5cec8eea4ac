#include "services/store/service/replication.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/kv/log/pg/pg_connection.h"
#include "common/kv/log/s3/s3_snapshot_log.h"
#include "common/kv/not_leader.h"
#include "common/kv/rocks/rocks_database.h"
#include "common/status/errors.h"
#include "google/protobuf/util/time_util.h"

namespace escapement::store {
namespace {

using google::protobuf::util::TimeUtil;

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

void LogFindings(const std::vector<kv::PgFinding>& findings) {
  for (const kv::PgFinding& finding : findings)
    Log(LevelOf(finding.severity), "replication", finding.text, {{"setting", finding.name}});
}

absl::StatusOr<std::unique_ptr<kv::PgLog>> OpenLog(const Replication::Options& options,
                                                   Runtime& runtime,
                                                   std::function<absl::Status()> before_connect) {
  return kv::PgLog::Make(
      runtime,
      {.url = options.url, .store = options.log_name, .before_connect = std::move(before_connect)});
}

absl::StatusOr<std::unique_ptr<kv::SharedLog>> OpenSnapshots(const Replication::Options& options,
                                                             Runtime& runtime, kv::SharedLog& log) {
  auto made = kv::S3SnapshotLog::Make(runtime, log,
                                      {.address = options.snapshots, .log_name = options.log_name});
  if (made.ok()) return made;
  return absl::Status(made.status().code(), absl::StrCat("--snapshots: ", made.status().message()));
}

v1::StoreReplica::Role RoleOf(kv::ReplicaRole role) {
  switch (role) {
    case kv::ReplicaRole::kStarting:
      return v1::StoreReplica::STARTING;
    case kv::ReplicaRole::kFollower:
      return v1::StoreReplica::FOLLOWER;
    case kv::ReplicaRole::kCandidate:
      return v1::StoreReplica::CANDIDATE;
    case kv::ReplicaRole::kLeader:
      return v1::StoreReplica::LEADER;
    case kv::ReplicaRole::kRefusing:
      return v1::StoreReplica::REFUSING;
  }
  return v1::StoreReplica::ROLE_UNSPECIFIED;
}

absl::Duration DurationOf(const google::protobuf::Duration& duration) {
  return absl::Nanoseconds(TimeUtil::DurationToNanoseconds(duration));
}

// A follower that has had fewer rows than the log for this long does not count as ready to lead.
constexpr absl::Duration kBehindMax = absl::Seconds(1);

// A replica reports itself every ReplicaLoop::kReportInterval, so one that lives has done so within
// this time.
constexpr absl::Duration kCandidateAnswerMax = absl::Seconds(3);
constexpr absl::Duration kAskCandidatesEvery = absl::Milliseconds(100);

// A handover waits this long for work that is under way.
constexpr absl::Duration kPrepareMax = absl::Seconds(5);

// How often the server's settings are read again.
constexpr absl::Duration kServerFactsInterval = absl::Seconds(5);
// GetStatus waits so long for the log.
constexpr absl::Duration kStatusWait = absl::Seconds(2);

std::string Seconds(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Seconds(1)));
}

// See StoreAdmin::HandOver.
bool CouldLead(const v1::StoreReplica& replica) {
  return replica.role() == v1::StoreReplica::FOLLOWER && replica.problem().empty() &&
         DurationOf(replica.reported_ago()) <= absl::Seconds(5) &&
         DurationOf(replica.behind()) < kBehindMax;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Replication>> Replication::Open(const Options& options,
                                                               kv::RocksKvStore::Options rocks,
                                                               Runtime& runtime) {
  std::unique_ptr<Replication> replication(new Replication(options, rocks, runtime));
  const auto prepare = [options, self = replication.get()]() -> absl::Status {
    RETURN_IF_ERROR(MigrateSharedLog(options));
    ASSIGN_OR_RETURN(self->name_,
                     kv::HoldReplicaName(options.url, options.log_name, options.store_id));
    return absl::OkStatus();
  };
  const absl::Status prepared = prepare();
  if (absl::IsUnavailable(prepared)) {
    Log(LogLevel::kWarning, "replication", "PostgreSQL does not answer; the replica waits for it",
        {{"error", prepared.message()}});
  } else if (!prepared.ok()) {
    return prepared;
  }
  // If the server did not answer, the log prepares it before it connects.
  ASSIGN_OR_RETURN(
      replication->pg_log_,
      OpenLog(options, runtime, prepared.ok() ? nullptr : std::function<absl::Status()>(prepare)));
  ASSIGN_OR_RETURN(replication->log_, OpenSnapshots(options, runtime, *replication->pg_log_));
  kv::ReplicatedKvStore::Options store;
  store.rocks = std::move(rocks);
  store.on_append = options.on_append;
  store.replica.owner =
      absl::StrCat(options.store_id, "-", absl::Hex(runtime.random().Next(), absl::kZeroPad16));
  store.replica.address = options.advertise;
  store.replica.name = options.store_id;
  store.replica.report = [self = replication.get()](const kv::ReplicaStatus& status) {
    return self->ReportOf(status).SerializeAsString();
  };
  ASSIGN_OR_RETURN(auto opened,
                   kv::ReplicatedKvStore::Open(std::move(store), runtime, *replication->log_));
  replication->store_ = std::move(opened);
  replication->ReadServerFacts();
  return replication;
}

Replication::Replication(const Options& options, const kv::RocksKvStore::Options& rocks,
                         Runtime& runtime)
    : runtime_(runtime),
      executor_(runtime.NewExecutor("replication")),
      store_id_(options.store_id),
      address_(options.advertise),
      data_dir_(rocks.data_dir),
      free_bytes_min_(rocks.free_bytes_min),
      storage_replicated_(options.storage_replicated) {}

Replication::~Replication() { executor_->Stop(); }

absl::StatusOr<SharedLogs> OpenSharedLog(const Replication::Options& options, Runtime& runtime) {
  SharedLogs logs;
  ASSIGN_OR_RETURN(logs.in_postgres,
                   OpenLog(options, runtime, [options] { return MigrateSharedLog(options); }));
  ASSIGN_OR_RETURN(logs.log, OpenSnapshots(options, runtime, *logs.in_postgres));
  return logs;
}

absl::Status MigrateSharedLog(const Replication::Options& options) {
  auto facts = kv::ReadPgServerFacts(options.url);
  if (facts.ok() && facts->pooler_mixes_sessions)
    return absl::FailedPreconditionError(kv::kPoolerMixesSessions);
  ASSIGN_OR_RETURN(const auto found, kv::MigratePgSchema(options.url, kv::PgSchemaSteps()));
  const int now = static_cast<int>(kv::PgSchemaSteps().size());
  if (found != now) {
    Log(LogLevel::kInfo, "replication", "the log's schema is updated",
        {{"from", found}, {"to", now}});
  }
  if (facts.ok()) {
    facts->storage_replicated = options.storage_replicated;
    LogFindings(kv::JudgePgServer(*facts));
  } else {
    Log(LogLevel::kWarning, "replication", "what PostgreSQL can lose is not known",
        {{"error", facts.status().message()}});
  }
  return absl::OkStatus();
}

void Replication::ReadServerFacts() {
  pg_log_->ReadServerFacts([this, executor = executor_](absl::StatusOr<kv::PgServerFacts> facts) {
    executor->Post([this, facts = std::move(facts)]() mutable {
      if (facts.ok()) OnServerFacts(*std::move(facts));
      executor_->PostAfter(kServerFactsInterval, [this] { ReadServerFacts(); });
    });
  });
}

void Replication::OnServerFacts(kv::PgServerFacts facts) {
  facts.storage_replicated = storage_replicated_;
  std::vector<kv::PgFinding> findings = kv::JudgePgServer(facts);
  absl::MutexLock lock(&mu_);
  // The start has logged the first ones.
  if (!findings_.empty() && findings != findings_) LogFindings(findings);
  findings_ = std::move(findings);
}

LogSafety Replication::log_safety() const {
  absl::MutexLock lock(&mu_);
  if (findings_.empty()) return LogSafety::kUnknown;
  LogSafety safety = LogSafety::kKept;
  for (const kv::PgFinding& finding : findings_) {
    if (finding.severity == kv::PgFinding::Severity::kDanger) return LogSafety::kDanger;
    if (finding.severity == kv::PgFinding::Severity::kWarning) safety = LogSafety::kWarning;
  }
  return safety;
}

std::string Replication::ProblemOf(const kv::ReplicaStatus& status) const {
  if (!status.problem.ok()) return ErrorText(status.problem.message());
  if (status.role == kv::ReplicaRole::kLeader && status.unacknowledged >= kv::kLeaseMax) {
    return absl::StrCat("the log has acknowledged nothing for ", Seconds(status.unacknowledged));
  }
  if (kv::FreeBytes(data_dir_) < free_bytes_min_) return "the disk of the data folder is full";
  return {};
}

v1::StoreReplica Replication::ReportOf(const kv::ReplicaStatus& status) const {
  v1::StoreReplica report;
  report.set_address(address_);
  report.set_role(RoleOf(status.role));
  report.set_applied_seq(static_cast<int64_t>(status.applied_seq));
  report.set_acknowledged_seq(static_cast<int64_t>(status.proven_seq));
  *report.mutable_behind() =
      TimeUtil::NanosecondsToDuration(absl::ToInt64Nanoseconds(status.behind));
  report.set_problem(ProblemOf(status));
  return report;
}

void Replication::ListReplicas(
    std::function<void(absl::StatusOr<std::vector<v1::StoreReplica>>)> done) {
  log_->ListReports(
      [done = std::move(done)](const absl::StatusOr<std::vector<kv::ReplicaReport>>& reports) {
        if (!reports.ok()) return done(reports.status());
        std::vector<v1::StoreReplica> replicas;
        for (const kv::ReplicaReport& report : *reports) {
          v1::StoreReplica& replica = replicas.emplace_back();
          if (!replica.ParseFromString(report.details))
            replica.set_problem("its report is malformed");
          replica.set_store_id(report.replica);
          *replica.mutable_reported_ago() =
              TimeUtil::NanosecondsToDuration(absl::ToInt64Nanoseconds(report.age));
        }
        done(std::move(replicas));
      });
}

void Replication::GetStatus(std::function<void(absl::StatusOr<v1::StoreReplication>)> done) {
  auto once = std::make_shared<decltype(done)>(std::move(done));
  const auto answer = [this, once](const absl::StatusOr<std::vector<v1::StoreReplica>>& replicas) {
    if (*once != nullptr) std::exchange(*once, nullptr)(StatusWith(replicas));
  };
  ListReplicas([answer, executor = executor_](auto replicas) {
    executor->Post([answer, replicas = std::move(replicas)] { answer(replicas); });
  });
  executor_->PostAfter(kStatusWait, [answer] {
    answer(absl::UnavailableError(
        absl::StrCat("no answer within ", absl::FormatDuration(kStatusWait))));
  });
}

v1::StoreReplication Replication::StatusWith(
    const absl::StatusOr<std::vector<v1::StoreReplica>>& reported) const {
  const kv::ReplicaStatus status = store_->status();
  v1::StoreReplication replication;
  replication.set_epoch(static_cast<int64_t>(status.leader.epoch));
  replication.set_leader_address(status.leader_address);
  replication.set_log_seq(static_cast<int64_t>(status.log_seq));
  replication.set_log_bytes(static_cast<int64_t>(status.log_bytes));
  if (status.snapshot_seq > 0) {
    replication.set_snapshot_seq(static_cast<int64_t>(status.snapshot_seq));
    *replication.mutable_snapshot_time() =
        TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(status.snapshot_time));
  }
  // This process knows itself better than its last report, which it cannot replace while the log
  // does not answer.
  std::map<std::string, v1::StoreReplica> replicas;
  if (reported.ok()) {
    for (const v1::StoreReplica& replica : *reported) replicas[replica.store_id()] = replica;
  } else {
    replication.add_log_problems(
        absl::StrCat("the log does not answer: ", ErrorText(reported.status().message())));
  }
  v1::StoreReplica& own = replicas[store_id_] = ReportOf(status);
  own.set_store_id(store_id_);
  own.mutable_reported_ago();
  for (auto& [id, replica] : replicas) *replication.add_replicas() = std::move(replica);
  absl::MutexLock lock(&mu_);
  for (const kv::PgFinding& finding : findings_) {
    if (finding.severity != kv::PgFinding::Severity::kNote)
      replication.add_log_problems(finding.text);
  }
  return replication;
}

void Replication::HandOver(std::function<void(Closure ready)> prepare,
                           std::function<void(absl::Status)> done) {
  AwaitCandidate(runtime_.clock().Elapsed(),
                 [this, prepare = std::move(prepare), done = std::move(done)](absl::Status found) {
                   if (!found.ok()) return done(std::move(found));
                   const auto ready = [this, done, begun = std::make_shared<bool>(false)] {
                     if (std::exchange(*begun, true)) return;
                     store_->HandOver([done] { done(absl::OkStatus()); });
                   };
                   executor_->PostAfter(kPrepareMax, ready);
                   prepare([executor = executor_, ready] { executor->Post(ready); });
                 });
}

void Replication::AwaitCandidate(absl::Duration since, std::function<void(absl::Status)> done) {
  if (store_->status().role != kv::ReplicaRole::kLeader)
    return done(kv::NotLeader(store_->status().leader_address));
  const absl::Duration waited = runtime_.clock().Elapsed() - since;
  ListReplicas([this, since, waited, done = std::move(done)](
                   const absl::StatusOr<std::vector<v1::StoreReplica>>& replicas) mutable {
    if (!replicas.ok()) return done(replicas.status());
    bool could_lead = false;
    for (const v1::StoreReplica& replica : *replicas) {
      if (replica.store_id() == store_id_ || !CouldLead(replica)) continue;
      could_lead = true;
      // An older report may be that of a process that has been killed since.
      if (DurationOf(replica.reported_ago()) < waited) return done(absl::OkStatus());
    }
    if (!could_lead)
      return done(absl::FailedPreconditionError("no other process of the store is ready to lead"));
    if (waited > kCandidateAnswerMax) {
      return done(absl::FailedPreconditionError(absl::StrCat(
          "no other process of the store has reported itself as ready to lead within the last ",
          absl::FormatDuration(kCandidateAnswerMax))));
    }
    executor_->PostAfter(kAskCandidatesEvery, [this, since, done = std::move(done)]() mutable {
      AwaitCandidate(since, std::move(done));
    });
  });
}

std::string Replication::NotReadyReason() const {
  const kv::ReplicaStatus status = store_->status();
  const std::string problem = ProblemOf(status);
  if (status.role == kv::ReplicaRole::kLeader) {
    if (status.unacknowledged < kv::kLeaseMax) return {};
    return absl::StrCat("replica: ", problem);
  }
  std::string reason = "replica: does not lead";
  if (!status.leader_address.empty())
    absl::StrAppend(&reason, "; the leader is at ", status.leader_address);
  if (!problem.empty()) absl::StrAppend(&reason, "; ", problem);
  return reason;
}

std::string Replication::NotInPlaceReason() const {
  const kv::ReplicaStatus status = store_->status();
  if (status.role == kv::ReplicaRole::kLeader) return {};
  if (const std::string problem = ProblemOf(status); !problem.empty())
    return absl::StrCat("replica: ", problem);
  if (status.role != kv::ReplicaRole::kFollower) return "replica: neither leads nor follows";
  if (status.behind < kBehindMax) return {};
  return absl::StrCat("replica: has had fewer rows than the log for ", Seconds(status.behind));
}

}  // namespace escapement::store
