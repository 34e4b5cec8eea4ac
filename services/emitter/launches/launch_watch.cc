#include "services/emitter/launches/launch_watch.h"

#include <utility>

#include "common/base/key_codec.h"
#include "common/runtime/perturb.h"
#include "services/emitter/base/options.h"

namespace escapement::emitter {
namespace {

using kv::ColumnFamily;
using kv::Mutation;

}  // namespace

LaunchWatch::LaunchWatch(kv::KvClient& client, std::shared_ptr<Executor> executor,
                         Observer observer)
    : client_(client), executor_(std::move(executor)), observer_(std::move(observer)) {}

void LaunchWatch::Start() { Open(); }

void LaunchWatch::Stop() {
  stopped_ = true;
  watch_ = nullptr;
  partitions_.clear();
}

void LaunchWatch::Open() {
  kv::WatchRequest request;
  request.cf = ColumnFamily::kCheckpoints;
  request.from_seq = kv::kWatchFromNow;
  const std::weak_ptr<LaunchWatch> weak = weak_from_this();
  kv::WatchObserver observer;
  observer.on_batch = [weak](kv::WatchBatch batch) {
    if (auto self = weak.lock(); self != nullptr && !self->stopped_) self->OnBatch(batch);
  };
  observer.on_lagged = [weak](absl::Status) {
    if (auto self = weak.lock(); self != nullptr && !self->stopped_) self->OnLagged();
  };
  watch_ = client_.OpenWatch(std::move(request), /*excluding_own=*/false, executor_,
                             std::move(observer));
}

LaunchWatch::Partition LaunchWatch::Unread(uint32_t partition) {
  return {.generation = ++generations_, .unread = LaunchPrefix(static_cast<uint16_t>(partition))};
}

// Opens the watch again, then reads everything again.
void LaunchWatch::OnLagged() {
  watch_ = nullptr;
  // Later: called from within a watch that is being destroyed, and a store that is away lags at
  // once again.
  executor_->PostAfter(kLaunchRetry, [self = shared_from_this()] {
    if (self->stopped_ || self->watch_ != nullptr) return;
    self->Open();
    self->observer_.on_lost();
    for (auto& [partition, state] : self->partitions_) state = self->Unread(partition);
    self->ReadOn();
  });
}

void LaunchWatch::AddPartition(uint32_t partition) {
  if (stopped_) return;
  partitions_[partition] = Unread(partition);
  ReadOn();
}

void LaunchWatch::DropPartition(uint32_t partition) { partitions_.erase(partition); }

void LaunchWatch::OnBatch(const kv::WatchBatch& batch) {
  const bool none_told = Perturb(client_.runtime(), Site::kLauncherRecordNotTold);
  for (const kv::WatchedMutation& mutation : batch.mutations) {
    const bool put = mutation.kind == Mutation::Kind::kPut;
    if (const auto key = DecodeLaunchKey(mutation.key)) {
      if (!partitions_.contains(key->partition)) continue;
      if (!put) {
        observer_.on_record_gone(*key, mutation.key);
      } else if (mutation.value_omitted || none_told ||
                 !observer_.on_record(mutation.key, mutation.value, batch.seq)) {
        ReadFrom(key->partition, mutation.key);
      }
    } else if (const auto run = DecodeActiveRunKey(mutation.key)) {
      observer_.on_mark(*run, mutation.key, put, batch.seq);
    }
  }
  observer_.on_told();
}

void LaunchWatch::ReadFrom(uint32_t partition, const std::string& key) {
  const auto it = partitions_.find(partition);
  if (it == partitions_.end()) return;
  std::optional<std::string>& unread = it->second.unread;
  if (!unread.has_value() || key < *unread) unread = key;
  ReadOn();
}

bool LaunchWatch::AllRead(uint32_t partition) const {
  const auto it = partitions_.find(partition);
  return it != partitions_.end() && !it->second.unread.has_value() && !it->second.reading;
}

void LaunchWatch::ReadOn() {
  for (auto& [partition, state] : partitions_) {
    if (state.unread.has_value() && !state.reading && observer_.has_room(*state.unread))
      Read(partition, state);
  }
}

void LaunchWatch::Read(uint32_t partition, Partition& state) {
  state.reading = true;
  const std::string from = *std::exchange(state.unread, std::nullopt);
  kv::ScanRequest request;
  request.cf = ColumnFamily::kCheckpoints;
  request.begin = from;
  request.end = PrefixEnd(LaunchPrefix(static_cast<uint16_t>(partition)));
  request.limit = Perturb(client_.runtime(), Site::kLauncherScanOfOne) ? 1 : kScanRowsMax;
  client_.Scan(std::move(request), executor_,
               [self = shared_from_this(), partition, generation = state.generation,
                from](absl::StatusOr<kv::ScanResult> result) {
                 self->OnRead(partition, generation, from, result);
               });
}

void LaunchWatch::OnRead(uint32_t partition, uint64_t generation, const std::string& from,
                         const absl::StatusOr<kv::ScanResult>& result) {
  const auto it = partitions_.find(partition);
  if (stopped_ || it == partitions_.end() || it->second.generation != generation) return;
  it->second.reading = false;
  if (!result.ok()) {
    executor_->PostAfter(kLaunchRetry, [self = shared_from_this(), partition, generation, from] {
      const auto it = self->partitions_.find(partition);
      if (it != self->partitions_.end() && it->second.generation == generation)
        self->ReadFrom(partition, from);
    });
    return;
  }
  bool room = true;
  for (const kv::Entry& entry : result->entries) {
    room = observer_.on_record(entry.key, entry.value, result->seq);
    if (room) continue;
    ReadFrom(partition, entry.key);
    break;
  }
  if (room && result->more && !result->entries.empty())
    ReadFrom(partition, KeyAfter(result->entries.back().key));
  observer_.on_told();
}

}  // namespace escapement::emitter
