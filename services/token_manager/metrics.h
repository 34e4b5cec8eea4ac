// TokenManagerStats as text for /metrics. Pure but for the numbers it reads.

#ifndef SERVICES_TOKEN_MANAGER_METRICS_H_
#define SERVICES_TOKEN_MANAGER_METRICS_H_

#include <string>

#include "services/token_manager/stats.h"

namespace escapement::token_manager {

// Whole families in Prometheus' text format 0.0.4. There is no label of policies, which may be
// many: what one of them does is in its status.
std::string FormatTokenManagerMetrics(const TokenManagerStats& stats);

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_METRICS_H_
