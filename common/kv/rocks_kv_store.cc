#include "common/kv/rocks_kv_store.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/micros.h"
#include "common/kv/commit_validation.h"
#include "common/kv/meta_keys.h"
#include "common/kv/pending_answer.h"
#include "common/kv/rocks_database.h"
#include "common/kv/store_kernel.h"
#include "common/kv/watch_hub.h"
#include "common/kv/witness_file.h"
#include "spdlog/spdlog.h"

namespace escapement::kv {
namespace {

// The writer looks at the clock at least this often.
constexpr absl::Duration kTick = absl::Seconds(1);
// The file system is asked for its room once in this many bytes written.
constexpr uint64_t kRoomCheckBytes = 16 << 20;

std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

uint64_t FreeBytes(const std::string& path) {
  struct statvfs info = {};
  // A file system that does not tell is not held to be full: the write itself will fail if it is.
  if (statvfs(path.c_str(), &info) != 0) return ~uint64_t{0};
  return uint64_t{info.f_bavail} * info.f_frsize;
}

[[noreturn]] void EndProcess(const absl::Status& status) {
  spdlog::critical("the store's disk has failed, the process ends: {}", status.ToString());
  spdlog::shutdown();
  _exit(70);
}

size_t BytesOf(const CommitRequest& request) {
  size_t bytes = 64;
  for (const Group& group : request.groups) {
    for (const Mutation& mutation : group.mutations) bytes += mutation.key.size() + mutation.value.size() + 16;
  }
  return bytes;
}

// Refuses a database that holds less than was acknowledged, or makes it a new incarnation if that was accepted.
absl::Status CheckWitness(RocksDatabase& database, const WitnessFile& witness, bool accept_loss, Clock& clock) {
  std::string value;
  const bool exists = StoreKernel::Exists(database);
  auto number = [&](absl::string_view key) -> uint64_t {
    return exists && database.Get(ColumnFamily::kMeta, key, &value) && value.size() == 8
               ? ReadBigEndian<uint64_t>(value)
               : 0;
  };
  const uint64_t incarnation = number(kIncarnationKey);
  const CommitSeq seq = number(kSeqKey);
  const Witnessed seen = witness.found().value_or(Witnessed{});
  const bool behind = seen.incarnation > incarnation || (seen.incarnation == incarnation && seen.seq > seq);
  if (behind && !accept_loss) {
    return absl::DataLossError(
        absl::StrCat("acknowledged commits are missing: the data ends at commit ", seq, " of incarnation ", incarnation,
                     ", the witness has seen ", seen.seq, " of ", seen.incarnation,
                     "; restore a newer copy, or accept the loss"));
  }
  if (accept_loss && exists) {
    const uint64_t now = static_cast<uint64_t>(ToMicros(clock.WallNow()));
    StoreKernel::NewIncarnation(database, database.batch(), std::max(now, seen.incarnation + 1));
    database.Write();
  }
  return absl::OkStatus();
}

}  // namespace

class RocksKvStore::Core {
 public:
  Core(Options options, Clock& clock, std::unique_ptr<RocksDatabase> database, std::unique_ptr<WitnessFile> witness,
       std::unique_ptr<StoreKernel> kernel, Layout layout);

  void Start();
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);

  // A commit, or the opening of a session if `request` is null.
  struct Work {
    std::shared_ptr<const CommitRequest> request;
    std::optional<PendingAnswer<CommitResult>> committed;
    bool refused = false;  // the queue was full; answered in its turn, after an earlier copy of itself
    uint64_t seen_incarnation = 0;
    CommitSeq seen = 0;
    std::optional<PendingAnswer<SessionInfo>> opened;
  };
  void Enqueue(Work work) ABSL_LOCKS_EXCLUDED(mu_);
  // Runs on the writer's thread before the next commit is published.
  void Control(Closure control) ABSL_LOCKS_EXCLUDED(mu_);
  void ConfirmClock(Callback<Info> done) {
    Control([this, answer = PendingAnswer<Info>(std::move(done))]() mutable {
      kernel_->ConfirmClock(Reading());
      Publish(/*wrote=*/false);
      answer.Give(info());
    });
  }

