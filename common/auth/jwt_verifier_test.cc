#include "common/auth/jwt_verifier.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/auth/testing/test_issuer.h"
#include "common/status/errors.h"
#include "gtest/gtest.h"

namespace escapement::auth {
namespace jwt_verifier_test {

using ::escapement::testing::Encoded;
using ::escapement::testing::KeySet;
using ::escapement::testing::SignedToken;
using ::escapement::testing::SigningKey;
using ::escapement::testing::TokenBy;
using Json = nlohmann::json;

constexpr int64_t kNow = 1'800'000'000;

class JwtVerifier : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    rsa_ = new SigningKey(SigningKey::Rsa("r"));
    ec_ = new SigningKey(SigningKey::Ec("e"));
  }

  static Json Claims(const Json& changes = Json::object()) {
    Json claims = {{"iss", "https://issuer"},
                   {"aud", "escapement"},
                   {"sub", "alice"},
                   {"exp", kNow + 300},
                   {"iat", kNow}};
    claims.merge_patch(changes);  // null removes a claim
    return claims;
  }

  // The reason of the error; "" if the token is good.
  static std::string Verdict(const std::string& token, absl::string_view key_set = "") {
    const Jwks keys = *Jwks::Parse(key_set.empty() ? KeySet({*rsa_, *ec_}) : key_set);
    const auto parsed = ParseJwt(token);
    absl::Status status = parsed.status();
    if (status.ok()) status = VerifyJwtSignature(*parsed, keys);
    if (status.ok()) {
      status = VerifyJwtClaims(*parsed, {.issuer = "https://issuer", .audience = "escapement"},
                               absl::FromUnixSeconds(kNow));
    }
    if (status.ok()) return "";
    EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
    for (const absl::string_view part : absl::StrSplit(token, '.')) {
      EXPECT_FALSE(part.size() > 8 && absl::StrContains(status.message(), part)) << status;
    }
    EXPECT_FALSE(absl::StrContains(status.message(), "alice")) << status;
    return ErrorReason(status);
  }
  static std::string VerdictOnClaims(const Json& changes) {
    return Verdict(TokenBy(*ec_, Claims(changes)));
  }
  static std::string VerdictOnHeader(const Json& header) {
    return Verdict(SignedToken(*ec_, header, Claims()));
  }

  static const SigningKey* rsa_;
  static const SigningKey* ec_;
};
const SigningKey* JwtVerifier::rsa_ = nullptr;
const SigningKey* JwtVerifier::ec_ = nullptr;

TEST_F(JwtVerifier, AcceptsBothAlgorithms) {
  EXPECT_EQ(Verdict(TokenBy(*rsa_, Claims())), "");
  EXPECT_EQ(Verdict(TokenBy(*ec_, Claims())), "");
}

TEST_F(JwtVerifier, AcceptsATokenWithoutKidOnlyIfOneKeyFits) {
  const std::string token = SignedToken(*ec_, Json{{"alg", "ES256"}}, Claims());
  EXPECT_EQ(Verdict(token), "");
  EXPECT_EQ(Verdict(token, KeySet({*ec_, SigningKey::Ec("other")})), "CREDENTIAL_INVALID");
}

TEST_F(JwtVerifier, RefusesTokensWithoutASignature) {
  const std::string claims = Encoded(Claims());
  for (const char* name : {"none", "None", "NONE", "nOnE", ""}) {
    EXPECT_EQ(Verdict(absl::StrCat(Encoded({{"alg", name}}), ".", claims, ".")),
              "CREDENTIAL_MALFORMED");
  }
  EXPECT_EQ(Verdict(absl::StrCat(Encoded({{"alg", "ES256"}, {"kid", "e"}}), ".", claims, ".")),
            "CREDENTIAL_INVALID");
  EXPECT_EQ(Verdict(absl::StrCat(Encoded({{"alg", "RS256"}, {"kid", "r"}}), ".", claims, ".")),
            "CREDENTIAL_INVALID");
}

TEST_F(JwtVerifier, RefusesThePublicKeyAsAnHmacSecret) {
  const std::string secret = rsa_->Jwk().at("n");
  const std::string bytes =
      absl::StrCat(Encoded({{"alg", "HS256"}, {"kid", "r"}}), ".", Encoded(Claims()));
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), mac, &size);
  const std::string signature(reinterpret_cast<const char*>(mac), size);
  EXPECT_EQ(Verdict(absl::StrCat(bytes, ".", absl::WebSafeBase64Escape(signature))),
            "CREDENTIAL_MALFORMED");
}

