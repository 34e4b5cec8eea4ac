// HandlerStats as text for /metrics. Pure but for the numbers it reads.

#ifndef SERVICES_HANDLER_METRICS_H_
#define SERVICES_HANDLER_METRICS_H_

#include <string>

#include "services/handler/stats.h"

namespace escapement::handler {

// Whole families in Prometheus' text format 0.0.4.
std::string FormatHandlerMetrics(const HandlerStats& stats);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_METRICS_H_
