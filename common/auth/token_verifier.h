// IssuerTokens: verifies the tokens of the configured issuers, and says which callers they stand
// for.
//
// Threads: Verify from any; it does not wait for the network. One thread makes, starts and destroys
// it.

#ifndef COMMON_AUTH_TOKEN_VERIFIER_H_
#define COMMON_AUTH_TOKEN_VERIFIER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/auth/issuer_config.h"
#include "common/auth/jwks_source.h"
#include "common/rpc/call_gate.h"
#include "common/runtime/runtime.h"

namespace escapement::auth {

class IssuerTokens {
 public:
  // `runtime` must outlive it.
  IssuerTokens(std::vector<IssuerConfig> issuers, Runtime& runtime, JwksFetcher fetch = FetchJwks);

  // Begins to fetch keys.
  void Start();

  // A caller "jwt/<issuer>/<subject>". `now` is the store's time; InfinitePast: it is not known.
  // UNAUTHENTICATED with the reasons of jwt_verifier.h. UNAVAILABLE (NOT_READY) while the time or
  // the issuer's keys are not known.
  absl::StatusOr<Caller> Verify(absl::string_view token, absl::Time now) const;

 private:
  struct Issuer {
    IssuerConfig config;
    std::unique_ptr<JwksSource> keys;
  };

  absl::flat_hash_map<std::string, Issuer> issuers_;  // by the claim `iss`
};

}  // namespace escapement::auth

#endif  // COMMON_AUTH_TOKEN_VERIFIER_H_
