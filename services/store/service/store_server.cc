#include "services/store/service/store_server.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/http/http_server.h"
#include "common/kv/engine/clock_hold.h"
#include "common/kv/wire/store_service_grpc.h"
#include "google/protobuf/util/time_util.h"
#include "services/store/service/snapshot_export_grpc.h"
#include "services/store/service/store_grpc.h"

namespace escapement::store {

using google::protobuf::util::TimeUtil;

struct StoreServer::Parts {
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
    auto store = kv::RocksKvStore::Open(std::move(rocks), runtime.clock());
    if (!store.ok()) return store.status();
    parts->local = *std::move(store);
  } else {
    auto replication = Replication::Open(options.replication, std::move(rocks), runtime);
    if (!replication.ok()) return replication.status();
    parts->replication = *std::move(replication);
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
  rocks.layout = {options.partitions, options.queue_shards, options.policy_shards};
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

void StoreServer::StepDown(Closure done) {
  if (parts_->replication == nullptr) return done();
  parts_->replication->store().HandOver(std::move(done));
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
  parts_->replication->HandOver([done = std::move(done)](const absl::Status& status) {
    if (!status.ok()) return done(status);
    done(v1::HandOverResponse());
  });
}

}  // namespace escapement::store
