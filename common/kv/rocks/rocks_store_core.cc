#include "common/kv/rocks/rocks_store_core.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <utility>

#include "common/kv/commit_validation.h"
#include "common/kv/engine/store_pace.h"
#include "spdlog/spdlog.h"

namespace escapement::kv {
namespace {

// The writer looks at the clock at least this often.
constexpr absl::Duration kTick = absl::Seconds(1);
// The store asks the file system for its free bytes once in this many bytes written.
constexpr uint64_t kRoomCheckBytes = 16 << 20;

uint64_t FreeBytes(const std::string& path) {
  struct statvfs info = {};
  // If statvfs fails, assume there is room: if the disk is full, the write itself will fail.
  if (statvfs(path.c_str(), &info) != 0) return ~uint64_t{0};
  return uint64_t{info.f_bavail} * info.f_frsize;
}

size_t BytesOf(const CommitRequest& request) {
  size_t bytes = 64;
  for (const Group& group : request.groups) {
    for (const Mutation& mutation : group.mutations)
      bytes += mutation.key.size() + mutation.value.size() + 16;
  }
  return bytes;
}

}  // namespace

RocksStoreCore::RocksStoreCore(RocksKvStore::Options options, Clock& clock,
                               std::unique_ptr<RocksDatabase> database,
                               std::unique_ptr<WitnessFile> witness, BatchLog* log,
                               std::unique_ptr<StoreKernel> kernel, Layout layout)
    : options_(std::move(options)),
      clock_(clock),
      layout_(layout),
      database_(std::move(database)),
      witness_(std::move(witness)),
      log_(log),
      kernel_(std::move(kernel)),
      hub_(kernel_->seq(), options_.watch_history_bytes_max) {}

absl::Status RocksStoreCore::Start() {
  const ClockReading now = Reading();
  if (log_ == nullptr) {
    Publish(/*wrote=*/true, now);
  } else if (!CommitBatch({}, now)) {
    stopped_ = true;
    return log_->WhyEnded();
  }
  writer_ = std::thread([this] { RunWriter(); });
  if (witness_ != nullptr) witness_thread_ = std::thread([this] { RunWitness(); });
  for (int i = 0; i < options_.read_threads; ++i) readers_.emplace_back([this] { RunReader(); });
  return absl::OkStatus();
}

absl::Status RocksStoreCore::WhyStopped() const {
  return log_ == nullptr ? absl::UnavailableError("the store has stopped") : log_->WhyEnded();
}

void RocksStoreCore::Stop(BatchLog::Last last) {
  if (std::exchange(stopped_, true)) return;
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  {
    absl::MutexLock lock(&read_mu_);
    reads_stopping_ = true;
  }
  writer_.join();
  for (std::thread& reader : readers_) reader.join();
  if (witness_ != nullptr) {
    witness_thread_.join();
    WriteWitness();  // for the writer's last batch
  }
  if (last == BatchLog::Last::kYes) CommitBatch({}, Reading(), last);
  RunControls();  // ends a watch that was opened just before, with the others
  clock_answers_.clear();
  hub_.LagAll(WhyStopped());
  // Destroying the queue answers the rest with UNAVAILABLE.
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

void RocksStoreCore::Enqueue(Work work) {
  absl::MutexLock lock(&mu_);
  if (stopping_) return;
  work.refused = queue_.size() >= options_.commits_queued_max;
  queue_.push_back(std::move(work));
}

void RocksStoreCore::RunOnWriter(Closure control) {
  absl::MutexLock lock(&mu_);
  if (!stopping_) controls_.push_back(std::move(control));
}

void RocksStoreCore::AskClock(ClockCall call, KvStore::Callback<ClockState> done) {
  RunOnWriter([this, call = std::move(call),
               answer = PendingAnswer<ClockState>(std::move(done))]() mutable {
    ClockReading reading = Reading();
    // Answers to an operator show the kernel's present state, even if no clock has stepped.
    if (!call.host.has_value()) reading.synchronised = clock_.WallIsSynchronised();
    ClockState state = kernel_->AskClock(call, reading);
    if (log_ != nullptr && kernel_->WantsBatch(reading)) {
      clock_answers_.emplace_back(std::move(answer), std::move(state));
      return;
    }
    if (const absl::Status status = MayAnswer(); !status.ok()) return answer.Give(status);
    Publish(/*wrote=*/false, reading);
    answer.Give(std::move(state));
  });
}

bool RocksStoreCore::TakeQueue(std::vector<Work>& batch) {
  absl::MutexLock lock(&mu_);
  auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stopping_ || !queue_.empty() || !controls_.empty();
  };
  const bool owes_answer = !clock_answers_.empty();
  mu_.AwaitWithTimeout(absl::Condition(&ready), owes_answer       ? absl::ZeroDuration()
                                                : log_ != nullptr ? options_.beat_interval
                                                                  : kTick);
  if (stopping_) return false;
  size_t bytes = 0;
  while (!queue_.empty() && bytes < options_.batch_bytes_max) {
    if (queue_.front().request != nullptr) bytes += BytesOf(*queue_.front().request);
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return true;
}

void RocksStoreCore::RunControls() {
  std::vector<Closure> controls;
  {
    absl::MutexLock lock(&mu_);
    controls.swap(controls_);
  }
  for (Closure& control : controls) control();
}

bool RocksStoreCore::WantsBatch(const ClockReading& now) {
  return kernel_->WantsBatch(now) ||
         (log_ != nullptr && now.boottime - logged_ >= options_.beat_interval);
}

void RocksStoreCore::RunWriter() {
  RocksDatabase::PrepareThread();
  std::vector<Work> batch;
  while (TakeQueue(batch)) {
    if (batch.empty()) RunControls();
    const ClockReading now = Reading();
    if (batch.empty() && !WantsBatch(now)) {
      Publish(/*wrote=*/false, now);
    } else if (HasRoom()) {
      if (CommitBatch(std::move(batch), now)) {
        batch.clear();
        continue;
      }
      // Further calls fail at once instead of waiting for Stop.
      absl::MutexLock lock(&mu_);
      stopping_ = true;
    } else {
      Publish(/*wrote=*/false, now);  // shows that the disk is full before the refusals go out
      RefuseAll(std::move(batch));
      RunControls();
    }
    batch.clear();
  }
}

bool RocksStoreCore::HasRoom() {
  if (has_room_ && bytes_until_room_check_ > 0) return true;
  const bool had_room = std::exchange(
      has_room_, (options_.free_bytes ? options_.free_bytes : FreeBytes)(options_.data_dir) >=
                     options_.free_bytes_min);
  bytes_until_room_check_ = kRoomCheckBytes;
  if (had_room != has_room_) {
    spdlog::warn(has_room_ ? "the disk has room again: commits are accepted"
                           : "the disk is full: commits are refused");
  }
  return has_room_;
}

void RocksStoreCore::RefuseAll(std::vector<Work> batch) {
  const absl::Status full = absl::ResourceExhaustedError("the store's disk is full");
  for (Work& work : batch) {
    if (work.request == nullptr) {
      work.opened->Give(full);
    } else {
      work.committed->Give(kernel_->engine().Refuse(*work.request, full));
    }
  }
}

bool RocksStoreCore::MakeDurable(bool wrote, const ClockReading& now) {
  if (!wrote) {
    database_->ClearBatch();
    return true;
  }
  if (log_ == nullptr) {
    database_->Write();
    return true;
  }
  if (!log_->Write(now.boottime).ok()) {
    database_->ClearBatch();
    return false;
  }
  logged_ = now.boottime;
  database_->WriteUnsynced();
  return true;
}

bool RocksStoreCore::CommitBatch(std::vector<Work> batch, const ClockReading& now,
                                 BatchLog::Last last) {
  std::vector<absl::StatusOr<CommitResult>> results;
  std::vector<absl::StatusOr<SessionInfo>> sessions;
  std::vector<std::shared_ptr<const CommitRecord>> records;
  results.reserve(batch.size());
  WriteSink& sink = log_ == nullptr ? database_->batch() : log_->Begin(database_->batch(), last);
  if (auto record = kernel_->BeginBatch(sink, now)) records.push_back(std::move(record));
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
    auto decision = kernel_->Decide(std::move(work.request));
    if (decision.record != nullptr) records.push_back(std::move(decision.record));
    results.push_back(std::move(decision.answer));
  }
  bool wrote = kernel_->EndBatch();
  // Answers without a write need a lease. If it does not hold, the batch's clock record proves that
  // this store still leads.
  if (log_ != nullptr && !wrote) {
    wrote = last == BatchLog::Last::kYes || now.boottime - logged_ >= options_.beat_interval ||
            !log_->MayAnswer().ok();
  }
  if (wrote) {
    bytes_until_room_check_ -=
        std::min<uint64_t>(bytes_until_room_check_, database_->batch_bytes());
    if (options_.on_decided) options_.on_decided(records);
  }
  if (!MakeDurable(wrote, now)) return false;
  // Publish the state first, then the watches. Before that, watches must handle every MoveEnd whose
  // caller then scanned an older state.
  Publish(wrote, now);
  auto clock_answers = std::exchange(clock_answers_, {});
  RunControls();
  for (auto& record : records) hub_.Publish(std::move(record));
  {
    absl::MutexLock lock(&mu_);
    info_.commits += results.size();
    info_.syncs += wrote ? 1 : 0;
  }
  auto result = results.begin();
  auto session = sessions.begin();
  for (Work& work : batch) {
    if (work.opened.has_value()) {
      work.opened->Give(std::move(*session++));
    } else {
      work.committed->Give(std::move(*result++));
    }
  }
  for (auto& [answer, state] : clock_answers) answer.Give(std::move(state));
  return true;
}

void RocksStoreCore::Publish(bool wrote, const ClockReading& now) {
  View view;
  if (wrote) view.snapshot = database_->TakeSnapshot();
  view.seq = kernel_->seq();
  view.store_time = kernel_->Now(now);
  absl::MutexLock lock(&mu_);
  if (wrote) published_.snapshot.swap(view.snapshot);  // the old snapshot ends outside the lock
  published_.seq = view.seq;
  published_.store_time = view.store_time;
  published_.slow_from = kernel_->clock().pace().slow_from;
  published_at_ = now.boottime;
  info_.incarnation = kernel_->incarnation();
  info_.seq = view.seq;
  info_.layout = layout_;
  info_.clock_disagreement = kernel_->clock().disagreement();
  info_.clock_hold = kernel_->clock().hold();
  info_.clock_held_for = kernel_->clock().held_for();
  info_.accepting = has_room_;
}

RocksStoreCore::View RocksStoreCore::Latest() const {
  const absl::Duration now = clock_.Elapsed();
  absl::MutexLock lock(&mu_);
  View view = published_;
  // A lower bound of store time is enough for readers, because the clock belongs to the writer.
  const absl::Duration since = std::max(now - published_at_, absl::ZeroDuration());
  view.store_time =
      AtSlowPace(view.store_time, since - since * StoreClock::kSlewMax, view.slow_from);
  return view;
}

RocksKvStore::Info RocksStoreCore::info() const {
  RocksKvStore::Info info;
  {
    absl::MutexLock lock(&mu_);
    info = info_;
  }
  info.store_time = Latest().store_time;
  return info;
}

void RocksStoreCore::Read(absl::AnyInvocable<void(const View&)> read) {
  absl::MutexLock lock(&read_mu_);
  if (!reads_stopping_) reads_.push_back(std::move(read));
}

void RocksStoreCore::RunReader() {
  RocksDatabase::PrepareThread();
  auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(read_mu_) {
    return reads_stopping_ || !reads_.empty();
  };
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

void RocksStoreCore::RunWitness() {
  auto behind = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stopping_ || witnessed_ != Witnessed{info_.incarnation, info_.seq};
  };
  bool stopping = false;
  while (!stopping) {
    {
      // Sleeps while nothing is written; otherwise writes once in each interval.
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&behind));
      mu_.AwaitWithTimeout(absl::Condition(&stopping_), options_.witness_interval);
      stopping = stopping_;
    }
    WriteWitness();
  }
}

void RocksStoreCore::WriteWitness() {
  Witnessed latest;
  {
    absl::MutexLock lock(&mu_);
    latest = {info_.incarnation, info_.seq};
  }
  if (latest == witnessed_) return;
  // Without a witness a later loss would go unnoticed.
  if (auto status = witness_->Write(latest); !status.ok()) options_.on_fatal(status);
  witnessed_ = latest;
}

}  // namespace escapement::kv
