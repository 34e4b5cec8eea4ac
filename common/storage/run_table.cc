#include "common/storage/run_table.h"

#include <algorithm>

#include "absl/numeric/int128.h"
#include "common/base/key_codec.h"

namespace escapement {

std::string RunPrefix(const Uid& uid) { return std::string(uid.bytes()); }

std::string EncodeRunKey(const RunKey& key) {
  return KeyWriter().Id(key.uid).Text(key.occurrence).Take();
}

std::optional<RunKey> DecodeRunKey(absl::string_view bytes) {
  KeyReader reader(bytes);
  RunKey key;
  key.uid = reader.Id();
  key.occurrence = reader.Text();
  if (!reader.done()) return std::nullopt;
  return key;
}

std::string RunPartPrefix(const RunKey& run) { return EncodeRunKey(run); }

std::string RunPartKey(const RunKey& run, uint16_t shard) {
  return KeyWriter().Id(run.uid).Text(run.occurrence).U16(shard).Take();
}

std::string ScheduleCountsKey(const Uid& uid, uint16_t shard) {
  return RunPartKey({.uid = uid, .occurrence = ""}, shard);
}

std::string ScheduleCountsPrefix(const Uid& uid) {
  return RunPartPrefix({.uid = uid, .occurrence = ""});
}

void CountInSchedule(storage::v1::OutcomeKind outcome, uint64_t count, int64_t end_micros,
                     storage::v1::RunPartRecord& part) {
  if (outcome == storage::v1::OUTCOME_KIND_SUCCEEDED) {
    part.set_succeeded(part.succeeded() + count);
  } else if (outcome == storage::v1::OUTCOME_KIND_FAILED) {
    part.set_failed(part.failed() + count);
  } else {
    return;
  }
  if (end_micros < part.last_end_time_micros()) return;
  part.set_last_end_time_micros(end_micros);
  part.set_last_outcome(outcome);
}

void AddScheduleCounts(const storage::v1::RunPartRecord& part, storage::v1::RunPartRecord& sum) {
  sum.set_succeeded(sum.succeeded() + part.succeeded());
  sum.set_failed(sum.failed() + part.failed());
  if (part.last_end_time_micros() <= sum.last_end_time_micros()) return;
  sum.set_last_end_time_micros(part.last_end_time_micros());
  sum.set_last_outcome(part.last_outcome());
}

void NoteSlow(uint64_t index, int64_t duration_micros, storage::v1::RunPartRecord& part) {
  duration_micros = std::max<int64_t>(duration_micros, 0);  // clocks of two processes
  auto& slowest = *part.mutable_slowest();
  if (slowest.size() == kSlowestMax &&
      duration_micros <= slowest[kSlowestMax - 1].duration_micros())
    return;
  int at = 0;
  while (at < slowest.size() && slowest[at].index() != index) ++at;
  if (at < slowest.size()) {
    if (duration_micros <= slowest[at].duration_micros()) return;
  } else if (at < kSlowestMax) {
    slowest.Add();
  } else {
    at = kSlowestMax - 1;
  }
  slowest[at].set_index(index);
  slowest[at].set_duration_micros(duration_micros);
  for (; at > 0 && slowest[at - 1].duration_micros() < duration_micros; --at)
    slowest.SwapElements(at - 1, at);
}

void NoteSlow(IndexSlice range, int64_t duration_micros, storage::v1::RunPartRecord& part) {
  const uint64_t count = std::min<uint64_t>(range.count, kSlowestMax);
  for (uint64_t i = 0; i < count; ++i) NoteSlow(range.first + i, duration_micros, part);
}

void AddSlowest(const storage::v1::RunPartRecord& part, storage::v1::RunPartRecord& sum) {
  for (const storage::v1::SlowEventRecord& event : part.slowest())
    NoteSlow(event.index(), event.duration_micros(), sum);
}

WindowProgress WindowProgressOf(const storage::v1::RunRecord& run,
                                const storage::v1::RunPartRecord& sum) {
  return {.open_micros = run.window_open_micros(),
          .close_micros = run.window_close_micros(),
          .even = run.window_even(),
          .event_count = run.event_count(),
          .ended = sum.succeeded() + sum.failed() + sum.skipped() + sum.cancelled() + sum.expired(),
          .expired = sum.expired(),
          .first_grant_micros = sum.first_grant_time_micros(),
          .last_end_micros = sum.last_end_time_micros(),
          .complete_micros = run.complete_time_micros()};
}

namespace {

// A run is not at risk before this part of its window has passed: a rate needs time to show.
constexpr int64_t kJudgedAfter = 10;
// How much later than its place an event of an even window may end: this part of the window, and at
// least kPlaceSlackMin.
constexpr int64_t kPlaceSlack = 100;
constexpr int64_t kPlaceSlackMinMicros = 1'000'000;

// How many events of an even window have their places in its first `micros` microseconds.
uint64_t PlacesIn(const WindowProgress& run, int64_t micros) {
  if (micros < 0) return 0;
  const int64_t duration = std::max<int64_t>(run.close_micros - run.open_micros, 1);
  const absl::uint128 places =
      absl::uint128(run.event_count) * static_cast<uint64_t>(micros) / duration + 1;
  return places < run.event_count ? absl::Uint128Low64(places) : run.event_count;
}

double PerSecond(uint64_t events, int64_t micros) {
  return micros <= 0 ? 0 : static_cast<double>(events) * 1e6 / static_cast<double>(micros);
}

// When the run's last event ended; now if that is not known. The last end counts: a run may be
// closed later, if no emitter is there. But an event that was redriven may end after the run's end.
int64_t EndOf(const WindowProgress& run, int64_t now_micros) {
  if (run.complete_micros == 0) return run.last_end_micros == 0 ? now_micros : run.last_end_micros;
  if (run.last_end_micros == 0) return run.complete_micros;
  return std::min(run.last_end_micros, run.complete_micros);
}

}  // namespace

WindowVerdict JudgeWindow(const WindowProgress& run, int64_t now_micros) {
  const int64_t duration = std::max<int64_t>(run.close_micros - run.open_micros, 1);
  const int64_t slack = run.even ? std::max(duration / kPlaceSlack, kPlaceSlackMinMicros) : 0;
  const bool ended = run.complete_micros != 0 || run.ended >= run.event_count;
  const int64_t until = ended ? EndOf(run, now_micros) : now_micros;
  WindowVerdict verdict;
  verdict.actual_rate =
      PerSecond(run.ended, until - std::max(run.open_micros, run.first_grant_micros));
  if (!ended) {
    verdict.required_rate = PerSecond(run.event_count - run.ended,
                                      run.close_micros - std::max(now_micros, run.open_micros));
  }
  const bool in_time =
      ended ? until <= run.close_micros + slack : now_micros < run.close_micros + slack;
  if (run.expired > 0 || !in_time) {
    verdict.state = WindowState::kLate;
  } else if (ended || now_micros < run.open_micros + duration / kJudgedAfter ||
             (run.even && run.ended >= PlacesIn(run, now_micros - slack - run.open_micros))) {
    verdict.state = WindowState::kOnTrack;
  } else if (now_micros >= run.close_micros || verdict.actual_rate < verdict.required_rate) {
    verdict.state = WindowState::kAtRisk;
  }
  return verdict;
}

std::vector<std::pair<uint16_t, IndexSlice>> SplitByQueueShard(const RunIdentity& run,
                                                               uint64_t run_count, IndexSlice range,
                                                               uint32_t queue_shards) {
  std::vector<std::pair<uint16_t, IndexSlice>> parts;
  run_count = std::max<uint64_t>(run_count, 1);
  if (queue_shards == 0 || range.count == 0 || range.first >= run_count) return parts;
  const uint64_t end = range.first + std::min(range.count, run_count - range.first);
  if (run_count == 1) {
    parts.emplace_back(ShardOfEventId(run.EventId(0), queue_shards), IndexSlice{0, 1});
    return parts;
  }
  for (uint64_t index = range.first; index < end;) {
    const uint16_t shard = ShardOfIndex(run_count, index, queue_shards);
    const IndexSlice slice = SliceOfShard(run_count, shard, queue_shards);
    const uint64_t part_end = std::min(end, slice.first + slice.count);
    parts.emplace_back(shard, IndexSlice{index, part_end - index});
    index = part_end;
  }
  return parts;
}

}  // namespace escapement