  struct View {
    std::shared_ptr<const RocksDatabase::Snapshot> snapshot;
    CommitSeq seq = 0;
    absl::Time store_time;
  };
  // Runs on a reading thread with the latest published state.
  void Read(absl::AnyInvocable<void(const View&)> read) ABSL_LOCKS_EXCLUDED(read_mu_);

  Info info() const ABSL_LOCKS_EXCLUDED(mu_);
  WatchHub& hub() { return hub_; }  // on the writer's thread

 private:
  ClockReading Reading() const { return {clock_.Elapsed(), clock_.WallNow()}; }
  void RunWriter() ABSL_LOCKS_EXCLUDED(mu_);
  void RunReader() ABSL_LOCKS_EXCLUDED(read_mu_);
  void RunWitness() ABSL_LOCKS_EXCLUDED(mu_);
  void WriteWitness() ABSL_LOCKS_EXCLUDED(mu_);
  bool TakeQueue(std::vector<Work>* batch) ABSL_LOCKS_EXCLUDED(mu_);
  void RunControls() ABSL_LOCKS_EXCLUDED(mu_);
  bool HasRoom();
  void RefuseAll(std::vector<Work> batch);
  void CommitBatch(std::vector<Work> batch);
  void Publish(bool wrote) ABSL_LOCKS_EXCLUDED(mu_);
  View Latest() const ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;
  Clock& clock_;
  const Layout layout_;
  const std::unique_ptr<RocksDatabase> database_;
  // Of the witness thread, and after its end of Stop.
  const std::unique_ptr<WitnessFile> witness_;
  Witnessed witnessed_;

  // Of the writer's thread.
  const std::unique_ptr<StoreKernel> kernel_;
  WatchHub hub_;
  uint64_t bytes_until_room_check_ = 0;
  bool has_room_ = true;

  mutable absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<Work> queue_ ABSL_GUARDED_BY(mu_);
  std::vector<Closure> controls_ ABSL_GUARDED_BY(mu_);
  View published_ ABSL_GUARDED_BY(mu_);
  absl::Duration published_at_ ABSL_GUARDED_BY(mu_);
  Info info_ ABSL_GUARDED_BY(mu_);

  absl::Mutex read_mu_;
  bool reads_stopping_ ABSL_GUARDED_BY(read_mu_) = false;
  std::deque<absl::AnyInvocable<void(const View&)>> reads_ ABSL_GUARDED_BY(read_mu_);

  std::thread writer_;
  std::thread witness_thread_;
  std::vector<std::thread> readers_;
};

RocksKvStore::Core::Core(Options options, Clock& clock, std::unique_ptr<RocksDatabase> database,
                         std::unique_ptr<WitnessFile> witness, std::unique_ptr<StoreKernel> kernel, Layout layout)
    : options_(std::move(options)),
      clock_(clock),
      layout_(layout),
      database_(std::move(database)),
      witness_(std::move(witness)),
      kernel_(std::move(kernel)),
      hub_(kernel_->seq(), options_.watch_history_bytes_max) {}

void RocksKvStore::Core::Start() {
  Publish(/*wrote=*/true);
  writer_ = std::thread([this] { RunWriter(); });
  witness_thread_ = std::thread([this] { RunWitness(); });
  for (int i = 0; i < options_.read_threads; ++i) readers_.emplace_back([this] { RunReader(); });
}

void RocksKvStore::Core::Stop() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  {
    absl::MutexLock lock(&read_mu_);
    reads_stopping_ = true;
  }
  writer_.join();
  witness_thread_.join();
  for (std::thread& reader : readers_) reader.join();
  WriteWitness();  // of the writer's last batch
  hub_.LagAll(absl::UnavailableError("the store has stopped"));
  // What has not been taken answers UNAVAILABLE by its end.
  std::deque<Work> queue;
  std::deque<absl::AnyInvocable<void(const View&)>> reads;
  {
    absl::MutexLock lock(&mu_);
    queue.swap(queue_);
    published_.snapshot.reset();
  }
  absl::MutexLock lock(&read_mu_);
  reads.swap(reads_);
}

void RocksKvStore::Core::Enqueue(Work work) {
  absl::MutexLock lock(&mu_);
  if (stopping_) return;
  work.refused = queue_.size() >= options_.commits_queued_max;
  queue_.push_back(std::move(work));
}

