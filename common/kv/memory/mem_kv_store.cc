#include "common/kv/memory/mem_kv_store.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/kv/commit_validation.h"
#include "common/kv/engine/commit_engine.h"
#include "common/kv/engine/pending_answer.h"
#include "common/kv/engine/store_kernel.h"
#include "common/kv/engine/watch_hub.h"
#include "common/kv/layout.h"
#include "common/runtime/perturb.h"

namespace escapement::kv {

bool DiskState::Get(ColumnFamily cf, absl::string_view key, std::string& value) {
  const auto& family = disk_.families[static_cast<size_t>(cf)];
  auto it = family.find(key);
  if (it == family.end()) return false;
  value = it->second;
  return true;
}

void DiskState::ForEach(ColumnFamily cf, absl::string_view begin, absl::string_view end,
                        Visitor visit) {
  const auto& family = disk_.families[static_cast<size_t>(cf)];
  for (auto it = family.lower_bound(begin); it != family.end(); ++it) {
    if (!end.empty() && it->first >= end) return;
    if (!visit(it->first, it->second)) return;
  }
}

void DiskSink::Put(ColumnFamily cf, absl::string_view key, absl::string_view value) {
  disk_.families[static_cast<size_t>(cf)].insert_or_assign(std::string(key), std::string(value));
}

void DiskSink::Delete(ColumnFamily cf, absl::string_view key) {
  auto& family = disk_.families[static_cast<size_t>(cf)];
  if (const auto it = family.find(key); it != family.end()) family.erase(it);
}

void DiskSink::DeleteRange(ColumnFamily cf, absl::string_view begin, absl::string_view end) {
  auto& family = disk_.families[static_cast<size_t>(cf)];
  family.erase(family.lower_bound(begin), family.lower_bound(end));
}

ScanResult ScanDisk(const MemDisk& disk, const ScanRequest& request) {
  ScanResult result;
  const auto& family = disk.families[static_cast<size_t>(request.cf)];
  const size_t bytes_max = std::min(request.bytes_max, kScanBytesMax);
  size_t bytes = 0;
  auto full = [&] {
    return result.entries.size() >= request.limit || (bytes >= bytes_max && bytes > 0);
  };
  auto take = [&](const auto& entry) {
    result.entries.push_back({entry.first, request.keys_only ? std::string() : entry.second});
    bytes += entry.first.size() + result.entries.back().value.size();
  };
  auto scan = [&](std::string begin_key, const std::string& end_key) {
    if (request.cf == ColumnFamily::kMeta && begin_key < kMetaVisibleBegin)
      begin_key = std::string(kMetaVisibleBegin);
    if (!end_key.empty() && end_key <= begin_key) return;
    const auto begin = family.lower_bound(begin_key);
    const auto end = end_key.empty() ? family.end() : family.lower_bound(end_key);
    if (!request.reverse) {
      auto it = begin;
      for (; it != end && !full(); ++it) take(*it);
      result.more = it != end;
    } else {
      auto it = end;
      for (; it != begin && !full();) take(*--it);
      result.more = it != begin;
    }
  };
  scan(request.begin, request.end);
  for (const KeyRange& range : request.then) {
    result.more |= full();
    if (result.more) break;
    scan(range.begin, range.end);
  }
  return result;
}

namespace {

absl::Status Down() { return absl::UnavailableError("the store is down; the result is unknown"); }

absl::Status AnswerLost() {
  return absl::UnavailableError("the answer was lost; the result is unknown");
}

absl::Status QueueFull() {
  return absl::ResourceExhaustedError("too many commits wait for the store");
}

ClockReading Read(Clock& clock) {
  return {clock.Elapsed(), clock.WallNow(), clock.WallIsSynchronised()};
}

// Collects the writes of a batch until its sync.
class PendingWrites final : public WriteSink {
 public:
  void Put(ColumnFamily cf, absl::string_view key, absl::string_view value) override {
    writes_.push_back({Write::Kind::kPut, cf, std::string(key), std::string(value)});
  }
  void Delete(ColumnFamily cf, absl::string_view key) override {
    writes_.push_back({Write::Kind::kDelete, cf, std::string(key), {}});
  }
  void DeleteRange(ColumnFamily cf, absl::string_view begin, absl::string_view end) override {
    writes_.push_back({Write::Kind::kDeleteRange, cf, std::string(begin), std::string(end)});
  }

