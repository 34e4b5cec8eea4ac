// The column family `target_states`: how handlers use targets.
//
// target_states: tenant (text), target id (16 bytes), handler (text) → TargetRowRecord
//
// The target id is a hash of the target's key (common/records/target_key.h). A row that its handler
// has not written for kTargetRowValidFor is of a dead handler: readers ignore it, and masters
// delete it.

#ifndef COMMON_STORAGE_TARGET_TABLE_H_
#define COMMON_STORAGE_TARGET_TABLE_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"

namespace escapement {

inline constexpr absl::Duration kTargetRowValidFor = absl::Minutes(2);

// Names a row.
struct TargetRowName {
  std::string tenant;
  Uid target;
  std::string handler;
};

Uid TargetIdOf(absl::string_view target_key);
std::string EncodeTargetRowKey(const TargetRowName& name);
std::optional<TargetRowName> DecodeTargetRowKey(absl::string_view key);
// The prefix of the rows of a tenant; of those of one of its targets.
std::string TargetRowPrefix(absl::string_view tenant);
std::string TargetRowPrefix(absl::string_view tenant, const Uid& target);

}  // namespace escapement

#endif  // COMMON_STORAGE_TARGET_TABLE_H_
