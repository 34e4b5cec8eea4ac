// One HTTP request to a loopback port, for /metrics, /readyz, a receiver's counters and the REST
// door.

#ifndef TESTS_INTEGRATION_HTTP_GET_H_
#define TESTS_INTEGRATION_HTTP_GET_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

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

}  // namespace escapement::integration

#endif  // TESTS_INTEGRATION_HTTP_GET_H_
