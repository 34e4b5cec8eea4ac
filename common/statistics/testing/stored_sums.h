// For tests: the statistics that a store has.

#ifndef COMMON_STATISTICS_TESTING_STORED_SUMS_H_
#define COMMON_STATISTICS_TESTING_STORED_SUMS_H_

#include <cstdint>
#include <map>
#include <string>

#include "common/statistics/minute_sums.h"
#include "common/storage/statistics_table.h"
#include "escapement/storage/v1/statistics_records.pb.h"
#include "gtest/gtest.h"

namespace escapement {

// The sums of the subject by minute since 1970, of all writers. `policies`: the rows of that
// column family, by key.
template <typename Rows>
std::map<int64_t, StatisticsSums> StoredSums(const Rows& policies, const std::string& subject) {
  std::map<int64_t, StatisticsSums> minutes;
  for (const auto& [key, value] : policies) {
    const auto name = DecodeStatisticsKey(key);
    if (!name.has_value() || name->subject != subject) continue;
    storage::v1::StatisticsRecord record;
    EXPECT_TRUE(record.ParseFromString(value));
    for (const storage::v1::MinuteRecord& minute : record.minutes()) {
      minutes[int64_t{name->hour} * 60 + minute.minute()].Add(SumsOf(minute));
    }
  }
  return minutes;
}

// All minutes together.
template <typename Rows>
StatisticsSums StoredSum(const Rows& policies, const std::string& subject) {
  StatisticsSums all;
  for (const auto& [minute, sums] : StoredSums(policies, subject)) all.Add(sums);
  return all;
}

}  // namespace escapement

#endif  // COMMON_STATISTICS_TESTING_STORED_SUMS_H_
