#include "common/auth/jwks.h"

#include <openssl/err.h>

#include <string>
#include <vector>

#include "common/auth/testing/test_issuer.h"
#include "gtest/gtest.h"

namespace escapement::auth {
namespace jwks_test {

using ::escapement::testing::KeySet;
using ::escapement::testing::SigningKey;
using Json = nlohmann::json;

std::string SetOf(std::vector<Json> keys) { return Json{{"keys", std::move(keys)}}.dump(); }

size_t CountOf(const Json& key) { return Jwks::Parse(SetOf({key}))->keys().size(); }

TEST(Jwks, ReadsRsaAndP256Keys) {
  const auto set = Jwks::Parse(KeySet({SigningKey::Rsa("r"), SigningKey::Ec("e")}));
  ASSERT_TRUE(set.ok()) << set.status();
  ASSERT_EQ(set->keys().size(), 2u);
  EXPECT_EQ(set->Find("r", JwtAlgorithm::kRs256)->kid, "r");
  EXPECT_EQ(set->Find("e", JwtAlgorithm::kEs256)->kid, "e");
  EXPECT_EQ(set->Find("r", JwtAlgorithm::kEs256), nullptr);
  EXPECT_EQ(set->Find("x", JwtAlgorithm::kRs256), nullptr);
}

TEST(Jwks, FindsAKeyWithoutIdOnlyIfOneFits) {
  const auto one = Jwks::Parse(KeySet({SigningKey::Ec("a"), SigningKey::Rsa("b")}));
  EXPECT_EQ(one->Find("", JwtAlgorithm::kEs256)->kid, "a");
  const auto two = Jwks::Parse(KeySet({SigningKey::Ec("a"), SigningKey::Ec("b")}));
  EXPECT_EQ(two->Find("", JwtAlgorithm::kEs256), nullptr);
}

TEST(Jwks, FindsNoKeyIfTwoHaveItsId) {
  const auto set = Jwks::Parse(KeySet({SigningKey::Ec("a"), SigningKey::Ec("a")}));
  EXPECT_EQ(set->Find("a", JwtAlgorithm::kEs256), nullptr);
}

TEST(Jwks, SkipsKeysOfOtherKindsAndSizes) {
  EXPECT_EQ(CountOf(SigningKey::Rsa("r", 1024).Jwk()), 0u);
  EXPECT_EQ(CountOf(SigningKey::Rsa("r", 2040).Jwk()), 0u);
  EXPECT_EQ(CountOf(SigningKey::Ec("e", "P-384").Jwk()), 0u);
  EXPECT_EQ(CountOf({{"kty", "oct"}, {"k", "c2VjcmV0"}}), 0u);
  EXPECT_EQ(CountOf({{"kty", "OKP"}, {"crv", "Ed25519"}, {"x", "AA"}}), 0u);
  EXPECT_EQ(CountOf("text"), 0u);
}

TEST(Jwks, SkipsKeysThatAreNotForThisUse) {
  const Json key = SigningKey::Ec("e").Jwk();
  const auto with = [&key](const char* name, Json value) {
    Json changed = key;
    changed[name] = std::move(value);
    return CountOf(changed);
  };
  EXPECT_EQ(with("use", "sig"), 1u);
  EXPECT_EQ(with("use", "enc"), 0u);
  EXPECT_EQ(with("d", "AQ"), 0u) << "a private key";
  EXPECT_EQ(with("use", 1), 0u);
  EXPECT_EQ(with("key_ops", {"verify"}), 1u);
  EXPECT_EQ(with("key_ops", {"sign"}), 0u);
  EXPECT_EQ(with("alg", "ES256"), 1u);
  EXPECT_EQ(with("alg", "RS256"), 0u);
  EXPECT_EQ(with("kid", 7), 0u);
  EXPECT_EQ(with("kid", std::string(kJwkIdBytesMax + 1, 'k')), 0u);
}

TEST(Jwks, SkipsBrokenRsaKeys) {
  const Json key = SigningKey::Rsa("r").Jwk();
  const auto with = [&key](const char* name, Json value) {
    Json changed = key;
    changed[name] = std::move(value);
    return CountOf(changed);
  };
  EXPECT_EQ(with("e", "AQAB"), 1u);
  EXPECT_EQ(with("e", "AQ"), 0u);       // 1: every signature would be right
  EXPECT_EQ(with("e", "Ag"), 0u);       // 2
  EXPECT_EQ(with("e", "AA"), 0u);       // 0
  EXPECT_EQ(with("e", "AQAB="), 0u);    // padded
  EXPECT_EQ(with("e", "AQAAAAE"), 0u);  // more than four bytes
  EXPECT_EQ(with("n", std::string(2000, 'A')), 0u);
  EXPECT_EQ(with("n", nullptr), 0u);
}

TEST(Jwks, SkipsPointsThatAreNotOnTheCurve) {
  const Json key = SigningKey::Ec("e").Jwk();
  Json changed = key;
  changed["y"] = key["x"];
  EXPECT_EQ(CountOf(changed), 0u);
  changed["y"] = std::string(43, 'A');
  changed["x"] = std::string(43, 'A');
  EXPECT_EQ(CountOf(changed), 0u);
  changed = key;
  changed["x"] = "AA";
  EXPECT_EQ(CountOf(changed), 0u);
}

TEST(Jwks, LeavesNoErrorsToTheThreadsConnections) {
  Json key = SigningKey::Ec("e").Jwk();
  key["y"] = key["x"];
  EXPECT_EQ(CountOf(key), 0u);
  EXPECT_EQ(ERR_peek_error(), 0u);
}

TEST(Jwks, AnEmptySetIsValid) { EXPECT_TRUE(Jwks::Parse(R"({"keys":[]})")->keys().empty()); }

TEST(Jwks, RefusesOtherDocuments) {
  for (const char* text : {"", "[]", "{}", R"({"keys":{}})", "<html>"})
    EXPECT_FALSE(Jwks::Parse(text).ok()) << text;
}

TEST(Jwks, LimitsItsSize) {
  const auto many = Jwks::Parse(SetOf(std::vector<Json>(kJwksKeysMax + 1, Json::object())));
  EXPECT_EQ(many.status().message(), "the key set has more than 100 keys");
  EXPECT_TRUE(Jwks::Parse(SetOf(std::vector<Json>(kJwksKeysMax, Json::object()))).ok());
  EXPECT_FALSE(Jwks::Parse(SetOf({}) + std::string(kJwksBytesMax, ' ')).ok());
}

}  // namespace jwks_test
}  // namespace escapement::auth
