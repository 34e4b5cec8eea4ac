#include "services/token_manager/shard/queue_shards.h"

#include <algorithm>
#include <utility>

#include "common/base/key_codec.h"
#include "common/lease/lease_table.h"

namespace escapement::token_manager {
namespace {

constexpr absl::string_view kKind = "queue_shard";

}  // namespace

QueueShards::QueueShards(kv::KvClient& client, std::shared_ptr<Executor> executor,
                         uint64_t undelivered_max, std::function<void()> on_live)
    : client_(client),
      undelivered_max_(undelivered_max),
      on_live_(std::move(on_live)),
      leases_(client, std::move(executor), /*excluding_own=*/false,
              {.on_open =
                   [this](const kv::ScanResult& read) {
                     for (const kv::Entry& entry : read.entries) OnLease(entry.key, entry.value);
                   },
               .on_batch =
                   [this](const kv::WatchBatch& batch) {
                     for (const kv::WatchedMutation& mutation : batch.mutations) {
                       if (mutation.kind == kv::Mutation::Kind::kPut)
                         OnLease(mutation.key, mutation.value);
                     }
                   }}) {}

void QueueShards::Start(uint32_t queue_shards) {
  live_until_.assign(queue_shards, absl::InfinitePast());
  totals_.undelivered_by_shard.resize(queue_shards, 0);
  const std::string prefix = lease::KindPrefix(kKind);
  leases_.Start({.cf = kv::ColumnFamily::kLeases,
                 .begin = prefix,
                 .end = PrefixEnd(prefix),
                 .limit = queue_shards});
}

void QueueShards::OnLease(const std::string& key, const std::string& value) {
  const std::optional<uint32_t> index = lease::LeaseIndexOf(kKind, key);
  const std::optional<lease::LeaseRow> row = lease::DecodeLeaseValue(value);
  if (!index.has_value() || *index >= live_until_.size() || !row.has_value()) return;
  const absl::Time now = client_.NowLow();
  const bool was_live = live_until_[*index] > now;
  live_until_[*index] = row->owner.empty() ? absl::InfinitePast() : row->end;
  if (!was_live && live_until_[*index] > now) on_live_();
}

bool QueueShards::Live(uint16_t shard, absl::Time now) const {
  return shard < live_until_.size() && live_until_[shard] > now;
}

uint64_t QueueShards::Room(uint16_t shard, absl::Time now) const {
  if (!Live(shard, now)) return 0;
  return undelivered_max_ - std::min(undelivered_max_, totals_.undelivered_by_shard[shard]);
}

std::optional<uint16_t> QueueShards::NextWithRoom(uint16_t last, absl::Time now) const {
  for (size_t i = 1; i <= live_until_.size(); ++i) {
    const auto shard = static_cast<uint16_t>((last + i) % live_until_.size());
    if (Room(shard, now) > 0) return shard;
  }
  return std::nullopt;
}

}  // namespace escapement::token_manager
