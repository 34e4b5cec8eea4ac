#include "services/master/dead_letters/dead_letter_sweep_loop.h"

#include <utility>

#include "common/base/key_codec.h"
#include "common/base/micros.h"
#include "common/kv/group_parts.h"
#include "common/storage/dead_letters/dead_letter_table.h"
#include "services/master/limits.h"
#include "services/master/operations/operation_codec.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

}  // namespace

void DeadLetterSweepLoop::Start() { SweepLetters({}); }

void DeadLetterSweepLoop::StartLater() {
  context_.executor->PostAfter(kDeadLetterSweepEvery, [this] { Start(); });
}

void DeadLetterSweepLoop::SweepLetters(std::string position) {
  kv::ScanRequest scan;
  scan.cf = ColumnFamily::kDeadLetters;
  scan.begin = std::move(position);
  scan.limit = kDeadLetterSweepRowsMax;
  scan.keys_only = true;
  context_.client.Scan(std::move(scan), context_.executor,
                       [this](absl::StatusOr<kv::ScanResult> page) {
                         if (!page.ok()) return StartLater();
                         OnLetters(*page);
                       });
}

// Dead letters of one tenant are in the order of time: behind the first one that is kept, the next
// tenant's begin. The key of a dead letter is never used again, so its deletion needs no condition.
void DeadLetterSweepLoop::OnLetters(const kv::ScanResult& page) {
  if (page.entries.empty()) return SweepOperations({});
  const absl::Time oldest_kept = context_.client.NowLow() - retention_;
  kv::Commit commit;
  kv::Group& group = commit.groups.emplace_back();
  std::string next = KeyAfter(page.entries.back().key);
  for (const kv::Entry& entry : page.entries) {
    const auto name = DecodeDeadLetterKey(entry.key);
    if (name.has_value() && name->time >= oldest_kept) {
      next = PrefixEnd(DeadLetterPrefix(name->tenant));
      break;
    }
    group.mutations.push_back(kv::Delete(ColumnFamily::kDeadLetters, entry.key));
  }
  const size_t collected = group.mutations.size();
  const auto go_on = [this, collected,
                      next = std::move(next)](const absl::StatusOr<kv::CommitResult>& result) {
    if (result.ok()) context_.metrics.dead_letters_collected.Increment(collected);
    context_.executor->PostAfter(kDeadLetterSweepPause, [this, next] { SweepLetters(next); });
  };
  if (collected == 0) return go_on(kv::CommitResult());
  context_.client.CommitAsync(std::move(commit), context_.executor, go_on);
}

void DeadLetterSweepLoop::SweepOperations(std::string position) {
  kv::ScanRequest scan;
  scan.cf = ColumnFamily::kOperations;
  scan.begin = std::move(position);
  scan.limit = kDeadLetterSweepRowsMax;
  context_.client.Scan(std::move(scan), context_.executor,
                       [this](absl::StatusOr<kv::ScanResult> page) {
                         if (!page.ok()) return StartLater();
                         OnOperations(*page);
                       });
}

// An ended operation never changes again.
void DeadLetterSweepLoop::OnOperations(const kv::ScanResult& page) {
  if (page.entries.empty()) return StartLater();
  const int64_t oldest_kept = ToMicros(context_.client.NowLow() - kOperationRetention);
  kv::Commit commit;
  kv::Group& group = commit.groups.emplace_back();
  for (const kv::Entry& entry : page.entries) {
    const auto record = ReadOperation(entry.value);
    const bool kept =
        record.ok() && (record->end_time_micros() == 0 || record->end_time_micros() >= oldest_kept);
    if (!kept) group.mutations.push_back(kv::Delete(ColumnFamily::kOperations, entry.key));
  }
  const auto go_on = [this, next = KeyAfter(page.entries.back().key)](
                         const absl::StatusOr<kv::CommitResult>&) {
    context_.executor->PostAfter(kDeadLetterSweepPause, [this, next] { SweepOperations(next); });
  };
  if (group.mutations.empty()) return go_on(kv::CommitResult());
  context_.client.CommitAsync(std::move(commit), context_.executor, go_on);
}

}  // namespace escapement::master
