#include "services/handler/claims/retry_sweep.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/key_codec.h"
#include "common/storage/event_table.h"

namespace escapement::handler {
namespace {

constexpr uint32_t kKeysAtOnce = 2000;
constexpr absl::Duration kPassEvery = absl::Seconds(1);
constexpr int kPauseFactor = 10;  // times the duration of a pass

}  // namespace

void RetrySweep::Step() {
  const absl::Duration elapsed = state_.core.runtime.clock().Elapsed();
  if (stopped_ || noted_.empty() || !sweeping_.empty() || elapsed < next_pass_) return;
  sweeping_ = std::exchange(noted_, {});
  begun_ = elapsed;
  claims_.RequeueBlocked(sweeping_);
  Scan(EventLaneKey(state_.shard, kLaneRetry, absl::InfinitePast()));
}

void RetrySweep::Scan(std::string begin) {
  kv::ScanRequest scan;
  scan.cf = kv::ColumnFamily::kEvents;
  scan.begin = std::move(begin);
  scan.end = EventLaneKey(state_.shard, kLaneRetry + 1, absl::InfinitePast());
  scan.limit = kKeysAtOnce;
  scan.keys_only = true;
  state_.core.client.Scan(std::move(scan), state_.core.executor,
                          state_.WhileOwned([this](absl::StatusOr<kv::ScanResult> keys) {
                            // The store is unreachable: the next pass starts over.
                            if (!keys.ok()) {
                              noted_.insert(sweeping_.begin(), sweeping_.end());
                              return Continue(std::string());
                            }
                            OnKeys(*keys);
                          }));
}

void RetrySweep::OnKeys(const kv::ScanResult& keys) {
  std::vector<kv::Key> rows;
  for (const kv::Entry& entry : keys.entries) {
    const std::optional<EventKey> key = DecodeEventKey(entry.key);
    if (key.has_value() && sweeping_.contains(key->uid))
      rows.push_back({.cf = kv::ColumnFamily::kEvents, .key = entry.key});
  }
  std::string next = keys.more ? KeyAfter(keys.entries.back().key) : std::string();
  if (rows.empty()) return Continue(next);
  ReadRows(std::move(rows), std::move(next));
}

void RetrySweep::ReadRows(std::vector<kv::Key> rows, std::string next) {
  state_.core.client.MultiGet(
      rows, state_.core.executor,
      state_.WhileOwned([this, rows, next = std::move(next)](absl::StatusOr<kv::GetResult> result) {
        for (size_t i = 0; result.ok() && !stopped_ && i < rows.size(); ++i) {
          if (!result->values[i].has_value()) continue;
          const std::optional<EventKey> key = DecodeEventKey(rows[i].key);
          CHECK(key.has_value());
          // A row that cannot be judged yet is left to the next pass.
          if (!claims_.EndUnwanted(QueuedRow(rows[i].key, *result->values[i], result->seq)))
            noted_.insert(key->uid);
        }
        state_.core.cache.Fetch();
        state_.core.wake();
        Continue(result.ok() ? next : std::string());
      }));
}

void RetrySweep::Continue(const std::string& next) {
  if (!next.empty() && !stopped_) return Scan(next);
  sweeping_.clear();
  const absl::Duration elapsed = state_.core.runtime.clock().Elapsed();
  next_pass_ = elapsed + std::max(kPassEvery, kPauseFactor * (elapsed - begun_));
}

}  // namespace escapement::handler
