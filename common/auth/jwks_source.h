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

#ifndef COMMON_AUTH_JWKS_SOURCE_H_
#define COMMON_AUTH_JWKS_SOURCE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/auth/jwks.h"
#include "common/auth/jwks_fetch.h"
#include "common/runtime/runtime.h"

namespace escapement::auth {

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

// FetchJwks, or a test's.
using JwksFetcher = std::function<absl::StatusOr<std::string>(const JwksRequest& request,
                                                              const std::atomic<bool>& stopping)>;

// Reads and parses a file. Errors begin with its path.
absl::StatusOr<Jwks> ReadJwksFile(const std::string& path);

// `clock` must outlive it.
std::unique_ptr<JwksSource> NewJwksFileSource(const std::string& path, Clock& clock);
// `runtime` must outlive it.
std::unique_ptr<JwksSource> NewJwksUrlSource(JwksRequest request, JwksFetcher fetch,
                                             Runtime& runtime);

}  // namespace escapement::auth

#endif  // COMMON_AUTH_JWKS_SOURCE_H_
