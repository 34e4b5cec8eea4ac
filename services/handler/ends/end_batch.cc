#include "services/handler/ends/end_batch.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/base/message_writer.h"
#include "common/base/printable_text.h"
#include "common/base/proto_time.h"
#include "common/records/row_judge.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/run_table.h"

namespace escapement::handler {

namespace {

void AddRange(storage::v1::ClaimEndRecord::Entry& entry, uint64_t first, uint64_t count) {
  if (entry.ranges_size() > 0) {
    auto& last = *entry.mutable_ranges(entry.ranges_size() - 1);
    if (last.first() + last.count() == first) {
      last.set_count(last.count() + count);
      return;
    }
  }
  auto& range = *entry.add_ranges();
  range.set_first(first);
  range.set_count(count);
}

}  // namespace

storage::v1::ClaimEndRecord ClaimEndOf(absl::Span<const Outcome> outcomes) {
  storage::v1::ClaimEndRecord record;
  for (const Outcome& outcome : outcomes) {
    const int last = record.entries_size() - 1;
    auto* entry = last >= 0 && record.entries(last).entry() == outcome.entry
                      ? record.mutable_entries(last)
                      : record.add_entries();
    entry->set_entry(outcome.entry);
    AddRange(*entry, outcome.first, outcome.count);
  }
  return record;
}

namespace {

// Keys are sorted, because outcomes are large and their claims lie elsewhere in memory.
struct Key {
  uint64_t claim = 0;  // its order
  uint32_t entry = 0;
  uint64_t first = 0;
  size_t place = 0;
  bool operator<(const Key& other) const {
    return std::tie(claim, entry, first) < std::tie(other.claim, other.entry, other.first);
  }
};

}  // namespace

void SortByEvent(std::vector<Outcome>& outcomes) {
  std::vector<Key> keys;
  keys.reserve(outcomes.size());
  for (const Outcome& outcome : outcomes)
    keys.push_back({outcome.claim->order, outcome.entry, outcome.first, keys.size()});
  if (std::is_sorted(keys.begin(), keys.end())) return;
  std::sort(keys.begin(), keys.end());
  std::vector<Outcome> sorted;
  sorted.reserve(outcomes.size());
  for (const Key& key : keys) sorted.push_back(std::move(outcomes[key.place]));
  outcomes = std::move(sorted);
}

namespace {

bool CountsInRun(const ClaimedEntry& entry) {
  return entry.grant == nullptr && HasRun(entry.event);
}

bool CountsInSchedule(const ClaimedEntry& entry, EndKind kind) {
  return entry.grant == nullptr && !entry.one_off() &&
         (kind == EndKind::kSucceeded || kind == EndKind::kFailed);
}

std::string RunKeyOf(const ClaimedEntry& entry) {
  return RunPartKey({.uid = entry.key.uid, .occurrence = entry.key.occurrence}, entry.key.shard);
}

std::string ScheduleKeyOf(const ClaimedEntry& entry) {
  return ScheduleCountsKey(entry.key.uid, entry.key.shard);
}

storage::v1::RunPartRecord& Changed(std::string key, const KnownParts& parts, RunParts& changed) {
  const auto before = parts.find(key);
  CHECK(before != parts.end()) << "the counts of a run were not read";
  return changed.try_emplace(std::move(key), before->second).first->second;
}

// For the run's report, if it has several events.
void NoteEnds(absl::Span<const Outcome> outcomes, storage::v1::RunPartRecord& part) {
  int64_t last = part.last_end_time_micros();
  for (const Outcome& outcome : outcomes) {
    last = std::max(last, outcome.complete_micros);
    if (outcome.dispatch_micros != 0)
      NoteSlow(outcome.first, outcome.complete_micros - outcome.dispatch_micros, part);
  }
  part.set_last_end_time_micros(last);
}

// False: the events are judged or sent again, or they are not this handler's.
bool EndsEvents(EndKind kind) {
  return kind == EndKind::kSucceeded || kind == EndKind::kFailed || kind == EndKind::kSkipped ||
         kind == EndKind::kExpired || kind == EndKind::kCancelled;
}

// Counts `count` events that have ended like the first outcome.
void CountInRun(absl::Span<const Outcome> outcomes, uint64_t count, bool several,
                storage::v1::RunPartRecord& part) {
  const Outcome& first = outcomes.front();
  const bool ends = EndsEvents(first.kind);
  if (ends && first.attempts == 0) part.set_never_started(part.never_started() + count);
  if (ends && several) NoteEnds(outcomes, part);
  switch (first.kind) {
    case EndKind::kSucceeded:
      part.set_succeeded(part.succeeded() + count);
      break;
    case EndKind::kFailed:
      part.set_failed(part.failed() + count);
      break;
    case EndKind::kRetry:
      part.set_retries(part.retries() + count);
      break;
    case EndKind::kSkipped:
      part.set_skipped(part.skipped() + count);
      part.set_skip_reason(first.reason);
      break;
    case EndKind::kCancelled:
      part.set_cancelled(part.cancelled() + count);
      break;
    case EndKind::kExpired:  // one-off events have no run
    case EndKind::kReturn:
    case EndKind::kPark:
    case EndKind::kMove:
    case EndKind::kResend:
    case EndKind::kGone:
      break;
  }
}

}  // namespace

storage::v1::OutcomeKind OutcomeKindOf(EndKind kind) {
  if (kind == EndKind::kSucceeded) return storage::v1::OUTCOME_KIND_SUCCEEDED;
  if (kind == EndKind::kFailed) return storage::v1::OUTCOME_KIND_FAILED;
  if (kind == EndKind::kCancelled) return storage::v1::OUTCOME_KIND_CANCELLED;
  if (kind == EndKind::kExpired) return storage::v1::OUTCOME_KIND_EXPIRED;
  return storage::v1::OUTCOME_KIND_SKIPPED;
}

RunPartKeys RunPartKeysOf(const ClaimedEntry& entry, EndKind kind) {
  RunPartKeys keys;
  if (CountsInRun(entry)) keys.push_back(RunKeyOf(entry));
  if (CountsInSchedule(entry, kind)) keys.push_back(ScheduleKeyOf(entry));
  return keys;
}

void CountEnded(const ClaimedEntry& entry, EndKind kind, uint32_t attempts, uint64_t count,
                EndedEvents& ended) {
  if (!EndsEvents(kind)) return;
  ended.Add(entry.event.tenant(), OutcomeKindOf(kind), count,
            attempts == 0 ? ToMicros(entry.key.due_time) : 0);
}

void CountEnds(const ClaimedEntry& entry, absl::Span<const Outcome> outcomes, uint64_t count,
               const KnownParts& parts, RunParts& changed) {
  const EndKind kind = outcomes.front().kind;
  if (CountsInRun(entry)) {
    CountInRun(outcomes, count, entry.event.run_count() > 1,
               Changed(RunKeyOf(entry), parts, changed));
  }
  if (!CountsInSchedule(entry, kind)) return;
  CountInSchedule(OutcomeKindOf(kind), count, outcomes.back().complete_micros,
                  Changed(ScheduleKeyOf(entry), parts, changed));
}

void PutParts(const RunParts& parts, kv::Group& group) {
  for (const auto& [key, part] : parts) {
    group.mutations.push_back(
        {.cf = kv::ColumnFamily::kRunParts, .key = key, .value = part.SerializeAsString()});
  }
}

namespace {

using kv::ColumnFamily;
using kv::Mutation;
using storage::v1::AttemptRecord;
using storage::v1::EventRecord;

constexpr size_t kErrorBytesMax = 256;  // EventRecord.last_error

void Put(kv::Group& group, ColumnFamily cf, std::string key, std::string value) {
  group.mutations.emplace_back(cf, Mutation::Kind::kPut, std::move(key), std::move(value));
}

void Delete(kv::Group& group, ColumnFamily cf, std::string key) {
  group.mutations.emplace_back(cf, Mutation::Kind::kDelete, std::move(key));
}

// The attempt that ended so.
storage::v1::AttemptRecord AttemptOf(const Outcome& outcome) {
  storage::v1::AttemptRecord attempt;
  attempt.set_number(outcome.attempts);
  attempt.set_begin_micros(outcome.dispatch_micros);
  attempt.set_duration_micros(outcome.complete_micros - outcome.dispatch_micros);
  attempt.set_kind(outcome.attempt);
  attempt.set_status(outcome.status);
  attempt.set_error(outcome.reason);
  attempt.set_answer(outcome.answer);
  return attempt;
}

using storage::v1::DoneRecord;

// The field with the attempts that the row remembers.
std::string TriedField(const EventRow& event) {
  DoneRecord done;
  *done.mutable_tried() = event.MakeRecord().tried();
  return done.SerializeAsString();
}

// The fields with begin and duration of the last attempt of each outcome, of one event each.
std::string TimesFields(absl::Span<const Outcome> outcomes) {
  DoneRecord done;
  for (const Outcome& outcome : outcomes) {
    done.add_begin_offset_micros(outcome.dispatch_micros - outcomes.front().dispatch_micros);
    done.add_duration_micros(outcome.complete_micros - outcome.dispatch_micros);
  }
  return done.SerializeAsString();
}

// The bytes of a Done record, which repeats the same fields of the row as DoneRecordOf. They are
// written without a message, because each event has one.
std::string DoneBytes(const ClaimedEntry& entry, absl::Span<const Outcome> outcomes,
                      uint64_t count) {
  using Done = DoneRecord;
  constexpr size_t kNumbersUsual = 64;
  const Outcome& first = outcomes.front();
  const EventRow& event = entry.event;
  const bool attempted = first.attempt != AttemptRecord::KIND_UNSPECIFIED;
  const bool succeeded = first.kind == EndKind::kSucceeded;
  MessageWriter done(kNumbersUsual + event.tenant().size() + first.reason.size() +
                     event.event_id().size() + first.answer.size());
  const auto number = [&done](uint32_t field, auto value) {
    done.Number(field, static_cast<uint64_t>(value));
  };
  done.Bytes(Done::kTenantFieldNumber, event.tenant());
  number(Done::kCountFieldNumber, count);
  number(Done::kOutcomeFieldNumber, OutcomeKindOf(first.kind));
  done.Bytes(Done::kReasonFieldNumber, first.reason);
  number(Done::kAttemptsFieldNumber, first.attempts);
  number(Done::kNominalTimeMicrosFieldNumber, event.nominal_time_micros());
  number(Done::kLaunchTimeMicrosFieldNumber, event.launch_time_micros());
  number(Done::kDispatchTimeMicrosFieldNumber, first.dispatch_micros);
  number(Done::kCompleteTimeMicrosFieldNumber, outcomes.back().complete_micros);
  number(Done::kVersionFieldNumber,
         entry.claimed_version != 0 ? entry.claimed_version : event.version());
  number(Done::kRunCountFieldNumber, std::max<uint64_t>(event.run_count(), 1));
  done.Bytes(Done::kEventIdFieldNumber, event.event_id());
  if (attempted && succeeded) done.Bytes(Done::kOutputFieldNumber, first.answer);
  number(Done::kRunKeptFieldNumber, event.run_kept() ? 1 : 0);
  if (entry.one_off() && event.event_id().empty()) number(Done::kLaneFieldNumber, entry.key.lane);
  if (event.has_tried()) done.Fields(TriedField(event));
  number(Done::kRedrivesFieldNumber, event.redrives());
  if (attempted) number(Done::kStatusFieldNumber, int64_t{first.status});
  if (attempted && !succeeded) done.Bytes(Done::kAnswerFieldNumber, first.answer);
  if (attempted && outcomes.size() > 1) done.Fields(TimesFields(outcomes));
  if (attempted && !succeeded) number(Done::kLastAttemptFieldNumber, first.attempt);
  number(Done::kGenerationFieldNumber, event.generation());
  number(Done::kRevisionFieldNumber, event.revision());
  return done.Take();
}

// The outcomes, of `count` events, are contiguous and alike.
void PutDone(const ClaimedEntry& entry, absl::Span<const Outcome> outcomes, uint64_t count,
             kv::Group& group) {
  Put(group, ColumnFamily::kDone,
      EncodeDoneKey({.shard = entry.key.shard,
                     .day = DoneDay(FromMicros(entry.event.launch_time_micros())),
                     .uid = entry.key.uid,
                     .occurrence = entry.key.occurrence,
                     .first = outcomes.front().first}),
      DoneBytes(entry, outcomes, count));
}

void SetPayload(const ClaimedEntry& entry, EventRecord& event) {
  const absl::string_view payload = CheckNotNull(entry.context)->payload;
  event.set_payload(payload.data(), payload.size());
}

// The record of one event of the row, with its payload if it is a one-off event.
EventRecord RecordOfOne(const ClaimedEntry& entry, const Outcome& outcome) {
  EventRecord event = entry.event.MakeRecord();
  event.set_count(1);
  event.set_attempts(outcome.attempts);
  event.clear_lost_claims();
  event.set_last_error(CleanText(outcome.reason, kErrorBytesMax));
  NoteTried(outcome.dispatch_micros, event);
  if (outcome.attempt != AttemptRecord::KIND_UNSPECIFIED)
    RememberAttempt(AttemptOf(outcome), event);
  if (entry.one_off()) {
    event.set_event_id(entry.EventId(0));
    SetPayload(entry, event);
  }
  // The version that was sent: the next attempt then needs no judgement across versions.
  if (!entry.one_off() && !event.triggered()) event.set_version(entry.claimed_version);
  return event;
}

// Writes a row of `events`. It also goes into memory once the group is applied.
void PutRow(std::string key, std::string value, EndBatch& batch) {
  batch.rows.emplace_back(key, value, 0);
  Put(batch.group, ColumnFamily::kEvents, std::move(key), std::move(value));
}

// Deletes the name that a retry or a redrive gave to a one-off event.
void DeleteName(const ClaimedEntry& entry, kv::Group& group) {
  const bool was_named = entry.event.attempts() > 0 || entry.event.redrives() > 0;
  if (was_named && !entry.event.client_chosen_id()) {
    Delete(group, ColumnFamily::kEventNames, EventNameKey(entry.event.tenant(), entry.EventId(0)));
  }
}

void PutRetry(const ClaimedEntry& entry, const Outcome& outcome, EndBatch& batch) {
  std::string key = EncodeEventKey({.shard = entry.key.shard,
                                    .lane = kLaneRetry,
                                    .due_time = outcome.retry_at,
                                    .uid = entry.key.uid,
                                    .occurrence = entry.key.occurrence,
                                    .first = outcome.first});
  if (entry.one_off()) {
    storage::v1::EventNameRecord name;
    name.set_event_key(key);
    name.set_launch_time_micros(entry.event.launch_time_micros());
    Put(batch.group, ColumnFamily::kEventNames,
        EventNameKey(entry.event.tenant(), entry.EventId(0)), name.SerializeAsString());
  }
  PutRow(std::move(key), RecordOfOne(entry, outcome).SerializeAsString(), batch);
  ++batch.retried;
}

void PutDeadLetter(const ClaimedEntry& entry, const Outcome& outcome, kv::Group& group) {
  storage::v1::DeadLetterRecord letter;
  letter.set_uid(std::string(entry.key.uid.bytes()));
  letter.set_occurrence(entry.key.occurrence);
  letter.set_index(outcome.first);
  *letter.mutable_event() = RecordOfOne(entry, outcome);
  letter.set_reason(outcome.reason);
  letter.set_schedule_id(CheckNotNull(entry.context)->definition->schedule_id());
  Put(group, ColumnFamily::kDeadLetters,
      DeadLetterKey(entry.event.tenant(), FromMicros(outcome.complete_micros),
                    entry.EventId(outcome.first)),
      letter.SerializeAsString());
}

// Each event of the outcome has a record and a dead letter of its own.
void PutFailures(const ClaimedEntry& entry, Outcome outcome, kv::Group& group) {
  const uint64_t end = outcome.first + outcome.count;
  outcome.count = 1;
  for (; outcome.first < end; ++outcome.first) {
    PutDone(entry, {&outcome, 1}, 1, group);
    PutDeadLetter(entry, outcome, group);
  }
}

// The record as it was before the claim, plus what the claim has shown.
EventRecord ReturnedRecord(const ClaimedEntry& entry, const Outcome& outcome) {
  EventRecord event = entry.event.MakeRecord();
  NoteTried(outcome.dispatch_micros, event);
  event.set_lost_claims(event.lost_claims() + outcome.claim->lost_claims);
  if (entry.one_off() && outcome.claim->has_takeover_row) event.set_maybe_sent(true);
  return event;
}

// The claim has left the row of a one-off event in the store. If it had no former owner, the row
// only returns to memory: since when its target could not be reached is known only there.
void ReturnStayed(const ClaimedEntry& entry, const Outcome& outcome, EndBatch& batch) {
  EventRecord event = ReturnedRecord(entry, outcome);
  SetPayload(entry, event);
  batch.released_keys.push_back(entry.event_key);
  if (outcome.claim->lost_claims > 0 || outcome.claim->has_takeover_row)
    return PutRow(std::string(entry.event_key), event.SerializeAsString(), batch);
  batch.rows.emplace_back(entry.event_key, event.SerializeAsString(), 0);
}

// Writes `count` events from first.first on as a row again.
void PutReturned(const ClaimedEntry& entry, const Outcome& first, uint64_t count, EndBatch& batch) {
  EventKey key = entry.key;
  key.first = first.first;
  EventRecord event = ReturnedRecord(entry, first);
  event.set_count(count);
  PutRow(EncodeEventKey(key), event.SerializeAsString(), batch);
}

void PutParked(const ClaimedEntry& entry, uint64_t first, uint64_t count,
               const std::string& payload, kv::Group& group) {
  EventKey key = entry.key;
  key.first = first;
  EventRecord event = entry.event.MakeRecord();
  event.set_count(count);
  event.set_payload(payload);
  Put(group, ColumnFamily::kParked, ParkedKey(key.uid, EncodeEventKey(key)),
      event.SerializeAsString());
}

// Deletes the row of a one-off event at its end, and the name that a retry gave it.
void ReleaseRow(const ClaimedEntry& entry, const Outcome& outcome, EndBatch& batch) {
  Delete(batch.group, ColumnFamily::kEvents, std::string(entry.event_key));
  batch.released_keys.push_back(entry.event_key);
  if (outcome.kind != EndKind::kRetry) DeleteName(entry, batch.group);
}

// Requests to pause schedules whose targets are gone, by key in `pause_requests`.
using PauseRequests = std::map<std::string, storage::v1::PauseRequestRecord>;

void RequestPause(const Outcome& outcome, PauseRequests& requests) {
  const ClaimedEntry& entry = outcome.claim->entries[outcome.entry];
  storage::v1::PauseRequestRecord& request = requests[PauseRequestKey(entry.key.uid)];
  request.set_tenant(std::string(entry.event.tenant()));
  request.set_schedule_id(CheckNotNull(entry.context)->definition->schedule_id());
  request.set_version(entry.claimed_version);
  request.set_reason(outcome.gone);
  request.set_time_micros(outcome.complete_micros);
}

void AddReport(const Outcome& first, const Outcome& last, uint64_t count, GrantReports& reports,
               EndBatch& batch) {
  const ClaimedEntry& entry = first.claim->entries[first.entry];
  reports.Add(entry, first, last, count);
  switch (ReportKindOf(*entry.grant, first)) {
    case storage::v1::GrantReportRecord::SUCCEEDED:
    case storage::v1::GrantReportRecord::COMPLETED:
      batch.succeeded += count;
      break;
    case storage::v1::GrantReportRecord::RETRY:
      batch.retried += count;
      break;
    case storage::v1::GrantReportRecord::FAILED:
      batch.dead_letters += count;
      break;
    default:  // the event has not ended
      break;
  }
}

// The outcomes must be contiguous, equal in kind, and not of granted events.
void AddMerged(absl::Span<const Outcome> outcomes, uint64_t count, const KnownParts& parts,
               EndBatch& batch) {
  const Outcome& first = outcomes.front();
  const ClaimedEntry& entry = first.claim->entries[first.entry];
  switch (first.kind) {
    case EndKind::kSucceeded:
    case EndKind::kSkipped:
      PutDone(entry, outcomes, count, batch.group);
      break;
    case EndKind::kFailed:
      PutDone(entry, outcomes, count, batch.group);
      PutDeadLetter(entry, first, batch.group);
      ++batch.dead_letters;
      break;
    case EndKind::kRetry:
      PutRetry(entry, first, batch);
      break;
    case EndKind::kReturn:
      if (entry.row_stays) {
        ReturnStayed(entry, first, batch);
      } else {
        PutReturned(entry, first, count, batch);
      }
      break;
    case EndKind::kGone:
      break;
    case EndKind::kExpired:
    case EndKind::kCancelled:
    case EndKind::kPark:
    case EndKind::kMove:
    case EndKind::kResend:
      CHECK(false) << "no end of a claimed event";
  }
  CountEnded(entry, first.kind, first.attempts, count, batch.ended);
  if (first.kind == EndKind::kSucceeded) batch.succeeded += count;
  if (first.kind == EndKind::kSkipped) batch.skipped += count;
  if (entry.row_stays && first.kind != EndKind::kReturn) ReleaseRow(entry, first, batch);
  CountEnds(entry, outcomes, count, parts, batch.parts);
}

// The kinds that a row without a claim may have.
bool EndsRow(EndKind kind) {
  switch (kind) {
    case EndKind::kFailed:
    case EndKind::kSkipped:
    case EndKind::kExpired:
    case EndKind::kCancelled:
    case EndKind::kPark:
    case EndKind::kMove:
    case EndKind::kGone:
      return true;
    case EndKind::kSucceeded:
    case EndKind::kRetry:
    case EndKind::kReturn:
    case EndKind::kResend:
      break;
  }
  return false;
}

bool CanMerge(const Outcome& a, const Outcome& b) {
  // Each failure and each retry has a row of its own.
  return a.kind == b.kind && a.kind != EndKind::kFailed && a.kind != EndKind::kRetry &&
         a.work != DeliveryWork::kFailed && a.work == b.work && a.unreachable == b.unreachable &&
         a.paused_until == b.paused_until && a.attempts == b.attempts && a.reason == b.reason &&
         a.status == b.status && a.answer == b.answer;
}

bool EndsTrial(const Claim& claim, const Outcome& outcome) {
  return claim.trial.has_value() && claim.trial->entry == outcome.entry &&
         claim.trial->index >= outcome.first && claim.trial->index < outcome.first + outcome.count;
}

// Outcomes [begin, end) must be all of this batch for one claim.
void EndClaim(const std::vector<Outcome>& outcomes, size_t begin, size_t end, EndBatch& batch) {
  Claim& claim = *outcomes[begin].claim;
  const auto ended = absl::MakeConstSpan(outcomes).subspan(begin, end - begin);
  for (const Outcome& outcome : ended) {
    TakeFrom(claim.open, outcome.count);
    if (EndsTrial(claim, outcome)) batch.tried.push_back(outcome.claim);
  }
  if (claim.open > 0) {
    Put(batch.group, ColumnFamily::kInflight, EncodeClaimEndKey(claim.id, claim.ends_written++),
        ClaimEndOf(ended).SerializeAsString());
    return;
  }
  Delete(batch.group, ColumnFamily::kInflight, EncodeClaimKey(claim.id));
  for (uint32_t i = 0; i < claim.ends_written; ++i) {
    Delete(batch.group, ColumnFamily::kInflight, EncodeClaimEndKey(claim.id, i));
  }
  if (claim.has_takeover_row)
    Delete(batch.group, ColumnFamily::kInflight, EncodeClaimTakeoverKey(claim.id));
  batch.finished.push_back(outcomes[begin].claim);
}

}  // namespace

void VisitRunParts(absl::Span<const Outcome> outcomes,
                   absl::FunctionRef<void(std::string key)> visit) {
  const ClaimedEntry* last_entry = nullptr;
  EndKind last_kind = EndKind::kGone;
  for (const Outcome& outcome : outcomes) {
    const ClaimedEntry& entry = outcome.claim->entries[outcome.entry];
    if (&entry == last_entry && outcome.kind == last_kind) continue;
    last_entry = &entry;
    last_kind = outcome.kind;
    for (std::string& key : RunPartKeysOf(entry, outcome.kind)) visit(std::move(key));
  }
}

EndBatch BuildEndBatch(std::vector<Outcome>& outcomes, const KnownParts& parts,
                       const ReportOrigin& origin) {
  SortByEvent(outcomes);
  EndBatch batch;
  GrantReports reports;
  PauseRequests pause_requests;
  batch.group.mutations.reserve(outcomes.size() * 2);
  size_t claim_begin = 0;
  size_t begin = 0;
  uint64_t count = 0;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const Outcome& outcome = outcomes[i];
    const Outcome* next = i + 1 < outcomes.size() ? &outcomes[i + 1] : nullptr;
    count += outcome.count;
    const bool same_claim = next != nullptr && next->claim == outcome.claim;
    const bool goes_on = same_claim && next->entry == outcome.entry &&
                         next->first == outcome.first + outcome.count && CanMerge(outcome, *next);
    if (!outcome.gone.empty()) RequestPause(outcome, pause_requests);
    if (!goes_on) {
      if (outcome.claim->entries[outcome.entry].grant != nullptr) {
        AddReport(outcomes[begin], outcome, count, reports, batch);
      } else {
        AddMerged(absl::MakeConstSpan(outcomes).subspan(begin, i + 1 - begin), count, parts, batch);
      }
      begin = i + 1;
      count = 0;
    }
    if (!same_claim) {
      EndClaim(outcomes, claim_begin, i + 1, batch);
      claim_begin = i + 1;
    }
  }
  PutParts(batch.parts, batch.group);
  reports.Put(origin, batch.group);
  for (const auto& [key, request] : pause_requests)
    Put(batch.group, ColumnFamily::kPauseRequests, key, request.SerializeAsString());
  return batch;
}

