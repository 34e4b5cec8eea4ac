// MetricOf: the value of a metric on the page /metrics of a process.

#ifndef TESTS_INTEGRATION_METRIC_OF_H_
#define TESTS_INTEGRATION_METRIC_OF_H_

#include "absl/strings/string_view.h"

namespace escapement::integration {

// `address` is "host:port" of the HTTP port, `metric` a name with its labels, as on the page.
// Returns -1 if the process cannot be asked, or has no such metric.
double MetricOf(absl::string_view address, absl::string_view metric);

}  // namespace escapement::integration

#endif  // TESTS_INTEGRATION_METRIC_OF_H_
