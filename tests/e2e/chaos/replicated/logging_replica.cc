#include "tests/e2e/chaos/replicated/logging_replica.h"

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/kv/log/pg/pg_log.h"
#include "common/kv/log/pg/pg_schema.h"
#include "common/kv/replica/replicated_kv_store.h"
#include "common/kv/wire/store_service_grpc.h"
#include "services/store/service/store_grpc.h"
#include "tests/e2e/chaos/base/commit_file.h"
#include "tests/e2e/chaos/replicated/noting_log.h"

namespace escapement::chaos {
namespace {

// Small, so that a run of a minute has several snapshots, and a store that lost its folder restores
// one.
constexpr uint64_t kSnapshotLogBytes = 256 << 10;
constexpr absl::Duration kSnapshotCheck = absl::Seconds(2);

// Has a file for each term. Used by the writing thread of the store that leads, and by the thread
// that makes such a store; never by both at once.
class TermFiles {
 public:
  TermFiles(std::string folder, const NotingLog& log) : folder_(std::move(folder)), log_(log) {}

  void Write(const std::vector<std::shared_ptr<const kv::CommitRecord>>& records) {
    if (records.empty()) return;
    if (const uint64_t epoch = log_.epoch(); epoch != epoch_) {
      auto file = CommitFile::BeginTerm(folder_, epoch);
      if (!file.ok()) {
        std::fprintf(stderr, "no file for a term: %s\n", file.status().ToString().c_str());
        std::abort();
      }
      file_ = *std::move(file);
      epoch_ = epoch;
    }
    file_->Write(records, absl::Now());
  }

 private:
  const std::string folder_;
  const NotingLog& log_;
  uint64_t epoch_ = 0;
  std::unique_ptr<CommitFile> file_;
};

class LoggingReplica final : public HostedService {
 public:
  LoggingReplica(std::unique_ptr<kv::PgLog> log, std::string commits)
      : log_(std::move(log)), noting_(*log_), files_(std::move(commits), noting_) {}

  absl::Status Open(const ServiceContext& context, const store::StoreServer::Options& flags,
                    kv::RocksKvStore::Options rocks) {
    kv::ReplicatedKvStore::Options options;
    options.rocks = std::move(rocks);
    options.rocks.on_decided = [this](const auto& records) { files_.Write(records); };
    options.replica.owner =
        absl::StrCat(flags.replication.store_id, "-", absl::Hex(context.runtime.random().Next()));
    options.replica.address = flags.replication.advertise;
    options.replica.snapshot_log_bytes = kSnapshotLogBytes;
    options.replica.snapshot_check = kSnapshotCheck;
    auto store = kv::ReplicatedKvStore::Open(std::move(options), context.runtime, noting_);
    if (!store.ok()) return store.status();
    store_ = *std::move(store);
    return absl::OkStatus();
  }

  void AddRpcs(RpcTable& table) override {
    store::AddStoreRpcs(*store_, table);
    kv::AddStoreServiceRpcs(*store_, /*admin=*/nullptr, table);
  }
  absl::Status Start() override { return absl::OkStatus(); }
  bool Ready() override { return store_->status().role == kv::ReplicaRole::kLeader; }
  void Drain(Closure done) override { store_->HandOver(std::move(done)); }

 private:
  // Destroyed in reverse order: the store before the log.
  const std::unique_ptr<kv::PgLog> log_;
  NotingLog noting_;
  TermFiles files_;
  std::unique_ptr<kv::ReplicatedKvStore> store_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HostedService>> MakeLoggingReplica(
    const ServiceContext& context, const store::StoreServer::Options& flags,
    kv::RocksKvStore::Options rocks, std::string commits) {
  const std::string& url = flags.replication.url;
  auto log = kv::PgLog::Make(context.runtime, {.url = url, .store = flags.replication.log_name});
  if (!log.ok()) return log.status();
  const auto migrated = kv::MigratePgSchema(url, kv::PgSchemaSteps());
  if (!migrated.ok() && !absl::IsUnavailable(migrated.status())) return migrated.status();
  auto replica = std::make_unique<LoggingReplica>(*std::move(log), std::move(commits));
  if (absl::Status status = replica->Open(context, flags, std::move(rocks)); !status.ok())
    return status;
  return replica;
}

}  // namespace escapement::chaos
