// ScanInflight: reads all claims of a queue shard and their ends, page by page.
//
// Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_CLAIMS_INFLIGHT_SCAN_H_
#define SERVICES_HANDLER_CLAIMS_INFLIGHT_SCAN_H_

#include <functional>
#include <memory>
#include <vector>

#include "services/handler/shard/shard_state.h"

namespace escapement::handler {

// `seq` is the snapshot of the last page: later commits were not seen.
using InflightScanned = std::function<void(std::vector<kv::Entry> inflight, kv::CommitSeq seq)>;

// `done` is not called once the shard is gone.
void ScanInflight(ShardState& state, InflightScanned done);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_CLAIMS_INFLIGHT_SCAN_H_
