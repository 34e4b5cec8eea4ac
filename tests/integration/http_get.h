// HttpGet: one GET request to a loopback port, for /metrics, /readyz and a receiver's counters.

#ifndef TESTS_INTEGRATION_HTTP_GET_H_
#define TESTS_INTEGRATION_HTTP_GET_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace escapement::integration {

struct HttpAnswer {
  int status = 0;
  std::string body;
};

// `address` is "host:port" with an IPv4 address. UNAVAILABLE if there is no connection,
// DEADLINE_EXCEEDED if it takes too long.
absl::StatusOr<HttpAnswer> HttpGet(absl::string_view address, absl::string_view path,
                                   absl::Duration timeout = absl::Seconds(10));

}  // namespace escapement::integration

#endif  // TESTS_INTEGRATION_HTTP_GET_H_
