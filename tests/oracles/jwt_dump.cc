// Says what our verifier thinks of tokens. Each line of the input is a key set, a blank and a token
// (JSON without blanks). Each line of the output is "accepted SUBJECT" or the reason of the error.
// Issuer "https://issuer", audience "escapement", at the instant 1800000000.

#include <iostream>
#include <string>

#include "absl/time/time.h"
#include "common/auth/jwks.h"
#include "common/auth/jwt_verifier.h"
#include "common/base/status_macros.h"
#include "common/status/errors.h"

namespace escapement::auth {
namespace {

absl::StatusOr<std::string> Verify(const std::string& key_set, const std::string& token) {
  ASSIGN_OR_RETURN(const auto keys, Jwks::Parse(key_set));
  ASSIGN_OR_RETURN(const auto parsed, ParseJwt(token));
  RETURN_IF_ERROR(VerifyJwtSignature(parsed, keys));
  RETURN_IF_ERROR(VerifyJwtClaims(parsed, {.issuer = "https://issuer", .audience = "escapement"},
                                  absl::FromUnixSeconds(1'800'000'000)));
  return *TextIn(parsed.claims, "sub");
}

}  // namespace
}  // namespace escapement::auth

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const size_t blank = line.find(' ');
    if (blank == std::string::npos) return 1;
    const auto subject = escapement::auth::Verify(line.substr(0, blank), line.substr(blank + 1));
    std::cout << (subject.ok() ? "accepted " + *subject : escapement::ErrorReason(subject.status()))
              << "\n";
  }
}
