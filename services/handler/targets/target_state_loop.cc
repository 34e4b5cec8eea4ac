#include "services/handler/targets/target_state_loop.h"

#include <iterator>
#include <vector>

#include "common/storage/targets/target_table.h"
#include "services/handler/targets/target_row.h"

namespace escapement::handler {
namespace {

using State = CircuitBreaker::State;

// Rows of one commit. Bounds its size; the others follow in the next step.
constexpr size_t kRowsMax = 500;

std::string RowKey(const std::string& target_key, const std::string& tenant,
                   const std::string& instance) {
  return EncodeTargetRowKey(
      {.tenant = tenant, .target = TargetIdOf(target_key), .handler = instance});
}

}  // namespace

TargetStateLoop::TargetStateLoop(std::string instance, SendLoop& sends, kv::KvClient& client,
                                 Runtime& runtime, std::shared_ptr<Executor> executor,
                                 HandlerMetrics& metrics)
    : instance_(std::move(instance)),
      sends_(sends),
      client_(client),
      runtime_(runtime),
      executor_(std::move(executor)),
      metrics_(metrics) {}

void TargetStateLoop::Step(absl::Time now) {
  const absl::Duration elapsed = runtime_.clock().Elapsed();
  if (elapsed < next_) return;
  next_ = elapsed + kTargetStateStep;
  sends_.ForgetIdle(elapsed - kTargetIdle);
  SetGauges(elapsed);
  if (committing_) return;
  ++round_;
  kv::Group group;
  AddRows(now, elapsed, group);
  AddDeletions(group);
  if (!group.mutations.empty()) Commit(std::move(group));
}

void TargetStateLoop::SetGauges(absl::Duration elapsed) {
  struct Counts {
    int open = 0, half_open = 0, closed = 0;
  };
  std::map<TransportMetrics*, Counts> counts;
  for (auto& [transport, metrics] : metrics_.by_transport) counts[&metrics];
  for (const auto& [key, target] : sends_.targets()) {
    Counts& of_transport = counts[&metrics_.Of(key)];
    switch (target.breaker.state(elapsed)) {
      case State::kOpen:
        ++of_transport.open;
        break;
      case State::kHalfOpen:
        ++of_transport.half_open;
        break;
      case State::kClosed:
        ++of_transport.closed;
        break;
    }
  }
  for (const auto& [metrics, count] : counts) {
    metrics->open.Set(count.open);
    metrics->half_open.Set(count.half_open);
    metrics->closed.Set(count.closed);
  }
}

void TargetStateLoop::AddRows(absl::Time now, absl::Duration elapsed, kv::Group& group) {
  for (const auto& [key, target] : sends_.targets()) {
    const State state = target.breaker.state(elapsed);
    for (const auto& [tenant, use] : target.uses) {
      Written& written = written_[{key, tenant}];
      written.seen = round_;
      const absl::Duration age = elapsed - written.at;
      const bool used = use.last_used() >= written.at && age >= kTargetUsedRowEvery;
      const bool due = state != written.state || used || age >= kTargetRowEvery;
      if (!due || group.mutations.size() >= kRowsMax) continue;
      written.state = state;
      written.at = elapsed;
      group.mutations.push_back({.cf = kv::ColumnFamily::kTargetStates,
                                 .kind = kv::Mutation::Kind::kPut,
                                 .key = RowKey(key, tenant, instance_),
                                 .value = TargetRowOf({.target_key = key,
                                                       .breaker = target.breaker,
                                                       .use = use,
                                                       .in_flight_max = sends_.BoundOf(target),
                                                       .now = now,
                                                       .elapsed = elapsed})
                                              .SerializeAsString()});
    }
  }
}

void TargetStateLoop::AddDeletions(kv::Group& group) {
  for (auto row = written_.begin(); row != written_.end() && group.mutations.size() < kRowsMax;) {
    if (row->second.seen == round_) {
      ++row;
      continue;
    }
    group.mutations.push_back({.cf = kv::ColumnFamily::kTargetStates,
                               .kind = kv::Mutation::Kind::kDelete,
                               .key = RowKey(row->first.first, row->first.second, instance_)});
    row = written_.erase(row);
  }
}

void TargetStateLoop::Commit(kv::Group group) {
  committing_ = true;
  kv::Commit commit;
  commit.groups.push_back(std::move(group));
  client_.CommitAsync(std::move(commit), executor_,
                      [this](const absl::StatusOr<kv::CommitResult>& result) {
                        committing_ = false;
                        if (result.ok()) return;
                        // The rows may be missing: they are all written again. A row that should
                        // have been deleted is deleted by a master.
                        for (auto& [name, written] : written_)
                          written.at = -absl::InfiniteDuration();
                      });
}

}  // namespace escapement::handler
