#include "services/store/service/store_server.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/http/http_server.h"
#include "common/kv/engine/store_clock.h"
#include "common/kv/layout.h"
#include "common/kv/wire/store_service_grpc.h"
#include "google/protobuf/util/time_util.h"
#include "services/store/service/snapshot_export_grpc.h"
#include "services/store/service/store_grpc.h"

namespace escapement::store {

using google::protobuf::util::TimeUtil;

struct StoreServer::Parts {
  absl::Mutex holders_mu;
  LeaseHolders holders ABSL_GUARDED_BY(holders_mu);
  // One of them is null.
  std::unique_ptr<kv::RocksKvStore> local;
  std::unique_ptr<Replication> replication;
  std::unique_ptr<SnapshotExport> export_;
  std::string data_dir;
  std::unique_ptr<CommitMeter> meter;  // in front of the store; null: nobody measures

  kv::KvStore& store() {
    if (local != nullptr) return *local;
    return replication->store();
  }

  void PauseHolders(Closure done) ABSL_LOCKS_EXCLUDED(holders_mu) {
    {
      absl::MutexLock lock(&holders_mu);
      if (holders.pause != nullptr) return holders.pause(std::move(done));
    }
    done();
  }
  void ResumeHolders() ABSL_LOCKS_EXCLUDED(holders_mu) {
    absl::MutexLock lock(&holders_mu);
    if (holders.resume != nullptr) holders.resume();
  }

  absl::Status MakeCheckpoint(const std::string& folder) {
    return local != nullptr ? local->MakeCheckpoint(folder)
                            : replication->store().MakeCheckpoint(folder);
  }
};

absl::StatusOr<std::unique_ptr<StoreServer>> StoreServer::Open(const Options& options,
                                                               Runtime& runtime) {
  kv::RocksKvStore::Options rocks = RocksOptionsOf(options);
  auto parts = std::make_unique<Parts>();
  if (options.replication.url.empty()) {
    ASSIGN_OR_RETURN(auto store, kv::RocksKvStore::Open(std::move(rocks), runtime.clock()));
    parts->local = std::move(store);
  } else {
    ASSIGN_OR_RETURN(auto replication,
                     Replication::Open(options.replication, std::move(rocks), runtime));
    parts->replication = std::move(replication);
  }
  parts->data_dir = options.data_dir;
  if (options.on_commit != nullptr)
    parts->meter =
        std::make_unique<CommitMeter>(parts->store(), runtime.clock(), options.on_commit);
  parts->export_ = std::make_unique<SnapshotExport>(
      absl::StrCat(options.data_dir, "/export"),
      [parts = parts.get()](const std::string& folder) { return parts->MakeCheckpoint(folder); },
      runtime);
  return std::unique_ptr<StoreServer>(new StoreServer(std::move(parts)));
}

kv::RocksKvStore::Options RocksOptionsOf(const StoreServer::Options& options) {
  kv::RocksKvStore::Options rocks;
  rocks.data_dir = options.data_dir;
  rocks.accept_loss = options.accept_loss;
  rocks.lease_ttl = options.lease_ttl;
  rocks.layout = {options.partitions, options.queue_shards, options.policy_shards, options.cell};
  rocks.free_bytes_min = options.free_bytes_min;
  rocks.block_cache_bytes = options.block_cache_bytes;
  return rocks;
}

StoreServer::StoreServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
StoreServer::~StoreServer() = default;

void StoreServer::AddRpcs(RpcTable& table) {
  AddStoreRpcs(store(), table, this);
  kv::AddStoreServiceRpcs(store(), this, table);
  AddExportRpc(table);
}

void StoreServer::AddExportRpc(RpcTable& table) { parts_->export_->AddRpcs(table); }

absl::Status StoreServer::AddHttpRoutes(HttpServer& http) {
  http.RouteSync("GET", "/replicaz", [replication = parts_->replication.get()](const HttpRequest&) {
    const std::string reason =
        replication == nullptr ? std::string() : replication->NotInPlaceReason();
    if (reason.empty()) return HttpResponse{.body = "ok\n"};
    return HttpResponse{.status = 503, .body = reason + "\n"};
  });
  return absl::OkStatus();
}

std::string StoreServer::NotReadyReason() const {
  if (parts_->replication != nullptr) {
    if (std::string reason = parts_->replication->NotReadyReason(); !reason.empty()) return reason;
  }
  const kv::RocksKvStore::Info now = info();
  if (!now.accepting) return "the disk is full: nothing is committed until there is room";
  return kv::NotReadyReason({now.clock_held_for, now.clock_disagreement});
}

kv::KvStore& StoreServer::store() {
  if (parts_->meter != nullptr) return *parts_->meter;
  return parts_->store();
}

kv::RocksKvStore::Info StoreServer::info() const {
  return parts_->local != nullptr ? parts_->local->info() : parts_->replication->store().info();
}

kv::StoreSize StoreServer::size() const {
  return parts_->local != nullptr ? parts_->local->size() : parts_->replication->store().size();
}

const std::string& StoreServer::data_dir() const { return parts_->data_dir; }

std::optional<kv::ReplicaStatus> StoreServer::replica() const {
  if (parts_->replication == nullptr) return std::nullopt;
  return parts_->replication->store().status();
}

LogSafety StoreServer::log_safety() const {
  return parts_->replication == nullptr ? LogSafety::kUnknown : parts_->replication->log_safety();
}

void StoreServer::StepDown(Closure done) {
  if (parts_->replication == nullptr) return done();
  parts_->replication->store().HandOver(std::move(done));
}

void StoreServer::SetLeaseHolders(LeaseHolders holders) {
  absl::MutexLock lock(&parts_->holders_mu);
  parts_->holders = std::move(holders);
}

void StoreServer::GetStatus(kv::KvStore::Callback<v1::StoreStatus> done) {
  v1::StoreStatus status;
  const kv::RocksKvStore::Info now = info();
  if (now.incarnation != 0) {
    status.set_incarnation(static_cast<int64_t>(now.incarnation));
    status.set_commit_seq(static_cast<int64_t>(now.seq));
    *status.mutable_store_time() =
        TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(now.store_time));
    status.set_accepts_commits(now.accepting);
  }
  if (parts_->replication == nullptr) return done(std::move(status));
  parts_->replication->GetStatus([status = std::move(status), done = std::move(done)](
                                     absl::StatusOr<v1::StoreReplication> replication) mutable {
    if (!replication.ok()) return done(replication.status());
    *status.mutable_replication() = *std::move(replication);
    done(std::move(status));
  });
}

