#include "services/handler/ends/end_loop.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "common/base/check.h"
#include "common/base/proto_time.h"
#include "common/runtime/perturb.h"
#include "services/handler/base/options.h"
#include "services/handler/shard/claim_batch.h"

namespace escapement::handler {
namespace {

using kv::ColumnFamily;

constexpr size_t kPartsKeptMax = 4096;
constexpr size_t kReadAgainMax = 100;                      // rows in one request
constexpr size_t kDeadLetterBytes = 512;                   // a guess, without the payload
constexpr absl::Duration kHeld = absl::Milliseconds(100);  // only by a perturbation

}  // namespace

void EndLoop::Add(Outcome&& outcome) {
  CHECK_LT(outcome.entry, outcome.claim->entries.size());
  const EntryGrant* grant = outcome.claim->entries[outcome.entry].grant.get();
  if (grant == nullptr) {
    FlushWithin(kEndFlushDelay);
    urgent_ = true;
  } else if (ReportKindOf(*grant, outcome) == storage::v1::GrantReportRecord::DELIVERED) {
    FlushWithin(kDeliveredFlushDelay);
  } else {
    FlushWithin(kFreeingFlushDelay);
    urgent_ = true;
  }
  // The claim's other events mostly end next.
  if (outcomes_.empty())
    outcomes_.reserve(std::min<size_t>(outcome.claim->open, kEndOutcomesFlush));
  outcomes_.push_back(std::move(outcome));
}

void EndLoop::FlushWithin(absl::Duration delay) {
  const bool first = empty();
  if (!first && delay == flush_delay_) return;  // it is early enough
  const absl::Duration at = absl::Ceil(state_.core.runtime.clock().Elapsed(), delay);
  if (first) {
    flush_at_ = at;
    urgent_ = false;
  }
  flush_at_ = std::min(flush_at_, at);
  flush_delay_ = delay;
}

void EndLoop::AddRow(RowEnd end, QueuedRow row, std::shared_ptr<const CachedState> cached) {
  CHECK(state_.held.contains(row.key()));
  FlushWithin(kEndFlushDelay);
  urgent_ = true;
  rows_.push_back({.end = std::move(end), .row = std::move(row), .cached = std::move(cached)});
}

void EndLoop::AddGarbage(std::vector<std::string> inflight_keys) {
  garbage_.insert(garbage_.end(), inflight_keys.begin(), inflight_keys.end());
}

bool EndLoop::IsDue() const {
  if (empty()) return false;
  return outcomes_.size() >= kEndOutcomesFlush || (urgent_ && state_.core.sends.out() == 0) ||
         state_.core.runtime.clock().Elapsed() >= flush_at_;
}

std::optional<absl::Duration> EndLoop::NextStep() const {
  if (committing_ || empty()) return std::nullopt;
  return flush_at_;
}

void EndLoop::Step(absl::Time now) {
  if (committing_ || !IsDue()) return;
  if (Perturb(state_.core.runtime, Site::kHandlerEndsHeld)) {
    flush_at_ = state_.core.runtime.clock().Elapsed() + kHeld;
    flush_delay_ = absl::ZeroDuration();
    urgent_ = false;
    return;
  }
  // Reads the counts that will change, once per run and schedule.
  std::vector<std::string> missing;
  const auto want = [&](std::string key) {
    if (missing.size() < kPartsKeptMax && parts_.try_emplace(key).second)
      missing.push_back(std::move(key));
  };
  VisitRunParts(absl::MakeConstSpan(outcomes_).subspan(known_outcomes_), want);
  if (missing.size() < kPartsKeptMax) known_outcomes_ = outcomes_.size();
  // One commit takes no more rows than this; the rows behind them wait for a later commit.
  for (size_t i = 0; i < std::min(rows_.size(), kClaimRowsMax); ++i) {
    const RowEnd& end = rows_[i].end;
    for (std::string& key : RunPartKeysOf(end.entry, end.kind)) want(std::move(key));
  }
  if (!missing.empty()) return FetchParts(std::move(missing));
  Flush(now);
}

void EndLoop::FetchParts(std::vector<std::string> missing) {
  CHECK(!std::exchange(committing_, true));
  std::vector<kv::Key> keys;
  keys.reserve(missing.size());
  for (const std::string& key : missing) keys.push_back({ColumnFamily::kRunParts, key});
  state_.core.client.MultiGet(
      std::move(keys), state_.core.executor,
      state_.WhileOwned([this, missing = std::move(missing)](absl::StatusOr<kv::GetResult> result) {
        committing_ = false;
        if (!result.ok()) known_outcomes_ = 0;
        for (size_t i = 0; i < missing.size(); ++i) {
          if (!result.ok()) {
            parts_.erase(missing[i]);
          } else if (result->values[i].has_value()) {
            parts_[missing[i]].ParseFromString(*result->values[i]);
          }
        }
        state_.core.wake();
      }));
}

std::vector<Outcome> EndLoop::TakeOutcomes() {
  const size_t outcomes_max =
      Perturb(state_.core.runtime, Site::kHandlerEndOfOne) ? 1 : kEndOutcomesMax;
  size_t bytes = 0;
  size_t n = 0;
  while (n < outcomes_.size() && n < outcomes_max && bytes < kEndBytesMax) {
    const Outcome& outcome = outcomes_[n++];
    const ClaimedEntry& entry = outcome.claim->entries[outcome.entry];
    bytes += outcome.answer.size();
    const bool keeps = outcome.kind == EndKind::kRetry || outcome.kind == EndKind::kFailed;
    if (keeps && entry.context != nullptr && entry.one_off())
      bytes += entry.context->payload.size();
  }
  known_outcomes_ -= std::min(n, known_outcomes_);
  if (n == outcomes_.size()) return std::exchange(outcomes_, {});
  std::vector<Outcome> taken(std::make_move_iterator(outcomes_.begin()),
                             std::make_move_iterator(outcomes_.begin() + n));
  outcomes_.erase(outcomes_.begin(), outcomes_.begin() + n);
  return taken;
}

void EndLoop::Flush(absl::Time now) {
  auto pending = std::make_shared<PendingCommit>();
  std::vector<Outcome> outcomes = TakeOutcomes();
  pending->batch = BuildEndBatch(
      outcomes, parts_, {.shard = state_.shard, .epoch = state_.lease.epoch, .number = ++commits_});
  for (const std::string& key : garbage_) {
    pending->batch.group.mutations.push_back(
        {.cf = ColumnFamily::kInflight, .kind = kv::Mutation::Kind::kDelete, .key = key});
  }
  garbage_.clear();
  kv::Commit commit;
  commit.fence = {state_.fence};
  commit.groups.push_back(std::move(pending->batch.group));
  AddRows(now, *pending, commit);
  flush_at_ = state_.core.runtime.clock().Elapsed() + kEndFlushDelay;
  flush_delay_ = absl::ZeroDuration();
  urgent_ = true;  // if any end is left
  Send(std::move(pending), std::move(commit));
}

// Each group may be refused, because a row may have changed or a later version may have written
// another row in its place. Rows that change the same counts go into the same group of a commit, so
// that no count builds on the count of a group that may not apply.
EndLoop::RowGroup* EndLoop::GroupFor(const WaitingRow& row, PendingCommit& pending,
                                     std::map<std::string, size_t>& by_part) const {
  const RunPartKeys keys = RunPartKeysOf(row.end.entry, row.end.kind);
  if (keys.empty()) return &pending.row_groups.emplace_back();
  std::optional<size_t> group;
  for (const std::string& key : keys) {
    if (!parts_.contains(key) || pending.batch.parts.contains(key)) return nullptr;
    const auto found = by_part.find(key);
    if (found == by_part.end()) continue;
    if (group.has_value() && *group != found->second) return nullptr;
    group = found->second;
  }
  if (!group.has_value()) {
    group = pending.row_groups.size();
    pending.row_groups.emplace_back();
  } else if (pending.row_groups[*group].rows.size() >= rows_of_group_max_) {
    return nullptr;
  }
  for (const std::string& key : keys) by_part.try_emplace(key, *group);
  return &pending.row_groups[*group];
}

void EndLoop::AddRows(absl::Time now, PendingCommit& pending, kv::Commit& commit) {
  const size_t rows_max =
      Perturb(state_.core.runtime, Site::kHandlerRowEndOfOne) ? 1 : kClaimRowsMax;
  std::map<std::string, size_t> by_part;  // index of the group that changes the counts of the key
  // A row that is no longer so may be here beside what became of it. Their ends have the same key
  // in Done, which a group must not write twice.
  std::set<std::tuple<Uid, std::string, uint64_t>> ended;
  std::vector<WaitingRow> later;
  size_t taken = 0;
  size_t bytes = 0;
  while (!rows_.empty() && taken < rows_max && bytes <= kEndBytesMax) {
    WaitingRow row = std::move(rows_.front());
    rows_.pop_front();
    const EventKey& key = row.end.entry.key;
    std::tuple<Uid, std::string, uint64_t> events(key.uid, key.occurrence, key.first);
    RowGroup* to = ended.contains(events) ? nullptr : GroupFor(row, pending, by_part);
    if (to == nullptr) {
      later.push_back(std::move(row));
      continue;
    }
    ended.insert(std::move(events));
    to->group.conditions.push_back({.cf = ColumnFamily::kEvents,
                                    .key = std::string(row.row.key()),
                                    .kind = kv::Condition::Kind::kValueEquals,
                                    .value = std::string(row.row.value()),
                                    .since = row.row.seq()});
    if (row.cached != nullptr && row.cached.get() != to->state) {
      to->group.conditions.push_back(StateUnchanged(row.end.entry.key.uid, *row.cached));
      to->state = row.cached.get();
    }
    AddRowEnd(row.end, ToMicros(now), parts_, to->group, to->parts);
    bytes += row.end.payload.size();
    if (row.end.kind == EndKind::kFailed) bytes += row.end.entry.event.count() * kDeadLetterBytes;
    if (row.end.rest > 0) {
      kv::Mutation rest = RestOf(row.end);
      to->rests.emplace_back(rest.key, rest.value, 0);
      to->group.mutations.push_back(std::move(rest));
    }
    ++taken;
    to->rows.push_back(std::move(row));
  }
  rows_.insert(rows_.begin(), std::make_move_iterator(later.begin()),
               std::make_move_iterator(later.end()));
  for (RowGroup& row_group : pending.row_groups) {
    PutParts(row_group.parts, row_group.group);
    commit.groups.push_back(std::move(row_group.group));
  }
}

void EndLoop::Send(std::shared_ptr<PendingCommit> pending, kv::Commit commit) {
  committing_ = true;
  commit.again_without_room = kRetryCommitDelay;
  state_.core.client.CommitAsync(
      std::move(commit), state_.core.executor,
      state_.WhileOwned([this, pending](absl::StatusOr<kv::CommitResult> result) {
        CHECK(committing_);
        if (result.ok()) {
          committing_ = false;
          OnCommitted(*pending, *result);
          return;
        }
        state_.core.metrics.refused_ends.Increment();
        state_.OnRefused();
      }));
}

void EndLoop::OnCommitted(PendingCommit& pending, const kv::CommitResult& result) {
  EndBatch& batch = pending.batch;
  HandlerMetrics& metrics = state_.core.metrics;
  metrics.succeeded.Increment(batch.succeeded);
  metrics.retries.Increment(batch.retried);
  metrics.dead_letters.Increment(batch.dead_letters);
  metrics.skipped.Increment(batch.skipped);
  if (parts_.size() > kPartsKeptMax ||
      Perturb(state_.core.runtime, Site::kHandlerRunPartsForgotten)) {
    parts_.clear();
    known_outcomes_ = 0;
  }
  for (auto& [key, part] : batch.parts) parts_[key] = std::move(part);
  for (const absl::string_view key : batch.released_keys) state_.held.Remove(key);
  for (const std::shared_ptr<Claim>& claim : batch.tried) claim->trial.reset();
  for (const std::shared_ptr<Claim>& claim : batch.finished) {
    claim->owner = nullptr;
    CHECK_EQ(state_.claims.erase(claim->order), 1u);
    if (IsGranted(claim->id)) state_.granted.Forget(claim->id);
  }
  for (QueuedRow& row : batch.rows) {
    row.set_seq(result.seq);
    if (loader_.WantsRow(row.key())) state_.queue.Add(std::move(row));
  }
  EndedEvents ended = std::move(batch.ended);
  // The rows' keys are read again: the loader has skipped new rows while the keys were held, and
  // refused rows must be judged again.
  std::vector<kv::Key> again;
  bool refused = false;
  for (size_t i = 0; i < pending.row_groups.size(); ++i) {
    RowGroup& group = pending.row_groups[i];
    const bool applied = result.verdicts[i + 1].applied;
    refused |= !applied;
    for (const WaitingRow& row : group.rows) {
      again.push_back({.cf = ColumnFamily::kEvents, .key = std::string(row.row.key())});
      if (!applied) {
        state_.core.cache.ForgetState(row.end.entry.key.uid);
        continue;
      }
      Counter& count = row.end.kind == EndKind::kPark     ? metrics.parked
                       : row.end.kind == EndKind::kFailed ? metrics.dead_letters
                                                          : metrics.skipped;
      const EventRow& event = row.end.entry.event;
      count.Increment(event.count());
      CountEnded(row.end.entry, row.end.kind, event.attempts(), event.count(), ended);
    }
    if (!applied) continue;
    for (QueuedRow& rest : group.rests) {
      rest.set_seq(result.seq);
      if (loader_.WantsRow(rest.key())) state_.queue.Add(std::move(rest));
    }
    for (auto& [key, part] : group.parts) parts_[key] = std::move(part);
  }
  ended.CountIn(state_.core.statistics, ToMicros(state_.core.client.NowLow()));
  rows_of_group_max_ = refused ? 1 : std::min(2 * rows_of_group_max_, kRowsOfGroupMax);
  RereadRows(std::move(again));
  state_.core.wake();
}

void EndLoop::RereadRows(std::vector<kv::Key> keys) {
  if (keys.size() > kReadAgainMax) {
    RereadRows({keys.begin() + kReadAgainMax, keys.end()});
    keys.resize(kReadAgainMax);
  }
  if (keys.empty()) return;
  state_.core.client.MultiGet(
      keys, state_.core.executor,
      state_.WhileOwned([this, keys](absl::StatusOr<kv::GetResult> result) {
        for (size_t i = 0; i < keys.size(); ++i) {
          state_.Release(keys[i].key);
          if (!result.ok() || !result->values[i].has_value()) continue;
          state_.queue.Add(QueuedRow(keys[i].key, *result->values[i], result->seq));
        }
        state_.core.wake();
      }));
}

}  // namespace escapement::handler