TEST_F(JwtVerifier, RefusesOtherAlgorithms) {
  for (const char* name : {"HS256", "HS512", "RS384", "RS512", "PS256", "ES384", "EdDSA", "es256"})
    EXPECT_EQ(VerdictOnHeader({{"alg", name}, {"kid", "e"}}), "CREDENTIAL_MALFORMED") << name;
  EXPECT_EQ(VerdictOnHeader({{"kid", "e"}}), "CREDENTIAL_MALFORMED");
  EXPECT_EQ(VerdictOnHeader({{"alg", {"ES256"}}, {"kid", "e"}}), "CREDENTIAL_MALFORMED");
}

TEST_F(JwtVerifier, RefusesAKeyOfTheOtherKind) {
  EXPECT_EQ(VerdictOnHeader({{"alg", "ES256"}, {"kid", "r"}}), "CREDENTIAL_INVALID");
  EXPECT_EQ(VerdictOnHeader({{"alg", "RS256"}, {"kid", "e"}}), "CREDENTIAL_INVALID");
  EXPECT_EQ(VerdictOnHeader({{"alg", "RS256"}, {"kid", "r"}}), "CREDENTIAL_INVALID");
}

TEST_F(JwtVerifier, RefusesExtensions) {
  EXPECT_EQ(VerdictOnHeader({{"alg", "ES256"}, {"kid", "e"}, {"crit", {"exp"}}}),
            "CREDENTIAL_MALFORMED");
  EXPECT_EQ(VerdictOnHeader({{"alg", "ES256"}, {"kid", "e"}, {"crit", Json::array()}}),
            "CREDENTIAL_MALFORMED");
  EXPECT_EQ(VerdictOnHeader({{"alg", "ES256"}, {"kid", "e"}, {"b64", false}}),
            "CREDENTIAL_MALFORMED");
}

TEST_F(JwtVerifier, IgnoresKeysInsideTheToken) {
  const SigningKey own = SigningKey::Ec("own");
  const Json header = {
      {"alg", "ES256"}, {"kid", "e"}, {"jwk", own.Jwk()}, {"jku", "https://attacker/keys"}};
  EXPECT_EQ(Verdict(SignedToken(own, header, Claims())), "CREDENTIAL_INVALID");
  EXPECT_EQ(Verdict(SignedToken(*ec_, header, Claims())), "");
}

TEST_F(JwtVerifier, RefusesUnknownAndImpossibleKids) {
  EXPECT_EQ(VerdictOnHeader({{"alg", "ES256"}, {"kid", "x"}}), "CREDENTIAL_INVALID");
  for (const Json& kid : {Json(""), Json(1), Json(std::string(kJwkIdBytesMax + 1, 'k')), Json()})
    EXPECT_EQ(VerdictOnHeader({{"alg", "ES256"}, {"kid", kid}}), "CREDENTIAL_MALFORMED");
}

TEST_F(JwtVerifier, EachChangedCharacterIsRefused) {
  for (const std::string& token : {TokenBy(*ec_, Claims()), TokenBy(*rsa_, Claims())}) {
    for (size_t i = 0; i < token.size(); ++i) {
      std::string changed = token;
      changed[i] = changed[i] == 'A' ? 'B' : 'A';
      ASSERT_NE(Verdict(changed), "") << i;
    }
  }
}

TEST_F(JwtVerifier, RefusesOtherSpellingsOfAGoodToken) {
  const std::string token = TokenBy(*ec_, Claims());
  for (const std::string& changed :
       {token + "=", token + "==", token + "\n", " " + token, token + ".", token + ".x",
        std::string(), std::string(".."), std::string("a.b"), token.substr(0, token.rfind('.'))}) {
    EXPECT_EQ(Verdict(changed), "CREDENTIAL_MALFORMED") << changed;
  }
}

TEST_F(JwtVerifier, RefusesADerSignatureAndOtherSizes) {
  const std::string token = TokenBy(*ec_, Claims());
  const std::string bytes = token.substr(0, token.rfind('.') + 1);
  for (const size_t size : {1, 63, 65, 70, 96})
    EXPECT_EQ(Verdict(bytes + absl::WebSafeBase64Escape(std::string(size, 'x'))),
              "CREDENTIAL_INVALID");
  // r = s = 0 (CVE-2022-21449)
  EXPECT_EQ(Verdict(bytes + absl::WebSafeBase64Escape(std::string(64, '\0'))),
            "CREDENTIAL_INVALID");
}