  void Clear() { writes_.clear(); }

  void ApplyTo(MemDisk& disk) {
    DiskSink sink(disk);
    for (Write& write : writes_) {
      switch (write.kind) {
        case Write::Kind::kPut:
          disk.families[static_cast<size_t>(write.cf)].insert_or_assign(std::move(write.key),
                                                                        std::move(write.value));
          break;
        case Write::Kind::kDelete:
          sink.Delete(write.cf, write.key);
          break;
        case Write::Kind::kDeleteRange:
          sink.DeleteRange(write.cf, write.key, write.value);
          break;
      }
    }
    writes_.clear();
  }

 private:
  struct Write {
    enum class Kind { kPut, kDelete, kDeleteRange } kind;
    ColumnFamily cf;
    std::string key;
    std::string value;
  };
  std::vector<Write> writes_;
};

}  // namespace

// One life of the store, from start to crash.
class MemKvStore::Process {
 public:
  struct Work {
    std::shared_ptr<const CommitRequest> request;  // null: open a session
    std::optional<PendingAnswer<CommitResult>> committed;
    // The queue was full. The refusal is answered in its turn, after an earlier copy of the same
    // commit.
    bool refused = false;
    uint64_t seen_incarnation = 0;
    CommitSeq seen = 0;
    std::optional<PendingAnswer<SessionInfo>> opened;
  };

  Process(Runtime& runtime, Executor& executor, const Options& options,
          std::shared_ptr<MemDisk> disk)
      : runtime_(runtime),
        executor_(executor),
        options_(options),
        disk_(std::move(disk)),
        base_(*disk_) {
    if (!StoreKernel::Exists(base_)) {
      StoreKernel::Create(pending_, static_cast<uint64_t>(ToMicros(runtime.clock().WallNow())),
                          options.layout);
      pending_.ApplyTo(*disk_);
    }
    StoreKernel::Options kernel_options;
    kernel_options.engine.recent_slots_log2 = options.recent_slots_log2;
    kernel_options.engine.first_session = (disk_->starts++ << 32) + 1;
    kernel_options.lease_ttl = options.lease_ttl;
    kernel_options.boot_id = "simulated";
    kernel_ = StoreKernel::Load(kernel_options, base_, Read(runtime.clock())).value();
    synced_seq_ = kernel_->seq();
    hub_ = std::make_unique<WatchHub>(synced_seq_, options.watch_history_bytes_max);
  }

  ~Process() {
    *alive_ = false;
    hub_->LagAll(Down());
  }

  void Enqueue(Work work) {
    work.refused = queue_.size() >= options_.commits_queued_max ||
                   (work.request != nullptr && Perturb(runtime_, Site::kStoreQueueFull));
    queue_.push_back(std::move(work));
    if (!syncing_) StartSync();
  }

  // For a crash that loses only the answers.
  void MakeDurable() {
    pending_.ApplyTo(*disk_);
    if (!options_.on_durable) return;
    for (const auto& record : records_) options_.on_durable(*record);
  }

  ClockState AskClock(const ClockCall& call) {
    const ClockState state = kernel_->AskClock(call, Read(runtime_.clock()));
    if (call.confirm && !syncing_) StartSync();
    return state;
  }

  WatchHub& hub() { return *hub_; }
  void AddWatch(std::shared_ptr<WatchHub::Watcher> watcher) {
    if (watcher->from_seq != kWatchFromNow && Perturb(runtime_, Site::kStoreWatchHistoryForgotten))
      return watcher->gate.Lagged(absl::OutOfRangeError("commits are not kept that far back"));
    hub_->Add(std::move(watcher));
  }

  GetResult Get(const std::vector<Key>& keys) {
    GetResult result;
    result.values.reserve(keys.size());
    for (const Key& key : keys) {
      std::string value;
      const bool present = base_.Get(key.cf, key.key, value);
      result.values.push_back(present ? std::optional<std::string>(std::move(value))
                                      : std::nullopt);
    }
    result.seq = synced_seq_;
    result.store_time = kernel_->Now(Read(runtime_.clock()));
    return result;
  }

  ScanResult Scan(const ScanRequest& request) {
    ScanResult result = ScanDisk(*disk_, request);
    result.seq = synced_seq_;
    result.store_time = kernel_->Now(Read(runtime_.clock()));
    return result;
  }

