// The keys of statistics, in the column family `policies`.
//
// policies: 6 (u8), tenant (text), subject, hour (u32, since 1970), writer (text) →
// StatisticsRecord: what the writer has counted for the subject in the hour.
//
// The subject is its kind (u8: 0 tenant, 1 policy, 2 target), then the policy's id (text) or the
// target's id (16 bytes, as in `target_states`).
//
// Each writer writes only its own rows, so nobody reads them before writing. Readers add up the
// rows of all writers. Masters delete rows that are older than kStatisticsKeptFor.
//
// Pure.

#ifndef COMMON_STORAGE_STATISTICS_TABLE_H_
#define COMMON_STORAGE_STATISTICS_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"

namespace escapement {

inline constexpr absl::Duration kStatisticsKeptFor = absl::Hours(48);

// A subject, which is the prefix of its rows.
std::string TenantStatistics(absl::string_view tenant);
std::string PolicyStatistics(absl::string_view tenant, absl::string_view policy_id);
std::string TargetStatistics(absl::string_view tenant, const Uid& target);
// The prefix of the rows of all subjects.
std::string StatisticsPrefix();

std::string StatisticsKey(absl::string_view subject, uint32_t hour, absl::string_view writer);
// The key before all rows of the subject of this hour or a later one.
std::string StatisticsKeyFrom(absl::string_view subject, uint32_t hour);

struct StatisticsRowName {
  std::string subject;  // the prefix of its rows
  uint32_t hour = 0;
  std::string writer;
};
// nullopt if it is not such a key.
std::optional<StatisticsRowName> DecodeStatisticsKey(absl::string_view key);

}  // namespace escapement

#endif  // COMMON_STORAGE_STATISTICS_TABLE_H_
