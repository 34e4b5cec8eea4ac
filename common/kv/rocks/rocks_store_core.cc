#include "common/kv/rocks/rocks_store_core.h"

#include <algorithm>
#include <utility>

#include "common/kv/engine/commit_engine.h"
#include "common/kv/layout.h"
#include "common/kv/store_pace.h"
#include "spdlog/spdlog.h"

namespace escapement::kv {

RocksStoreCore::RocksStoreCore(RocksKvStore::Options options, Clock& clock,
                               std::unique_ptr<RocksDatabase> database,
                               std::unique_ptr<WitnessFile> witness, BatchLog* log,
                               std::unique_ptr<StoreKernel> kernel, Layout layout)
    : options_(std::move(options)),
      clock_(clock),
      layout_(layout),
      database_(std::move(database)),
      room_(database_->room()),
      witness_(std::move(witness)),
      log_(log),
      kernel_(std::move(kernel)),
      hub_(kernel_->seq(), options_.watch_history_bytes_max) {}

absl::Status RocksStoreCore::Start() {
  room_->Begin();
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

void RocksStoreCore::Close() {
  if (stopped_) return;
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  room_->End();
  Stop();
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
  info.accepting = info.accepting && !room_->waiting();
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

// The writer's thread of RocksStoreCore: it takes the queue, decides batches, has them made
// durable, publishes and answers.

namespace {

// Batches that are decided and not finished, with a log. While the log writes one of them, the
// writer finishes the one before and decides the next. LogPlace::proven relies on this bound.
constexpr size_t kUnderWayMax = 2;
// The writer looks at the clock at least this often.
constexpr absl::Duration kTick = absl::Seconds(1);
// The store asks the file system for its free bytes once in this many bytes written, and after this
// time, because others write to the disk, too.
constexpr uint64_t kRoomCheckBytes = 16 << 20;
constexpr absl::Duration kRoomCheckInterval = absl::Seconds(2);

size_t BytesOf(const CommitRequest& request) {
  size_t bytes = 64;
  for (const Group& group : request.groups) {
    for (const Mutation& mutation : group.mutations)
      bytes += mutation.key.size() + mutation.value.size() + 16;
  }
  return bytes;
}

}  // namespace

StoreState RocksStoreCore::StateAt(const ClockReading& now) {
  StoreState state;
  state.seq = kernel_->seq();
  state.store_time = kernel_->Now(now);
  state.slow_from = kernel_->clock().pace().slow_from;
  state.read_at = now.boottime;
  state.clock_disagreement = kernel_->clock().disagreement();
  state.clock_hold = kernel_->clock().hold();
  state.clock_held_for = kernel_->clock().held_for();
  return state;
}

bool RocksStoreCore::IsRecorded(const ClockReading& now) {
  return log_ == nullptr || (under_way_.empty() && !step_unrecorded_ && !kernel_->WantsBatch(now));
}

bool RocksStoreCore::MayDecide() const { return under_way_.size() < kUnderWayMax; }

bool RocksStoreCore::TakeQueue(std::vector<Work>& works) {
  const bool may_decide = MayDecide();
  const bool owes_answer = may_decide && !clock_answers_.empty();
  const DecidedBatch* oldest = under_way_.empty() ? nullptr : under_way_.front().get();
  absl::MutexLock lock(&mu_);
  auto ready = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stopping_ || (may_decide && !queue_.empty()) || !controls_.empty() ||
           (oldest != nullptr && oldest->place.has_value());
  };
  mu_.AwaitWithTimeout(absl::Condition(&ready), owes_answer       ? absl::ZeroDuration()
                                                : log_ != nullptr ? options_.beat_interval
                                                                  : kTick);
  if (stopping_) return false;
  size_t bytes = 0;
  while (may_decide && !queue_.empty() && bytes < options_.batch_bytes_max) {
    if (queue_.front().request != nullptr) bytes += BytesOf(*queue_.front().request);
    works.push_back(std::move(queue_.front()));
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
  return kernel_->WantsBatch(now) || step_unrecorded_ || !clock_answers_.empty() ||
         (log_ != nullptr && now.boottime - logged_ >= options_.beat_interval);
}

void RocksStoreCore::RunWriter() {
  RocksDatabase::PrepareThread();
  std::vector<Work> works;
  while (TakeQueue(works) && Settle(Wait::kNo)) {
    if (works.empty()) RunControls();
    if (!MayDecide()) continue;
    const ClockReading now = Reading();
    const bool has_room = HasRoom(now);
    if (works.empty() && !WantsBatch(now)) {
      if (IsRecorded(now)) Publish(StateAt(now), /*snapshot=*/false);
    } else if (has_room) {
      CommitBatch(std::move(works), now);
    } else {
      if (!Settle(Wait::kAll)) break;
      const ClockReading after = Reading();
      if (IsRecorded(after)) Publish(StateAt(after), /*snapshot=*/false);
      RefuseAll(std::move(works));
      RunControls();
    }
    works.clear();
  }
  Settle(Wait::kAll);
  // Further calls fail at once instead of waiting for Stop.
  absl::MutexLock lock(&mu_);
  stopping_ = true;
}

bool RocksStoreCore::HasRoom(const ClockReading& now) {
  if (has_room_ && bytes_until_room_check_ > 0 && now.boottime < next_room_check_) return true;
  const bool had_room = std::exchange(
      has_room_, (options_.free_bytes ? options_.free_bytes : FreeBytes)(options_.data_dir) >=
                     options_.free_bytes_min);
  bytes_until_room_check_ = kRoomCheckBytes;
  next_room_check_ = now.boottime + kRoomCheckInterval;
  if (had_room != has_room_) {
    spdlog::warn(has_room_ ? "the disk has room again: commits are accepted"
                           : "the disk is full: commits are refused");
    absl::MutexLock lock(&mu_);
    info_.accepting = has_room_;
  }
  return has_room_;
}

void RocksStoreCore::RefuseAll(std::vector<Work> works) {
  const absl::Status full = absl::ResourceExhaustedError("the store's disk is full");
  for (Work& work : works) {
    if (work.request == nullptr) {
      work.opened->Give(full);
    } else {
      work.committed->Give(kernel_->engine().Refuse(*work.request, full));
    }
  }
  for (auto& [answer, state] : std::exchange(clock_answers_, {})) answer.Give(full);
}

void RocksStoreCore::CommitBatch(std::vector<Work> works, const ClockReading& now,
                                 BatchLog::Last last) {
  std::unique_ptr<DecidedBatch> batch = Decide(std::move(works), now, last);
  if (log_ != nullptr) return Send(std::move(batch), now);
  if (batch->wrote) {
    database_->Write();
    // While the witness waits it falls behind, and would not notice a loss.
    room_->AwaitRoom();
  } else {
    database_->ClearBatch();
  }
  Finish(*batch);
}

std::unique_ptr<DecidedBatch> RocksStoreCore::Decide(std::vector<Work> works,
                                                     const ClockReading& now, BatchLog::Last last) {
  auto batch = std::make_unique<DecidedBatch>();
  WriteSink* sink = &database_->batch();
  if (log_ != nullptr) {
    if (unused_writes_.empty()) unused_writes_.push_back(database_->NewBatch());
    batch->writes = std::move(unused_writes_.back());
    unused_writes_.pop_back();
    sink = &log_->Begin(*batch->writes, last);
  }
  batch->results.reserve(works.size());
  if (auto record = kernel_->BeginBatch(*sink, now, LatestNowLow(works)))
    batch->records.push_back(std::move(record));
  for (Work& work : works) {
    if (work.request == nullptr) {
      batch->sessions.push_back(kernel_->OpenSession(work.seen_incarnation, work.seen));
      continue;
    }
    if (work.refused) {
      const absl::Status full = absl::ResourceExhaustedError("too many commits wait for the store");
      batch->results.push_back(kernel_->engine().Refuse(*work.request, full));
      continue;
    }
    auto decision = kernel_->Decide(std::move(work.request));
    if (decision.record != nullptr) batch->records.push_back(std::move(decision.record));
    batch->results.push_back(std::move(decision.answer));
  }
  batch->works = std::move(works);
  batch->clock_answers = std::exchange(clock_answers_, {});
  batch->wrote = kernel_->EndBatch(log_ == nullptr ? CommitEngine::Ended::kWritten
                                                   : CommitEngine::Ended::kUnderWay);
  // Answers without a write need a lease. If it does not hold, the batch's clock record proves that
  // this store still leads.
  if (log_ != nullptr && !batch->wrote) {
    batch->wrote = last == BatchLog::Last::kYes || step_unrecorded_ ||
                   !batch->clock_answers.empty() ||
                   now.boottime - logged_ >= options_.beat_interval || !log_->MayAnswer().ok();
  }
  batch->state = StateAt(now);
  if (batch->wrote) {
    step_unrecorded_ = false;
    const uint64_t bytes = log_ == nullptr ? database_->batch_bytes() : batch->writes->bytes();
    bytes_until_room_check_ -= std::min(bytes_until_room_check_, bytes);
    if (options_.on_decided) options_.on_decided(batch->records);
  }
  return batch;
}

void RocksStoreCore::Send(std::unique_ptr<DecidedBatch> batch, const ClockReading& now) {
  under_way_.push_back(std::move(batch));
  DecidedBatch& sent = *under_way_.back();
  if (!sent.wrote) {
    // Its answers wait for the batches before it, whose effects it has seen.
    sent.place = std::string();
    return;
  }
  logged_ = now.boottime;
  log_->Send(now.boottime, [this, &sent](absl::StatusOr<std::string> place) {
    absl::MutexLock lock(&mu_);
    sent.place = std::move(place);
  });
}

bool RocksStoreCore::Settle(Wait wait) {
  while (!under_way_.empty()) {
    absl::StatusOr<std::string> place;
    {
      auto here = [&oldest = *under_way_.front()] { return oldest.place.has_value(); };
      absl::MutexLock lock(&mu_);
      // A log that has ended still has to answer each batch.
      if (wait == Wait::kAll || log_ended_) mu_.Await(absl::Condition(&here));
      if (!here()) return true;
      place = *std::move(under_way_.front()->place);
    }
    const std::unique_ptr<DecidedBatch> batch = std::move(under_way_.front());
    under_way_.pop_front();
    log_ended_ |= !place.ok();
    if (log_ended_) continue;
    if (batch->wrote) {
      batch->writes->Put(ColumnFamily::kMeta, kLogPlaceKey, *place);
      database_->WriteUnsynced(*batch->writes);
    } else {
      batch->writes->Clear();
    }
    unused_writes_.push_back(std::move(batch->writes));
    kernel_->SettleBatch();
    Finish(*batch);
  }
  return !log_ended_;
}

void RocksStoreCore::Finish(DecidedBatch& batch) {
  // Publish the state first, then the watches. Before that, watches must handle every MoveEnd whose
  // caller then scanned an older state.
  Publish(batch.state, /*snapshot=*/batch.wrote);
  RunControls();
  for (auto& record : batch.records) hub_.Publish(std::move(record));
  {
    absl::MutexLock lock(&mu_);
    info_.commits += batch.results.size();
    info_.syncs += batch.wrote ? 1 : 0;
  }
  auto result = batch.results.begin();
  auto session = batch.sessions.begin();
  for (Work& work : batch.works) {
    if (work.opened.has_value()) {
      work.opened->Give(std::move(*session++));
    } else {
      work.committed->Give(std::move(*result++));
    }
  }
  for (auto& [answer, state] : batch.clock_answers) answer.Give(std::move(state));
}

}  // namespace escapement::kv
