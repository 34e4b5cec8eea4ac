#include "services/master/operations/operation_step.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "common/base/key_codec.h"
#include "common/base/printable_text.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "services/master/base/limits.h"
#include "services/master/events/event_changes.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;
using storage::v1::OperationRecord;

constexpr size_t kErrorBytesMax = 1024;

size_t LettersPerStep(double max_per_second) {
  if (max_per_second <= 0) return kOperationLettersMax;
  const double letters = std::ceil(max_per_second * absl::ToDoubleSeconds(kOperationStep));
  return static_cast<size_t>(std::clamp(letters, 1.0, static_cast<double>(kOperationLettersMax)));
}

// When the event `index` of a step that begins at `base` becomes due.
absl::Time DueAt(absl::Time base, double max_per_second, uint64_t index) {
  if (max_per_second <= 0) return base;
  return base + absl::Seconds(static_cast<double>(index) / max_per_second);
}

void End(OperationRecord::State state, absl::Time now, OperationRecord& record) {
  record.set_state(state);
  record.set_end_time_micros(ToMicros(now));
}

// Masters tell newer records from older ones by the time of their update.
OperationRecord Updated(const OperationRecord& record, absl::Time now) {
  OperationRecord updated = record;
  updated.set_update_time_micros(std::max(ToMicros(now), record.update_time_micros() + 1));
  return updated;
}

OperationStep StepOf(const OperationInput& operation, absl::Time now) {
  OperationStep step;
  step.record = Updated(operation.record, now);
  step.group.conditions.push_back(
      kv::ValueIs(ColumnFamily::kOperations, operation.key, operation.bytes));
  return step;
}

void PutOperation(const OperationInput& operation, OperationStep& step) {
  step.group.mutations.push_back(
      kv::Put(ColumnFamily::kOperations, operation.key, step.record.SerializeAsString()));
}

// Dead letters or events that stay as they are.
struct Refusals {
  uint64_t count = 0;
  absl::Status last;  // why

  void Add(absl::Status why) {
    ++count;
    last = std::move(why);
  }
};

// Writes the progress. `ended`: nothing is left to do.
void PutProgress(const OperationInput& operation, const Refusals& refused, bool ended,
                 absl::Time now, OperationStep& step) {
  OperationRecord& record = step.record;
  record.set_done(record.done() + step.done);
  record.set_refused(record.refused() + refused.count);
  if (!refused.last.ok())
    record.set_last_refusal(CleanText(refused.last.message(), kErrorBytesMax));
  const uint64_t handled = record.done() + record.refused();
  record.set_found(ended ? handled : std::max(record.found(), handled));
  if (ended) End(OperationRecord::SUCCEEDED, now, record);
  PutOperation(operation, step);
}

}  // namespace

kv::KeyRange RestOf(const OperationRecord& record, const DeadLetterSelection& selection) {
  kv::KeyRange rest;
  rest.begin = record.cursor().empty() ? selection.begin()
                                       : std::max(KeyAfter(record.cursor()), selection.begin());
  rest.end = std::min(record.end(), selection.end());
  return rest;
}

OperationPage TakePage(const OperationRecord& record, const DeadLetterSelection& selection,
                       kv::ScanResult rows) {
  const size_t letters_max = LettersPerStep(record.max_per_second());
  OperationPage page;
  page.cursor = record.cursor();
  page.ended = !rows.more;
  std::set<std::string> deliveries;  // their hashes
  for (kv::Entry& row : rows.entries) {
    std::string key = row.key;
    absl::StatusOr<StoredDeadLetter> letter =
        ReadDeadLetter(std::move(row.key), std::move(row.value));
    const bool taken = letter.ok() && selection.Has(*letter);
    if (taken) deliveries.insert(letter->record.event().definition_hash());
    if (page.letters.size() == letters_max || deliveries.size() > kOperationDeliveriesMax) {
      page.ended = false;
      break;
    }
    page.cursor = std::move(key);
    if (taken) page.letters.push_back(*std::move(letter));
    if (letter.ok()) continue;
    ++page.broken;
    page.broken_error = letter.status();
  }
  return page;
}

OperationStep BuildStep(const OperationInput& operation, const OperationPage& page,
                        const RedriveFacts& facts, const kv::Layout& layout, absl::Time now) {
  OperationStep step = StepOf(operation, now);
  OperationRecord& record = step.record;
  record.set_cursor(page.cursor);
  Refusals refused{.count = page.broken, .last = page.broken_error};

  const absl::Time base = std::max(FromMicros(record.next_step_micros()), now - kOperationSlack);
  if (record.kind() == OperationRecord::PURGE) {
    for (const StoredDeadLetter& letter : page.letters) {
      step.group.conditions.push_back(
          kv::ValueIs(ColumnFamily::kDeadLetters, letter.key, letter.bytes));
      step.group.mutations.push_back(kv::Delete(ColumnFamily::kDeadLetters, letter.key));
      ++step.done;
    }
  } else {
    RedriveBatch batch(facts, layout, now);
    for (const StoredDeadLetter& letter : page.letters) {
      absl::Status added = batch.Add(letter, DueAt(base, record.max_per_second(), step.done));
      if (added.ok()) {
        ++step.done;
      } else {
        refused.Add(std::move(added));
      }
    }
    batch.MoveTo(step.group);
  }

  record.set_next_step_micros(ToMicros(DueAt(base, record.max_per_second(), step.done)));
  PutProgress(operation, refused, page.ended, now, step);
  return step;
}

OperationStep BuildCancelStep(const OperationInput& operation, const CancelPage& page,
                              absl::Time now) {
  OperationStep step = StepOf(operation, now);
  step.record.set_cursor(page.cursor);
  step.record.mutable_event_ids()->Assign(page.left.begin(), page.left.end());
  Refusals refused;
  for (const EventToCancel& event : page.events) {
    const EventName name = {operation.record.tenant(), event.event_id};
    const auto end = AddCancellation(name, event.etag, event.sighting, now, step.group);
    if (end.ok()) {
      ++step.done;
    } else {
      refused.Add(end.status());
    }
  }
  PutProgress(operation, refused, page.ended, now, step);
  return step;
}

OperationStep BuildFailure(const OperationInput& operation, const absl::Status& error,
                           absl::Time now) {
  OperationStep step = StepOf(operation, now);
  step.record.set_error(CleanText(error.message(), kErrorBytesMax));
  End(OperationRecord::FAILED, now, step.record);
  PutOperation(operation, step);
  return step;
}

}  // namespace escapement::master
