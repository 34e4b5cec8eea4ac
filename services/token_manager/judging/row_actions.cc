#include "services/token_manager/judging/row_actions.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/backoff/backoff.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"
#include "common/storage/occurrence_rows.h"
#include "common/storage/run_table.h"
#include "services/token_manager/waiting/policy_state.h"

namespace escapement::token_manager {
namespace {

using kv::ColumnFamily;

constexpr size_t kActionsMax = 1000;  // actions of one commit
constexpr char kWindowClosed[] = "window_closed";

// The rest of the row, or what it is carried over as, under the key that says when it may go.
WaitingPut Rekeyed(const RowAction& action, const WaitingRow& row, uint16_t policy_shard) {
  storage::v1::EventRecord record = action.record;
  WaitingKey key = *DecodeWaitingKey(action.key);
  key.first += row.taken();
  record.set_count(row.left());
  record.mutable_throttle()->set_taken(0);
  const WaitingRow moved(
      key, RowSourceOf(record, row.source()->uid, row.source()->occurrence, policy_shard),
      /*read_seq=*/0);
  key.due_time = moved.may_go();
  return {.key = EncodeWaitingKey(key), .value = record.SerializeAsString()};
}

bool OfFormerVersion(const RowAction& action, const WaitingRow& row) {
  if (action.state == nullptr) return true;  // whatever the schedule is
  return action.state->record.has_value() &&
         action.state->record->version() != row.source()->event.version();
}

}  // namespace

bool RowActions::full() const { return pending_.size() >= kActionsMax; }

bool RowActions::CountsKnown(PolicyState& policy, const WaitingRow& row) {
  if (state_.CountsKnown(*row.source())) return true;
  AwaitRecords(state_, policy, row.source()->group);
  return false;
}

void RowActions::Withhold(PolicyState& policy, const std::string& key, WaitingRow& row,
                          RowAction action) {
  policy.waiting.BeginAction(key, row);
  action.key = key;
  action.source = row.source();
  state_.PinCounts(*action.source);
  pending_.push_back(std::move(action));
}

bool RowActions::Add(PolicyState& policy, const std::string& key, WaitingRow& row,
                     const RowJudgement& judged) {
  TokenManagerMetrics& metrics = state_.core.metrics;
  RowAction action{.state = judged.state};
  switch (judged.action) {
    case RowJudgement::Action::kSend:
    case RowJudgement::Action::kFetch:
      return false;
    case RowJudgement::Action::kPark:
      action.kind = RowAction::Kind::kPark;
      action.counter = &metrics.parked;
      break;
    case RowJudgement::Action::kSkip:
      action.outcome = judged.outcome;
      action.reason = judged.reason;
      action.counter = &metrics.skipped;
      break;
    case RowJudgement::Action::kDrop:
      action.kind = RowAction::Kind::kDrop;
      break;
    case RowJudgement::Action::kMove:
      action.kind = RowAction::Kind::kMove;
      action.definition = judged.definition;
      action.counter = &metrics.moved;
      break;
  }
  Withhold(policy, key, row, std::move(action));
  return true;
}

void RowActions::Fail(PolicyState& policy, const std::string& key, WaitingRow& row,
                      const RowJudgement& judged) {
  Withhold(policy, key, row,
           {.state = judged.state,
            .definition = judged.definition,
            .outcome = storage::v1::OUTCOME_KIND_FAILED,
            .reason = PastNextOccurrence(row.source()->event.last_error()),
            .counter = &state_.core.metrics.failed});
}

bool RowActions::CloseWindow(PolicyState& policy, const std::string& key, WaitingRow& row,
                             absl::Time now) {
  const storage::v1::EventRecord record = row.Record();
  if (!CountsKnown(policy, row)) return false;
  const RowJudgement judged =
      JudgeQueueRow(state_.core.cache, row.source()->uid, row.source()->occurrence, record);
  if (judged.action == RowJudgement::Action::kFetch) {
    AwaitRecords(state_, policy, row.source()->group);
    return false;
  }
  // Unless another row stands for its events, or it is not for this policy to end it.
  if (Drops(record) && judged.action != RowJudgement::Action::kDrop &&
      judged.action != RowJudgement::Action::kMove) {
    Withhold(policy, key, row,
             {.state = judged.state,
              .outcome = storage::v1::OUTCOME_KIND_EXPIRED,
              .reason = kWindowClosed,
              .counter = &state_.core.metrics.dropped});
    return true;
  }
  if (Add(policy, key, row, judged)) return true;
  std::optional<storage::v1::EventRecord> carried = CarryOver(
      record, row.first(), *judged.definition->record, FinishOf(*judged.state->record), now);
  if (!carried.has_value()) {
    policy.waiting.FinishLate(key, row);
    return true;
  }
  Withhold(policy, key, row,
           {.kind = RowAction::Kind::kRekey,
            .state = judged.state,
            .record = *std::move(carried),
            .counter = &state_.core.metrics.carried_over});
  return true;
}

void RowActions::Rekey(PolicyState& policy, const std::string& key, WaitingRow& row) {
  Withhold(policy, key, row, {.kind = RowAction::Kind::kRekey, .record = row.Record()});
}

void RowActions::Build(const Round& round, std::vector<kv::Group>& groups) {
  for (size_t n = 0; n < kActionsMax && !pending_.empty(); ++n) {
    RowAction action = std::move(pending_.front());
    pending_.pop_front();
    if (const WaitingRow* row = state_.FindRow(action.key).second)
      committing_[row->source()->uid].actions.push_back(std::move(action));
  }
  for (auto& [schedule, group] : committing_) {
    kv::Group& out = groups.emplace_back();
    for (RowAction& action : group.actions) AddTo(group, action, round, out);
    for (const auto& [key, before] : group.parts_before) PutPart(state_, key, out);
  }
}

void RowActions::AddTo(Group& group, RowAction& action, const Round& round, kv::Group& out) {
  const WaitingRow& row = *state_.FindRow(action.key).second;
  action.former = OfFormerVersion(action, row);
  if (action.former) out.conditions.push_back(row.Unchanged(action.key));
  if (action.state != nullptr)
    out.conditions.push_back(StateUnchanged(row.source()->uid, *action.state));
  out.mutations.push_back(kv::Delete(ColumnFamily::kWaiting, action.key));
  switch (action.kind) {
    case RowAction::Kind::kPark:
      out.mutations.push_back(kv::Put(ColumnFamily::kParked,
                                      ParkedKey(row.source()->uid, action.key),
                                      row.Record().SerializeAsString()));
      break;
    case RowAction::Kind::kEnd:
      End(group, row, action, round, out);
      break;
    case RowAction::Kind::kMove: {
      const size_t begin = out.mutations.size();
      AddMovedRow(SourceOf(*action.definition->record), row.Record(), row.source()->occurrence,
                  row.first(), row.due(), state_.core.layout, round.now, out.mutations);
      for (size_t i = begin; i < out.mutations.size(); ++i) {
        if (out.mutations[i].cf == ColumnFamily::kWaiting)
          group.moved_to.push_back(out.mutations[i].key);
      }
      break;
    }
    case RowAction::Kind::kRekey: {
      WaitingPut put = Rekeyed(action, row, state_.shard);
      out.conditions.push_back(kv::Absent(ColumnFamily::kWaiting, put.key));
      out.mutations.push_back(kv::Put(ColumnFamily::kWaiting, put.key, std::move(put.value)));
      group.moved_to.push_back(std::move(put.key));
      break;
    }
    case RowAction::Kind::kDrop:
      break;
  }
}

void RowActions::End(Group& group, const WaitingRow& row, const RowAction& action,
                     const Round& round, kv::Group& out) {
  const storage::v1::OutcomeKind outcome = action.outcome;
  std::vector<EndedRange> ends = {{.source = row.source(),
                                   .first = row.first() + row.taken(),
                                   .count = row.left(),
                                   .outcome = outcome,
                                   .attempts = row.source()->event.attempts(),
                                   .complete_micros = round.micros,
                                   .reason = action.reason}};
  if (action.definition != nullptr) ends[0].schedule_id = action.definition->record->schedule_id();
  AddEnds(ends, state_.core.layout.queue_shards, out.mutations);
  if (outcome == storage::v1::OUTCOME_KIND_FAILED && !row.source()->one_off()) {
    if (storage::v1::RunPartRecord* counts =
            PartToChange(group, CountsKeyOf(*row.source(), state_.shard)))
      CountInSchedule(outcome, row.left(), round.micros, *counts);
  }
  if (row.source()->part_key.empty()) return;
  storage::v1::RunPartRecord* part = PartToChange(group, row.source()->part_key);
  if (part == nullptr) return;
  if (outcome == storage::v1::OUTCOME_KIND_EXPIRED) {
    part->set_expired(part->expired() + row.left());
  } else if (outcome == storage::v1::OUTCOME_KIND_FAILED) {
    part->set_failed(part->failed() + row.left());
  } else if (outcome == storage::v1::OUTCOME_KIND_CANCELLED) {
    part->set_cancelled(part->cancelled() + row.left());
  } else {
    part->set_skipped(part->skipped() + row.left());
    part->set_skip_reason(action.reason);
  }
  part->set_last_end_time_micros(std::max(part->last_end_time_micros(), round.micros));
}

storage::v1::RunPartRecord* RowActions::PartToChange(Group& group, const std::string& key) {
  storage::v1::RunPartRecord* part = state_.parts.Find(key);
  if (part != nullptr) group.parts_before.try_emplace(key, *part);
  return part;  // not null: CountsKnown was asked
}

void RowActions::OnCommitted(absl::Span<const kv::Verdict> verdicts) {
  size_t i = 0;
  for (const auto& [schedule, group] : std::exchange(committing_, {})) {
    if (i < verdicts.size() && verdicts[i].applied) {
      Applied(group);
    } else {
      Refused(schedule, group);
    }
    for (const RowAction& action : group.actions) state_.UnpinCounts(*action.source);
    ++i;
  }
}

void RowActions::Applied(const Group& group) {
  for (const RowAction& action : group.actions) {
    const auto [policy, row] = state_.FindRow(action.key);
    if (row == nullptr) continue;
    if (action.counter != nullptr)
      action.counter->Increment(action.kind == RowAction::Kind::kEnd ? row->left() : 1);
    // Rows behind it may have other limits.
    if (policy->waiting.queue().groups_aside() > 0) {
      for (const LimitName& limit : LimitsOf(policy->uid, *row->source()))
        policy->waiting.queue().Reconsider(ReasonOf(limit));
    }
    const bool rewritten = row->rewritten();
    const GroupKey group_key = row->group();
    state_.reads.NoteDeleted(action.key, row->read_seq());
    policy->waiting.Remove(action.key);
    state_.MayBeHungry(policy->uid, group_key);
    // If the schedule was changed back or resumed, the row was written again while it was here, and
    // that version is not in memory.
    if (action.former || rewritten || action.kind == RowAction::Kind::kPark)
      state_.reads.Want(action.key);
    state_.Revisit(*policy);
  }
  for (const std::string& key : group.moved_to) state_.core.on_row_written(key);
}

void RowActions::Refused(const Uid& schedule, const Group& group) {
  state_.core.cache.ForgetState(schedule);
  for (const auto& [key, before] : group.parts_before) {
    if (storage::v1::RunPartRecord* part = state_.parts.Find(key)) *part = before;
  }
  for (const RowAction& action : group.actions) {
    const auto [policy, row] = state_.FindRow(action.key);
    if (row == nullptr) continue;
    if (action.former || row->rewritten()) {
      state_.ReadBack(*policy, action.key);
      continue;
    }
    policy->waiting.AbortAction(action.key, *row);
    state_.MayReadOn(*policy, row->group());
    state_.Revisit(*policy);
  }
}

}  // namespace escapement::token_manager
