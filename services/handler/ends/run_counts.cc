#include "services/handler/ends/run_counts.h"

#include <utility>

#include "common/base/check.h"
#include "common/storage/run_table.h"

namespace escapement::handler {
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

storage::v1::RunPartRecord& Changed(std::string key, const RunParts& parts, RunParts& changed) {
  const auto before = parts.find(key);
  CHECK(before != parts.end()) << "the counts of a run were not read";
  return changed.try_emplace(std::move(key), before->second).first->second;
}

void CountInRun(storage::v1::RunPartRecord& part, const Outcome& first, uint64_t count) {
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
  return storage::v1::OUTCOME_KIND_SKIPPED;
}

std::vector<std::string> RunPartKeysOf(const ClaimedEntry& entry, EndKind kind) {
  std::vector<std::string> keys;
  if (CountsInRun(entry)) keys.push_back(RunKeyOf(entry));
  if (CountsInSchedule(entry, kind)) keys.push_back(ScheduleKeyOf(entry));
  return keys;
}

void CountEnd(const ClaimedEntry& entry, const Outcome& first, uint64_t count, int64_t end_micros,
              const RunParts& parts, RunParts& changed) {
  if (CountsInRun(entry)) CountInRun(Changed(RunKeyOf(entry), parts, changed), first, count);
  if (!CountsInSchedule(entry, first.kind)) return;
  CountInSchedule(OutcomeKindOf(first.kind), count, end_micros,
                  Changed(ScheduleKeyOf(entry), parts, changed));
}

void PutParts(const RunParts& parts, kv::Group& group) {
  for (const auto& [key, part] : parts) {
    group.mutations.push_back(
        {.cf = kv::ColumnFamily::kRunParts, .key = key, .value = part.SerializeAsString()});
  }
}

}  // namespace escapement::handler
