#include "services/emitter/emission/emission_loop.h"

#include <algorithm>
#include <utility>

#include "common/base/key_codec.h"
#include "common/base/log.h"
#include "common/kv/group_parts.h"
#include "common/kv/layout.h"
#include "common/runtime/perturb.h"
#include "common/storage/children_table.h"
#include "common/tzdata/tzdata_table.h"
#include "services/emitter/base/options.h"

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

namespace {

using kv::ColumnFamily;
using kv::Condition;
using kv::Mutation;

// The place of the clock's hold among the conditions of a plan's group; the lease is the first.
constexpr uint16_t kHoldCondition = 1;

Condition CheckpointIs(std::string key, absl::Time value) {
  return kv::ValueIs(ColumnFamily::kCheckpoints, std::move(key), EncodeCheckpoint(value));
}

Mutation PutCheckpoint(std::string key, absl::Time value) {
  return kv::Put(ColumnFamily::kCheckpoints, std::move(key), EncodeCheckpoint(value));
}

}  // namespace

EmissionLoop::EmissionLoop(kv::KvClient& client, std::shared_ptr<Executor> executor,
                           EmitterMetrics& metrics, Options options)
    : client_(client),
      executor_(std::move(executor)),
      metrics_(metrics),
      options_(std::move(options)),
      shared_scan_(std::make_shared<SharedScan>(client_, executor_)) {}

EmissionLoop::Partition* EmissionLoop::Find(uint32_t partition, uint64_t generation) {
  const auto it = partitions_.find(partition);
  if (stopped_ || it == partitions_.end() || it->second.generation != generation) return nullptr;
  return &it->second;
}

void EmissionLoop::AddPartition(uint32_t partition) {
  if (stopped_) return;
  DropPartition(partition);
  Partition& state = partitions_[partition];
  state.generation = ++generations_;
  state.unread_since = client_.NowLow();
  state.sweep = std::make_shared<InUseSweep>(client_, executor_, options_.leases,
                                             static_cast<uint16_t>(partition));
  metrics_.partitions.Set(static_cast<double>(partitions_.size()));
  ReadCheckpoints();
}

void EmissionLoop::DropPartition(uint32_t partition) {
  const auto it = partitions_.find(partition);
  if (it == partitions_.end()) return;
  if (it->second.window != nullptr) it->second.window->Cancel();
  partitions_.erase(it);
  metrics_.partitions.Set(static_cast<double>(partitions_.size()));
  // How late partitions are that have gone to others is theirs to say.
  if (partitions_.empty()) metrics_.behind_seconds.Set(0);
}

void EmissionLoop::Stop() {
  stopped_ = true;
  shared_scan_->Stop();
  while (!partitions_.empty()) DropPartition(partitions_.begin()->first);
}

void EmissionLoop::Reload(uint32_t partition, Partition& state) {
  if (state.window != nullptr) state.window->Cancel();
  Partition fresh;
  fresh.catch_up = std::move(state.catch_up);
  fresh.sweep = std::move(state.sweep);
  fresh.unread_since = state.loaded ? client_.NowLow() : state.unread_since;
  state = std::move(fresh);
  state.generation = ++generations_;
}

void EmissionLoop::Step() {
  if (stopped_) return;
  ++steps_;
  for (auto& [partition, state] : partitions_) {
    if (Perturb(client_.runtime(), Site::kEmitterPartitionReread)) Reload(partition, state);
  }
  ReadCheckpoints();
  if (held_ || partitions_.empty()) ReadHold();
  Plan();
  for (auto& [partition, state] : partitions_) {
    if ((steps_ + partition) % kSweepEverySteps == 0 ||
        Perturb(client_.runtime(), Site::kEmitterInUseSwept))
      state.sweep->Step();
  }
}

