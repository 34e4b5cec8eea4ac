#include "common/kv/rocks/rocks_store_core.h"

#include <algorithm>
#include <utility>

#include "common/kv/store_pace.h"

namespace escapement::kv {

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
    Publish(StateAt(now), /*snapshot=*/true);
  } else {
    CommitBatch({}, now);
    if (!Settle(Wait::kAll)) {
      stopped_ = true;
      return log_->WhyEnded();
    }
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
  RunControls();  // a watch that was opened just before ends with the others
  clock_answers_.clear();
  if (last == BatchLog::Last::kYes && !log_ended_) {
    CommitBatch({}, Reading(), last);
    Settle(Wait::kAll);
  }
  hub_.LagAll(WhyStopped());
  unused_writes_.clear();
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
    if (log_ended_) return answer.Give(WhyStopped());
    ClockReading reading = Reading();
    // Answers to an operator show the kernel's present state, even if no clock has stepped.
    if (!call.host.has_value()) reading.synchronised = clock_.WallIsSynchronised();
    const uint64_t steps = kernel_->clock().steps();
    ClockState state = kernel_->AskClock(call, reading);
    step_unrecorded_ |= log_ != nullptr && kernel_->clock().steps() != steps;
    if (!IsRecorded(reading)) {
      clock_answers_.emplace_back(std::move(answer), std::move(state));
      return;
    }
    if (const absl::Status status = MayAnswer(); !status.ok()) return answer.Give(status);
    Publish(StateAt(reading), /*snapshot=*/false);
    answer.Give(std::move(state));
  });
}

void RocksStoreCore::Publish(const StoreState& state, bool snapshot) {
  std::shared_ptr<const RocksDatabase::Snapshot> taken;
  if (snapshot) taken = database_->TakeSnapshot();
  absl::MutexLock lock(&mu_);
  if (snapshot) published_.snapshot.swap(taken);  // the old snapshot ends outside the lock
  published_.seq = state.seq;
  published_.store_time = state.store_time;
  published_.slow_from = state.slow_from;
  published_at_ = state.read_at;
  info_.incarnation = kernel_->incarnation();
  info_.seq = state.seq;
  info_.layout = layout_;
  info_.clock_disagreement = state.clock_disagreement;
  info_.clock_hold = state.clock_hold;
  info_.clock_held_for = state.clock_held_for;
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
