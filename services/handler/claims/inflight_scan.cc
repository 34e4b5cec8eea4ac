#include "services/handler/claims/inflight_scan.h"

#include <string>
#include <utility>

#include "common/base/key_codec.h"
#include "common/runtime/perturb.h"
#include "common/storage/inflight_table.h"

namespace escapement::handler {
namespace {

struct InflightScan {
  ShardState& state;
  InflightScanned done;
  std::vector<kv::Entry> entries = {};
};

// Must be called only while the shard is owned.
void ScanMore(std::shared_ptr<InflightScan> scan, std::string begin) {
  ShardState& state = scan->state;
  const bool one = Perturb(state.core.runtime, Site::kInflightScanOfOne);
  state.core.client.Scan({.cf = kv::ColumnFamily::kInflight,
                          .begin = begin,
                          .end = InflightShardEnd(state.shard),
                          .limit = one ? 1u : 1000u,
                          .bytes_max = 4 << 20},
                         state.core.executor,
                         state.WhileOwned([scan, begin](absl::StatusOr<kv::ScanResult> result) {
                           if (!result.ok()) return ScanMore(scan, begin);
                           for (kv::Entry& entry : result->entries)
                             scan->entries.push_back(std::move(entry));
                           if (result->more)
                             return ScanMore(scan, KeyAfter(scan->entries.back().key));
                           scan->done(std::move(scan->entries), result->seq);
                         }));
}

}  // namespace

void ScanInflight(ShardState& state, InflightScanned done) {
  auto scan = std::make_shared<InflightScan>(InflightScan{.state = state, .done = std::move(done)});
  ScanMore(std::move(scan), InflightShardBegin(state.shard));
}

}  // namespace escapement::handler
