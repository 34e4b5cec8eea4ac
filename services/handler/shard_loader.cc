#include "services/handler/shard_loader.h"

#include <algorithm>
#include <utility>

#include "common/base/key_codec.h"
#include "common/runtime/perturb.h"

namespace escapement::handler {

using kv::ColumnFamily;
using kv::Mutation;

void ShardLoader::Start() {
  const std::shared_ptr<ShardState> state = state_.lock();
  ++watch_generation_;
  watching_ = false;
  watch_.reset();
  // A snapshot for the watch to begin at; the scans are made after it.
  const std::string begin = EventShardBegin(state->shard);
  state->core.client.Scan(
      {.cf = ColumnFamily::kEvents,
       .begin = begin,
       .end = KeyAfter(begin),
       .limit = 1,
       .keys_only = true},
      state->core.executor,
      [this, weak = state_, generation = watch_generation_](absl::StatusOr<kv::ScanResult> result) {
        const std::shared_ptr<ShardState> state = weak.lock();
        if (state == nullptr || generation != watch_generation_) return;
        if (!result.ok()) return Start();
        OpenWatch(result->seq);
      });
}

void ShardLoader::OpenWatch(kv::CommitSeq from) {
  const std::shared_ptr<ShardState> state = state_.lock();
  const uint64_t generation = watch_generation_;
  watch_ = state->core.client.OpenWatch(
      {.cf = ColumnFamily::kEvents,
       .begin = EventShardBegin(state->shard),
       .end = EventShardEnd(state->shard),
       .from_seq = from},
      /*excluding_own=*/true, state->core.executor,
      {.on_batch =
           [this, weak = state_, generation](const kv::WatchBatch& batch) {
             const std::shared_ptr<ShardState> state = weak.lock();
             if (state != nullptr && generation == watch_generation_) OnBatch(*state, batch);
           },
       .on_lagged =
           [this, weak = state_, generation](const absl::Status&) {
             const std::shared_ptr<ShardState> state = weak.lock();
             if (state != nullptr && generation == watch_generation_) Start();
           }});
  watching_ = true;
  Rewind();
}

void ShardLoader::Rewind() {
  const std::shared_ptr<ShardState> state = state_.lock();
  for (uint8_t lane = 0; lane < kLaneCount; ++lane) {
    lanes_[lane].loaded_to = EventLaneKey(state->shard, lane, absl::InfinitePast());
    // A scan under way goes on from further up: its answer is not used.
    lanes_[lane].scanning_to.clear();
    lanes_[lane].dropped.clear();
  }
  ++scan_generation_;
  quiet_until_ = absl::InfinitePast();
  state->core.wake();
}

bool ShardLoader::Covers(absl::string_view key) const {
  const Lane& lane = lanes_[std::min<uint8_t>(LaneOfEventKey(key), kLaneCount - 1)];
  return key < lane.loaded_to || key < lane.scanning_to;
}

void ShardLoader::OnBatch(ShardState& state, const kv::WatchBatch& batch) {
  std::vector<kv::Key> omitted;
  const bool none_told = Perturb(state.core.runtime, Site::kLoaderRowNotTold);
  for (const kv::WatchedMutation& mutation : batch.mutations) {
    if (mutation.kind == Mutation::Kind::kDelete) {
      state.queue.Remove(mutation.key);
    } else if (mutation.kind == Mutation::Kind::kPut && Covers(mutation.key)) {
      if (mutation.value_omitted || none_told) {
        omitted.push_back({.cf = ColumnFamily::kEvents, .key = mutation.key});
      } else {
        AddRow(state, mutation.key, mutation.value, batch.seq);
      }
    }
  }
  if (!omitted.empty()) ReadOmitted(state, std::move(omitted));
  if (Perturb(state.core.runtime, Site::kLoaderRewinds)) Rewind();
  state.core.wake();
}

void ShardLoader::AddRow(ShardState& state, std::string key, std::string value, kv::CommitSeq seq) {
  if (state.held.contains(key)) return;
  const uint8_t index = LaneOfEventKey(key);
  if (index >= kLaneCount) return;
  const HandlerOptions& options = state.core.options;
  state.queue.Add({.key = std::move(key), .value = std::move(value), .seq = seq});
  HandlerStats::Add(state.core.stats.rows_loaded, 1);
  if (state.queue.rows(index) < 2 * options.lane_rows_max &&
      state.queue.bytes(index) < 2 * options.lane_bytes_max)
    return;
  DropLatest(state, index);
}

// More was written inside the horizon than may be held: the latest half is read again later.
void ShardLoader::DropLatest(ShardState& state, uint8_t index) {
  std::string dropped = state.queue.DropLast(index, state.queue.rows(index) / 2);
  if (dropped.empty()) return;
  Lane& lane = lanes_[index];
  if (dropped < lane.loaded_to) lane.loaded_to = dropped;
  quiet_until_ = absl::InfinitePast();
  if (!lane.scanning_to.empty() && (lane.dropped.empty() || dropped < lane.dropped))
    lane.dropped = std::move(dropped);
}

void ShardLoader::ReadOmitted(ShardState& state, std::vector<kv::Key> keys) {
  state.core.client.MultiGet(
      keys, state.core.executor, [this, weak = state_, keys](absl::StatusOr<kv::GetResult> result) {
        const std::shared_ptr<ShardState> state = weak.lock();
        if (state == nullptr) return;
        if (!result.ok()) return Rewind();
        for (size_t i = 0; i < keys.size(); ++i) {
          if (result->values[i].has_value())
            AddRow(*state, keys[i].key, *std::move(result->values[i]), result->seq);
        }
        state->core.wake();
      });
}

void ShardLoader::Step(absl::Time now) {
  const std::shared_ptr<ShardState> state = state_.lock();
  if (!watching_ || now == absl::InfinitePast() || now < quiet_until_) return;
  const HandlerOptions& options = state->core.options;
  bool quiet = true;
  for (uint8_t i = 0; i < kLaneCount; ++i) {
    Lane& lane = lanes_[i];
    if (!lane.scanning_to.empty()) continue;
    // In steps of a quarter of the horizon, so that an idle shard is not read all the time.
    if (lane.loaded_to >= EventLaneKey(state->shard, i, now + options.horizon * 3 / 4)) continue;
    if (state->queue.rows(i) > options.lane_rows_max / 2 ||
        state->queue.bytes(i) > options.lane_bytes_max / 2) {
      quiet = false;  // there may be room with the next step
      continue;
    }
    quiet = false;
    std::string to = EventLaneKey(state->shard, i, now + options.horizon);
    if (Perturb(state->core.runtime, Site::kLoaderHorizonShort))
      to = std::min(to, std::max(KeyAfter(lane.loaded_to),
                                 EventLaneKey(state->shard, i, now + options.horizon / 50)));
    ScanLane(*state, i, std::move(to));
  }
  // Steps come thousands of times a second; the horizon moves slowly.
  if (quiet) quiet_until_ = now + options.horizon / 200;
}

void ShardLoader::ScanLane(ShardState& state, uint8_t index, std::string to) {
  Lane& lane = lanes_[index];
  lane.scanning_to = to;
  lane.dropped.clear();
  const HandlerOptions& options = state.core.options;
  const size_t rows_max =
      Perturb(state.core.runtime, Site::kLoaderScanOfOne) ? 1 : options.lane_rows_max / 2;
  state.core.client.Scan(
      {.cf = ColumnFamily::kEvents,
       .begin = lane.loaded_to,
       .end = to,
       .limit = static_cast<uint32_t>(std::max<size_t>(rows_max, 1)),
       .bytes_max = static_cast<uint32_t>(std::max<size_t>(options.lane_bytes_max / 2, 1))},
      state.core.executor,
      [this, weak = state_, generation = scan_generation_, index,
       to](absl::StatusOr<kv::ScanResult> result) {
        const std::shared_ptr<ShardState> state = weak.lock();
        if (state == nullptr || generation != scan_generation_) return;
        OnScanned(*state, index, to, std::move(result));
      });
}

void ShardLoader::OnScanned(ShardState& state, uint8_t index, const std::string& to,
                            absl::StatusOr<kv::ScanResult> result) {
  Lane& lane = lanes_[index];
  if (result.ok()) {
    lane.loaded_to =
        result->more && !result->entries.empty() ? KeyAfter(result->entries.back().key) : to;
    for (kv::Entry& entry : result->entries)
      AddRow(state, std::move(entry.key), std::move(entry.value), result->seq);
    if (Perturb(state.core.runtime, Site::kLoaderDropsLatest)) DropLatest(state, index);
    if (!lane.dropped.empty() && lane.dropped < lane.loaded_to) lane.loaded_to = lane.dropped;
  }
  lane.scanning_to.clear();
  lane.dropped.clear();
  quiet_until_ = absl::InfinitePast();
  state.core.wake();
}

}  // namespace escapement::handler
