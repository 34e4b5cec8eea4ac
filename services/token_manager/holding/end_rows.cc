#include "services/token_manager/holding/end_rows.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/string_view.h"
#include "common/base/printable_text.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/records/row_judge.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/run_table.h"
#include "common/storage/waiting_table.h"

namespace escapement::token_manager {
namespace {

using kv::ColumnFamily;
using storage::v1::AttemptRecord;
using storage::v1::EventRecord;
using storage::v1::GrantReportRecord;

constexpr size_t kErrorBytesMax = 256;  // EventRecord.last_error
constexpr size_t kReasonBytesMax = 1024;

bool SameRun(const EndedRange& a, const EndedRange& b) {
  return a.source == b.source ||
         (a.source->uid == b.source->uid && a.source->occurrence == b.source->occurrence);
}

bool Continues(const EndedRange& a, const EndedRange& b) {
  return a.outcome == b.outcome && a.outcome != storage::v1::OUTCOME_KIND_FAILED &&
         a.first + a.count == b.first && a.attempts == b.attempts && a.version == b.version &&
         a.reason == b.reason && a.output == b.output && a.attempt.kind == b.attempt.kind &&
         a.attempt.status == b.attempt.status && SameRun(a, b);
}

// The error of the last attempt, as the row of an event that waits again has it.
std::string ErrorOf(const EndedRange& end) {
  return end.attempt.kind == AttemptRecord::ACCEPTED ? std::string() : end.reason;
}

void PutDone(const EndedRange& end, uint16_t shard, const IndexSlice& slice,
             std::vector<kv::Mutation>& mutations) {
  const EventRecord& event = end.source->event;
  storage::v1::DoneRecord done = DoneRecordOf(event);
  done.set_count(slice.count);
  done.set_outcome(end.outcome);
  done.set_reason(end.reason);
  done.set_attempts(end.attempts);
  done.set_dispatch_time_micros(end.attempt.begin_micros);
  done.set_complete_time_micros(end.complete_micros);
  if (end.version != 0) done.set_version(end.version);
  if (end.source->one_off() && event.event_id().empty()) done.set_lane(kLaneLimited);
  done.set_output(end.output);
  if (end.attempt.kind != AttemptRecord::KIND_UNSPECIFIED) {
    done.set_status(end.attempt.status);
    if (end.outcome != storage::v1::OUTCOME_KIND_SUCCEEDED) {
      done.set_answer(end.attempt.answer);
      done.set_last_attempt(end.attempt.kind);
    }
    const int64_t duration = end.attempt.duration_micros;
    if (slice.count == 1 && duration != end.complete_micros - end.attempt.begin_micros)
      done.set_last_duration_micros(duration);
  }
  std::string key = EncodeDoneKey({.shard = shard,
                                   .day = DoneDay(FromMicros(event.launch_time_micros())),
                                   .uid = end.source->uid,
                                   .occurrence = end.source->occurrence,
                                   .first = slice.first});
  mutations.push_back(kv::Put(ColumnFamily::kDone, std::move(key), done.SerializeAsString()));
}

EventRecord RecordOfOne(const EndedRange& end, absl::string_view error) {
  EventRecord event = end.source->event;
  event.set_count(1);
  event.set_attempts(end.attempts);
  event.clear_lost_claims();
  event.set_last_error(CleanText(error, kErrorBytesMax));
  if (end.attempt.kind != AttemptRecord::KIND_UNSPECIFIED) {
    AttemptRecord attempt;
    attempt.set_number(end.attempts);
    attempt.set_begin_micros(end.attempt.begin_micros);
    attempt.set_duration_micros(end.attempt.duration_micros);
    attempt.set_kind(end.attempt.kind);
    attempt.set_status(end.attempt.status);
    attempt.set_error(ErrorOf(end));
    attempt.set_answer(end.attempt.answer);
    RememberAttempt(std::move(attempt), event);
  }
  if (event.has_throttle()) event.mutable_throttle()->set_taken(0);
  // Keeps the version that was sent, so that the next attempt need not be judged again.
  if (!event.triggered() && end.version != 0) event.set_version(end.version);
  return event;
}

void PutDeadLetter(const EndedRange& end, const std::string& event_id, uint64_t index,
                   std::vector<kv::Mutation>& mutations) {
  storage::v1::DeadLetterRecord letter;
  letter.set_uid(std::string(end.source->uid.bytes()));
  letter.set_occurrence(end.source->occurrence);
  letter.set_index(index);
  *letter.mutable_event() = RecordOfOne(end, end.reason);
  letter.mutable_event()->set_payload(end.payload);
  letter.set_reason(end.reason);
  letter.set_schedule_id(end.schedule_id);
  std::string key =
      DeadLetterKey(end.source->event.tenant(), FromMicros(end.complete_micros), event_id);
  mutations.push_back(
      kv::Put(ColumnFamily::kDeadLetters, std::move(key), letter.SerializeAsString()));
}

void EndOneOff(const EndedRange& end, std::vector<kv::Mutation>& mutations) {
  const EventRecord& event = end.source->event;
  const std::string key = LimitedEventKey(end.source->uid, event);
  const auto id = [&] { return OneOffEventId(key, event); };
  PutDone(end, static_cast<uint16_t>(event.queue_shard()), {.first = 0, .count = 1}, mutations);
  if (end.outcome == storage::v1::OUTCOME_KIND_FAILED) PutDeadLetter(end, id(), 0, mutations);
  mutations.push_back(kv::Delete(ColumnFamily::kEvents, key));
  // A retry or a redrive gave it a name.
  if ((event.attempts() > 0 || event.redrives() > 0) && !event.client_chosen_id())
    mutations.push_back(kv::Delete(ColumnFamily::kEventNames, EventNameKey(event.tenant(), id())));
}

}  // namespace

EndedRange ReportedEndOf(const GrantReportRecord::Entry& entry, int64_t now_micros) {
  EndedRange end{.outcome = storage::v1::OUTCOME_KIND_FAILED,
                 .attempts = entry.attempts(),
                 .complete_micros = entry.time_micros() != 0 ? entry.time_micros() : now_micros,
                 .reason = std::string(CleanText(entry.reason(), kReasonBytesMax))};
  end.attempt.kind = entry.attempt();
  end.attempt.begin_micros = entry.dispatch_time_micros();
  end.attempt.status = entry.status();
  switch (entry.kind()) {
    case GrantReportRecord::SUCCEEDED:
    case GrantReportRecord::COMPLETED:
    case GrantReportRecord::RELEASED:
      end.outcome = storage::v1::OUTCOME_KIND_SUCCEEDED;
      end.attempt.kind = AttemptRecord::ACCEPTED;
      end.output = entry.output();
      break;
    case GrantReportRecord::COMPLETION_FAILED:
    case GrantReportRecord::COMPLETION_FAILED_FINALLY:
      // The target accepted the event, but the work failed.
      end.attempt.kind = AttemptRecord::FAILED;
      [[fallthrough]];
    default:
      end.attempt.answer = entry.output();
  }
  return end;
}

EndedRange EndOf(EndedRange reported, const Grant& grant, const HeldRange& range) {
  reported.source = grant.source;
  reported.version = grant.record.claimed_version();
  reported.first = range.first;
  reported.count = range.count;
  if (reported.attempts == 0) reported.attempts = grant.source->event.attempts() + 1;
  LastAttempt& attempt = reported.attempt;
  if (attempt.kind == AttemptRecord::ACCEPTED) attempt.answer.clear();
  if (attempt.begin_micros != 0) {
    attempt.duration_micros = reported.complete_micros - attempt.begin_micros;
  } else if (range.dispatch_micros != 0) {
    attempt.begin_micros = range.dispatch_micros;
    attempt.duration_micros = range.delivered_micros - range.dispatch_micros;
    attempt.status = range.status;
  } else {
    attempt.begin_micros = range.delivered_micros;
    attempt.status = 0;
  }
  return reported;
}

void NoteForReport(const EndedRange& end, storage::v1::RunPartRecord& part) {
  if (end.attempts == 0) part.set_never_started(part.never_started() + end.count);
  const EventRecord& event = end.source->event;
  if (end.attempt.begin_micros == 0 || event.run_count() <= 1) return;
  // Other runs do without the slowest events: each commit writes them with the part.
  if (!event.throttle().has_window() && !event.run_kept()) return;
  const int64_t duration = end.complete_micros - end.attempt.begin_micros;
  // Most ends are faster than the ten slowest ones.
  if (part.slowest_size() == kSlowestMax &&
      duration <= part.slowest(kSlowestMax - 1).duration_micros())
    return;
  NoteSlow(IndexSlice{.first = end.first, .count = end.count}, duration, part);
}

bool Join(EndedRange& end, const EndedRange& next) {
  if (!Continues(end, next)) return false;
  end.count += next.count;
  end.complete_micros = next.complete_micros;
  return true;
}

void AddEnds(std::vector<EndedRange>& ends, uint32_t queue_shards,
             std::vector<kv::Mutation>& mutations) {
  std::vector<EndedRange*> sorted;
  sorted.reserve(ends.size());
  for (EndedRange& end : ends) sorted.push_back(&end);
  std::sort(sorted.begin(), sorted.end(), [](const EndedRange* a, const EndedRange* b) {
    if (a->source == b->source) return a->first < b->first;
    return std::tie(a->source->uid, a->source->occurrence, a->first) <
           std::tie(b->source->uid, b->source->occurrence, b->first);
  });
  std::optional<RunIdentity> run;
  const EndedRange* of_run = nullptr;
  for (size_t i = 0; i < sorted.size();) {
    EndedRange& end = *sorted[i];
    size_t next = i + 1;
    while (next < sorted.size() && Join(end, *sorted[next])) ++next;
    i = next;
    if (end.source->one_off()) {
      EndOneOff(end, mutations);
      continue;
    }
    if (of_run == nullptr || !SameRun(*of_run, end))
      run.emplace(end.source->event.tenant(), end.source->uid, end.source->occurrence);
    of_run = &end;
    const auto slices = SplitByQueueShard(*run, end.source->event.run_count(),
                                          {.first = end.first, .count = end.count}, queue_shards);
    for (const auto& [shard, slice] : slices) {
      if (end.outcome != storage::v1::OUTCOME_KIND_FAILED) {
        PutDone(end, shard, slice, mutations);
        continue;
      }
      for (uint64_t index = slice.first; index < slice.first + slice.count; ++index) {
        PutDone(end, shard, {.first = index, .count = 1}, mutations);
        PutDeadLetter(end, run->EventId(index), index, mutations);
      }
    }
  }
}

std::string WaitingKeyOf(uint16_t policy_shard, const Uid& policy, const RowSource& source,
                         uint64_t first, int64_t due_micros) {
  return EncodeWaitingKey(
      {.policy_shard = policy_shard,
       .policy = policy,
       .priority = static_cast<uint8_t>(source.event.priority()),
       .uid = source.group,
       .due_time = FromMicros(due_micros),
       .occurrence = source.one_off() ? OneOffOccurrence(source.uid) : source.occurrence,
       .first = first});
}

EventRecord RetryEvent(const EndedRange& end, int64_t tried_micros) {
  EventRecord event = RecordOfOne(end, ErrorOf(end));
  NoteTried(tried_micros, event);
  return event;
}

kv::Mutation RetryName(const RowSource& source, const std::string& waiting_key) {
  const EventRecord& event = source.event;
  storage::v1::EventNameRecord name;
  name.set_event_key(LimitedEventKey(source.uid, event));
  name.set_launch_time_micros(event.launch_time_micros());
  name.set_waiting_key(waiting_key);
  return kv::Put(ColumnFamily::kEventNames,
                 EventNameKey(event.tenant(), OneOffEventId(name.event_key(), event)),
                 name.SerializeAsString());
}

EventRecord ReturnedEvents(const RowSource& source, const HeldRange& range, int64_t tried_micros) {
  EventRecord event = source.event;
  NoteTried(tried_micros, event);
  event.set_count(range.count);
  event.set_lost_claims(range.lost_claims);
  if (event.has_throttle()) event.mutable_throttle()->set_taken(0);
  return event;
}

}  // namespace escapement::token_manager