void StoreServer::HandOver(kv::KvStore::Callback<v1::HandOverResponse> done) {
  if (parts_->replication == nullptr)
    return done(absl::FailedPreconditionError("the store is not replicated"));
  Parts* const parts = parts_.get();
  parts->replication->HandOver([parts](Closure ready) { parts->PauseHolders(std::move(ready)); },
                               [parts, done = std::move(done)](const absl::Status& status) {
                                 parts->ResumeHolders();
                                 if (!status.ok()) return done(status);
                                 done(v1::HandOverResponse());
                               });
}

namespace {

// Follows a count that begins again at zero when the store does.
void Follow(Counter& counter, uint64_t count, uint64_t& last) {
  counter.Increment(static_cast<double>(count >= last ? count - last : count));
  last = count;
}

std::unique_ptr<Metrics::CollectorHandle> AddReplicaMetrics(Metrics& metrics, StoreServer& server) {
  Gauge* leads = metrics.GetGauge("escapement_store_leads",
                                  "1 while this replica leads and the log acknowledges its rows.");
  Gauge* unacknowledged = metrics.GetGauge("escapement_store_unacknowledged_seconds",
                                           "How long ago the leader began the last row that the "
                                           "log has acknowledged; 0 unless it leads.");
  Gauge* refuses = metrics.GetGauge("escapement_store_refuses",
                                    "1 while this replica serves nothing because the log lacks "
                                    "acknowledged commits, or is another one.");
  Gauge* safety = metrics.GetGauge(
      "escapement_store_log_safety",
      "How well PostgreSQL keeps the log by its present settings. 1: a crash can lose or damage "
      "it; "
      "2: one failure can lose acknowledged commits, or stop it; 3: neither; 0: not known yet.");
  Gauge* epoch = metrics.GetGauge("escapement_store_leader_epoch",
                                  "Term of the leader that this replica sees in the log.");
  Gauge* rows =
      metrics.GetGauge("escapement_store_log_seq", "Last row of the log that this replica sees.");
  Gauge* lag = metrics.GetGauge("escapement_store_replica_lag_seconds",
                                "How long this replica has had fewer rows than the log.");
  Gauge* snapshot = metrics.GetGauge("escapement_store_snapshot_seq",
                                     "Last row in the newest snapshot; 0 without one.");
  Gauge* age = metrics.GetGauge("escapement_store_snapshot_age_seconds",
                                "Store time since the newest snapshot; only the leader knows it.");
  return metrics.AddCollector([=, &server] {
    const kv::ReplicaStatus status = *server.replica();
    // A leader that was cut off must not say that it leads when another one may.
    const bool leads_now =
        status.role == kv::ReplicaRole::kLeader && status.unacknowledged < kv::kLeaseMax;
    leads->Set(leads_now ? 1 : 0);
    unacknowledged->Set(absl::ToDoubleSeconds(status.unacknowledged));
    refuses->Set(status.role == kv::ReplicaRole::kRefusing ? 1 : 0);
    safety->Set(static_cast<double>(server.log_safety()));
    epoch->Set(static_cast<double>(status.leader.epoch));
    rows->Set(static_cast<double>(status.log_seq));
    lag->Set(absl::ToDoubleSeconds(status.behind));
    snapshot->Set(static_cast<double>(status.snapshot_seq));
    const bool known = status.snapshot_seq > 0 && status.role == kv::ReplicaRole::kLeader;
    age->Set(known ? absl::ToDoubleSeconds(server.info().store_time - status.snapshot_time) : 0);
  });
}

std::unique_ptr<Metrics::CollectorHandle> AddSizeMetrics(Metrics& metrics, StoreServer& server) {
  std::vector<Gauge*> rows;
  for (const absl::string_view family : kv::kColumnFamilyNames) {
    rows.push_back(
        metrics.GetGauge("escapement_store_rows",
                         "Rows of a column family, about; 0 in a replica that does not lead.",
                         {{"column_family", std::string(family)}}));
  }
  Gauge* live = metrics.GetGauge("escapement_store_live_bytes",
                                 "Bytes of the table files and of writes in memory; 0 in a replica "
                                 "that does not lead.");
  Gauge* stall = metrics.GetGauge("escapement_store_write_stall",
                                  "1 while RocksDB stops or slows writes until it has compacted.");
  Gauge* free =
      metrics.GetGauge("escapement_store_disk_free_bytes", "Free bytes on the disk of the data.");
  Gauge* disk =
      metrics.GetGauge("escapement_store_disk_size_bytes", "Size of the disk of the data.");
  return metrics.AddCollector([=, &server] {
    const kv::StoreSize size = server.size();
    for (size_t cf = 0; cf < rows.size(); ++cf) rows[cf]->Set(static_cast<double>(size.rows[cf]));
    live->Set(static_cast<double>(size.live_bytes));
    stall->Set(size.write_stall ? 1 : 0);
    std::error_code error;
    const auto space = std::filesystem::space(server.data_dir(), error);
    if (error) return;
    free->Set(static_cast<double>(space.available));
    disk->Set(static_cast<double>(space.capacity));
  });
}

std::function<void(absl::Duration)> ObserveIn(Histogram* seconds) {
  return [seconds](absl::Duration took) { seconds->Observe(absl::ToDoubleSeconds(took)); };
}

}  // namespace

