#include "services/store/service/replication.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/kv/log/pg/pg_connection.h"
#include "common/kv/log/pg/pg_findings.h"
#include "common/kv/log/pg/pg_log.h"
#include "common/kv/not_leader.h"
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

void LogFindings(const std::string& url) {
  auto facts = kv::ReadPgServerFacts(url);
  if (!facts.ok()) {
    Log(LogLevel::kWarning, "replication", "what PostgreSQL can lose is not known",
        {{"error", facts.status().message()}});
    return;
  }
  for (const kv::PgFinding& finding : kv::JudgePgServer(*facts))
    Log(LevelOf(finding.severity), "replication", finding.text, {{"setting", finding.name}});
}

absl::StatusOr<std::unique_ptr<kv::SharedLog>> OpenLog(
    const Replication::Options& options, Runtime& runtime,
    std::function<absl::Status()> before_connect) {
  return kv::PgLog::Make(
      runtime,
      {.url = options.url, .store = options.log_name, .before_connect = std::move(before_connect)});
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

v1::StoreReplica ReportOf(const kv::ReplicaStatus& status, const std::string& address) {
  v1::StoreReplica report;
  report.set_address(address);
  report.set_role(RoleOf(status.role));
  report.set_applied_seq(static_cast<int64_t>(status.applied_seq));
  *report.mutable_behind() =
      TimeUtil::NanosecondsToDuration(absl::ToInt64Nanoseconds(status.behind));
  if (!status.problem.ok()) report.set_problem(ErrorText(status.problem.message()));
  return report;
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
  std::unique_ptr<Replication> replication(new Replication(runtime));
  replication->store_id_ = options.store_id;
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
      replication->log_,
      OpenLog(options, runtime, prepared.ok() ? nullptr : std::function<absl::Status()>(prepare)));
  kv::ReplicatedKvStore::Options store;
  store.rocks = std::move(rocks);
  store.on_append = options.on_append;
  store.replica.owner =
      absl::StrCat(options.store_id, "-", absl::Hex(runtime.random().Next(), absl::kZeroPad16));
  store.replica.address = options.advertise;
  store.replica.name = options.store_id;
  store.replica.report = [address = options.advertise](const kv::ReplicaStatus& status) {
    return ReportOf(status, address).SerializeAsString();
  };
  ASSIGN_OR_RETURN(auto opened,
                   kv::ReplicatedKvStore::Open(std::move(store), runtime, *replication->log_));
  replication->store_ = std::move(opened);
  return replication;
}

Replication::Replication(Runtime& runtime)
    : runtime_(runtime), executor_(runtime.NewExecutor("replication")) {}

Replication::~Replication() { executor_->Stop(); }

absl::StatusOr<std::unique_ptr<kv::SharedLog>> OpenSharedLog(const Replication::Options& options,
                                                             Runtime& runtime) {
  return OpenLog(options, runtime, [options] { return MigrateSharedLog(options); });
}

absl::Status MigrateSharedLog(const Replication::Options& options) {
  ASSIGN_OR_RETURN(const auto found, kv::MigratePgSchema(options.url, kv::PgSchemaSteps()));
  const int now = static_cast<int>(kv::PgSchemaSteps().size());
  if (found != now) {
    Log(LogLevel::kInfo, "replication", "the log's schema is updated",
        {{"from", found}, {"to", now}});
  }
  LogFindings(options.url);
  return absl::OkStatus();
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
  ListReplicas([status = store_->status(),
                done = std::move(done)](absl::StatusOr<std::vector<v1::StoreReplica>> replicas) {
    if (!replicas.ok()) return done(replicas.status());
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
    for (v1::StoreReplica& replica : *replicas) *replication.add_replicas() = std::move(replica);
    done(std::move(replication));
  });
}

void Replication::HandOver(std::function<void(absl::Status)> done) {
  AskCandidates(runtime_.clock().Elapsed(), std::move(done));
}

void Replication::AskCandidates(absl::Duration since, std::function<void(absl::Status)> done) {
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
      if (DurationOf(replica.reported_ago()) < waited)
        return store_->HandOver([done] { done(absl::OkStatus()); });
    }
    if (!could_lead)
      return done(absl::FailedPreconditionError("no other process of the store is ready to lead"));
    if (waited > kCandidateAnswerMax) {
      return done(absl::FailedPreconditionError(absl::StrCat(
          "no other process of the store has reported itself as ready to lead within the last ",
          absl::FormatDuration(kCandidateAnswerMax))));
    }
    executor_->PostAfter(kAskCandidatesEvery, [this, since, done = std::move(done)]() mutable {
      AskCandidates(since, std::move(done));
    });
  });
}

std::string Replication::NotReadyReason() const {
  const kv::ReplicaStatus status = store_->status();
  if (status.role == kv::ReplicaRole::kLeader) {
    if (status.unacknowledged < kv::kLeaseMax) return {};
    return absl::StrCat("replica: the log has acknowledged nothing for ",
                        absl::FormatDuration(absl::Trunc(status.unacknowledged, absl::Seconds(1))));
  }
  std::string reason = "replica: does not lead";
  if (!status.leader_address.empty())
    absl::StrAppend(&reason, "; the leader is at ", status.leader_address);
  if (!status.problem.ok()) absl::StrAppend(&reason, "; ", status.problem.message());
  return reason;
}

std::string Replication::NotInPlaceReason() const {
  const kv::ReplicaStatus status = store_->status();
  if (status.role == kv::ReplicaRole::kLeader) return {};
  if (!status.problem.ok()) return absl::StrCat("replica: ", status.problem.message());
  if (status.role != kv::ReplicaRole::kFollower) return "replica: neither leads nor follows";
  if (status.behind < kBehindMax) return {};
  return absl::StrCat("replica: has had fewer rows than the log for ",
                      absl::FormatDuration(absl::Trunc(status.behind, absl::Seconds(1))));
}

}  // namespace escapement::store
