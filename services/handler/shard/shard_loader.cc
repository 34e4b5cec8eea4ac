#include "services/handler/shard/shard_loader.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/key_codec.h"
#include "common/runtime/perturb.h"
#include "services/handler/base/options.h"

namespace escapement::handler {

using kv::ColumnFamily;
using kv::Mutation;

namespace {

// Rows of one scan. Events that fall due while the thread handles its answer have to wait.
constexpr size_t kScanRowsMax = 512;

}  // namespace

void ShardLoader::Start() {
  ++watch_generation_;
  watching_ = false;
  watch_.reset();
  // Only for the commit number at which the watch begins. The full scans follow once it is open.
  const std::string begin = EventShardBegin(state_.shard);
  state_.core.client.Scan({.cf = ColumnFamily::kEvents,
                           .begin = begin,
                           .end = KeyAfter(begin),
                           .limit = 1,
                           .keys_only = true},
                          state_.core.executor,
                          state_.WhileOwned([this, generation = watch_generation_](
                                                absl::StatusOr<kv::ScanResult> result) {
                            if (generation != watch_generation_) return;
                            if (!result.ok()) return Start();
                            OpenWatch(result->seq);
                          }));
}

void ShardLoader::OpenWatch(kv::CommitSeq from) {
  const uint64_t generation = watch_generation_;
  kv::WatchRequest request{.cf = ColumnFamily::kEvents, .from_seq = from};
  for (uint8_t lane = 0; lane < kLaneCount; ++lane) {
    // The watch begins empty. ScanSegment moves its end before each scan.
    watch_ends_[lane] = EventLaneKey(state_.shard, lane, absl::InfinitePast());
    if (lane == 0) {
      request.begin = request.end = watch_ends_[lane];
    } else {
      request.then.push_back({watch_ends_[lane], watch_ends_[lane]});
    }
  }
  watch_ = state_.core.client.OpenWatch(
      std::move(request), /*excluding_own=*/true, state_.core.executor,
      {.on_batch = state_.WhileOwned([this, generation](const kv::WatchBatch& batch) {
         if (generation == watch_generation_) OnBatch(batch);
       }),
       .on_lagged = state_.WhileOwned([this, generation](const absl::Status&) {
         if (generation == watch_generation_) Start();
       })});
  watching_ = true;
  Rewind();
}

void ShardLoader::MoveWatchEnd(uint8_t lane, std::string end) {
  if (end == watch_ends_[lane]) return;
  watch_ends_[lane] = end;
  CheckNotNull(watch_)->MoveEnd(lane, std::move(end));
}

void ShardLoader::ShrinkWatch(uint8_t index) {
  const uint8_t lane = LaneOfSegment(index);
  if (index != lane) return;  // the late segment ends before this one
  if (segments_[index].loaded_to >= watch_ends_[lane]) return;
  std::string end = segments_[index].loaded_to;
  // The queue may have a row beyond loaded_to (RereadFrom has moved it back).
  const std::optional<absl::string_view> last = state_.queue.LastKey(index);
  if (last.has_value() && *last >= end) end = std::min(KeyAfter(*last), watch_ends_[lane]);
  MoveWatchEnd(lane, std::move(end));
}

void ShardLoader::Rewind() {
  for (uint8_t i = 0; i < kSegmentCount; ++i) {
    const uint8_t lane = LaneOfSegment(i);
    const bool in_two = lane < kLaneRetry && !state_.queue.overdue_mark(lane).empty();
    // The answer of a scan that is under way is ignored.
    segments_[i] = {.loaded_to = in_two && i == lane
                                     ? state_.queue.overdue_mark(lane)
                                     : EventLaneKey(state_.shard, lane, absl::InfinitePast())};
  }
  ++scan_generation_;
  no_scan_before_ = absl::InfinitePast();
  state_.core.wake();
}

bool ShardLoader::WantsRow(absl::string_view key) {
  const uint8_t lane = LaneOfEventKey(key);
  if (lane >= kLaneCount) return false;
  const uint8_t index = state_.queue.SegmentOf(key);
  Segment& segment = segments_[index];
  if (key >= segment.loaded_to && key >= segment.scanning_to) return false;
  // A quiet lane has been read beyond the horizon up to which rows are kept.
  const absl::Time horizon = state_.core.client.NowLow() + kHorizon;
  if (key < EventLaneKey(state_.shard, lane, horizon)) return true;
  segment.quiet = false;
  RereadFrom(index, std::string(key));
  return false;
}

void ShardLoader::OnBatch(const kv::WatchBatch& batch) {
  std::vector<kv::Key> omitted;
  const bool none_told = Perturb(state_.core.runtime, Site::kLoaderRowNotTold);
  for (const kv::WatchedMutation& mutation : batch.mutations) {
    if (mutation.kind == Mutation::Kind::kDelete) {
      state_.queue.Remove(mutation.key);
    } else if (mutation.kind == Mutation::Kind::kPut && WantsRow(mutation.key)) {
      if (mutation.value_omitted || none_told) {
        omitted.push_back({.cf = ColumnFamily::kEvents, .key = mutation.key});
      } else {
        AddRow(mutation.key, mutation.value, batch.seq);
      }
    }
  }
  if (!omitted.empty()) ReadOmitted(std::move(omitted));
  if (Perturb(state_.core.runtime, Site::kLoaderRewinds)) Rewind();
  state_.core.wake();
}

void ShardLoader::AddRow(absl::string_view key, absl::string_view value, kv::CommitSeq seq) {
  if (state_.held.contains(key)) return;
  if (LaneOfEventKey(key) >= kLaneCount) return;
  const uint8_t segment = state_.queue.SegmentOf(key);
  const HandlerOptions& options = state_.core.options;
  state_.queue.Add(QueuedRow(key, value, seq));
  state_.core.metrics.rows_loaded.Increment();
  if (state_.queue.rows(segment) < 2 * options.lane_rows_max &&
      state_.queue.bytes(segment) < 2 * options.lane_bytes_max)
    return;
  DropLatest(segment);
}

// The segment has more rows than memory allows: the later half is dropped and read again later.
void ShardLoader::DropLatest(uint8_t index) {
  std::string dropped = state_.queue.DropLast(index, state_.queue.rows(index) / 2);
  if (!dropped.empty()) RereadFrom(index, std::move(dropped));
}

void ShardLoader::RereadFrom(uint8_t index, std::string key) {
  Segment& segment = segments_[index];
  if (key < segment.loaded_to) segment.loaded_to = key;
  no_scan_before_ = absl::InfinitePast();
  if (!segment.scanning_to.empty() && (segment.dropped.empty() || key < segment.dropped))
    segment.dropped = std::move(key);
}

bool ShardLoader::IsLate(absl::string_view key, absl::Time now) const {
  return key < EventLaneKey(state_.shard, LaneOfEventKey(key), now - kLateAfter);
}

void ShardLoader::RequeueAsLate(QueuedRow row) {
  state_.Release(row.key());
  const uint8_t lane = LaneOfEventKey(row.key());
  // The mark goes no further: later rows may only be late because of this one.
  MoveLateMark(lane,
               EventLaneKey(state_.shard, lane, DueOfEventKey(row.key()) + absl::Microseconds(1)));
  state_.queue.Add(std::move(row));
}

void ShardLoader::ReadOmitted(std::vector<kv::Key> keys) {
  state_.core.client.MultiGet(keys, state_.core.executor,
                              state_.WhileOwned([this, keys](absl::StatusOr<kv::GetResult> result) {
                                if (!result.ok()) return Rewind();
                                for (size_t i = 0; i < keys.size(); ++i) {
                                  if (result->values[i].has_value())
                                    AddRow(keys[i].key, *result->values[i], result->seq);
                                }
                                state_.core.wake();
                              }));
}

std::string ShardLoader::LoadEnd(uint8_t index, absl::Time now) const {
  const uint8_t lane = LaneOfSegment(index);
  if (index != lane) return state_.queue.overdue_mark(lane);
  const absl::Duration horizon = segments_[index].quiet ? kQuietHorizon : kHorizon;
  // Steps of a quarter of the horizon keep an idle shard from being read all the time.
  if (segments_[index].loaded_to >= EventLaneKey(state_.shard, lane, now + horizon * 3 / 4))
    return segments_[index].loaded_to;
  std::string to = EventLaneKey(state_.shard, lane, now + horizon);
  if (Perturb(state_.core.runtime, Site::kLoaderHorizonShort))
    to = std::min(to, std::max(KeyAfter(segments_[index].loaded_to),
                               EventLaneKey(state_.shard, lane, now + horizon / 50)));
  return to;
}

bool ShardLoader::IsFull(uint8_t index) const {
  const HandlerOptions& options = state_.core.options;
  return state_.queue.rows(index) > options.lane_rows_max / 2 ||
         state_.queue.bytes(index) > options.lane_bytes_max / 2;
}

bool ShardLoader::HasReadTo(absl::Time now) const {
  if (!watching_) return false;
  for (uint8_t lane = 0; lane < kLaneRetry; ++lane) {
    if (segments_[lane].loaded_to < EventLaneKey(state_.shard, lane, now) && !IsFull(lane))
      return false;
  }
  return true;
}

void ShardLoader::Step(absl::Time now) {
  if (!watching_ || now == absl::InfinitePast() || now < no_scan_before_) return;
  bool quiet = true;
  for (uint8_t i = 0; i < kSegmentCount; ++i) {
    Segment& segment = segments_[i];
    if (!segment.scanning_to.empty()) continue;
    const uint8_t lane = LaneOfSegment(i);
    const bool late = i != lane;
    if (late && state_.queue.overdue_mark(lane).empty()) continue;
    if (!late) MoveLateMark(lane, LateMark(lane, now));
    std::string to = LoadEnd(i, now);
    if (segment.loaded_to >= to) {
      if (late && state_.queue.rows(i) == 0) state_.queue.EndLate(lane);
      ShrinkWatch(i);
      continue;
    }
    quiet = false;  // a full segment may have room at the next step
    if (IsFull(i)) {
      ShrinkWatch(i);
    } else {
      ScanSegment(i, std::move(to));
    }
  }
  // There are thousands of steps a second, and the horizon moves slowly.
  if (quiet) no_scan_before_ = now + kHorizon / 200;
}

std::string ShardLoader::LateMark(uint8_t lane, absl::Time now) const {
  const Segment& segment = segments_[lane];
  const bool full = IsFull(lane);
  if (lane >= kLaneRetry || (!full && !segment.more)) return "";
  const std::string late = EventLaneKey(state_.shard, lane, now - kLateAfter);
  const std::optional<absl::string_view> first = state_.queue.FirstKey(lane);
  if (full && first.has_value() && *first < late) return late;
  // Rows leave the queue as soon as they are read, so only the scan's position shows the delay.
  if (!segment.more || segment.loaded_to >= late) return "";
  if (!state_.queue.overdue_mark(lane).empty()) return late;
  // The cause may be a spike at one instant: the mark goes just behind it.
  return EventLaneKey(state_.shard, lane, DueOfEventKey(segment.loaded_to) + absl::Microseconds(1));
}

void ShardLoader::MoveLateMark(uint8_t lane, std::string mark) {
  Segment& from_mark = segments_[lane];
  if (mark.empty() || mark <= state_.queue.overdue_mark(lane)) return;
  if (state_.queue.overdue_mark(lane).empty()) {
    segments_[LateSegment(lane)] = {.loaded_to = std::min(from_mark.loaded_to, mark)};
  } else {
    // The scan of the backlog finds these rows again.
    state_.queue.DropBefore(lane, mark);
  }
  from_mark.loaded_to = std::max(from_mark.loaded_to, mark);
  from_mark.more = false;
  state_.queue.MarkLate(lane, std::move(mark));
}

void ShardLoader::ScanSegment(uint8_t index, std::string to) {
  Segment& segment = segments_[index];
  CHECK(segment.scanning_to.empty()) << "a segment is read twice at once";
  segment.scanning_to = to;
  segment.dropped.clear();
  if (to > watch_ends_[LaneOfSegment(index)]) MoveWatchEnd(LaneOfSegment(index), to);
  const HandlerOptions& options = state_.core.options;
  const size_t rows_max = Perturb(state_.core.runtime, Site::kLoaderScanOfOne)
                              ? 1
                              : std::min(options.lane_rows_max / 2, kScanRowsMax);
  state_.core.client.Scan(
      {.cf = ColumnFamily::kEvents,
       .begin = segment.loaded_to,
       .end = to,
       .limit = static_cast<uint32_t>(std::max<size_t>(rows_max, 1)),
       .bytes_max = static_cast<uint32_t>(std::max<size_t>(options.lane_bytes_max / 2, 1))},
      state_.core.executor,
      state_.WhileOwned(
          [this, generation = scan_generation_, index, to](absl::StatusOr<kv::ScanResult> result) {
            if (generation != scan_generation_) return;
            OnScanned(index, to, std::move(result));
          }));
}

void ShardLoader::OnScanned(uint8_t index, const std::string& to,
                            absl::StatusOr<kv::ScanResult> result) {
  Segment& segment = segments_[index];
  CHECK_EQ(segment.scanning_to, to);
  if (result.ok()) {
    segment.more = result->more && !result->entries.empty();
    segment.loaded_to = segment.more ? KeyAfter(result->entries.back().key) : to;
    const uint8_t lane = LaneOfSegment(index);
    // The mark has moved during the scan: the late segment reads the rows before it.
    if (index == lane && lane < kLaneRetry && segment.loaded_to < state_.queue.overdue_mark(lane)) {
      segment.loaded_to = state_.queue.overdue_mark(lane);
      segment.more = false;
    }
    for (const kv::Entry& entry : result->entries) {
      if (state_.queue.SegmentOf(entry.key) == index) AddRow(entry.key, entry.value, result->seq);
    }
    if (Perturb(state_.core.runtime, Site::kLoaderDropsLatest)) DropLatest(index);
    if (!segment.dropped.empty() && segment.dropped < segment.loaded_to)
      segment.loaded_to = segment.dropped;
    segment.quiet =
        result->entries.empty() && segment.dropped.empty() && state_.queue.rows(index) == 0;
  }
  segment.scanning_to.clear();
  segment.dropped.clear();
  no_scan_before_ = absl::InfinitePast();
  if (LaneOfSegment(index) < kLaneRetry && Perturb(state_.core.runtime, Site::kLoaderFallsBehind)) {
    state_.queue.MarkLate(LaneOfSegment(index), EventLaneKey(state_.shard, LaneOfSegment(index),
                                                             state_.core.client.NowLow()));
    Rewind();
  }
  state_.core.wake();
}

}  // namespace escapement::handler
