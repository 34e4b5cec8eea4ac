#include "common/kv/rocks/rocks_kv_store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/kv/commit_validation.h"
#include "common/kv/engine/pending_answer.h"
#include "common/kv/engine/store_kernel.h"
#include "common/kv/engine/watch_hub.h"
#include "common/kv/layout.h"
#include "common/kv/rocks/rocks_database.h"
#include "common/kv/rocks/rocks_store_core.h"
#include "common/kv/rocks/store_database.h"
#include "common/kv/rocks/witness_file.h"
#include "rocksdb/file_system.h"
#include "spdlog/spdlog.h"

namespace escapement::kv {
namespace {

// The first session number of a process, far from those of all other processes. The high bits are
// the seconds of the start, so numbers order unused sessions by age. The low bits are random.
uint64_t FirstSession(Clock& clock) {
  std::random_device random;
  return static_cast<uint64_t>(std::max<int64_t>(absl::ToUnixSeconds(clock.WallNow()), 1)) << 31 |
         random() >> 1;
}

// Returns the folder that holds `path`.
std::string FolderOf(const std::string& path) {
  const auto whole = std::filesystem::absolute(path).lexically_normal();
  // A path that ends in a slash is its own parent.
  return whole.has_filename() ? whole.parent_path() : whole.parent_path().parent_path();
}

// Makes the names in a folder durable.
absl::Status SyncFolder(rocksdb::FileSystem& file_system, const std::string& path) {
  std::unique_ptr<rocksdb::FSDirectory> folder;
  auto status = file_system.NewDirectory(path, rocksdb::IOOptions(), &folder, nullptr);
  if (status.ok()) status = folder->Fsync(rocksdb::IOOptions(), nullptr);
  if (status.ok()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cannot sync ", path, ": ", status.ToString()));
}

// Refuses a database that holds less than was acknowledged. If the loss is accepted, begins a new
// incarnation instead.
absl::Status CheckWitness(RocksDatabase& database, const WitnessFile& witness, bool accept_loss,
                          Clock& clock) {
  std::string value;
  const bool exists = StoreKernel::Exists(database);
  auto number = [&](absl::string_view key) -> uint64_t {
    return exists && database.Get(ColumnFamily::kMeta, key, value) && value.size() == 8
               ? ReadBigEndian<uint64_t>(value)
               : 0;
  };
  const uint64_t incarnation = number(kIncarnationKey);
  const CommitSeq seq = number(kSeqKey);
  const Witnessed seen = witness.found().value_or(Witnessed{});
  const bool behind =
      seen.incarnation > incarnation || (seen.incarnation == incarnation && seen.seq > seq);
  if (behind && !accept_loss) {
    return absl::DataLossError(
        absl::StrCat("acknowledged commits are missing: the data ends at commit ", seq,
                     " of incarnation ", incarnation, ", the witness has seen ", seen.seq, " of ",
                     seen.incarnation, "; restore a newer copy, or start with --accept_loss"));
  }
  if (accept_loss && exists) {
    const uint64_t now = static_cast<uint64_t>(ToMicros(clock.WallNow()));
    StoreKernel::NewIncarnation(database, database.batch(), std::max(now, seen.incarnation + 1));
    database.Write();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<StoreKernel>> LoadKernel(const RocksKvStore::Options& options,
                                                        std::optional<absl::Duration> clock_age,
                                                        RocksDatabase& database, Clock& clock) {
  StoreKernel::Options kernel;
  kernel.engine.recent_slots_log2 = options.recent_slots_log2;
  kernel.engine.first_session = FirstSession(clock);
  kernel.lease_ttl = options.lease_ttl;
  kernel.boot_id = clock.BootId();
  kernel.clock_age = clock_age;
  return StoreKernel::Load(kernel, database, {clock.Elapsed(), clock.WallNow()});
}

absl::StatusOr<Layout> ReadLayout(RocksDatabase& database) {
  std::string bytes;
  database.Get(ColumnFamily::kMeta, kLayoutKey, bytes);
  return DecodeLayout(bytes);
}

}  // namespace

RocksDatabase::Options StoreDatabaseOptions(const RocksKvStore::Options& options) {
  RocksDatabase::Options database;
  database.block_cache_bytes = options.block_cache_bytes;
  database.write_buffer_bytes = options.write_buffer_bytes;
  database.write_buffers_bytes_max = 10 * options.write_buffer_bytes;
  database.on_fatal = options.on_fatal;
  database.file_system = options.file_system;
  database.free_bytes = options.free_bytes;
  return database;
}

void EndStoreProcess(const absl::Status& status) {
  spdlog::critical("the store's disk has failed, the process ends: {}", status.ToString());
  spdlog::shutdown();
  _exit(70);
}

absl::StatusOr<std::unique_ptr<RocksKvStore>> RocksKvStore::Open(Options options, Clock& clock) {
  RETURN_IF_ERROR(ValidateLayout(options.layout));
  if (!options.on_fatal) options.on_fatal = EndStoreProcess;
  if (mkdir(options.data_dir.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make ", options.data_dir));
  }
  rocksdb::FileSystem& file_system =
      options.file_system != nullptr ? *options.file_system : *rocksdb::FileSystem::Default();
  if (std::filesystem::exists(absl::StrCat(options.data_dir, "/", kReplicaFolder))) {
    return absl::FailedPreconditionError(
        absl::StrCat(options.data_dir, " has the copy of a replica: the state is in a shared log"));
  }
  const std::string imported = absl::StrCat(options.data_dir, "/", kImportedFile);
  const bool is_imported = std::filesystem::exists(imported);
  ASSIGN_OR_RETURN(auto database,
                   RocksDatabase::Open(absl::StrCat(options.data_dir, "/", kDatabaseFolder),
                                       StoreDatabaseOptions(options)));
  ASSIGN_OR_RETURN(auto witness,
                   WitnessFile::Open(file_system, absl::StrCat(options.data_dir, "/", kWitnessFile),
                                     database->room()));
  // Sync the folder's names. Otherwise a power loss could remove the database together with its
  // witness, and the rest would look like a new store.
  RETURN_IF_ERROR(SyncFolder(file_system, options.data_dir));
  RETURN_IF_ERROR(StoreKernel::CheckFormat(*database));
  if (auto status = CheckWitness(*database, *witness, options.accept_loss || is_imported, clock);
      !status.ok())
    return status;
  if (is_imported) {
    // The snapshot may be that of a replica.
    database->batch().Delete(ColumnFamily::kMeta, kLogPlaceKey);
    database->Write();
    std::error_code error;
    std::filesystem::remove(imported, error);
    if (error)
      return absl::InternalError(absl::StrCat("cannot remove ", imported, ": ", error.message()));
    RETURN_IF_ERROR(SyncFolder(file_system, options.data_dir));
  }
  if (!StoreKernel::Exists(*database)) {
    if (auto status = SyncFolder(file_system, FolderOf(options.data_dir)); !status.ok())
      return status;
    const uint64_t seen = witness->found().value_or(Witnessed{}).incarnation;
    StoreKernel::Create(database->batch(),
                        std::max(static_cast<uint64_t>(ToMicros(clock.WallNow())), seen + 1),
                        options.layout);
    database->Write();
  }
  ASSIGN_OR_RETURN(auto layout, ReadLayout(*database));
  ASSIGN_OR_RETURN(auto kernel, LoadKernel(options, /*clock_age=*/std::nullopt, *database, clock));
  auto core = std::make_shared<RocksStoreCore>(std::move(options), clock, std::move(database),
                                               std::move(witness), /*log=*/nullptr,
                                               std::move(kernel), layout);
  RETURN_IF_ERROR(core->Start());
  return std::unique_ptr<RocksKvStore>(new RocksKvStore(std::move(core)));
}

absl::StatusOr<std::unique_ptr<RocksKvStore>> RocksKvStore::OpenReplica(Options options,
                                                                        Clock& clock,
                                                                        Replica replica) {
  ASSIGN_OR_RETURN(auto layout, ReadLayout(*replica.database));
  ASSIGN_OR_RETURN(auto kernel, LoadKernel(options, replica.clock_age, *replica.database, clock));
  auto core = std::make_shared<RocksStoreCore>(std::move(options), clock,
                                               std::move(replica.database), /*witness=*/nullptr,
                                               &replica.log, std::move(kernel), layout);
  RETURN_IF_ERROR(core->Start());
  return std::unique_ptr<RocksKvStore>(new RocksKvStore(std::move(core)));
}

std::unique_ptr<RocksDatabase> RocksKvStore::Release(bool hand_over) {
  core_->Stop(hand_over ? BatchLog::Last::kYes : BatchLog::Last::kNo);
  return core_->TakeDatabase();
}

RocksKvStore::RocksKvStore(std::shared_ptr<RocksStoreCore> core) : core_(std::move(core)) {}
RocksKvStore::~RocksKvStore() { core_->Close(); }

absl::Status RocksKvStore::MakeCheckpoint(const std::string& folder) {
  return core_->MakeCheckpoint(folder);
}

RocksKvStore::Info RocksKvStore::info() const { return core_->info(); }
StoreSize RocksKvStore::size() const { return core_->size(); }
void RocksKvStore::AskClock(ClockCall call, Callback<ClockState> done) {
  core_->AskClock(std::move(call), std::move(done));
}

class RocksKvStore::Handle final : public Watch {
 public:
  Handle(std::weak_ptr<RocksStoreCore> core, std::shared_ptr<WatchHub::Watcher> watcher)
      : core_(std::move(core)), watcher_(std::move(watcher)) {}
  ~Handle() override { watcher_->gate.Close(); }

  void MoveEnd(size_t range, std::string end) override {
    auto core = core_.lock();
    if (core == nullptr) return;
    core->RunOnWriter(
        [core = core.get(), watcher = watcher_, range, end = std::move(end)]() mutable {
          core->hub().MoveEnd(*watcher, range, std::move(end));
        });
  }

 private:
  std::weak_ptr<RocksStoreCore> core_;
  std::shared_ptr<WatchHub::Watcher> watcher_;
};

void RocksKvStore::OpenSession(uint64_t seen_incarnation, CommitSeq seen,
                               Callback<SessionInfo> done) {
  RocksStoreCore::Work work;
  work.seen_incarnation = seen_incarnation;
  work.seen = seen;
  work.opened.emplace(std::move(done));
  core_->Enqueue(std::move(work));
}

void RocksKvStore::Commit(std::shared_ptr<const CommitRequest> request,
                          Callback<CommitResult> done) {
  RocksStoreCore::Work work;
  work.request = std::move(request);
  work.committed.emplace(std::move(done));
  core_->Enqueue(std::move(work));
}

void RocksKvStore::MultiGet(std::vector<Key> keys, Callback<GetResult> done) {
  core_->Read([core = core_.get(), keys = std::move(keys),
               answer = PendingAnswer<GetResult>(std::move(done))](
                  const RocksStoreCore::View& view) mutable {
    GetResult result{{}, view.seq, view.store_time};
    absl::Status status = ValidateKeys(keys);
    if (status.ok()) status = view.snapshot->MultiGet(keys, result);
    if (status.ok()) status = ValidateAnswer(result);
    if (status.ok()) status = core->MayAnswer();
    status.ok() ? answer.Give(std::move(result)) : answer.Give(status);
  });
}

void RocksKvStore::Scan(ScanRequest request, Callback<ScanResult> done) {
  core_->Read([core = core_.get(), request = std::move(request),
               answer = PendingAnswer<ScanResult>(std::move(done))](
                  const RocksStoreCore::View& view) mutable {
    ScanResult result;
    result.seq = view.seq;
    result.store_time = view.store_time;
    absl::Status status = ValidateScan(request);
    if (status.ok()) status = view.snapshot->Scan(request, result);
    if (status.ok()) status = core->MayAnswer();
    status.ok() ? answer.Give(std::move(result)) : answer.Give(status);
  });
}

std::unique_ptr<Watch> RocksKvStore::OpenWatch(WatchRequest request, WatchObserver observer) {
  auto watcher = std::make_shared<WatchHub::Watcher>(std::move(request), std::move(observer));
  core_->RunOnWriter([core = core_.get(), watcher] { core->hub().Add(watcher); });
  return std::make_unique<Handle>(core_, watcher);
}

}  // namespace escapement::kv
