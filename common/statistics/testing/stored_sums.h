// For tests: the statistics that a store has.

#ifndef COMMON_STATISTICS_TESTING_STORED_SUMS_H_
#define COMMON_STATISTICS_TESTING_STORED_SUMS_H_

#include <algorithm>
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
      StatisticsSums& sums = minutes[int64_t{name->hour} * 60 + minute.minute()];
      sums.due += minute.due();
      sums.succeeded += minute.succeeded();
      sums.failed += minute.failed();
      sums.others += minute.others();
      sums.late += minute.late();
      sums.lateness_max_micros = std::max(sums.lateness_max_micros, minute.lateness_max_micros());
      sums.attempts += minute.attempts();
      sums.errors += minute.errors();
      sums.held = std::max(sums.held, minute.held());
      sums.max_concurrent = std::max(sums.max_concurrent, minute.max_concurrent());
      sums.waiting = std::max(sums.waiting, minute.waiting());
    }
  }
  return minutes;
}

// All minutes together.
template <typename Rows>
StatisticsSums StoredSum(const Rows& policies, const std::string& subject) {
  StatisticsSums all;
  for (const auto& [minute, sums] : StoredSums(policies, subject)) {
    all.due += sums.due;
    all.succeeded += sums.succeeded;
    all.failed += sums.failed;
    all.others += sums.others;
    all.late += sums.late;
    all.lateness_max_micros = std::max(all.lateness_max_micros, sums.lateness_max_micros);
    all.attempts += sums.attempts;
    all.errors += sums.errors;
    all.held = std::max(all.held, sums.held);
    all.max_concurrent = std::max(all.max_concurrent, sums.max_concurrent);
    all.waiting = std::max(all.waiting, sums.waiting);
  }
  return all;
}

}  // namespace escapement

#endif  // COMMON_STATISTICS_TESTING_STORED_SUMS_H_
