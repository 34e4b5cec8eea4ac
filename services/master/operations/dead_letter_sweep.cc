#include "services/master/operations/dead_letter_sweep.h"

#include <optional>
#include <string>
#include <utility>

#include "common/base/micros.h"
#include "common/kv/group_parts.h"
#include "common/storage/dead_letter_table.h"
#include "services/master/base/limits.h"
#include "services/master/operations/operation_codec.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

std::optional<std::pair<absl::Time, std::string>> ReadLetterKey(absl::string_view key) {
  std::optional<DeadLetterName> name = DecodeDeadLetterKey(key);
  if (!name.has_value()) return std::nullopt;
  return std::pair(name->time, std::move(name->tenant));
}

// An ended operation never changes again.
std::optional<std::string> DeleteOldOperations(const kv::ScanResult& page, absl::Time now,
                                               kv::Commit& commit) {
  const int64_t oldest_kept = ToMicros(now - kOperationRetention);
  kv::Group& group = commit.groups.emplace_back();
  for (const kv::Entry& entry : page.entries) {
    const auto record = ReadOperation(entry.value);
    const bool kept =
        record.ok() && (record->end_time_micros() == 0 || record->end_time_micros() >= oldest_kept);
    if (!kept) group.mutations.push_back(kv::Delete(ColumnFamily::kOperations, entry.key));
  }
  return std::nullopt;
}

}  // namespace

std::vector<SweptRows> DeadLetterSweep(absl::Duration retention, MasterMetrics& metrics) {
  SweptRows letters =
      SweptByTime(ColumnFamily::kDeadLetters, retention, &ReadLetterKey, &DeadLetterPrefix);
  letters.deleted = &metrics.dead_letters_collected;
  return {std::move(letters),
          {.cf = ColumnFamily::kOperations, .delete_old = &DeleteOldOperations}};
}

}  // namespace escapement::master