void EmissionLoop::ReadCheckpoints() {
  for (auto& [partition, state] : partitions_) {
    if (state.loaded || state.reading) continue;
    state.reading = true;
    const auto p = static_cast<uint16_t>(partition);
    client_.MultiGet({{ColumnFamily::kCheckpoints, PlannedToKey(p)},
                      {ColumnFamily::kCheckpoints, EmittedToKey(p)},
                      {ColumnFamily::kCheckpoints, CursorKey(p)},
                      {ColumnFamily::kMeta, tzdata::FrontierKey(p)}},
                     executor_,
                     [self = shared_from_this(), partition = partition,
                      generation = state.generation](absl::StatusOr<kv::GetResult> result) {
                       self->OnCheckpoints(partition, generation, std::move(result));
                     });
  }
}

void EmissionLoop::OnCheckpoints(uint32_t partition, uint64_t generation,
                                 absl::StatusOr<kv::GetResult> result) {
  Partition* state = Find(partition, generation);
  if (state == nullptr) return;
  state->reading = false;
  if (!result.ok()) return;  // the next round reads again
  const auto& [planned, emitted, cursor] =
      std::tie(result->values[0], result->values[1], result->values[2]);
  if (!planned || !emitted) return MakeCheckpoints(partition, generation);
  state->planned_to = DecodeCheckpoint(*planned);
  state->emitted_to = state->done_to = DecodeCheckpoint(*emitted);
  if (cursor) state->cursor = DecodeCursor(*cursor);
  if (state->planned_to == absl::InfinitePast() || state->emitted_to == absl::InfinitePast() ||
      (cursor && !state->cursor)) {
    metrics_.records_broken.Increment();
    Log(LogLevel::kError, "emitter.loop", "a checkpoint cannot be read; the partition stands still",
        {{"partition", partition}});
    return;
  }
  if (options_.moved != nullptr) {
    if (const auto& frontier = result->values[3])
      state->frontier = tzdata::DecodeFrontier(*frontier);
    if (state->frontier && state->frontier->revision != options_.tz_rev) state->frontier.reset();
    if (!state->frontier && !cursor) return MarkFrontier(partition, generation);
  }
  state->loaded = true;
  Plan();
}

std::vector<Condition> EmissionLoop::RulesFence() const {
  if (options_.tz_rev.empty()) return {};
  return {tzdata::RevisionIs(options_.tz_rev)};
}

void EmissionLoop::MarkFrontier(uint32_t partition, uint64_t generation) {
  Partition* state = Find(partition, generation);
  if (!options_.leases.valid(partition)) return;
  const auto p = static_cast<uint16_t>(partition);
  kv::Group group;
  group.conditions = {CheckpointIs(PlannedToKey(p), state->planned_to),
                      CheckpointIs(EmittedToKey(p), state->emitted_to),
                      kv::Absent(ColumnFamily::kCheckpoints, CursorKey(p))};
  group.mutations = {kv::Put(ColumnFamily::kMeta, tzdata::FrontierKey(p),
                             tzdata::EncodeFrontier({.revision = options_.tz_rev,
                                                     .emitted_to = state->emitted_to,
                                                     .planned_to = state->planned_to}))};
  WriteCheckpoints(partition, *state, std::move(group));
}

void EmissionLoop::WriteCheckpoints(uint32_t partition, Partition& state, kv::Group group) {
  kv::Commit commit;
  commit.fence = RulesFence();
  commit.fence.push_back(options_.leases.fence(partition));
  commit.groups = {std::move(group)};
  state.reading = true;
  client_.CommitAsync(std::move(commit), executor_,
                      [self = shared_from_this(), partition,
                       generation = state.generation](absl::StatusOr<kv::CommitResult> result) {
                        Partition* state = self->Find(partition, generation);
                        if (state == nullptr) return;
                        state->reading = false;
                        // Else in the next round: an updater was quicker, or the lease is lost.
                        if (result.ok() && result->verdicts[0].applied) self->ReadCheckpoints();
                      });
}

std::shared_ptr<const RulesChange> EmissionLoop::RulesFor(const Partition& state) const {
  if (options_.moved == nullptr) return nullptr;
  RulesChange rules{.moved = options_.moved, .by_former = !state.frontier.has_value()};
  if (state.frontier) {
    rules.frontier = *state.frontier;
    rules.first =
        state.emitted_to == rules.frontier.emitted_to && state.done_to == state.emitted_to;
    if (!rules.first && state.done_to >= rules.judge_to()) return nullptr;
  }
  return std::make_shared<const RulesChange>(std::move(rules));
}