kv::Mutation RestOf(const RowEnd& end) {
  EventKey key = end.entry.key;
  EventRecord event = end.entry.event.MakeRecord();
  key.first += event.count();
  event.set_count(end.rest);
  return {.cf = ColumnFamily::kEvents,
          .kind = Mutation::Kind::kPut,
          .key = EncodeEventKey(key),
          .value = event.SerializeAsString()};
}

void AddRowEnd(const RowEnd& end, int64_t at_micros, const KnownParts& parts, kv::Group& group,
               RunParts& changed) {
  CHECK(EndsRow(end.kind));
  const ClaimedEntry& entry = end.entry;
  const uint64_t count = entry.event.count();
  Delete(group, ColumnFamily::kEvents, std::string(entry.event_key));
  if (end.kind == EndKind::kPark) {
    PutParked(entry, entry.key.first, count, end.payload, group);
    return;
  }
  if (end.kind == EndKind::kMove)
    group.mutations.insert(group.mutations.end(), end.moved.begin(), end.moved.end());
  if (end.kind == EndKind::kGone || end.kind == EndKind::kMove) return;
  Outcome outcome{.kind = end.kind,
                  .first = entry.key.first,
                  .count = count,
                  .attempts = entry.event.attempts(),
                  .complete_micros = at_micros,
                  .reason = end.reason};
  if (outcome.kind == EndKind::kFailed) {
    PutFailures(entry, outcome, group);
  } else {
    PutDone(entry, {&outcome, 1}, count, group);
  }
  if (entry.one_off()) DeleteName(entry, group);
  CountEnds(entry, {&outcome, 1}, count, parts, changed);
}

}  // namespace escapement::handler
