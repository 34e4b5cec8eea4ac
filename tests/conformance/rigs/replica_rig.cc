#include "tests/conformance/rigs/replica_rig.h"

#include <stdlib.h>

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/base/check.h"
#include "common/kv/log/pg/pg_log.h"
#include "tests/conformance/log/pg_log_rig.h"

namespace escapement::kv {
namespace {

constexpr absl::Duration kReplicaPatience = absl::Seconds(60);

std::string NewReplicaFolder() {
  const char* base = getenv("TEST_TMPDIR");
  std::string path = absl::StrCat(base != nullptr ? base : "/tmp", "/replica-XXXXXX");
  return mkdtemp(path.data());
}

ReplicatedKvStore::Options StoreOptions(const std::string& folder, const RigOptions& rig) {
  ReplicatedKvStore::Options options;
  RocksKvStore::Options& rocks = options.rocks;
  rocks.data_dir = folder;
  rocks.lease_ttl = rig.lease_ttl;
  rocks.accept_loss = rig.accept_loss;
  rocks.recent_slots_log2 = rig.recent_slots_log2;
  rocks.watch_history_bytes_max = 1 << 20;
  rocks.block_cache_bytes = 8 << 20;
  rocks.write_buffer_bytes = 4 << 20;
  rocks.free_bytes_min = 0;
  rocks.beat_interval = absl::InfiniteDuration();  // a replica sets its own
  return options;
}

// Copying a new database takes far less time than making one with all its column families.
void FillFolder(const std::string& folder) {
  static const std::string* const made = [] {
    const std::string folder = NewReplicaFolder();
    SystemRuntime runtime;
    ThreadedLogEngine engine;
    ThreadedLog log(runtime, engine);
    log.Hold();
    ReplicatedKvStore::Options options = StoreOptions(folder, {});
    options.replica.owner = options.replica.address = "nobody";
    CHECK(ReplicatedKvStore::Open(std::move(options), runtime, log).ok());
    return new std::string(folder);
  }();
  std::filesystem::copy(*made, folder, std::filesystem::copy_options::recursive);
}

}  // namespace

ReplicaProcess::ReplicaProcess(std::shared_ptr<SharedLog> log, std::string name, RigOptions options,
                               std::string boot_id, ReplicaLoop::Options loop)
    : log_(std::move(log)),
      name_(std::move(name)),
      options_(options),
      loop_(std::move(loop)),
      runtime_(std::move(boot_id)),
      folder_(NewReplicaFolder()) {
  FillFolder(folder_);
  Start();
}

ReplicaProcess::~ReplicaProcess() {
  store_.reset();
  std::filesystem::remove_all(folder_);
}

void ReplicaProcess::Start() {
  ReplicatedKvStore::Options options = StoreOptions(folder_, options_);
  role_ = std::make_shared<Role>();
  options.replica = loop_;
  options.replica.owner = absl::StrCat(name_, "-", ++lives_, "-", folder_);
  options.replica.address = name_;
  options.replica.on_role = [role = role_](ReplicaRole now) {
    absl::MutexLock lock(&role->mu);
    role->role = now;
  };
  auto store = ReplicatedKvStore::Open(std::move(options), runtime_, *log_);
  CHECK(store.ok()) << store.status().ToString();
  store_ = *std::move(store);
}

void ReplicaProcess::Restart() {
  HandOver();
  Kill();
  Start();
  AwaitLead();
}

void ReplicaProcess::HandOver() {
  absl::Notification done;
  store_->HandOver([&done] { done.Notify(); });
  done.WaitForNotification();
}

void ReplicaProcess::DeleteFolder() { std::filesystem::remove_all(folder_ + "/replica"); }

void ReplicaProcess::Await(ReplicaRole role) {
  absl::MutexLock lock(&role_->mu);
  auto here = [this, role] { return role_->role == role; };
  CHECK(role_->mu.AwaitWithTimeout(absl::Condition(&here), kReplicaPatience))
      << "the role has not come";
}

namespace {

// One replica with an engine of its own.
class ReplicatedRig final : public KvRig {
 public:
  explicit ReplicatedRig(RigOptions options)
      : process_(std::make_shared<ThreadedLog>(runtime_, engine_), "only", options) {
    process_.AwaitLead();
  }
  KvStore& store() override { return process_.store(); }
  void Restart() override { process_.Restart(); }

 private:
  SystemRuntime runtime_;
  ThreadedLogEngine engine_;
  ReplicaProcess process_;
};

}  // namespace

std::unique_ptr<KvRig> NewPgReplicatedRig(RigOptions options) {
  // Destroyed in the reverse order.
  struct Rig final : KvRig {
    explicit Rig(RigOptions options)
        : process(
              PgLog::Make(runtime, {.url = TestPostgres().url(), .store = NewStoreName()}).value(),
              "only", options) {
      process.AwaitLead();
    }
    KvStore& store() override { return process.store(); }
    void Restart() override { process.Restart(); }
    SystemRuntime runtime;
    ReplicaProcess process;
  };
  return std::make_unique<Rig>(options);
}

std::unique_ptr<KvRig> NewReplicatedRig(RigOptions options) {
  return std::make_unique<ReplicatedRig>(options);
}

}  // namespace escapement::kv
