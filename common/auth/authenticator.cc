#include "common/auth/authenticator.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/auth/jwks.h"
#include "common/auth/jwt_verifier.h"
#include "common/auth/key_directory.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/status/errors.h"
#include "common/storage/name_tables.h"
#include "common/tls/tls_files.h"

namespace escapement::auth {

namespace {

constexpr absl::string_view kBearer = "bearer ";
constexpr absl::string_view kKeyPrincipal = "key/";

// The texts never quote what was presented.
absl::Status Refused(absl::string_view reason, absl::string_view message) {
  return MakeError(absl::StatusCode::kUnauthenticated, reason, message);
}

absl::Status NoSuchKey() { return Refused("CREDENTIAL_INVALID", "there is no such API key"); }

}  // namespace

Authenticator::Authenticator(Options options, KeyDirectory& keys, std::function<absl::Time()> now)
    : options_(std::move(options)), keys_(keys), now_(std::move(now)) {}

absl::StatusOr<std::shared_ptr<const Caller>> Authenticator::Identify(const CallHead& head) const {
  absl::StatusOr<Caller> caller = Caller();
  if (!head.authorization.empty()) {
    const absl::string_view credential = absl::StripAsciiWhitespace(
        head.authorization.substr(std::min(head.authorization.size(), kBearer.size())));
    if (!absl::StartsWithIgnoreCase(head.authorization, kBearer) || credential.empty())
      return Refused("CREDENTIAL_MALFORMED", "authorization must be \"Bearer\" and a credential");
    if (absl::StartsWith(credential, kApiKeyPrefix)) {
      caller = IdentifyKey(credential);
    } else if (options_.verify_token != nullptr) {
      caller = options_.verify_token(credential);
    } else {
      return Refused("CREDENTIAL_MALFORMED", "the credential is not an API key");
    }
    if (!caller.ok()) return caller.status();
    caller->source = head.source;
    return std::make_shared<const Caller>(*std::move(caller));
  }
  const bool may_be_service = absl::c_linear_search(head.client_names, kServiceAuthority);
  for (const auto& [name, role] : options_.certificate_roles) {
    if (role == v1::Access::SERVICE && !may_be_service) continue;
    for (const std::string& own : head.client_names) {
      if (own == name)
        return std::make_shared<const Caller>(
            Caller{absl::StrCat("cert/", name), role, {}, head.source});
    }
  }
  if (options_.required) {
    return Refused("CREDENTIAL_MISSING",
                   "the call needs credentials: authorization: Bearer and an API key or a token");
  }
  Caller anonymous = *AnonymousCaller();
  anonymous.source = head.source;
  return std::make_shared<const Caller>(std::move(anonymous));
}

absl::Status Authenticator::CheckStillValid(const Caller& caller) const {
  if (caller.expire_time <= now_()) return Refused("CREDENTIAL_EXPIRED", "the token is expired");
  absl::string_view key_id = caller.principal;
  if (!absl::ConsumePrefix(&key_id, kKeyPrincipal)) return absl::OkStatus();
  const auto record = keys_.Find(std::string(key_id));
  return record == nullptr ? NoSuchKey() : CheckKey(*record);
}

absl::Status Authenticator::CheckKey(const storage::v1::KeyRecord& record) const {
  if (record.revoke_time_micros() != 0)
    return Refused("CREDENTIAL_REVOKED", "the API key is revoked");
  if (record.expire_time_micros() != 0 && FromMicros(record.expire_time_micros()) <= now_())
    return Refused("CREDENTIAL_EXPIRED", "the API key is expired");
  return absl::OkStatus();
}

absl::StatusOr<Caller> Authenticator::IdentifyKey(absl::string_view text) const {
  const std::optional<ApiKeyParts> parts = ParseApiKey(text);
  if (!parts.has_value())
    return Refused("CREDENTIAL_MALFORMED", "the API key does not have the form of one");
  if (!keys_.loaded()) {
    return MakeError(absl::StatusCode::kUnavailable, "NOT_READY",
                     "the keys have not been read yet; try again");
  }
  const auto record = keys_.Find(parts->id);
  // A key that does not exist and a wrong secret have the same answer.
  if (record == nullptr || !ApiKeySecretMatches(parts->secret, record->secret_sha256()))
    return NoSuchKey();
  RETURN_IF_ERROR(CheckKey(*record));
  keys_.NoteUse(record->key_id());
  Caller caller{absl::StrCat(kKeyPrincipal, record->key_id()),
                static_cast<v1::Access::Role>(record->role())};
  if (record->tenant() != kAllTenants) caller.tenant = record->tenant();
  return caller;
}

namespace {

absl::Status NotReady(absl::string_view message) {
  return MakeError(absl::StatusCode::kUnavailable, "NOT_READY", message);
}
absl::Status InvalidToken(absl::string_view message) {
  return MakeError(absl::StatusCode::kUnauthenticated, "CREDENTIAL_INVALID", message);
}

}  // namespace

IssuerTokens::IssuerTokens(std::vector<IssuerConfig> issuers, Runtime& runtime,
                           IssuerFetcher fetch) {
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

absl::StatusOr<std::optional<Caller>> IssuerTokens::CallerOf(const UnverifiedJwt& token,
                                                             const Issuer& issuer,
                                                             const std::string& audience,
                                                             absl::Time now) const {
  if (now == absl::InfinitePast()) return NotReady("the time is not known yet; try again");
  const std::shared_ptr<const Jwks> keys = issuer.keys->Current();
  if (keys == nullptr) return NotReady("the keys of the token's issuer are not known; try again");
  if (!token.kid.empty() && keys->Find(token.kid, token.algorithm) == nullptr &&
      issuer.keys->NoteUnknownKey()) {
    return NotReady("the keys of the token's issuer are being read again; try again");
  }
  RETURN_IF_ERROR(VerifyJwtSignature(token, *keys));
  RETURN_IF_ERROR(
      VerifyJwtClaims(token, {.issuer = issuer.config.issuer, .audience = audience}, now));
  const std::string& subject = *TextIn(token.claims, "sub");
  const std::optional<Grant> grant = issuer.config.GrantOf(subject, token.claims);
  if (!grant.has_value()) return std::nullopt;
  return Caller{.principal = absl::StrCat("jwt/", issuer.config.issuer, "/", subject),
                .role = grant->role,
                .tenant = grant->tenant,
                .expire_time = ExpiryOf(token.claims),
                .issue_time = IssueTimeOf(token.claims)};
}

absl::StatusOr<Caller> IssuerTokens::Verify(absl::string_view token, absl::Time now) const {
  ASSIGN_OR_RETURN(const UnverifiedJwt parsed, ParseJwt(token));
  const auto found = issuers_.find(parsed.issuer);
  if (found == issuers_.end())
    return InvalidToken("the token is from an issuer that is not accepted");
  const Issuer& issuer = found->second;
  ASSIGN_OR_RETURN(std::optional<Caller> caller,
                   CallerOf(parsed, issuer, issuer.config.audience, now));
  if (!caller.has_value()) return InvalidToken("the token's claims give no tenant and role here");
  return *std::move(caller);
}

absl::StatusOr<Caller> IssuerTokens::VerifyIdToken(absl::string_view token,
                                                   const std::string& issuer,
                                                   const std::string& client_id,
                                                   const std::string& nonce, absl::Time now) const {
  ASSIGN_OR_RETURN(const UnverifiedJwt parsed, ParseJwt(token));
  const auto found = issuers_.find(issuer);
  if (found == issuers_.end() || parsed.issuer != issuer)
    return InvalidToken("the token is from another issuer");
  ASSIGN_OR_RETURN(std::optional<Caller> caller, CallerOf(parsed, found->second, client_id, now));
  // A token for several clients says which of them it was given to.
  const auto audience = parsed.claims.find("aud");
  const std::string* const party = TextIn(parsed.claims, "azp");
  if (parsed.claims.contains("azp") ? party == nullptr || *party != client_id
                                    : audience->is_array() && audience->size() > 1) {
    return InvalidToken("the token was given to another client");
  }
  const std::string* const own_nonce = TextIn(parsed.claims, "nonce");
  if (!nonce.empty() && (own_nonce == nullptr || *own_nonce != nonce))
    return InvalidToken("the token belongs to another sign-in");
  if (!caller.has_value()) {
    return MakeError(absl::StatusCode::kPermissionDenied, "NO_RIGHTS",
                     "the token's claims give no tenant and role here");
  }
  return *std::move(caller);
}

}  // namespace escapement::auth