 private:
  void StartSync() {
    syncing_ = true;
    if (auto record = kernel_->BeginBatch(pending_, Read(runtime_.clock()), LatestNowLow(queue_)))
      records_.push_back(std::move(record));
    if (Perturb(runtime_, Site::kStoreRecentWritesForgotten)) kernel_->engine().ForgetRecent();
    do {
      if (queue_.empty()) break;
      Decide(std::move(queue_.front()));
      queue_.pop_front();
    } while (!Perturb(runtime_, Site::kStoreBatchOfOne));
    if (!kernel_->EndBatch()) pending_.Clear();
    const int slower = Perturb(runtime_, Site::kStoreSyncSlow) ? 100 : 1;
    executor_.PostAfter(slower * options_.sync_delay, [this, alive = alive_] {
      if (*alive) FinishSync();
    });
  }

  void Decide(Work work) {
    if (work.request == nullptr) {
      opened_.emplace_back(*std::move(work.opened),
                           kernel_->OpenSession(work.seen_incarnation, work.seen));
      return;
    }
    if (work.refused) {
      committed_.emplace_back(*std::move(work.committed),
                              kernel_->engine().Refuse(*work.request, QueueFull()));
      return;
    }
    auto decision = kernel_->Decide(std::move(work.request));
    if (decision.record != nullptr) records_.push_back(std::move(decision.record));
    committed_.emplace_back(*std::move(work.committed), std::move(decision.answer));
  }

  void FinishSync() {
    MakeDurable();
    synced_seq_ = kernel_->seq();
    syncing_ = false;
    auto records = std::exchange(records_, {});
    auto opened = std::exchange(opened_, {});
    auto committed = std::exchange(committed_, {});
    // Callbacks only queue further work, so they start a new sync on this executor.
    for (auto& record : records) hub_->Publish(std::move(record));
    for (auto& [answer, result] : opened) answer.Give(std::move(result));
    for (auto& [answer, result] : committed) {
      if (Perturb(runtime_, Site::kStoreCommitAnswerLost)) result = AnswerLost();
      answer.Give(std::move(result));
    }
    if (!queue_.empty() && !syncing_) StartSync();
  }

  Runtime& runtime_;
  Executor& executor_;
  const Options options_;
  std::shared_ptr<MemDisk> disk_;
  DiskState base_;
  std::unique_ptr<StoreKernel> kernel_;
  std::unique_ptr<WatchHub> hub_;
  CommitSeq synced_seq_ = 0;
  std::deque<Work> queue_;
  // The batch in the running sync.
  bool syncing_ = false;
  PendingWrites pending_;
  std::vector<std::shared_ptr<const CommitRecord>> records_;
  std::vector<std::pair<PendingAnswer<SessionInfo>, absl::StatusOr<SessionInfo>>> opened_;
  std::vector<std::pair<PendingAnswer<CommitResult>, absl::StatusOr<CommitResult>>> committed_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

class MemKvStore::Core {
 public:
  Core(Runtime& runtime, Options options, std::shared_ptr<MemDisk> disk)
      : runtime(runtime),
        options(options),
        disk(std::move(disk)),
        executor(runtime.NewExecutor("mem-kv-store")) {}

  void Start() { process = std::make_unique<Process>(runtime, *executor, options, disk); }

  // Runs `call(process)` on the executor; `process` is null while the store is down.
  template <typename F>
  void Post(F call) {
    executor->Post([this, call = std::move(call)]() mutable { call(process.get()); });
  }
  template <typename F>
  void PostRead(F call) {
    if (options.read_delay <= absl::ZeroDuration()) return Post(std::move(call));
    executor->PostAfter(options.read_delay,
                        [this, call = std::move(call)]() mutable { call(process.get()); });
  }

  Runtime& runtime;
  const Options options;
  const std::shared_ptr<MemDisk> disk;
  const std::shared_ptr<Executor> executor;
  std::unique_ptr<Process> process;  // touched on the executor; null while the store is down
};

class MemKvStore::Handle final : public Watch {
 public:
  Handle(std::weak_ptr<Core> core, std::shared_ptr<WatchHub::Watcher> watcher)
      : core_(std::move(core)), watcher_(std::move(watcher)) {}
  ~Handle() override { watcher_->gate.Close(); }