void EmissionLoop::MakeCheckpoints(uint32_t partition, uint64_t generation) {
  Partition* state = Find(partition, generation);
  if (!options_.leases.valid(partition)) return;
  const auto p = static_cast<uint16_t>(partition);
  const absl::Time now = client_.NowLow();
  kv::Group group;
  group.conditions = {kv::Absent(ColumnFamily::kCheckpoints, PlannedToKey(p)),
                      kv::Absent(ColumnFamily::kCheckpoints, EmittedToKey(p))};
  group.mutations = {PutCheckpoint(PlannedToKey(p), now), PutCheckpoint(EmittedToKey(p), now)};
  WriteCheckpoints(partition, *state, std::move(group));
}

kv::Group EmissionLoop::PlanGroup(uint32_t partition, const Partition& state,
                                  absl::Time target) const {
  const auto p = static_cast<uint16_t>(partition);
  kv::Group group;
  group.conditions = {options_.leases.fence(partition),
                      kv::Absent(ColumnFamily::kMeta, std::string(kv::kClockHoldKey)),
                      CheckpointIs(PlannedToKey(p), state.planned_to)};
  group.mutations = {PutCheckpoint(PlannedToKey(p), target)};
  if (state.window == nullptr && state.done_to > state.emitted_to) {
    group.conditions.push_back(CheckpointIs(EmittedToKey(p), state.emitted_to));
    // A late commit of an abandoned window may have begun that window.
    group.conditions.push_back(kv::Absent(ColumnFamily::kCheckpoints, CursorKey(p)));
    group.mutations.push_back(PutCheckpoint(EmittedToKey(p), state.done_to));
  }
  return group;
}

void EmissionLoop::Plan() {
  const absl::Time now = client_.NowLow();
  if (now == absl::InfinitePast()) return;
  ShowProgress(now);  // also while the store does not answer
  if (planning_) {
    plan_again_ = true;
    return;
  }
  const bool little = Perturb(client_.runtime(), Site::kEmitterPlansLittleAhead);
  const absl::Time target = PlannedTo(now, little ? options_.ahead / 2 : options_.ahead);
  Ids ids, readable;
  std::vector<absl::Time> emitted;  // emitted_to in the plan; InfinitePast: unchanged
  kv::Commit commit;
  for (auto& [partition, state] : partitions_) {
    if (!state.loaded || !options_.leases.valid(partition)) continue;
    if (state.planned_to >= target) {
      // Planned by a former owner, or in the last round, which then could not read on.
      if (state.readable_to < state.planned_to) readable.emplace_back(partition, state.generation);
      continue;
    }
    ids.emplace_back(partition, state.generation);
    commit.groups.push_back(PlanGroup(partition, state, target));
    emitted.push_back(commit.groups.back().mutations.size() > 1 ? state.done_to
                                                                : absl::InfinitePast());
    // The window must not begin while emitted_to is being written.
    if (emitted.back() != absl::InfinitePast()) state.readable_to = absl::InfinitePast();
  }
  if (!readable.empty()) ReadMarks(std::move(readable), target);
  if (ids.empty()) return;
  planning_ = true;
  commit.fence = RulesFence();
  client_.CommitAsync(
      std::move(commit), executor_,
      [self = shared_from_this(), ids = std::move(ids), emitted = std::move(emitted),
       target](absl::StatusOr<kv::CommitResult> result) mutable {
        self->OnPlanned(std::move(ids), std::move(emitted), target, std::move(result));
      });
}

