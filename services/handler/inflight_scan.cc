#include "services/handler/inflight_scan.h"

#include <string>
#include <utility>

#include "common/storage/inflight_table.h"

namespace escapement::handler {
namespace {

struct InflightScan {
  std::weak_ptr<ShardState> state;
  InflightScanned done;
  std::vector<kv::Entry> entries;
};

void ScanMore(std::shared_ptr<InflightScan> scan, std::string begin) {
  const std::shared_ptr<ShardState> state = scan->state.lock();
  if (state == nullptr) return;
  state->core.client.Scan({.cf = kv::ColumnFamily::kInflight,
                           .begin = begin,
                           .end = InflightShardEnd(state->shard),
                           .limit = 1000,
                           .bytes_max = 4 << 20},
                          state->core.executor,
                          [scan, begin](absl::StatusOr<kv::ScanResult> result) {
                            if (scan->state.expired()) return;
                            if (!result.ok()) return ScanMore(scan, begin);
                            for (kv::Entry& entry : result->entries)
                              scan->entries.push_back(std::move(entry));
                            if (result->more)
                              return ScanMore(scan, scan->entries.back().key + '\0');
                            scan->done(std::move(scan->entries), result->seq);
                          });
}

}  // namespace

void ScanInflight(std::weak_ptr<ShardState> state, InflightScanned done) {
  const std::shared_ptr<ShardState> locked = state.lock();
  if (locked == nullptr) return;
  auto scan = std::make_shared<InflightScan>();
  scan->state = std::move(state);
  scan->done = std::move(done);
  ScanMore(std::move(scan), InflightShardBegin(locked->shard));
}

}  // namespace escapement::handler
