// QueueShards: the queue shards to which events may be granted, because their lease is live. An
// event granted to a shard without an owner would hold its token until a handler takes the shard
// over.
//
// A watch follows the leases, and their ends are compared with store time. At worst a shard counts
// as live a moment too long; then its next owner finds the grants.
//
// Threads: one, that of `executor`.

#ifndef SERVICES_TOKEN_MANAGER_SHARD_QUEUE_SHARDS_H_
#define SERVICES_TOKEN_MANAGER_SHARD_QUEUE_SHARDS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/client/watched_range.h"
#include "common/runtime/runtime.h"
#include "services/token_manager/holding/grant_set.h"

namespace escapement::token_manager {

class QueueShards {
 public:
  // `on_live` is called when a shard has become live, or may have. `undelivered_max`: granted and
  // not known to be delivered, of each shard.
  QueueShards(kv::KvClient& client, std::shared_ptr<Executor> executor, uint64_t undelivered_max,
              std::function<void()> on_live);

  // Once; also after the session was lost (what is known is forgotten).
  void Start(uint32_t queue_shards);

  // How many more events may be granted to the shard.
  uint64_t Room(uint16_t shard, absl::Time now) const;
  // The first shard with room from `last` + 1 on, round and round.
  std::optional<uint16_t> NextWithRoom(uint16_t last, absl::Time now) const;
  bool Live(uint16_t shard, absl::Time now) const;

  Totals& totals() { return totals_; }

 private:
  void OnLease(const std::string& key, const std::string& value);

  kv::KvClient& client_;
  const uint64_t undelivered_max_;
  std::function<void()> on_live_;
  std::vector<absl::Time> live_until_;  // by shard
  Totals totals_;
  kv::WatchedRange leases_;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_SHARD_QUEUE_SHARDS_H_