void EmissionLoop::OnPlanned(Ids ids, std::vector<absl::Time> emitted, absl::Time target,
                             absl::StatusOr<kv::CommitResult> result) {
  planning_ = false;
  Ids planned;
  bool held = false;
  for (size_t i = 0; i < ids.size(); ++i) {
    Partition* state = Find(ids[i].first, ids[i].second);
    if (state == nullptr) continue;
    const bool applied = result.ok() && result->verdicts[i].applied;
    if (!applied) {
      held |= result.ok() && result->verdicts[i].failed_condition == kHoldCondition;
      // Held: planned again as it is. Otherwise somebody else has written, or the store could not:
      // read again.
      if (!result.ok() || result->verdicts[i].failed_condition > kHoldCondition)
        Reload(ids[i].first, *state);
      continue;
    }
    state->planned_to = target;
    if (emitted[i] != absl::InfinitePast()) state->emitted_to = emitted[i];
    planned.push_back(ids[i]);
  }
  if (held) {
    ReadHold();
  } else if (!planned.empty()) {
    ShowHold(std::nullopt);
  }
  if (!planned.empty()) ReadMarks(std::move(planned), target);
  if (std::exchange(plan_again_, false)) Plan();
}

void EmissionLoop::ReadHold() {
  client_.MultiGet({{ColumnFamily::kMeta, std::string(kv::kClockHoldKey)}}, executor_,
                   [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                     if (self->stopped_ || !result.ok()) return;  // the next round reads again
                     if (!result->values[0]) return self->ShowHold(std::nullopt);
                     self->ShowHold(kv::DecodeClockHold(*result->values[0]));
                   });
}

void EmissionLoop::ShowHold(std::optional<absl::Duration> disagreement) {
  const bool held = disagreement.has_value();
  metrics_.held.Set(held ? 1 : 0);
  if (options_.on_clock_hold && (held || held_)) options_.on_clock_hold(disagreement);
  if (std::exchange(held_, held) == held) return;
  if (!held)
    return Log(LogLevel::kInfo, "emitter.loop", "emission goes on: the store's clock is not held");
  Log(LogLevel::kError, "emitter.loop",
      "emission is held: the store's wall clock is ahead of store time by more than is followed; "
      "set it right, or say that it is right: escctl store clock --confirm",
      {{"wall_clock_ahead_seconds", absl::ToDoubleSeconds(*disagreement)}});
}

void EmissionLoop::ReadMarks(Ids ids, absl::Time target) {
  std::vector<kv::Key> keys;
  for (const auto& [partition, generation] : ids) {
    keys.push_back({ColumnFamily::kCheckpoints, InUseMarkKey(static_cast<uint16_t>(partition))});
  }
  client_.MultiGet(std::move(keys), executor_,
                   [self = shared_from_this(), ids = std::move(ids),
                    target](absl::StatusOr<kv::GetResult> result) mutable {
                     self->OnMarks(std::move(ids), target, std::move(result));
                   });
}

void EmissionLoop::OnMarks(Ids ids, absl::Time target, absl::StatusOr<kv::GetResult> result) {
  if (!result.ok()) return;  // the next round plans and reads again
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto& [partition, generation] = ids[i];
    Partition* state = Find(partition, generation);
    if (state == nullptr) continue;
    const std::string mark = result->values[i].value_or("");
    if (state->in_use_known && state->in_use_mark == mark) {
      state->readable_to = std::max(state->readable_to, std::min(target, state->planned_to));
      Emit(partition, *state);
      continue;
    }
    ReadInUse(partition, generation, std::min(target, state->planned_to), mark,
              ChildrenPartitionPrefix(static_cast<uint16_t>(partition)), std::make_shared<InUse>());
  }
}

void EmissionLoop::ReadInUse(uint32_t partition, uint64_t generation, absl::Time target,
                             std::string mark, std::string begin, std::shared_ptr<InUse> found) {
  kv::ScanRequest request;
  request.cf = ColumnFamily::kInUse;
  request.begin = std::move(begin);
  request.end = PrefixEnd(ChildrenPartitionPrefix(static_cast<uint16_t>(partition)));
  request.keys_only = true;
  if (Perturb(client_.runtime(), Site::kEmitterInUseScanOfOne)) request.limit = 1;
  client_.Scan(std::move(request), executor_,
               [self = shared_from_this(), partition, generation, target, mark = std::move(mark),
                found](absl::StatusOr<kv::ScanResult> result) mutable {
                 Partition* state = self->Find(partition, generation);
                 if (state == nullptr || !result.ok()) return;
                 for (const kv::Entry& entry : result->entries) {
                   if (!AddInUse(entry.key, *found)) self->metrics_.records_broken.Increment();
                 }
                 if (result->more && !result->entries.empty()) {
                   self->ReadInUse(partition, generation, target, std::move(mark),
                                   KeyAfter(result->entries.back().key), found);
                   return;
                 }
                 // The mark was read first: what came in use in between is found again by the next
                 // mark.
                 state->in_use = std::move(*found);
                 state->in_use_mark = std::move(mark);
                 state->in_use_known = true;
                 state->readable_to = std::max(state->readable_to, target);
                 self->Emit(partition, *state);
               });
}

