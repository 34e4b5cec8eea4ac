// Authenticator: finds out who makes a call, from an API key, a token or a client certificate.
// IssuerTokens: verifies the tokens of issuers.

#ifndef COMMON_AUTH_AUTHENTICATOR_H_
#define COMMON_AUTH_AUTHENTICATOR_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/auth/issuer_config.h"
#include "common/auth/jwks_source.h"
#include "common/auth/jwt_verifier.h"
#include "common/auth/key_directory.h"
#include "common/rpc/call_gate.h"
#include "common/runtime/runtime.h"
#include "escapement/storage/v1/access_records.pb.h"

namespace escapement::auth {

// The caller that a JWT stands for. UNAUTHENTICATED: it is not valid now. UNAVAILABLE (NOT_READY):
// it cannot be checked now.
using TokenVerifier = std::function<absl::StatusOr<Caller>(absl::string_view token)>;

// Authenticator: finds out who makes a call, from what the call brings:
//
//   authorization: Bearer esc_…      an API key (key_directory.h)
//   authorization: Bearer <JWT>      a token of an issuer in the configuration (IssuerTokens)
//   a verified client certificate    its subject alternative names, by the configuration
//
// A credential that is presented must be valid, also where none is required.
//
// Threads: any.
class Authenticator {
 public:
  struct Options {
    // False: a call without credentials is made by AnonymousCaller().
    bool required = false;
    // Subject alternative name → role, for all tenants. The first that fits counts. SERVICE only
    // fits certificates of the services' authorities (kServiceAuthority).
    std::vector<std::pair<std::string, v1::Access::Role>> certificate_roles = {};
    TokenVerifier verify_token = nullptr;  // null: no tokens are accepted
  };

  // `keys` must outlive it. `now` gives the store's time.
  Authenticator(Options options, KeyDirectory& keys, std::function<absl::Time()> now);

  // UNAUTHENTICATED with one of the reasons CREDENTIAL_MISSING, CREDENTIAL_MALFORMED,
  // CREDENTIAL_INVALID, CREDENTIAL_EXPIRED and CREDENTIAL_REVOKED. UNAVAILABLE (NOT_READY) while
  // the keys of the store or of the token's issuer have not been read.
  absl::StatusOr<std::shared_ptr<const Caller>> Identify(const CallHead& head) const;

  // For calls that last long: UNAUTHENTICATED, as above, if the caller's API key has been revoked,
  // has expired, or is gone since Identify, or if its token has expired.
  absl::Status CheckStillValid(const Caller& caller) const;

 private:
  absl::StatusOr<Caller> IdentifyKey(absl::string_view text) const;
  // UNAUTHENTICATED if the key is revoked or expired.
  absl::Status CheckKey(const storage::v1::KeyRecord& record) const;

  const Options options_;
  KeyDirectory& keys_;
  const std::function<absl::Time()> now_;
};

// IssuerTokens: verifies the tokens of the configured issuers, and says which callers they stand
// for.
//
// Threads: Verify from any; it does not wait for the network. One thread makes, starts and destroys
// it.
class IssuerTokens {
 public:
  // `runtime` must outlive it.
  IssuerTokens(std::vector<IssuerConfig> issuers, Runtime& runtime,
               IssuerFetcher fetch = FetchFromIssuer);

  // Begins to fetch keys.
  void Start();

  // A caller "jwt/<issuer>/<subject>". `now` is the store's time; InfinitePast: it is not known.
  // UNAUTHENTICATED with the reasons of jwt_verifier.h. UNAVAILABLE (NOT_READY) while the time or
  // the issuer's keys are not known.
  absl::StatusOr<Caller> Verify(absl::string_view token, absl::Time now) const;

  // The same for an ID token (OpenID Connect) that `issuer` gave to its client `client_id`, to
  // whose request `nonce` belongs; "": the request had none. PERMISSION_DENIED (NO_RIGHTS): the
  // token is good, and its claims give no tenant and role.
  absl::StatusOr<Caller> VerifyIdToken(absl::string_view token, const std::string& issuer,
                                       const std::string& client_id, const std::string& nonce,
                                       absl::Time now) const;

 private:
  struct Issuer {
    IssuerConfig config;
    std::unique_ptr<JwksSource> keys;
  };

  // The caller of a token whose claims give one; nullopt if they give no rights.
  absl::StatusOr<std::optional<Caller>> CallerOf(const UnverifiedJwt& token, const Issuer& issuer,
                                                 const std::string& audience, absl::Time now) const;

  absl::flat_hash_map<std::string, Issuer> issuers_;  // by the claim `iss`
};

}  // namespace escapement::auth

#endif  // COMMON_AUTH_AUTHENTICATOR_H_