void RocksKvStore::Core::Control(Closure control) {
  absl::MutexLock lock(&mu_);
  if (!stopping_) controls_.push_back(std::move(control));
}

bool RocksKvStore::Core::TakeQueue(std::vector<Work>* batch) {
  absl::MutexLock lock(&mu_);
  auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stopping_ || !queue_.empty() || !controls_.empty();
  };
  mu_.AwaitWithTimeout(absl::Condition(&ready), kTick);
  if (stopping_) return false;
  size_t bytes = 0;
  while (!queue_.empty() && bytes < options_.batch_bytes_max) {
    if (queue_.front().request != nullptr) bytes += BytesOf(*queue_.front().request);
    batch->push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return true;
}

void RocksKvStore::Core::RunControls() {
  std::vector<Closure> controls;
  {
    absl::MutexLock lock(&mu_);
    controls.swap(controls_);
  }
  for (Closure& control : controls) control();
}

void RocksKvStore::Core::RunWriter() {
  std::vector<Work> batch;
  while (TakeQueue(&batch)) {
    if (batch.empty()) RunControls();
    if (batch.empty() && !kernel_->WantsBatch(Reading())) {
      Publish(/*wrote=*/false);
    } else if (HasRoom()) {
      CommitBatch(std::move(batch));
    } else {
      RefuseAll(std::move(batch));
      RunControls();
      Publish(/*wrote=*/false);
    }
    batch.clear();
  }
}

bool RocksKvStore::Core::HasRoom() {
  if (has_room_ && bytes_until_room_check_ > 0) return true;
  const bool had_room = std::exchange(
      has_room_, (options_.free_bytes ? options_.free_bytes : FreeBytes)(options_.data_dir) >= options_.free_bytes_min);
  bytes_until_room_check_ = kRoomCheckBytes;
  if (had_room != has_room_) {
    spdlog::warn(has_room_ ? "the disk has room again: commits are accepted" : "the disk is full: commits are refused");
  }
  return has_room_;
}

void RocksKvStore::Core::RefuseAll(std::vector<Work> batch) {
  const absl::Status full = absl::ResourceExhaustedError("the store's disk is full");
  for (Work& work : batch) {
    if (work.request == nullptr) {
      work.opened->Give(full);
    } else {
      work.committed->Give(kernel_->engine().Refuse(*work.request, full));
    }
  }
}

void RocksKvStore::Core::CommitBatch(std::vector<Work> batch) {
  std::vector<absl::StatusOr<CommitResult>> results;
  std::vector<absl::StatusOr<SessionInfo>> sessions;
  std::vector<std::shared_ptr<const CommitRecord>> records;
  results.reserve(batch.size());
  if (auto record = kernel_->BeginBatch(database_->batch(), Reading())) records.push_back(std::move(record));
  for (Work& work : batch) {
    if (work.request == nullptr) {
      sessions.push_back(kernel_->OpenSession(work.seen_incarnation, work.seen));
      continue;
    }
    if (work.refused) {
      const absl::Status full = absl::ResourceExhaustedError("too many commits wait for the store");
      results.push_back(kernel_->engine().Refuse(*work.request, full));
      continue;
    }
    auto decision = kernel_->engine().Decide(std::move(work.request));
    if (decision.record != nullptr) records.push_back(std::move(decision.record));
    results.push_back(std::move(decision.answer));
  }
  const bool wrote = kernel_->EndBatch();
  if (wrote) {
    bytes_until_room_check_ -= std::min<uint64_t>(bytes_until_room_check_, database_->batch_bytes());
    database_->Write();
  } else {
    database_->ClearBatch();
  }
  // First the state, then the watches, which by then know of every MoveEnd that a scan of an older state followed.
  Publish(wrote);
  RunControls();
  for (auto& record : records) hub_.Publish(std::move(record));
  auto result = results.begin();
  auto session = sessions.begin();
  for (Work& work : batch) {
    if (work.opened.has_value()) {
      work.opened->Give(std::move(*session++));
    } else {
      work.committed->Give(std::move(*result++));
    }
  }
  absl::MutexLock lock(&mu_);
  info_.commits += results.size();
  info_.syncs += wrote ? 1 : 0;
}

