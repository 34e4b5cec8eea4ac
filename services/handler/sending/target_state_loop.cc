#include "services/handler/sending/target_state_loop.h"

#include <iterator>
#include <optional>
#include <vector>

#include "absl/algorithm/container.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/storage/name_tables.h"
#include "services/handler/target_health/target_use.h"

namespace escapement::handler {
namespace {

using State = CircuitBreaker::State;

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
  ReadResets(now, elapsed);
  if (committing_) return;
  FindTargets();
  kv::Group group = NextRows(now, elapsed);
  if (!group.mutations.empty()) Commit(std::move(group));
}

void TargetStateLoop::SetGauges(absl::Duration elapsed) {
  struct Counts {
    int open = 0, half_open = 0, closed = 0;
  };
  std::map<TransportMetrics*, Counts> counts;
  for (auto& [transport, metrics] : metrics_.by_transport) counts[&metrics];
  for (const auto& [_, target] : sends_.targets()) {
    if (target.of != nullptr) continue;
    Counts& of_transport = counts[target.transport];
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

void TargetStateLoop::ReadResets(absl::Time now, absl::Duration elapsed) {
  const auto in_trouble = [](const auto& target) {
    return target.second.breaker.down_since().has_value() || !target.second.bad_groups.empty() ||
           target.second.pace.limited_by_pause();
  };
  if (reading_ || absl::c_none_of(sends_.targets(), in_trouble)) return;
  reading_ = true;
  const std::string prefix = TargetRowPrefix("");
  client_.Scan({.cf = kv::ColumnFamily::kTargetStates,
                .begin = prefix,
                .end = PrefixEnd(prefix),
                .limit = kTargetResetsMax},
               executor_, [this, now, elapsed](absl::StatusOr<kv::ScanResult> result) {
                 reading_ = false;
                 if (!result.ok() || result->entries.empty()) return;
                 std::map<Uid, std::string> keys;
                 for (const auto& [key, target] : sends_.targets())
                   if (target.of == nullptr) keys.emplace(TargetIdOf(key), key);
                 for (const kv::Entry& entry : result->entries) {
                   storage::v1::TargetRowRecord row;
                   const std::optional<TargetRowName> name = DecodeTargetRowKey(entry.key);
                   if (!name.has_value() || !row.ParseFromString(entry.value)) continue;
                   const auto key = keys.find(name->target);
                   if (key == keys.end()) continue;
                   const absl::Time reset = FromMicros(row.state().update_time_micros());
                   sends_.Reset(key->second, elapsed - (now - reset));
                 }
               });
}

void TargetStateLoop::FindTargets() {
  ++step_;
  for (const auto& [key, target] : sends_.targets()) {
    for (const auto& [tenant, use] : target.uses) {
      Written& written = written_[{key, tenant}];
      written.seen = step_;
      written.target = &target;
      written.use = &use;
    }
  }
}

kv::Group TargetStateLoop::NextRows(absl::Time now, absl::Duration elapsed) {
  kv::Group group;
  auto row = written_.upper_bound(last_);
  for (size_t left = written_.size(); left > 0 && group.mutations.size() < kTargetRowsMax; --left) {
    if (row == written_.end()) row = written_.begin();
    auto& [name, written] = *row;
    last_ = name;
    if (written.seen == step_) {
      AddRow(name, written, now, elapsed, group);
      ++row;
    } else {
      group.mutations.push_back({.cf = kv::ColumnFamily::kTargetStates,
                                 .kind = kv::Mutation::Kind::kDelete,
                                 .key = RowKey(name.first, name.second, instance_)});
      row = written_.erase(row);
    }
  }
  return group;
}

void TargetStateLoop::AddRow(const Name& name, Written& written, absl::Time now,
                             absl::Duration elapsed, kv::Group& group) const {
  const auto& [key, tenant] = name;
  const State state = written.target->breaker.state(elapsed);
  const absl::Duration age = elapsed - written.at;
  const bool used = written.use->last_used() >= written.at && age >= kTargetUsedRowEvery;
  std::optional<absl::Duration> paused_until;
  if (written.target->pace.IsPaused(elapsed)) paused_until = written.target->pace.until();
  // A pause that is over before the next step is not worth a row. Readers see when one is over,
  // unless it has ended early.
  const bool pauses = paused_until.has_value() ? *paused_until > elapsed + kTargetStateStep &&
                                                     paused_until != written.paused_until
                                               : written.paused_until > elapsed;
  if (state == written.state && !pauses && !used && age < kTargetRowEvery) return;
  written.state = state;
  written.paused_until = paused_until;
  written.at = elapsed;
  group.mutations.push_back({.cf = kv::ColumnFamily::kTargetStates,
                             .kind = kv::Mutation::Kind::kPut,
                             .key = RowKey(key, tenant, instance_),
                             .value = TargetRowOf({.target_key = key,
                                                   .breaker = written.target->breaker,
                                                   .use = *written.use,
                                                   .in_flight_max = sends_.BoundOf(*written.target),
                                                   .paused_until = paused_until,
                                                   .now = now,
                                                   .elapsed = elapsed})
                                          .SerializeAsString()});
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
