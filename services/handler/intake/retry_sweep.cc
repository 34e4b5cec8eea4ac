#include "services/handler/intake/retry_sweep.h"

#include <algorithm>
#include <utility>

#include "common/base/key_codec.h"
#include "common/storage/event_table.h"

namespace escapement::handler {
namespace {

constexpr uint32_t kKeysAtOnce = 2000;
constexpr absl::Duration kPassEvery = absl::Seconds(1);
constexpr int kPauseFactor = 10;  // times the duration of a pass

}  // namespace

void RetrySweep::Step() {
  const std::shared_ptr<ShardState> state = state_.lock();
  const absl::Duration elapsed = state->core.runtime.clock().Elapsed();
  if (stopped_ || noted_.empty() || !sweeping_.empty() || elapsed < next_pass_) return;
  sweeping_ = std::exchange(noted_, {});
  begun_ = elapsed;
  claims_.ConsiderAgain(sweeping_);
  Scan(*state, EventLaneKey(state->shard, kLaneRetry, absl::InfinitePast()));
}

void RetrySweep::Scan(ShardState& state, std::string begin) {
  kv::ScanRequest scan;
  scan.cf = kv::ColumnFamily::kEvents;
  scan.begin = std::move(begin);
  scan.end = EventLaneKey(state.shard, kLaneRetry + 1, absl::InfinitePast());
  scan.limit = kKeysAtOnce;
  scan.keys_only = true;
  state.core.client.Scan(std::move(scan), state.core.executor,
                         [this, weak = state_](absl::StatusOr<kv::ScanResult> keys) {
                           const std::shared_ptr<ShardState> state = weak.lock();
                           if (state == nullptr) return;
                           // The store is away: the next pass begins anew.
                           if (!keys.ok()) {
                             noted_.insert(sweeping_.begin(), sweeping_.end());
                             return GoOn(*state, std::string());
                           }
                           OnKeys(*state, *keys);
                         });
}

void RetrySweep::OnKeys(ShardState& state, const kv::ScanResult& keys) {
  std::vector<kv::Key> rows;
  for (const kv::Entry& entry : keys.entries) {
    const std::optional<EventKey> key = DecodeEventKey(entry.key);
    if (key.has_value() && sweeping_.contains(key->uid))
      rows.push_back({.cf = kv::ColumnFamily::kEvents, .key = entry.key});
  }
  std::string next = keys.more ? KeyAfter(keys.entries.back().key) : std::string();
  if (rows.empty()) return GoOn(state, next);
  ReadRows(state, std::move(rows), std::move(next));
}

void RetrySweep::ReadRows(ShardState& state, std::vector<kv::Key> rows, std::string next) {
  state.core.client.MultiGet(
      rows, state.core.executor,
      [this, weak = state_, rows, next = std::move(next)](absl::StatusOr<kv::GetResult> result) {
        const std::shared_ptr<ShardState> state = weak.lock();
        if (state == nullptr) return;
        for (size_t i = 0; result.ok() && !stopped_ && i < rows.size(); ++i) {
          if (!result->values[i].has_value()) continue;
          const std::optional<EventKey> key = DecodeEventKey(rows[i].key);
          // What cannot be judged yet is looked for again.
          if (!claims_.EndUnwanted(QueuedRow(rows[i].key, *result->values[i], result->seq)))
            noted_.insert(key->uid);
        }
        state->core.cache.Fetch();
        state->core.wake();
        GoOn(*state, result.ok() ? next : std::string());
      });
}

void RetrySweep::GoOn(ShardState& state, const std::string& next) {
  if (!next.empty() && !stopped_) return Scan(state, next);
  sweeping_.clear();
  const absl::Duration elapsed = state.core.runtime.clock().Elapsed();
  next_pass_ = elapsed + std::max(kPassEvery, kPauseFactor * (elapsed - begun_));
}

}  // namespace escapement::handler
