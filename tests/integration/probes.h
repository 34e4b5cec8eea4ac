// One HTTP request to a loopback port, for /metrics, /readyz, a receiver's counters and the REST
// door.

#ifndef TESTS_INTEGRATION_PROBES_H_
#define TESTS_INTEGRATION_PROBES_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/tls/tls_files.h"

namespace escapement::integration {

struct HttpCall {
  std::string method = "GET";
  std::string path = {};  // with the query, encoded
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
};

struct HttpAnswer {
  int status = 0;
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};

  // The first header with that name in any case, or "".
  std::string Header(absl::string_view name) const;
};

// `address` is "host:port" with an IPv4 address. UNAVAILABLE if there is no connection,
// DEADLINE_EXCEEDED if it takes too long.
absl::StatusOr<HttpAnswer> HttpSend(absl::string_view address, const HttpCall& call,
                                    absl::Duration timeout = absl::Seconds(10));
// HttpSend of a GET.
absl::StatusOr<HttpAnswer> HttpGet(absl::string_view address, absl::string_view path,
                                   absl::Duration timeout = absl::Seconds(10));

// CheckHealth: asks the gRPC health service of a port.

enum class Health { kUnreachable, kServing, kNotServing };

Health CheckHealth(const std::string& address, std::optional<PeerTls> tls = std::nullopt);

// MetricOf: the value of a metric on the page /metrics of a process.

// `address` is "host:port" of the HTTP port, `metric` a name with its labels, as on the page.
// Returns -1 if the process cannot be asked, or has no such metric.
double MetricOf(absl::string_view address, absl::string_view metric);

}  // namespace escapement::integration

#endif  // TESTS_INTEGRATION_PROBES_H_
