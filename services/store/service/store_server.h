// StoreServer: the store service without its process: a RocksKvStore, or this process's replica of
// a replicated store, and the gRPC services that serve it. main.cc gives it a port.
//
//   StoreServer::Options options;
//   options.data_dir = ...;
//   auto server = StoreServer::Open(options, runtime);
//   // with receive_bytes_max = StoreServer::kReceiveBytesMax:
//   (*server)->AddRpcs(table);
//
// Threads: one thread opens and destroys it. Shut the gRPC server down before destroying it.

#ifndef SERVICES_STORE_SERVICE_STORE_SERVER_H_
#define SERVICES_STORE_SERVICE_STORE_SERVER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/kv/wire/store_connection.h"
#include "common/metrics/metrics.h"
#include "common/runtime/runtime.h"
#include "services/store/service/commit_meter.h"
#include "services/store/service/replication.h"

namespace escapement {
class HttpServer;
class RpcTable;
}  // namespace escapement

namespace escapement::store {

class StoreServer final : public kv::StoreAdmin {
 public:
  // For the internal port: a commit of kv::kCommitBytesMax in its form on the wire.
  static constexpr size_t kReceiveBytesMax = 64 << 20;

  struct Options {
    std::string data_dir;
    bool accept_loss = false;  // see RocksKvStore::Options
    // No lease can be taken over this long after a start.
    absl::Duration lease_ttl = absl::Seconds(5);
    uint32_t partitions = 16;    // for a new store; 1 to 1,024
    uint32_t queue_shards = 8;   // for a new store; 1 to 1,024
    uint32_t policy_shards = 8;  // for a new store; 1 to 1,024
    uint32_t cell = 0;           // for a new store; 0 to 63
    uint64_t free_bytes_min = uint64_t{256} << 20;
    size_t block_cache_bytes = 256 << 20;
    Replication::Options replication = {};
    CommitMeter::OnCommit on_commit = nullptr;  // may be null
  };

  // Errors as RocksKvStore::Open or Replication::Open. `runtime` must outlive the server.
  static absl::StatusOr<std::unique_ptr<StoreServer>> Open(const Options& options,
                                                           Runtime& runtime);
  ~StoreServer() override;
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  // Adds StoreService of escapement.internal.v1 for our own processes, and of escapement.v1 for
  // operators.
  void AddRpcs(RpcTable& table);
  // Adds only ExportSnapshot of escapement.v1, for a process whose master serves the rest.
  void AddExportRpc(RpcTable& table);
  // Adds /replicaz: 200 if this process leads, or follows closely and could lead. Otherwise 503
  // with the reason. For whoever restarts the processes of a store one after the other: the next
  // one may go. A store that is not replicated answers 200.
  absl::Status AddHttpRoutes(HttpServer& http);
  // As HostedService::NotReadyReason. Not empty while a replica does not lead. Not empty if the
  // clock has held emission for longer than it takes to follow a step of minutes (store_clock.h).
  // Then nothing is planned until an operator confirms the clock.
  std::string NotReadyReason() const;
  kv::KvStore& store();
  // All zeros for a replica that does not lead.
  kv::RocksKvStore::Info info() const;
  kv::StoreSize size() const;
  const std::string& data_dir() const;
  // Nothing if the store is not replicated.
  std::optional<kv::ReplicaStatus> replica() const;
  LogSafety log_safety() const;  // kUnknown if the store is not replicated
  // Before the process ends: a replica that leads lets another one take over at once. Then, or at
  // once if the store is not replicated, runs `done`.
  void StepDown(Closure done);

  // The services of this process that own leases in the store. In a handover they give them back
  // first, so that those of the next leader need not wait for their end. The functions must not
  // wait. After it returns, the former ones are called no more.
  struct LeaseHolders {
    std::function<void(Closure done)> pause = nullptr;
    std::function<void()> resume = nullptr;
  };
  void SetLeaseHolders(LeaseHolders holders);

  void GetStatus(kv::KvStore::Callback<v1::StoreStatus> done) override;
  void HandOver(kv::KvStore::Callback<v1::HandOverResponse> done) override;

 private:
  struct Parts;
  explicit StoreServer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

// The part of the options that concerns RocksDB.
kv::RocksKvStore::Options RocksOptionsOf(const StoreServer::Options& options);

// The store's metrics for /metrics.

class StoreMetrics {
 public:
  // Both arguments must outlive it.
  StoreMetrics(Metrics& metrics, StoreServer& server);

 private:
  std::unique_ptr<Metrics::CollectorHandle> store_;
  std::unique_ptr<Metrics::CollectorHandle> size_;
  std::unique_ptr<Metrics::CollectorHandle> replica_;  // null if the store is not replicated
};

// For Replication::Options::on_append and StoreServer::Options::on_commit. `metrics` must outlive
// them.
std::function<void(absl::Duration)> AppendLatency(Metrics& metrics);
std::function<void(absl::Duration)> CommitLatency(Metrics& metrics);

}  // namespace escapement::store

#endif  // SERVICES_STORE_SERVICE_STORE_SERVER_H_