void EmissionLoop::Emit(uint32_t partition, Partition& state) {
  if (state.window != nullptr || !options_.leases.valid(partition)) return;
  absl::Time end =
      state.cursor ? state.cursor->window_end : WindowEnd(state.done_to, state.readable_to);
  if (!state.cursor && Perturb(client_.runtime(), Site::kEmitterWindowShort))
    end = std::min(end, state.done_to + absl::Milliseconds(1));
  if (end <= state.done_to || end > state.readable_to) return;
  EmissionWindow::Options options;
  options.partition = static_cast<uint16_t>(partition);
  options.fence = RulesFence();
  options.fence.push_back(options_.leases.fence(partition));
  options.rules = RulesFor(state);
  options.emitted_to = state.emitted_to;
  options.cursor = state.cursor;
  options.begin = state.done_to;
  options.end = end;
  options.layout = options_.layout;
  state.catch_up->OnWindow(options.begin, end, state.cursor.has_value(), client_.NowLow());
  options.catch_up = state.catch_up;
  ChildRanges ranges = RangesToRead(options.partition, state.in_use, options.begin, options.end,
                                    options.rules.get());
  for (const std::string& zone : ranges.unknown_zones) {
    metrics_.records_broken.Increment();
    Log(LogLevel::kError, "emitter.loop", "a zone in use is not in the zone database",
        {{"zone", zone}});
  }
  options.ranges = std::move(ranges.ranges);
  if (state.quiet) options.shared = shared_scan_;
  state.window = std::make_shared<EmissionWindow>(
      client_, executor_, metrics_, std::move(options),
      [self = shared_from_this(), partition, generation = state.generation, end](
          absl::Status status, bool stored) {
        self->OnWindow(partition, generation, end, std::move(status), stored);
      });
  // It may end, and be forgotten, within Start.
  const std::shared_ptr<EmissionWindow> window = state.window;
  window->Start();
}

void EmissionLoop::OnWindow(uint32_t partition, uint64_t generation, absl::Time end,
                            absl::Status status, bool stored) {
  Partition* state = Find(partition, generation);
  if (state == nullptr) return;
  if (!status.ok()) {
    if (status.code() != absl::StatusCode::kFailedPrecondition) {
      Log(LogLevel::kWarning, "emitter.loop", "a window was not emitted; it is tried again",
          {{"partition", partition}, {"error", std::string(status.message())}});
    }
    return Reload(partition, *state);
  }
  if (options_.moved != nullptr && !state->frontier) {
    // That was the window of the former rules.
    Reload(partition, *state);
    return ReadCheckpoints();
  }
  state->quiet = std::exchange(state->window, nullptr)->children_read() == 0;
  state->done_to = end;
  state->cursor.reset();
  if (stored) state->emitted_to = end;
  // Posted: a window without ranges ends within its Start.
  if (state->done_to < state->readable_to) {
    executor_->Post([self = shared_from_this(), partition, generation] {
      if (Partition* state = self->Find(partition, generation)) self->Emit(partition, *state);
    });
  }
}

void EmissionLoop::ShowProgress(absl::Time now) {
  absl::Duration behind = -absl::InfiniteDuration();
  for (const auto& [partition, state] : partitions_) {
    const absl::Time emitted_to = state.loaded ? state.done_to : state.unread_since;
    if (emitted_to > absl::InfinitePast()) behind = std::max(behind, now - emitted_to);
  }
  if (behind > -absl::InfiniteDuration())
    metrics_.behind_seconds.Set(absl::ToDoubleSeconds(behind));
}

}  // namespace escapement::emitter
