// Fetches an issuer's key set from its URL, with libcurl.
//
// Only https, or http on loopback. No redirects, no proxies, no credentials. At most 5 s and 1 MiB.
// The URL is the operator's, so its address is not checked further.
//
// Threads: any. FetchJwks blocks.

#ifndef COMMON_AUTH_JWKS_FETCH_H_
#define COMMON_AUTH_JWKS_FETCH_H_

#include <atomic>
#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace escapement::auth {

inline constexpr size_t kJwksUrlBytesMax = 2048;
inline constexpr absl::Duration kJwksFetchTimeout = absl::Seconds(5);

// INVALID_ARGUMENT: a phrase that says which URLs are accepted.
absl::Status CheckJwksUrl(const std::string& url);

struct JwksRequest {
  std::string url;
  std::string ca = {};  // PEM file of authorities; empty: the system's
};

// The body of the answer. UNAVAILABLE: there is none with status 200 within the bounds. CANCELLED:
// `stopping` became true; the fetch reads it about once a second.
absl::StatusOr<std::string> FetchJwks(const JwksRequest& request,
                                      const std::atomic<bool>& stopping);

}  // namespace escapement::auth

#endif  // COMMON_AUTH_JWKS_FETCH_H_