void RocksKvStore::Core::Publish(bool wrote) {
  View view;
  if (wrote) view.snapshot = database_->TakeSnapshot();
  view.seq = kernel_->seq();
  const ClockReading now = Reading();
  view.store_time = kernel_->Now(now);
  absl::MutexLock lock(&mu_);
  if (wrote) published_.snapshot.swap(view.snapshot);  // the old one ends outside the lock
  published_.seq = view.seq;
  published_.store_time = view.store_time;
  published_at_ = now.boottime;
  info_.incarnation = kernel_->incarnation();
  info_.seq = view.seq;
  info_.layout = layout_;
  info_.clock_disagreement = kernel_->clock().disagreement();
  info_.clock_hold = kernel_->clock().hold();
  info_.accepting = has_room_;
}

RocksKvStore::Core::View RocksKvStore::Core::Latest() const {
  const absl::Duration now = clock_.Elapsed();
  absl::MutexLock lock(&mu_);
  View view = published_;
  // A lower bound that is good enough for readers: the clock itself belongs to the writer.
  const absl::Duration since = std::max(now - published_at_, absl::ZeroDuration());
  view.store_time += since - since * StoreClock::kSlewMax;
  return view;
}

RocksKvStore::Info RocksKvStore::Core::info() const {
  Info info;
  {
    absl::MutexLock lock(&mu_);
    info = info_;
  }
  info.store_time = Latest().store_time;
  return info;
}

void RocksKvStore::Core::Read(absl::AnyInvocable<void(const View&)> read) {
  absl::MutexLock lock(&read_mu_);
  if (!reads_stopping_) reads_.push_back(std::move(read));
}

void RocksKvStore::Core::RunReader() {
  auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(read_mu_) { return reads_stopping_ || !reads_.empty(); };
  while (true) {
    absl::AnyInvocable<void(const View&)> read;
    {
      absl::MutexLock lock(&read_mu_);
      read_mu_.Await(absl::Condition(&ready));
      if (reads_stopping_) return;
      read = std::move(reads_.front());
      reads_.pop_front();
    }
    read(Latest());
  }
}

void RocksKvStore::Core::RunWitness() {
  bool stopping = false;
  while (!stopping) {
    {
      absl::MutexLock lock(&mu_);
      mu_.AwaitWithTimeout(absl::Condition(&stopping_), options_.witness_interval);
      stopping = stopping_;
    }
    WriteWitness();
  }
}

void RocksKvStore::Core::WriteWitness() {
  Witnessed latest;
  {
    absl::MutexLock lock(&mu_);
    latest = {info_.incarnation, info_.seq};
  }
  if (latest == witnessed_) return;
  if (auto status = witness_->Write(latest); !status.ok()) {
    spdlog::error("the witness of acknowledged commits cannot be written: {}", status.ToString());
    return;
  }
  witnessed_ = latest;
}

// --- the KvStore ---