TEST_F(JwtVerifier, IssuerMustBeExact) {
  for (const char* issuer : {"https://issuer/", "https://ISSUER", "https://issuer.evil", ""})
    EXPECT_EQ(VerdictOnClaims({{"iss", issuer}}), "CREDENTIAL_INVALID") << issuer;
  EXPECT_EQ(VerdictOnClaims({{"iss", nullptr}}), "CREDENTIAL_MALFORMED");
  EXPECT_EQ(VerdictOnClaims({{"iss", {"https://issuer"}}}), "CREDENTIAL_MALFORMED");
}

TEST_F(JwtVerifier, AudienceMustBeNamed) {
  EXPECT_EQ(VerdictOnClaims({{"aud", {"other", "escapement"}}}), "");
  for (const Json& audience : {Json("other"), Json("escapement2"), Json({"other"}), Json::array(),
                               Json(), Json(1), Json({"escapement", 1}), Json("")})
    EXPECT_EQ(VerdictOnClaims({{"aud", audience}}), "CREDENTIAL_INVALID") << audience;
}

TEST_F(JwtVerifier, ExpiryIsRequiredAndHasNoLeeway) {
  EXPECT_EQ(VerdictOnClaims({{"exp", kNow + 1}}), "");
  EXPECT_EQ(VerdictOnClaims({{"exp", kNow + 0.5}}), "");
  EXPECT_EQ(VerdictOnClaims({{"exp", kNow}}), "CREDENTIAL_EXPIRED");
  EXPECT_EQ(VerdictOnClaims({{"exp", 0}}), "CREDENTIAL_EXPIRED");
  for (const Json& expiry : {Json(), Json("1900000000"), Json(-1), Json(1e300), Json(true),
                             Json(uint64_t{18'446'744'073'709'551'615u})})
    EXPECT_EQ(VerdictOnClaims({{"exp", expiry}}), "CREDENTIAL_INVALID") << expiry;
}

TEST_F(JwtVerifier, ClocksMayDifferByAMinute) {
  for (const char* name : {"nbf", "iat"}) {
    EXPECT_EQ(VerdictOnClaims({{name, kNow + 60}}), "") << name;
    EXPECT_EQ(VerdictOnClaims({{name, kNow + 61}}), "CREDENTIAL_INVALID") << name;
    EXPECT_EQ(VerdictOnClaims({{name, "soon"}}), "CREDENTIAL_INVALID") << name;
    EXPECT_EQ(VerdictOnClaims({{name, nullptr}}), "") << name;
  }
}

TEST_F(JwtVerifier, SubjectMustBeAPrintableText) {
  EXPECT_EQ(VerdictOnClaims({{"sub", "system:serviceaccount:ns:name"}}), "");
  for (const Json& subject : {Json(), Json(""), Json(1), Json("a\nb"), Json("a\u202e"),
                              Json(std::string(kJwtSubjectBytesMax + 1, 's'))})
    EXPECT_EQ(VerdictOnClaims({{"sub", subject}}), "CREDENTIAL_INVALID") << subject;
}

TEST_F(JwtVerifier, RefusesClaimsThatTwoReadersCouldReadDifferently) {
  const std::string header = Encoded({{"alg", "ES256"}, {"kid", "e"}});
  std::string claims = Claims().dump();
  claims.insert(1, R"("sub":"admin",)");
  const std::string bytes = absl::StrCat(header, ".", absl::WebSafeBase64Escape(claims));
  EXPECT_EQ(Verdict(absl::StrCat(bytes, ".", ec_->Sign(bytes))), "CREDENTIAL_MALFORMED");
}

TEST_F(JwtVerifier, LimitsSizeAndDepth) {
  EXPECT_EQ(VerdictOnClaims({{"x", std::string(kJwtBytesMax, 'x')}}), "CREDENTIAL_MALFORMED");
  EXPECT_EQ(Verdict(std::string(kJwtBytesMax, '.')), "CREDENTIAL_MALFORMED");
  Json deep = Json::array();
  for (int i = 0; i < 20; ++i) deep = Json::array({deep});
  EXPECT_EQ(VerdictOnClaims({{"x", deep}}), "CREDENTIAL_MALFORMED");
}

}  // namespace jwt_verifier_test
}  // namespace escapement::auth
