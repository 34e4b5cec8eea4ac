#include "services/master/target_states/target_sweep.h"

#include <optional>
#include <string>

#include "common/base/micros.h"
#include "common/kv/group_parts.h"
#include "common/storage/target_table.h"
#include "escapement/storage/v1/target_records.pb.h"

namespace escapement::master {
namespace {

std::optional<std::string> DeleteOldRows(const kv::ScanResult& page, absl::Time now,
                                         kv::Commit& commit) {
  const int64_t oldest = ToMicros(now - kTargetRowValidFor);
  for (const kv::Entry& entry : page.entries) {
    storage::v1::TargetRowRecord record;
    if (record.ParseFromString(entry.value) && record.state().update_time_micros() >= oldest)
      continue;
    // Its handler may be alive after all, and have written it again.
    kv::Group& group = commit.groups.emplace_back();
    group.conditions.push_back({.cf = kv::ColumnFamily::kTargetStates,
                                .key = entry.key,
                                .kind = kv::Condition::Kind::kUnchangedSince,
                                .since = page.seq});
    group.mutations.push_back(kv::Delete(kv::ColumnFamily::kTargetStates, entry.key));
  }
  return std::nullopt;
}

}  // namespace

std::vector<SweptRows> TargetSweep() {
  return {{.cf = kv::ColumnFamily::kTargetStates, .delete_old = &DeleteOldRows}};
}

}  // namespace escapement::master