absl::StatusOr<std::unique_ptr<RocksKvStore>> RocksKvStore::Open(Options options, Clock& clock) {
  if (auto status = ValidateLayout(options.layout); !status.ok()) return status;
  if (!options.on_fatal) options.on_fatal = EndProcess;
  if (mkdir(options.data_dir.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make ", options.data_dir));
  }
  RocksDatabase::Options database_options;
  database_options.block_cache_bytes = options.block_cache_bytes;
  database_options.write_buffer_bytes = options.write_buffer_bytes;
  database_options.write_buffers_bytes_max = 10 * options.write_buffer_bytes;
  database_options.on_fatal = options.on_fatal;
  auto database = RocksDatabase::Open(absl::StrCat(options.data_dir, "/db"), database_options);
  if (!database.ok()) return database.status();
  auto witness = WitnessFile::Open(absl::StrCat(options.data_dir, "/witness"));
  if (!witness.ok()) return witness.status();
  if (auto status = CheckWitness(**database, **witness, options.accept_loss, clock); !status.ok()) return status;
  if (!StoreKernel::Exists(**database)) {
    const uint64_t seen = (*witness)->found().value_or(Witnessed{}).incarnation;
    StoreKernel::Create((*database)->batch(), std::max(static_cast<uint64_t>(ToMicros(clock.WallNow())), seen + 1),
                        options.layout);
    (*database)->Write();
  }
  std::string layout_bytes;
  (*database)->Get(ColumnFamily::kMeta, kLayoutKey, &layout_bytes);
  auto layout = DecodeLayout(layout_bytes);
  if (!layout.ok()) return layout.status();
  StoreKernel::Options kernel_options;
  kernel_options.engine.recent_slots_log2 = options.recent_slots_log2;
  kernel_options.lease_ttl = options.lease_ttl;
  kernel_options.boot_id = BootId();
  auto kernel = StoreKernel::Load(kernel_options, **database, {clock.Elapsed(), clock.WallNow()});
  if (!kernel.ok()) return kernel.status();
  auto core = std::make_shared<Core>(std::move(options), clock, *std::move(database), *std::move(witness),
                                     *std::move(kernel), *layout);
  core->Start();
  return std::unique_ptr<RocksKvStore>(new RocksKvStore(std::move(core)));
}

RocksKvStore::RocksKvStore(std::shared_ptr<Core> core) : core_(std::move(core)) {}
RocksKvStore::~RocksKvStore() { core_->Stop(); }

RocksKvStore::Info RocksKvStore::info() const { return core_->info(); }
void RocksKvStore::ConfirmClock(Callback<Info> done) { core_->ConfirmClock(std::move(done)); }

class RocksKvStore::Handle final : public Watch {
 public:
  Handle(std::weak_ptr<Core> core, std::shared_ptr<WatchHub::Watcher> watcher)
      : core_(std::move(core)), watcher_(std::move(watcher)) {}
  ~Handle() override { watcher_->gate.Close(); }

  void MoveEnd(std::string end) override {
    auto core = core_.lock();
    if (core == nullptr) return;
    core->Control([core = core.get(), watcher = watcher_, end = std::move(end)]() mutable {
      core->hub().MoveEnd(watcher, std::move(end));
    });
  }

 private:
  std::weak_ptr<Core> core_;
  std::shared_ptr<WatchHub::Watcher> watcher_;
};

void RocksKvStore::OpenSession(uint64_t seen_incarnation, CommitSeq seen, Callback<SessionInfo> done) {
  Core::Work work;
  work.seen_incarnation = seen_incarnation;
  work.seen = seen;
  work.opened.emplace(std::move(done));
  core_->Enqueue(std::move(work));
}

void RocksKvStore::Commit(std::shared_ptr<const CommitRequest> request, Callback<CommitResult> done) {
  Core::Work work;
  work.request = std::move(request);
  work.committed.emplace(std::move(done));
  core_->Enqueue(std::move(work));
}

void RocksKvStore::MultiGet(std::vector<Key> keys, Callback<GetResult> done) {
  core_->Read([keys = std::move(keys), answer = PendingAnswer<GetResult>(std::move(done))](const Core::View& view) mutable {
    GetResult result{{}, view.seq, view.store_time};
    absl::Status status = ValidateKeys(keys);
    if (status.ok()) status = view.snapshot->MultiGet(keys, &result);
    status.ok() ? answer.Give(std::move(result)) : answer.Give(status);
  });
}

void RocksKvStore::Scan(ScanRequest request, Callback<ScanResult> done) {
  core_->Read([request = std::move(request),
               answer = PendingAnswer<ScanResult>(std::move(done))](const Core::View& view) mutable {
    ScanResult result;
    result.seq = view.seq;
    result.store_time = view.store_time;
    absl::Status status = ValidateScan(request);
    if (status.ok()) status = view.snapshot->Scan(request, &result);
    status.ok() ? answer.Give(std::move(result)) : answer.Give(status);
  });
}

std::unique_ptr<Watch> RocksKvStore::OpenWatch(WatchRequest request, WatchObserver observer) {
  auto watcher = std::make_shared<WatchHub::Watcher>(std::move(request), std::move(observer));
  core_->Control([core = core_.get(), watcher] { core->hub().Add(watcher); });
  return std::make_unique<Handle>(core_, watcher);
}

}  // namespace escapement::kv
