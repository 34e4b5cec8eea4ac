// StatisticsService shows what processes have counted of each minute (common/statistics).

#ifndef SERVICES_MASTER_STATISTICS_STATISTICS_SERVICE_H_
#define SERVICES_MASTER_STATISTICS_STATISTICS_SERVICE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "escapement/v1/statistics_service.pb.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"
#include "services/master/sweeps/sweep_loop.h"

namespace escapement::master {

// Steps of one answer, which has some 60 bytes for each.
inline constexpr int64_t kStatisticsStepsMax = 2'880;
// Rows that one call reads: those of 400 processes for 48 hours. Beyond it the call is refused.
inline constexpr size_t kStatisticsReadMax = 20'000;

// The request of a ListStatistics. Times are minutes since 1970.
struct StatisticsQuery {
  enum class Of : uint8_t { kTenant, kPolicy, kTarget };
  Of of = Of::kTenant;
  std::string subject;  // the prefix of its rows
  int64_t start = 0;
  int64_t end = 0;   // after the last minute
  int64_t step = 1;  // minutes
};
// INVALID_ARGUMENT with all violations. Pure.
absl::StatusOr<StatisticsQuery> ReadStatisticsQuery(const v1::ListStatisticsRequest& request,
                                                    absl::Time now);

// Threads: as master_apis.h.
class StatisticsService {
 public:
  // `context` outlives the service.
  explicit StatisticsService(MasterContext& context) : context_(context) {}

  void ListStatistics(v1::ListStatisticsRequest request, Done<v1::ListStatisticsResponse> done);

 private:
  MasterContext& context_;
};

// Rows that are older than kStatisticsKeptFor, for a SweepLoop.
std::vector<SweptRows> StatisticsSweep();

}  // namespace escapement::master

#endif  // SERVICES_MASTER_STATISTICS_STATISTICS_SERVICE_H_
