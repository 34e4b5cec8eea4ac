#include "common/kv/replica/testing/mem_leading_store.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/kv/commit_validation.h"
#include "common/kv/engine/commit_engine.h"
#include "common/kv/layout.h"
#include "common/kv/not_leader.h"
#include "common/kv/replica/log_record.h"
#include "common/kv/store_pace.h"
#include "common/runtime/perturb.h"

namespace escapement::kv {
namespace {

absl::Status AnswerLost() {
  return absl::UnavailableError("the answer was lost; the result is unknown");
}

absl::Status QueueFull() {
  return absl::ResourceExhaustedError("too many commits wait for the store");
}

}  // namespace

class MemLeadingStore::Handle final : public Watch {
 public:
  Handle(std::weak_ptr<MemLeadingStore> store, std::shared_ptr<WatchHub::Watcher> watcher)
      : store_(std::move(store)), watcher_(std::move(watcher)) {}
  ~Handle() override { watcher_->gate.Close(); }

  void MoveEnd(size_t range, std::string end) override {
    const auto store = store_.lock();
    if (store == nullptr) return;
    store->executor_->Post(
        [store = store.get(), watcher = watcher_, range, end = std::move(end)]() mutable {
          store->hub_->MoveEnd(*watcher, range, std::move(end));
        });
  }

