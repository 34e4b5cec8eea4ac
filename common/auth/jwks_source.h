// Fetches what an issuer answers, such as its key set, with libcurl.
//
// Only https, or http on loopback. No redirects, no proxies. At most 5 s and 1 MiB. The URL is the
// operator's, or from a document of the operator's issuer, so its address is not checked further.
//
// Threads: any. FetchFromIssuer blocks.

#ifndef COMMON_AUTH_JWKS_SOURCE_H_
#define COMMON_AUTH_JWKS_SOURCE_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/auth/jwks.h"
#include "common/runtime/runtime.h"

namespace escapement::auth {

inline constexpr size_t kIssuerUrlBytesMax = 2048;
inline constexpr absl::Duration kIssuerFetchTimeout = absl::Seconds(5);

// INVALID_ARGUMENT: a phrase that says which URLs are accepted.
absl::Status CheckIssuerUrl(const std::string& url);

struct IssuerRequest {
  std::string url;
  std::string ca = {};  // PEM file of authorities; empty: the system's
  // The body of a POST, application/x-www-form-urlencoded; empty: a GET.
  std::string form = {};
  std::string user_password = {};  // "user:password" of basic authentication; empty: none
};

// The body of the answer. UNAVAILABLE: there is none with status 200 within the bounds.
// UNAUTHENTICATED: the answer to a form has the status 400 or 401. CANCELLED: `stopping` became
// true; the fetch reads it about once a second.
absl::StatusOr<std::string> FetchFromIssuer(const IssuerRequest& request,
                                            const std::atomic<bool>& stopping);

// JwksSource: the keys of one issuer, kept current from a file or a URL.
//
// A file is checked when a call needs its keys, at most once a second. It is read again when its
// time, size or inode has changed. If the new content cannot be used, the former keys stay.
//
// A URL is fetched on a thread of its own: each 10 minutes, each 10 s after a failure, and for a
// token with an unknown key, at most once in 10 s. While it fails, the former keys are used for up
// to 24 h.
//
// Threads: Current and NoteUnknownKey from any; they never wait for the network. One thread makes,
// starts and destroys the source.

inline constexpr absl::Duration kJwksLookEvery = absl::Seconds(1);
inline constexpr absl::Duration kJwksRefreshEvery = absl::Minutes(10);
inline constexpr absl::Duration kJwksRetryAfter = absl::Seconds(10);
inline constexpr absl::Duration kJwksUsableFor = absl::Hours(24);

class JwksSource {
 public:
  virtual ~JwksSource() = default;

  virtual void Start() {}

  // Null: there are no keys yet, or they are too old.
  virtual std::shared_ptr<const Jwks> Current() = 0;

  // A token names a key that Current() does not have. True if the keys are being read again.
  virtual bool NoteUnknownKey() { return false; }
};

// FetchFromIssuer, or a test's.
using IssuerFetcher = std::function<absl::StatusOr<std::string>(const IssuerRequest& request,
                                                                const std::atomic<bool>& stopping)>;

// Reads and parses a file. Errors begin with its path.
absl::StatusOr<Jwks> ReadJwksFile(const std::string& path);

// `clock` must outlive it.
std::unique_ptr<JwksSource> NewJwksFileSource(const std::string& path, Clock& clock);
// `runtime` must outlive it.
std::unique_ptr<JwksSource> NewJwksUrlSource(IssuerRequest request, IssuerFetcher fetch,
                                             Runtime& runtime);

}  // namespace escapement::auth

#endif  // COMMON_AUTH_JWKS_SOURCE_H_
