#include "common/auth/token_verifier.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/auth/jwks.h"
#include "common/auth/jwt_verifier.h"
#include "common/status/errors.h"
#include "common/status/return_if_error.h"

namespace escapement::auth {
namespace {

absl::Status NotReady(absl::string_view message) {
  return MakeError(absl::StatusCode::kUnavailable, "NOT_READY", message);
}
absl::Status InvalidToken(absl::string_view message) {
  return MakeError(absl::StatusCode::kUnauthenticated, "CREDENTIAL_INVALID", message);
}

}  // namespace

IssuerTokens::IssuerTokens(std::vector<IssuerConfig> issuers, Runtime& runtime, JwksFetcher fetch) {
  for (IssuerConfig& config : issuers) {
    std::unique_ptr<JwksSource> keys =
        config.jwks_url.empty()
            ? NewJwksFileSource(config.jwks_file, runtime.clock())
            : NewJwksUrlSource({.url = config.jwks_url, .ca = config.jwks_ca}, fetch, runtime);
    const std::string name = config.issuer;
    issuers_.emplace(name, Issuer{std::move(config), std::move(keys)});
  }
}

void IssuerTokens::Start() {
  for (auto& [name, issuer] : issuers_) issuer.keys->Start();
}

absl::StatusOr<Caller> IssuerTokens::Verify(absl::string_view token, absl::Time now) const {
  const absl::StatusOr<UnverifiedJwt> parsed = ParseJwt(token);
  if (!parsed.ok()) return parsed.status();
  const auto found = issuers_.find(parsed->issuer);
  if (found == issuers_.end())
    return InvalidToken("the token is from an issuer that is not accepted");
  const Issuer& issuer = found->second;
  if (now == absl::InfinitePast()) return NotReady("the time is not known yet; try again");
  const std::shared_ptr<const Jwks> keys = issuer.keys->Current();
  if (keys == nullptr) return NotReady("the keys of the token's issuer are not known; try again");
  if (!parsed->kid.empty() && keys->Find(parsed->kid, parsed->algorithm) == nullptr &&
      issuer.keys->NoteUnknownKey()) {
    return NotReady("the keys of the token's issuer are being read again; try again");
  }
  RETURN_IF_ERROR(VerifyJwtSignature(*parsed, *keys));
  RETURN_IF_ERROR(VerifyJwtClaims(
      *parsed, {.issuer = issuer.config.issuer, .audience = issuer.config.audience}, now));
  const std::string& subject = *TextIn(parsed->claims, "sub");
  const std::optional<Grant> grant = issuer.config.GrantOf(subject, parsed->claims);
  if (!grant.has_value()) return InvalidToken("the token's claims give no tenant and role here");
  return Caller{.principal = absl::StrCat("jwt/", issuer.config.issuer, "/", subject),
                .role = grant->role,
                .tenant = grant->tenant,
                .expire_time = ExpiryOf(parsed->claims)};
}

}  // namespace escapement::auth
