#include "services/token_manager/judging/row_actions.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/backoff/backoff.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/statistics/minute_sums.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"
#include "common/storage/occurrence_rows.h"
#include "common/storage/run_table.h"
#include "services/token_manager/waiting/policy_state.h"

namespace escapement::token_manager {
namespace {

using kv::ColumnFamily;
using Action = RowJudgement::Action;

// Puts the rest of the row, which waits as `record`, under the key that says when it may go.
kv::Mutation Rekeyed(WaitingKey key, storage::v1::EventRecord record, const WaitingRow& row,
                     uint16_t policy_shard) {
  key.first += row.taken();
  record.set_count(row.left());
  record.mutable_throttle()->set_taken(0);
  const WaitingRow moved(key,
                         RowSourceOf(storage::v1::EventRecord(record), row.source()->uid,
                                     row.source()->occurrence, policy_shard),
                         /*read_seq=*/0);
  key.due_time = moved.may_go();
  return kv::Put(ColumnFamily::kWaiting, EncodeWaitingKey(key), record.SerializeAsString());
}

// The row may have been written again: its schedule has another version, or is not asked.
bool OfFormerVersion(const RowJudgement& judged, const WaitingRow& row) {
  return judged.state == nullptr ||
         (judged.state->record.has_value() &&
          judged.state->record->version() != row.source()->event.version());
}

RowJudgement EndedBy(RowJudgement judged, storage::v1::OutcomeKind outcome, std::string reason) {
  judged.action = Action::kSkip;
  judged.outcome = outcome;
  judged.reason = std::move(reason);
  return judged;
}

}  // namespace

void RowActions::Withhold(PolicyState& policy, const std::string& key, WaitingRow& row,
                          RowJudgement judged, storage::v1::EventRecord record) {
  policy.waiting.BeginAction(key, row);
  state_.PinCounts(*row.source());
  pending_.push_back({key, std::move(judged), std::move(record), row.source()});
}

bool RowActions::Add(PolicyState& policy, const std::string& key, WaitingRow& row,
                     const RowJudgement& judged) {
  if (judged.action == Action::kSend || judged.action == Action::kFetch) return false;
  Withhold(policy, key, row, judged);
  return true;
}

void RowActions::Fail(PolicyState& policy, const std::string& key, WaitingRow& row,
                      const RowJudgement& judged) {
  Withhold(policy, key, row,
           EndedBy(judged, storage::v1::OUTCOME_KIND_FAILED,
                   PastNextOccurrence(row.source()->event.last_error())));
}

void RowActions::CloseWindow(PolicyState& policy, const std::string& key, WaitingRow& row,
                             absl::Time now) {
  const RowSource& source = *row.source();
  if (!state_.CountsKnown(policy, source)) return;
  const storage::v1::EventRecord record = row.Record();
  const auto judged = JudgeQueueRow(state_.core.cache, source.uid, source.occurrence, record);
  if (judged.action == Action::kFetch) return AwaitRecords(state_, policy, source.group);
  const bool ends = source.one_off() || Drops(record);
  // Unless another row stands for its events, or it is not for this policy to end it.
  if (ends && judged.action != Action::kDrop && judged.action != Action::kMove) {
    return Withhold(policy, key, row,
                    EndedBy(judged, storage::v1::OUTCOME_KIND_EXPIRED,
                            source.one_off() ? MissedBy(record, now) : "window_closed"));
  }
  if (Add(policy, key, row, judged)) return;
  std::optional<storage::v1::EventRecord> carried = CarryOver(
      record, row.first(), *judged.definition->record, FinishOf(*judged.state->record), now);
  if (!carried.has_value()) return policy.waiting.FinishLate(key, row);
  Withhold(policy, key, row, judged, *std::move(carried));
}

void RowActions::Rekey(PolicyState& policy, const std::string& key, WaitingRow& row) {
  Withhold(policy, key, row, {.action = Action::kSend}, row.Record());
}

void RowActions::Build(const Round& round, std::vector<kv::Group>& groups) {
  for (size_t n = 0; n < kMax && !pending_.empty(); ++n) {
    Withheld action = std::move(pending_.front());
    pending_.pop_front();
    if (const WaitingRow* row = state_.FindRow(action.key).second)
      committing_[row->source()->uid].actions.push_back(std::move(action));
  }
  for (auto& [schedule, group] : committing_) {
    kv::Group& out = groups.emplace_back();
    for (const Withheld& action : group.actions) AddTo(group, action, round, out);
    for (const kv::Mutation& mutation : out.mutations) {
      if (mutation.cf == ColumnFamily::kWaiting && mutation.kind == kv::Mutation::Kind::kPut)
        group.moved_to.push_back(mutation.key);
    }
    for (const auto& [key, before] : group.parts_before) PutPart(state_, key, out);
  }
}

void RowActions::AddTo(Group& group, const Withheld& action, const Round& round, kv::Group& out) {
  const WaitingRow& row = *state_.FindRow(action.key).second;
  const RowSource& source = *row.source();
  if (OfFormerVersion(action.judged, row)) out.conditions.push_back(row.Unchanged(action.key));
  if (action.judged.state != nullptr)
    out.conditions.push_back(StateUnchanged(source.uid, *action.judged.state));
  out.mutations.push_back(kv::Delete(ColumnFamily::kWaiting, action.key));
  switch (action.judged.action) {
    case Action::kPark:
      out.mutations.push_back(kv::Put(ColumnFamily::kParked, ParkedKey(source.uid, action.key),
                                      row.Record().SerializeAsString()));
      break;
    case Action::kSkip:
      End(group, row, action.judged, round, out);
      break;
    case Action::kMove:
      AddMovedRow(SourceOf(*action.judged.definition->record), row.Record(), source.occurrence,
                  row.first(), row.due(), state_.core.layout, round.now, out.mutations);
      break;
    case Action::kSend: {
      kv::Mutation put = Rekeyed(*DecodeWaitingKey(action.key), action.record, row, state_.shard);
      const bool stays = put.key == action.key;  // a retry that may go only in the next window
      if (stays) out.mutations.pop_back();       // the deletion
      out.conditions.push_back(stays ? row.Unchanged(action.key)
                                     : kv::Absent(ColumnFamily::kWaiting, put.key));
      out.mutations.push_back(std::move(put));
      break;
    }
    case Action::kDrop:
    case Action::kFetch:
      break;
  }
}

void RowActions::End(Group& group, const WaitingRow& row, const RowJudgement& judged,
                     const Round& round, kv::Group& out) {
  const RowSource& source = *row.source();
  const storage::v1::OutcomeKind outcome = judged.outcome;
  std::vector<EndedRange> ends = {{.source = row.source(),
                                   .first = row.first() + row.taken(),
                                   .count = row.left(),
                                   .outcome = outcome,
                                   .attempts = source.event.attempts(),
                                   .complete_micros = round.micros,
                                   .reason = judged.reason}};
  if (judged.definition != nullptr) ends[0].schedule_id = judged.definition->record->schedule_id();
  AddEnds(ends, state_.core.layout.queue_shards, out.mutations);
  // Not null: CountsKnown was asked. The former value is kept.
  const auto counts_to_change = [&](const std::string& key) {
    storage::v1::RunPartRecord* part = state_.parts.Find(key);
    if (part != nullptr) group.parts_before.try_emplace(key, *part);
    return part;
  };
  if (outcome == storage::v1::OUTCOME_KIND_FAILED && !source.one_off()) {
    if (auto* counts = counts_to_change(source.counts_key))
      CountInSchedule(outcome, row.left(), round.micros, *counts);
  }
  auto* part = source.part_key.empty() ? nullptr : counts_to_change(source.part_key);
  if (part == nullptr) return;
  if (outcome == storage::v1::OUTCOME_KIND_EXPIRED) {
    part->set_expired(part->expired() + row.left());
  } else if (outcome == storage::v1::OUTCOME_KIND_FAILED) {
    part->set_failed(part->failed() + row.left());
  } else if (outcome == storage::v1::OUTCOME_KIND_CANCELLED) {
    part->set_cancelled(part->cancelled() + row.left());
  } else {
    part->set_skipped(part->skipped() + row.left());
    part->set_skip_reason(judged.reason);
  }
  part->set_last_end_time_micros(std::max(part->last_end_time_micros(), round.micros));
  NoteForReport(ends[0], *part);
}

void RowActions::OnCommitted(absl::Span<const kv::Verdict> verdicts) {
  size_t i = 0;
  for (const auto& [schedule, group] : std::exchange(committing_, {})) {
    const bool applied = i < verdicts.size() && verdicts[i++].applied;
    if (!applied) {
      state_.core.cache.ForgetState(schedule);
      for (const auto& [key, before] : group.parts_before) {
        if (storage::v1::RunPartRecord* part = state_.parts.Find(key)) *part = before;
      }
    }
    for (const Withheld& action : group.actions) {
      Settle(action, applied);
      state_.UnpinCounts(*action.source);
    }
    if (!applied) continue;
    for (const std::string& key : group.moved_to) state_.core.on_row_written(key);
  }
}

void RowActions::Settle(const Withheld& action, bool applied) {
  const auto [policy, row] = state_.FindRow(action.key);
  if (row == nullptr) return;
  // If the schedule was changed back or resumed, the row was written again while it was here, and
  // that version is not in memory.
  const bool written_again = OfFormerVersion(action.judged, *row) || row->rewritten();
  const GroupKey group = row->group();
  if (!applied) {
    // A row that keeps its key was to be as it was read. That may fail without cause if the reading
    // is old, and again and again unless the row is read again.
    if (written_again || action.judged.action == Action::kSend)
      return state_.ReadBack(*policy, action.key);
    policy->waiting.AbortAction(action.key, *row);
    state_.MayReadOn(*policy, group);
    return state_.Revisit(*policy);
  }
  Count(action.judged, row->left());
  if (action.judged.action == Action::kSkip) {
    const storage::v1::EventRecord& event = row->source()->event;
    EndedEvents ended;
    ended.Add(event.tenant(), action.judged.outcome, row->left(),
              event.attempts() == 0 ? ToMicros(row->due()) : 0);
    ended.CountIn(state_.core.statistics, ToMicros(state_.core.client.NowLow()));
  }
  // Rows behind it may have other limits.
  if (policy->waiting.queue().groups_aside() > 0) {
    for (const LimitName& limit : LimitsOf(policy->uid, *row->source()))
      policy->waiting.queue().Reconsider(ReasonOf(limit));
  }
  state_.reads.NoteDeleted(action.key, row->read_seq());
  policy->waiting.Remove(action.key);
  state_.MayBeHungry(policy->uid, group);
  if (written_again || action.judged.action == Action::kPark) state_.reads.Want(action.key);
  state_.Revisit(*policy);
}

void RowActions::Count(const RowJudgement& judged, uint64_t events) {
  TokenManagerMetrics& metrics = state_.core.metrics;
  if (judged.action == Action::kPark) metrics.parked.Increment();
  if (judged.action == Action::kMove) metrics.moved.Increment();
  if (judged.action == Action::kSend && judged.state != nullptr) metrics.carried_over.Increment();
  if (judged.action != Action::kSkip) return;
  (judged.outcome == storage::v1::OUTCOME_KIND_FAILED    ? metrics.failed
   : judged.outcome == storage::v1::OUTCOME_KIND_EXPIRED ? metrics.dropped
                                                         : metrics.skipped)
      .Increment(events);
}

}  // namespace escapement::token_manager