std::function<void(absl::Duration)> AppendLatency(Metrics& metrics) {
  return ObserveIn(metrics.GetHistogram("escapement_store_append_seconds",
                                        "Time until a batch is durable in the shared log.",
                                        LatencyBuckets()));
}

std::function<void(absl::Duration)> CommitLatency(Metrics& metrics) {
  return ObserveIn(metrics.GetHistogram(
      "escapement_store_commit_seconds",
      "How long commits took, from their arrival until they were durable or refused.",
      LatencyBuckets()));
}

StoreMetrics::StoreMetrics(Metrics& metrics, StoreServer& server) {
  Gauge* seq =
      metrics.GetGauge("escapement_store_commit_seq", "Sequence of the last acknowledged commit.");
  Gauge* time = metrics.GetGauge("escapement_store_time_seconds", "Store time.");
  Gauge* disagreement = metrics.GetGauge("escapement_store_clock_disagreement_seconds",
                                         "Wall clock less store time.");
  Gauge* hold = metrics.GetGauge("escapement_store_clock_hold",
                                 "1 while emission waits for the clock's confirmation.");
  Gauge* held_for = metrics.GetGauge("escapement_store_clock_hold_seconds",
                                     "How long emission has waited for the clock.");
  Gauge* accepting =
      metrics.GetGauge("escapement_store_accepting", "0 while the disk is too full for commits.");
  Counter* commits =
      metrics.GetCounter("escapement_store_commits_total", "Commits decided since the start.");
  Counter* syncs =
      metrics.GetCounter("escapement_store_syncs_total", "Syncs of the log since the start.");
  store_ = metrics.AddCollector(
      [=, &server, last_commits = uint64_t{0}, last_syncs = uint64_t{0}]() mutable {
        const kv::RocksKvStore::Info info = server.info();
        seq->Set(static_cast<double>(info.seq));
        time->Set(absl::ToDoubleSeconds(info.store_time - absl::UnixEpoch()));
        disagreement->Set(absl::ToDoubleSeconds(info.clock_disagreement));
        hold->Set(info.clock_hold ? 1 : 0);
        held_for->Set(absl::ToDoubleSeconds(info.clock_held_for));
        accepting->Set(info.accepting ? 1 : 0);
        Follow(*commits, info.commits, last_commits);
        Follow(*syncs, info.syncs, last_syncs);
      });
  size_ = AddSizeMetrics(metrics, server);
  if (server.replica().has_value()) replica_ = AddReplicaMetrics(metrics, server);
}

}  // namespace escapement::store
