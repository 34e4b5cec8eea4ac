#include "services/emitter/emission/in_use_sweep.h"

#include <utility>

#include "common/base/key_codec.h"
#include "common/kv/group_parts.h"
#include "common/storage/children_table.h"

namespace escapement::emitter {

using kv::ColumnFamily;

InUseSweep::InUseSweep(kv::KvClient& client, std::shared_ptr<Executor> executor,
                       PartitionLeases leases, uint16_t partition)
    : client_(client),
      executor_(std::move(executor)),
      leases_(std::move(leases)),
      partition_(partition) {}

void InUseSweep::Step() {
  if (!leases_.valid(partition_)) return;
  const std::string prefix = ChildrenPartitionPrefix(partition_);
  kv::ScanRequest next;
  next.cf = ColumnFamily::kInUse;
  next.begin = last_key_.empty() ? prefix : KeyAfter(last_key_);
  next.end = PrefixEnd(prefix);
  next.limit = 1;
  next.keys_only = true;
  client_.Scan(std::move(next), executor_,
               [weak = weak_from_this()](absl::StatusOr<kv::ScanResult> result) {
                 const auto self = weak.lock();
                 if (self == nullptr || !result.ok()) return;
                 self->last_key_ = result->entries.empty() ? "" : result->entries[0].key;
                 if (!result->entries.empty()) self->RemoveIfEmpty(self->last_key_);
               });
}

void InUseSweep::RemoveIfEmpty(std::string in_use_key) {
  kv::ScanRequest any;
  any.cf = ColumnFamily::kChildren;
  any.begin = in_use_key;
  any.end = PrefixEnd(in_use_key);
  any.limit = 1;
  any.keys_only = true;
  client_.Scan(std::move(any), executor_,
               [weak = weak_from_this(), in_use_key](absl::StatusOr<kv::ScanResult> result) {
                 const auto self = weak.lock();
                 if (self == nullptr || !result.ok() || !result->entries.empty()) return;
                 if (!self->leases_.valid(self->partition_)) return;
                 kv::Group group;
                 kv::Condition empty;
                 empty.cf = ColumnFamily::kChildren;
                 empty.kind = kv::Condition::Kind::kRangeCount;
                 empty.key = in_use_key;
                 empty.value = PrefixEnd(in_use_key);
                 empty.number = 0;
                 group.conditions = {self->leases_.fence(self->partition_), std::move(empty)};
                 group.mutations = {kv::Delete(ColumnFamily::kInUse, in_use_key)};
                 kv::Commit commit;
                 commit.groups = {std::move(group)};
                 // Removed or not, and known to the loop or not: reading a LaunchExpression without
                 // children finds nothing.
                 self->client_.CommitAsync(std::move(commit), self->executor_,
                                           [](absl::StatusOr<kv::CommitResult>) {});
               });
}

}  // namespace escapement::emitter
