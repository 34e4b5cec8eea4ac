// Any bytes as a bearer token, and as the claims of one.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/auth/issuer_config.h"
#include "common/auth/jwks.h"
#include "common/auth/jwt_verifier.h"
#include "common/base/printable_text.h"
#include "common/status/errors.h"
#include "tests/fuzz/require.h"

namespace escapement::fuzz {
namespace {

// The private key is lost; it signed only the first token of the corpus.
constexpr char kKeys[] = R"({"keys": [{"kty": "EC", "crv": "P-256", "kid": "k",
  "x": "D-OTOzBJu4ssqt7MzWBXd40VBIdpz1L_jRBh6RqvLjo",
  "y": "7guTf3zBI_4feDbKUWrIOS72O7eKygRGN87l8LAD4Q4"}]})";
constexpr absl::string_view kSignedBytes =
    "eyJhbGciOiJFUzI1NiIsImtpZCI6ImsiLCJ0eXAiOiJKV1QifQ."
    "eyJpc3MiOiJpIiwiYXVkIjoiYSIsInN1YiI6InMiLCJleHAiOjQxMDI0NDQ4MDB9";

constexpr char kIssuers[] = R"(
issuers:
- issuer: i
  audience: a
  jwks_file: f
  tenant_claim: [o, t]
  role_claim: [g]
  roles: {s: admin, v: viewer}
)";

const auth::Jwks& Keys() {
  static const auto* const keys = new auth::Jwks(*auth::Jwks::Parse(kKeys));
  return *keys;
}
const auth::IssuerConfig& Issuer() {
  static const auto* const issuer =
      new auth::IssuerConfig(auth::ParseIssuerConfig(kIssuers, "f")->front());
  return *issuer;
}

void RequireReason(const absl::Status& status, absl::string_view input) {
  const std::string reason = ErrorReason(status);
  Require(absl::IsUnauthenticated(status) &&
              (reason == "CREDENTIAL_MALFORMED" || reason == "CREDENTIAL_INVALID" ||
               reason == "CREDENTIAL_EXPIRED"),
          "an error has one of three reasons", input);
}

void CheckToken(absl::string_view input) {
  const auto token = auth::ParseJwt(input);
  if (!token.ok()) return RequireReason(token.status(), input);
  Require(input.size() <= auth::kJwtBytesMax, "a token has at most 8 KiB", input);
  Require(token->issuer == token->claims.at("iss"), "the issuer is the claim", input);
  const absl::Status status = auth::VerifyJwtSignature(*token, Keys());
  if (!status.ok()) return RequireReason(status, input);
  Require(token->signed_bytes == kSignedBytes, "only signed bytes are verified", input);
}

void CheckClaims(absl::string_view input) {
  auto claims = auth::ParseJoseObject(input);
  if (!claims.has_value()) return;
  Require(auth::ParseJoseObject(claims->dump()) == claims, "its own text is the same", input);
  auth::UnverifiedJwt token;
  const std::string* issuer = auth::TextIn(*claims, "iss");
  if (issuer != nullptr) token.issuer = *issuer;
  token.claims = *std::move(claims);
  const absl::Status status = auth::VerifyJwtClaims(token, {.issuer = "i", .audience = "a"},
                                                    absl::FromUnixSeconds(1'800'000'000));
  if (!status.ok()) {
    RequireReason(status, input);
  } else {
    const std::string* subject = auth::TextIn(token.claims, "sub");
    Require(subject != nullptr && !subject->empty() && !HasControlCharacters(*subject),
            "an accepted token has a printable subject", input);
    Require(token.claims.at("exp").get<double>() > 1'800'000'000, "it is not expired", input);
  }
  const std::optional<auth::Grant> grant = Issuer().GrantOf("s", token.claims);
  Require(!grant.has_value() || !grant->tenant.empty(), "a claim never names all tenants", input);
  Require(
      !grant.has_value() || grant->role == v1::Access::ADMIN || grant->role == v1::Access::VIEWER,
      "a claim gives only roles of the map", input);
}

}  // namespace
}  // namespace escapement::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  escapement::fuzz::CheckToken(input);
  escapement::fuzz::CheckClaims(input);
  return 0;
}
