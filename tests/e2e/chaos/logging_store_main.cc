// The store as services/store runs it, replicated or not, which also writes its decisions to the
// folder --commit_log (commit_file.h).

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/flags/flag.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/kv/wire/store_service_grpc.h"
#include "common/process/service_process.h"
#include "services/store/service/store_grpc.h"
#include "services/store/service/store_server.h"
#include "services/store/service/store_tasks.h"
#include "tests/e2e/chaos/base/commit_file.h"
#include "tests/e2e/chaos/replicated/replicated_log.h"

ABSL_FLAG(std::string, commit_log, "", "folder for what the store decides");

namespace escapement::chaos {
namespace {

// Takes decisions from the store's writing thread, also before the file is begun.
class Log {
 public:
  absl::Status Begin(kv::RocksKvStore& store) {
    absl::MutexLock lock(&mutex_);
    // The store has found all published commits, except those that are kept here.
    const kv::CommitSeq found = kept_.empty() ? store.info().seq : kept_.front()->seq - 1;
    ASSIGN_OR_RETURN(auto file, CommitFile::Begin(absl::GetFlag(FLAGS_commit_log), found));
    file_ = std::move(file);
    file_->Write(kept_, absl::Now());
    kept_.clear();
    return absl::OkStatus();
  }
  void Write(const std::vector<std::shared_ptr<const kv::CommitRecord>>& records) {
    absl::MutexLock lock(&mutex_);
    if (file_ != nullptr) return file_->Write(records, absl::Now());
    kept_.insert(kept_.end(), records.begin(), records.end());
  }

 private:
  absl::Mutex mutex_;
  std::unique_ptr<CommitFile> file_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<const kv::CommitRecord>> kept_ ABSL_GUARDED_BY(mutex_);
};

class LoggingStore final : public HostedService {
 public:
  static absl::StatusOr<std::unique_ptr<HostedService>> Make(const ServiceContext& context) {
    auto hosted = std::unique_ptr<LoggingStore>(new LoggingStore());
    const store::StoreServer::Options flags = store::StoreOptionsFromFlags();
    kv::RocksKvStore::Options options;
    options.data_dir = flags.data_dir;
    options.lease_ttl = flags.lease_ttl;
    options.layout = {flags.partitions, flags.queue_shards, flags.policy_shards};
    options.free_bytes_min = flags.free_bytes_min;
    options.block_cache_bytes = flags.block_cache_bytes;
    if (!flags.replication.url.empty())
      return MakeLoggingReplica(context, flags, std::move(options),
                                absl::GetFlag(FLAGS_commit_log));
    options.on_decided = [log = &hosted->log_](const auto& records) { log->Write(records); };
    ASSIGN_OR_RETURN(auto store,
                     kv::RocksKvStore::Open(std::move(options), context.runtime.clock()));
    hosted->store_ = std::move(store);
    RETURN_IF_ERROR(hosted->log_.Begin(*hosted->store_));
    return hosted;
  }

  void AddRpcs(RpcTable& table) override {
    store::AddStoreRpcs(*store_, table);
    kv::AddStoreServiceRpcs(*store_, /*admin=*/nullptr, table);
  }
  absl::Status Start() override { return absl::OkStatus(); }
  bool Ready() override { return true; }
  void Drain(Closure done) override { done(); }

 private:
  LoggingStore() = default;

  // Destroyed in reverse order: the store before the log.
  Log log_;
  std::unique_ptr<kv::RocksKvStore> store_;
};

void Validate(std::vector<std::string>& errors) {
  store::ValidateStoreFlags(errors);
  if (absl::GetFlag(FLAGS_commit_log).empty()) errors.push_back("--commit_log: is required");
}

}  // namespace
}  // namespace escapement::chaos

int main(int argc, char** argv) {
  return escapement::RunService(
      argc, argv,
      {.name = "store",
       .description = "keeps everything durable, and writes down what it decides",
       .listen = "127.0.0.1:7400",
       .http_listen = "127.0.0.1:7401",
       .receive_bytes_max = escapement::store::StoreServer::kReceiveBytesMax,
       .validate = escapement::chaos::Validate,
       .make = escapement::chaos::LoggingStore::Make});
}
