// One GET over HTTP or HTTPS, for /metrics.

#ifndef TOOLS_ESCCTL_COMMANDS_HTTP_FETCH_H_
#define TOOLS_ESCCTL_COMMANDS_HTTP_FETCH_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/tls/tls_files.h"

namespace escapement::escctl {

inline constexpr absl::Duration kMetricsTimeout = absl::Seconds(3);  // for HttpFetch

// Returns the body. `url` is http://host:port or https://host:port, with /metrics unless it has a
// path. https needs the authorities of `tls`, and proves the host by them. INVALID_ARGUMENT for
// other URLs and for files that cannot be used, UNAVAILABLE if the server does not answer 200 in
// time. Then the message says what is in the way: the name, the connection, TLS, time, the answer.
absl::StatusOr<std::string> HttpFetch(const std::string& url, const PeerTls& tls,
                                      absl::Duration timeout);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_COMMANDS_HTTP_FETCH_H_