 private:
  const std::weak_ptr<MemLeadingStore> store_;
  const std::shared_ptr<WatchHub::Watcher> watcher_;
};

absl::StatusOr<std::shared_ptr<MemLeadingStore>> MemLeadingStore::Open(
    Runtime& runtime, Options options, MemDisk& disk, std::shared_ptr<LeaderLog> log,
    absl::Duration clock_age, std::function<void(absl::Status)> started) {
  std::shared_ptr<MemLeadingStore> store(
      new MemLeadingStore(runtime, std::move(options), disk, std::move(log), std::move(started)));
  StoreKernel::Options kernel;
  kernel.engine.recent_slots_log2 = store->options_.recent_slots_log2;
  // As RocksKvStore: far from the numbers of all other terms.
  kernel.engine.first_session =
      static_cast<uint64_t>(std::max<int64_t>(absl::ToUnixSeconds(runtime.clock().WallNow()), 1))
          << 31 |
      runtime.random().Next() >> 33;
  kernel.lease_ttl = store->options_.lease_ttl;
  kernel.boot_id = runtime.clock().BootId();
  kernel.clock_age = clock_age;
  ASSIGN_OR_RETURN(auto loaded, StoreKernel::Load(kernel, store->base_, store->Reading()));
  store->kernel_ = std::move(loaded);
  store->seq_ = store->kernel_->seq();
  store->hub_ = std::make_unique<WatchHub>(store->seq_, store->options_.watch_history_bytes_max);
  store->StartBatch();
  store->Beat();
  return store;
}

MemLeadingStore::MemLeadingStore(Runtime& runtime, Options options, MemDisk& disk,
                                 std::shared_ptr<LeaderLog> log,
                                 std::function<void(absl::Status)> started)
    : runtime_(runtime),
      clock_(runtime.clock()),
      options_(std::move(options)),
      disk_(disk),
      base_(disk),
      log_(std::move(log)),
      executor_(runtime.NewExecutor("leading-store")),
      started_(std::move(started)),
      logged_(-absl::InfiniteDuration()) {}

ClockReading MemLeadingStore::Reading() const {
  return {clock_.Elapsed(), clock_.WallNow(), clock_.WallIsSynchronised()};
}

absl::Status MemLeadingStore::MayAnswer() const {
  if (options_.ignores_lease || log_->lease().Holds(clock_.Elapsed())) return absl::OkStatus();
  return NotLeader("");
}

absl::Time MemLeadingStore::Latest() const {
  const absl::Duration since = std::max(clock_.Elapsed() - published_at_, absl::ZeroDuration());
  return AtSlowPace(published_time_, since - since * StoreClock::kSlewMax, slow_from_);
}

void MemLeadingStore::Enqueue(Work work) {
  if (stopping_) return;
  work.refused = queue_.size() >= options_.commits_queued_max ||
                 (work.request != nullptr && Perturb(runtime_, Site::kStoreQueueFull));
  queue_.push_back(std::move(work));
  if (!batch_.has_value()) StartBatch();
}

void MemLeadingStore::StartBatch(RecordKind kind) {
  RecordWriter record(kind);
  Batch& batch = batch_.emplace();
  const ClockReading now = Reading();
  batch.began = now.boottime;
  batch.clocks = std::exchange(clocks_, {});
  if (auto own = kernel_->BeginBatch(record, now, LatestNowLow(queue_)))
    batch.records.push_back(std::move(own));
  batch.store_time = kernel_->Now(now);
  batch.slow_from = kernel_->clock().pace().slow_from;
  if (Perturb(runtime_, Site::kStoreRecentWritesForgotten)) kernel_->engine().ForgetRecent();
  while (kind == RecordKind::kBatch && !queue_.empty()) {
    Decide(std::move(queue_.front()), batch);
    queue_.pop_front();
    if (Perturb(runtime_, Site::kStoreBatchOfOne)) break;
  }
  batch.wrote = kernel_->EndBatch();
  // Answers without a write need a lease. If it does not hold, the batch's clock record proves that
  // this store still leads.
  batch.wrote = batch.wrote || kind == RecordKind::kHandover ||
                now.boottime - logged_ >= options_.beat_interval ||
                !log_->lease().Holds(now.boottime);
  if (!batch.wrote) {
    executor_->Post([this] { FinishBatch(LogPlace()); });
    return;
  }
  batch.row = record.Take();
  if (options_.on_batch) options_.on_batch(batch.row, batch.records);
  log_->Append(batch.row, [self = shared_from_this()](absl::StatusOr<LogPlace> place) {
    self->executor_->Post([self, place = std::move(place)] { self->FinishBatch(place); });
  });
}

void MemLeadingStore::Decide(Work work, Batch& batch) {
  if (work.request == nullptr) {
    batch.opened.emplace_back(*std::move(work.opened),
                              kernel_->OpenSession(work.seen_incarnation, work.seen));
    return;
  }
  if (work.refused) {
    batch.committed.emplace_back(*std::move(work.committed),
                                 kernel_->engine().Refuse(*work.request, QueueFull()));
    return;
  }
  auto decision = kernel_->Decide(std::move(work.request));
  if (decision.record != nullptr) batch.records.push_back(std::move(decision.record));
  batch.committed.emplace_back(*std::move(work.committed), std::move(decision.answer));
}

void MemLeadingStore::FinishBatch(const absl::StatusOr<LogPlace>& place) {
  if (ended_) return;
  Batch batch = *std::exchange(batch_, std::nullopt);
  if (place.ok()) {
    if (batch.wrote) Apply(batch, *place);
    seq_ = kernel_->seq();
    published_time_ = batch.store_time;
    published_at_ = batch.began;
    slow_from_ = batch.slow_from;
    for (Closure& control : std::exchange(controls_, {})) control();
    if (handed_over_ == nullptr || !batch.committed.empty() || !batch.opened.empty())
      Answer(std::move(batch));
  } else {
    // The engine is ahead of the log. Only another term can go on.
    stopping_ = true;
    queue_.clear();
    controls_.clear();
  }
  if (auto started = std::exchange(started_, nullptr))
    started(place.ok() ? absl::OkStatus() : NotLeader(options_.leader_address()));
  GoOn();
}

void MemLeadingStore::Apply(Batch& batch, const LogPlace& place) {
  logged_ = batch.began;
  log_->lease().Renew(batch.began);
  DiskSink sink(disk_);
  CHECK(ApplyRecord(batch.row, sink).ok());
  sink.Put(ColumnFamily::kMeta, kLogPlaceKey, EncodeLogPlace(place));
}

void MemLeadingStore::Answer(Batch batch) {
  for (auto& record : batch.records) hub_->Publish(std::move(record));
  for (auto& [answer, result] : batch.opened) answer.Give(std::move(result));
  for (auto& [answer, result] : batch.committed) {
    if (Perturb(runtime_, Site::kStoreCommitAnswerLost)) result = AnswerLost();
    answer.Give(std::move(result));
  }
  for (auto& [answer, state] : batch.clocks) answer.Give(std::move(state));
}

void MemLeadingStore::GoOn() {
  if (ended_ || batch_.has_value()) return;
  if (handed_over_ != nullptr) {
    if (!std::exchange(stopping_, true)) return StartBatch(RecordKind::kHandover);
    std::exchange(handed_over_, nullptr)();
    return;
  }
  if (!stopping_ && (!queue_.empty() || !clocks_.empty())) StartBatch();
}

void MemLeadingStore::WriteHandover(Closure done) {
  handed_over_ = std::move(done);
  queue_.clear();
  GoOn();
}

void MemLeadingStore::Beat() {
  if (!batch_.has_value() && !stopping_ && handed_over_ == nullptr) {
    const ClockReading now = Reading();
    if (kernel_->WantsBatch(now) || now.boottime - logged_ >= options_.beat_interval) StartBatch();
  }
  const absl::Duration since = std::max(clock_.Elapsed() - logged_, absl::ZeroDuration());
  executor_->PostAfter(
      since < options_.beat_interval ? options_.beat_interval - since : options_.beat_interval,
      [this] { Beat(); });
}

void MemLeadingStore::End() {
  if (std::exchange(ended_, true)) return;
  stopping_ = true;
  const auto self = shared_from_this();
  executor_->Stop();
  hub_->LagAll(NotLeader(options_.leader_address()));
  queue_.clear();
  controls_.clear();
  clocks_.clear();
  batch_.reset();
  if (handed_over_ != nullptr) std::exchange(handed_over_, nullptr)();
}

void MemLeadingStore::OpenSession(uint64_t seen_incarnation, CommitSeq seen,
                                  Callback<SessionInfo> done) {
  Work work;
  work.seen_incarnation = seen_incarnation;
  work.seen = seen;
  work.opened.emplace(std::move(done));
  executor_->Post([this, work = std::move(work)]() mutable { Enqueue(std::move(work)); });
}

void MemLeadingStore::Commit(std::shared_ptr<const CommitRequest> request,
                             Callback<CommitResult> done) {
  Work work;
  work.request = std::move(request);
  work.committed.emplace(std::move(done));
  executor_->Post([this, work = std::move(work)]() mutable { Enqueue(std::move(work)); });
}

void MemLeadingStore::MultiGet(std::vector<Key> keys, Callback<GetResult> done) {
  executor_->Post(
      [this, keys = std::move(keys), answer = PendingAnswer<GetResult>(std::move(done))]() mutable {
        if (auto status = ValidateKeys(keys); !status.ok()) return answer.Give(status);
        GetResult result;
        for (const Key& key : keys) {
          std::string value;
          const bool present = base_.Get(key.cf, key.key, value);
          result.values.push_back(present ? std::optional<std::string>(std::move(value))
                                          : std::nullopt);
        }
        result.seq = seq_;
        result.store_time = Latest();
        if (auto status = MayAnswer(); !status.ok()) return answer.Give(status);
        if (auto status = ValidateAnswer(result); !status.ok()) return answer.Give(status);
        answer.Give(std::move(result));
      });
}

void MemLeadingStore::Scan(ScanRequest request, Callback<ScanResult> done) {
  executor_->Post([this, request = std::move(request),
                   answer = PendingAnswer<ScanResult>(std::move(done))]() mutable {
    if (auto status = ValidateScan(request); !status.ok()) return answer.Give(status);
    ScanResult result = ScanDisk(disk_, request);
    result.seq = seq_;
    result.store_time = Latest();
    if (auto status = MayAnswer(); !status.ok()) return answer.Give(status);
    answer.Give(std::move(result));
  });
}

void MemLeadingStore::AskClock(ClockCall call, Callback<ClockState> done) {
  executor_->Post([this, call = std::move(call),
                   answer = PendingAnswer<ClockState>(std::move(done))]() mutable {
    if (!batch_.has_value()) return AskClockNow(call, std::move(answer));
    controls_.push_back([this, call = std::move(call), answer = std::move(answer)]() mutable {
      AskClockNow(call, std::move(answer));
    });
  });
}

void MemLeadingStore::AskClockNow(const ClockCall& call, PendingAnswer<ClockState> answer) {
  const ClockReading reading = Reading();
  ClockState state = kernel_->AskClock(call, reading);
  if (kernel_->WantsBatch(reading)) {
    clocks_.emplace_back(std::move(answer), std::move(state));
    return GoOn();
  }
  if (auto status = MayAnswer(); !status.ok()) return answer.Give(status);
  answer.Give(std::move(state));
}

std::unique_ptr<Watch> MemLeadingStore::OpenWatch(WatchRequest request, WatchObserver observer) {
  auto watcher = std::make_shared<WatchHub::Watcher>(std::move(request), std::move(observer));
  if (ended_) {
    watcher->gate.Lagged(NotLeader(options_.leader_address()));
    return std::make_unique<Handle>(std::weak_ptr<MemLeadingStore>(), std::move(watcher));
  }
  executor_->Post([this, watcher] {
    if (watcher->from_seq != kWatchFromNow && Perturb(runtime_, Site::kStoreWatchHistoryForgotten))
      return watcher->gate.Lagged(absl::OutOfRangeError("commits are not kept that far back"));
    hub_->Add(watcher);
  });
  return std::make_unique<Handle>(weak_from_this(), watcher);
}

}  // namespace escapement::kv
