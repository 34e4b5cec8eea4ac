#include "services/master/requests/joint_calls.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "services/master/base/limits.h"

namespace escapement::master {
namespace {

size_t BytesOf(const kv::Group& group) {
  size_t bytes = 0;
  for (const kv::Condition& condition : group.conditions)
    bytes += condition.key.size() + condition.value.size();
  for (const kv::Mutation& mutation : group.mutations)
    bytes += mutation.key.size() + mutation.value.size();
  return bytes;
}

// Cuts the calls into parts of at most `size_max` together. A larger one is a part of its own.
template <typename Call, typename SizeOf>
std::vector<std::vector<Call>> PartsOf(std::vector<Call> calls, size_t size_max, SizeOf size_of) {
  std::vector<std::vector<Call>> parts;
  size_t left = 0;
  for (Call& call : calls) {
    const size_t size = size_of(call);
    if (parts.empty() || size > left) {
      parts.emplace_back();
      left = size_max;
    }
    left -= std::min(left, size);
    parts.back().push_back(std::move(call));
  }
  return parts;
}

}  // namespace

void JointCalls::MultiGet(std::vector<kv::Key> keys, OnRead done) {
  reads_.push_back({std::move(keys), std::move(done)});
  SendSoon();
}

void JointCalls::Commit(kv::Group group, OnCommitted done) {
  writes_.push_back({std::move(group), std::move(done)});
  SendSoon();
}

void JointCalls::SendSoon() {
  if (std::exchange(sending_soon_, true)) return;
  context_.executor->Post([self = shared_from_this()] { self->Send(); });
}

void JointCalls::Send() {
  sending_soon_ = false;
  for (auto& part : PartsOf(std::exchange(reads_, {}), kv::kMultiGetKeysMax,
                            [](const Read& read) { return read.keys.size(); }))
    SendReads(std::move(part));
  for (auto& part : PartsOf(std::exchange(writes_, {}), kJointCommitBytesMax,
                            [](const Write& write) { return BytesOf(write.group); }))
    SendWrites(std::move(part));
}

void JointCalls::SendReads(std::vector<Read> reads) {
  std::vector<kv::Key> keys;
  for (const Read& read : reads) keys.insert(keys.end(), read.keys.begin(), read.keys.end());
  context_.client.MultiGet(
      std::move(keys), context_.executor,
      [self = shared_from_this(),
       reads = std::move(reads)](absl::StatusOr<kv::GetResult> result) mutable {
        if (absl::IsOutOfRange(result.status()) && reads.size() > 1) {  // too many bytes
          const auto half = std::next(reads.begin(), static_cast<ptrdiff_t>(reads.size() / 2));
          self->SendReads({std::make_move_iterator(half), std::make_move_iterator(reads.end())});
          reads.erase(half, reads.end());
          return self->SendReads(std::move(reads));
        }
        size_t next = 0;
        for (Read& read : reads) {
          if (!result.ok()) {
            read.done(result.status());
            continue;
          }
          kv::GetResult own{.values = {}, .seq = result->seq, .store_time = result->store_time};
          for (size_t i = 0; i < read.keys.size(); ++i)
            own.values.push_back(std::move(result->values[next++]));
          read.done(std::move(own));
        }
      });
}

void JointCalls::SendWrites(std::vector<Write> writes) {
  kv::Commit commit;
  for (Write& write : writes) commit.groups.push_back(std::move(write.group));
  context_.client.CommitAsync(
      std::move(commit), context_.executor,
      [writes = std::move(writes)](absl::StatusOr<kv::CommitResult> result) mutable {
        for (size_t i = 0; i < writes.size(); ++i) {
          if (!result.ok()) {
            writes[i].done(result.status());
          } else {
            writes[i].done(result->verdicts[i]);
          }
        }
      });
}

}  // namespace escapement::master