  void MoveEnd(size_t range, std::string end) override {
    auto core = core_.lock();
    if (core == nullptr) return;
    core->Post([watcher = watcher_, range, end = std::move(end)](Process* process) mutable {
      if (process != nullptr) process->hub().MoveEnd(*watcher, range, std::move(end));
    });
  }

 private:
  std::weak_ptr<Core> core_;
  std::shared_ptr<WatchHub::Watcher> watcher_;
};

MemKvStore::MemKvStore(Runtime& runtime, Options options)
    : MemKvStore(runtime, options, std::make_shared<MemDisk>()) {}

MemKvStore::MemKvStore(Runtime& runtime, Options options, std::shared_ptr<MemDisk> disk)
    : core_(std::make_shared<Core>(runtime, options, std::move(disk))) {
  core_->Start();
}

MemKvStore::~MemKvStore() {
  core_->executor->Stop();
  core_->process.reset();
}

const std::shared_ptr<MemDisk>& MemKvStore::disk() const { return core_->disk; }

void MemKvStore::Crash(Unsynced unsynced) {
  core_->Post([core = core_.get(), unsynced](Process* process) {
    if (process == nullptr) return;
    if (unsynced == Unsynced::kKept) process->MakeDurable();
    // Detach the process first: code that its last answers call must find the store down.
    auto ended = std::move(core->process);
  });
}

void MemKvStore::Restart() {
  core_->Post([core = core_.get()](Process* process) {
    if (process == nullptr) core->Start();
  });
}

void MemKvStore::ConfirmClock() {
  AskClock({.confirm = true}, [](const absl::StatusOr<ClockState>&) {});
}

void MemKvStore::AskClock(ClockCall call, Callback<ClockState> done) {
  core_->Post([call = std::move(call),
               answer = PendingAnswer<ClockState>(std::move(done))](Process* process) mutable {
    if (process == nullptr) return answer.Give(Down());
    answer.Give(process->AskClock(call));
  });
}

void MemKvStore::OpenSession(uint64_t seen_incarnation, CommitSeq seen,
                             Callback<SessionInfo> done) {
  Process::Work work;
  work.seen_incarnation = seen_incarnation;
  work.seen = seen;
  work.opened.emplace(std::move(done));
  core_->Post([work = std::move(work)](Process* process) mutable {
    if (process == nullptr) return work.opened->Give(Down());
    process->Enqueue(std::move(work));
  });
}

void MemKvStore::Commit(std::shared_ptr<const CommitRequest> request, Callback<CommitResult> done) {
  Process::Work work;
  work.request = std::move(request);
  work.committed.emplace(std::move(done));
  core_->Post([work = std::move(work)](Process* process) mutable {
    if (process == nullptr) return work.committed->Give(Down());
    process->Enqueue(std::move(work));
  });
}

void MemKvStore::MultiGet(std::vector<Key> keys, Callback<GetResult> done) {
  core_->PostRead([keys = std::move(keys),
                   answer = PendingAnswer<GetResult>(std::move(done))](Process* process) mutable {
    if (process == nullptr) return answer.Give(Down());
    if (auto status = ValidateKeys(keys); !status.ok()) return answer.Give(status);
    GetResult result = process->Get(keys);
    if (auto status = ValidateAnswer(result); !status.ok()) return answer.Give(status);
    answer.Give(std::move(result));
  });
}

void MemKvStore::Scan(ScanRequest request, Callback<ScanResult> done) {
  core_->PostRead([request = std::move(request),
                   answer = PendingAnswer<ScanResult>(std::move(done))](Process* process) mutable {
    if (process == nullptr) return answer.Give(Down());
    if (auto status = ValidateScan(request); !status.ok()) return answer.Give(status);
    answer.Give(process->Scan(request));
  });
}

std::unique_ptr<Watch> MemKvStore::OpenWatch(WatchRequest request, WatchObserver observer) {
  auto watcher = std::make_shared<WatchHub::Watcher>(std::move(request), std::move(observer));
  core_->Post([watcher](Process* process) {
    if (process == nullptr) return watcher->gate.Lagged(Down());
    process->AddWatch(watcher);
  });
  return std::make_unique<Handle>(core_, watcher);
}

}  // namespace escapement::kv
