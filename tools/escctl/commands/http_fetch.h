// One GET over plain HTTP, for /metrics.

#ifndef TOOLS_ESCCTL_COMMANDS_HTTP_FETCH_H_
#define TOOLS_ESCCTL_COMMANDS_HTTP_FETCH_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace escapement::escctl {

// Returns the body. `url` is http://host:port, with /metrics unless it has a path. INVALID_ARGUMENT
// for other URLs, UNAVAILABLE if the server cannot be reached, or does not answer 200 in time.
absl::StatusOr<std::string> HttpFetch(const std::string& url, absl::Duration timeout);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_COMMANDS_HTTP_FETCH_H_
