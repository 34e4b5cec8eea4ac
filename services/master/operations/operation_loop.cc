#include "services/master/operations/operation_loop.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/proto_time.h"
#include "services/master/base/limits.h"
#include "services/master/operations/dead_letter_service.h"
#include "services/master/operations/operation_service.h"

namespace escapement::master {
namespace {

using storage::v1::OperationRecord;

constexpr absl::Duration kConflictDelay = absl::Milliseconds(5);
constexpr int kConflictDelaysMax = 100;

}  // namespace

OperationLoop::OperationLoop(MasterContext& context)
    : context_(context),
      mirror_(context.client, kv::ColumnFamily::kOperations, {}, context.executor,
              [this](const kv::RangeMirror::Rows& rows) { OnRows(rows); }) {}

size_t OperationLoop::RunningOf(absl::string_view tenant) const {
  return static_cast<size_t>(std::count_if(works_.begin(), works_.end(), [&](const auto& work) {
    return work.second.operation.record.tenant() == tenant;
  }));
}

void OperationLoop::OnRows(const kv::RangeMirror::Rows& rows) {
  std::map<std::string, Work> works;
  for (const auto& [key, bytes] : rows) {
    absl::StatusOr<OperationRecord> record = ReadOperation(bytes);
    if (!record.ok() || record->state() != OperationRecord::RUNNING) continue;
    const auto known = works_.find(key);
    Work work;
    if (known != works_.end()) work = std::move(known->second);
    const bool is_new = known == works_.end();
    // Rows may come after the answer to the commit of a later one.
    if (is_new || record->update_time_micros() > work.operation.record.update_time_micros()) {
      const bool by_another = !is_new && bytes != work.writing;
      work.operation = {.key = key, .bytes = bytes, .record = *std::move(record)};
      if (by_another) work.not_before = Elapsed() + kOperationPatience;
    }
    works.emplace(key, std::move(work));
  }
  works_ = std::move(works);
  Wake();
}

void OperationLoop::Wake() {
  if (busy_ || works_.empty()) return;
  absl::Duration next = absl::InfiniteDuration();
  for (const auto& [key, work] : works_) next = std::min(next, work.not_before);
  context_.executor->PostAfter(std::max(next - Elapsed(), absl::ZeroDuration()),
                               [this, timer = ++timer_] {
                                 if (timer == timer_ && !busy_) Step();
                               });
}

void OperationLoop::Step() {
  if (!context_.ready) return;
  const auto next = std::min_element(
      works_.begin(), works_.end(),
      [](const auto& a, const auto& b) { return a.second.not_before < b.second.not_before; });
  if (next == works_.end()) return;
  if (next->second.not_before > Elapsed()) return Wake();
  const auto& [key, work] = *next;
  const OperationRecord& record = work.operation.record;
  busy_ = true;
  // Another master may have set the time of the next step.
  const absl::Duration early = FromMicros(record.next_step_micros()) - context_.client.NowLow();
  if (early > absl::ZeroDuration()) return EndStep(key, early);
  if (record.kind() == OperationRecord::CANCEL_EVENTS) {
    return ReadCancelPage(
        context_, record,
        [this, operation = work.operation](const absl::StatusOr<CancelPage>& page) {
          OnCancelPage(operation, page);
        });
  }
  absl::StatusOr<DeadLetterSelection> selection =
      DeadLetterSelection::Read(record.tenant(), record.filter(), record.run());
  if (!selection.ok()) {
    return Commit(key, BuildFailure(work.operation, selection.status(), context_.client.NowLow()));
  }
  kv::KeyRange rest = RestOf(record, *selection);
  if (rest.begin >= rest.end) return OnPage(key, work.operation, *selection, kv::ScanResult());
  kv::ScanRequest scan;
  scan.cf = kv::ColumnFamily::kDeadLetters;
  scan.begin = std::move(rest.begin);
  scan.end = std::move(rest.end);
  scan.limit = kOperationRowsMax;
  scan.bytes_max = kOperationBytesMax;
  context_.client.Scan(std::move(scan), context_.executor,
                       [this, operation = work.operation,
                        selection = *std::move(selection)](absl::StatusOr<kv::ScanResult> rows) {
                         OnPage(operation.key, operation, selection, std::move(rows));
                       });
}

void OperationLoop::OnPage(const std::string& key, const OperationInput& operation,
                           const DeadLetterSelection& selection,
                           absl::StatusOr<kv::ScanResult> rows) {
  if (!rows.ok()) return EndStep(key, kOperationRetryDelay);
  auto page =
      std::make_shared<OperationPage>(TakePage(operation.record, selection, *std::move(rows)));
  auto build = [this, key, operation, page](absl::StatusOr<RedriveFacts> facts) {
    if (!facts.ok()) return EndStep(key, kOperationRetryDelay);
    Commit(key, BuildStep(operation, *page, *facts, context_.layout, context_.client.NowLow()));
  };
  if (operation.record.kind() != OperationRecord::REDRIVE) return build(RedriveFacts());
  ReadRedriveFacts(context_, page->letters, std::move(build));
}

void OperationLoop::OnCancelPage(const OperationInput& operation,
                                 const absl::StatusOr<CancelPage>& page) {
  const absl::Time now = context_.client.NowLow();
  if (page.ok()) return Commit(operation.key, BuildCancelStep(operation, *page, now));
  if (absl::IsDataLoss(page.status()) || absl::IsInvalidArgument(page.status()))
    return Commit(operation.key, BuildFailure(operation, page.status(), now));
  EndStep(operation.key, kOperationRetryDelay);
}

Counter& OperationLoop::DoneBy(OperationRecord::Kind kind) {
  switch (kind) {
    case OperationRecord::PURGE:
      return context_.metrics.dead_letters_purged;
    case OperationRecord::CANCEL_EVENTS:
      return context_.metrics.events_cancelled;
    default:
      return context_.metrics.dead_letters_redriven;
  }
}

void OperationLoop::Commit(const std::string& key, OperationStep step) {
  const auto work = works_.find(key);
  if (work == works_.end()) return EndStep(key, absl::ZeroDuration());
  work->second.writing = step.group.mutations.back().value;
  kv::Commit commit;
  commit.groups.push_back(std::move(step.group));
  context_.client.CommitAsync(std::move(commit), context_.executor,
                              [this, key, record = std::move(step.record),
                               done = step.done](const absl::StatusOr<kv::CommitResult>& result) {
                                OnCommitted(key, record, done, result);
                              });
}

void OperationLoop::OnCommitted(const std::string& key, const OperationRecord& record,
                                uint64_t done, const absl::StatusOr<kv::CommitResult>& result) {
  const bool applied = result.ok() && result->verdicts[0].applied;
  if (applied) DoneBy(record.kind()).Increment(done);
  const auto it = works_.find(key);
  if (it == works_.end()) return EndStep(key, absl::ZeroDuration());
  Work& work = it->second;
  if (applied) {
    work.conflicts = 0;
    if (record.state() != OperationRecord::RUNNING) {
      works_.erase(it);
      return EndStep(key, absl::ZeroDuration());
    }
    if (record.update_time_micros() > work.operation.record.update_time_micros())
      work.operation = {.key = key, .bytes = std::move(work.writing), .record = record};
    return EndStep(key, FromMicros(record.next_step_micros()) - context_.client.NowLow());
  }
  if (!result.ok()) return EndStep(key, kOperationRetryDelay);
  context_.metrics.operation_conflicts.Increment();
  // The first condition is the operation's record: another master works on it, or it has ended.
  if (result->verdicts[0].failed_condition == 0) return EndStep(key, kOperationPatience);
  work.conflicts = std::min(work.conflicts + 1, kConflictDelaysMax);
  EndStep(key, kConflictDelay * work.conflicts);
}

void OperationLoop::EndStep(const std::string& key, absl::Duration delay) {
  busy_ = false;
  if (const auto work = works_.find(key); work != works_.end()) {
    work->second.writing.clear();
    work->second.not_before =
        std::max(work->second.not_before, Elapsed() + std::max(delay, absl::ZeroDuration()));
  }
  Wake();
}

}  // namespace escapement::master
