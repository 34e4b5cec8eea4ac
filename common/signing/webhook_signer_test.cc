#include "common/signing/webhook_signer.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace escapement {
namespace webhook_signer_test {

std::string Hmac(size_t bytes) {
  return absl::StrCat("whsec_", absl::Base64Escape(std::string(bytes, 'k')));
}

// The vector of the specification's reference libraries.
TEST(WebhookSigner, SignsAsTheReferenceDoes) {
  const auto signer = WebhookSigner::Make({"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"});
  ASSERT_TRUE(signer.ok()) << signer.status();
  EXPECT_EQ(signer->Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, R"({"test": 2432232314})"),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

// RFC 8032, 7.1, test 1 has the key; the signature was made with Python's cryptography.
TEST(WebhookSigner, SignsWithEd25519) {
  const std::string seed =
      absl::HexStringToBytes("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
  const std::string expected =
      "v1a,WfUQIm/"
      "01UP4N+DyD+QtUjmPrDFzBmveooUEfCuk2fy4B7nlJ7YAT0uqjMZSYDAWav6shQX+CB+jVAVe9GyzBQ==";
  const auto signer = WebhookSigner::Make({absl::StrCat("whsk_", absl::Base64Escape(seed))});
  ASSERT_TRUE(signer.ok()) << signer.status();
  EXPECT_EQ(signer->Sign("id", 1, "body"), expected);
  const auto pair =
      WebhookSigner::Make({absl::StrCat("whsk_", absl::Base64Escape(seed + std::string(32, 'p')))});
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_EQ(pair->Sign("id", 1, "body"), expected);
}

TEST(WebhookSigner, EachSecretSigns) {
  const auto both = WebhookSigner::Make({Hmac(24), Hmac(64)});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->Sign("id", 7, ""),
            absl::StrCat(WebhookSigner::Make({Hmac(24)})->Sign("id", 7, ""), " ",
                         WebhookSigner::Make({Hmac(64)})->Sign("id", 7, "")));
}

TEST(WebhookSigner, RefusesWhatIsNoSecretWithoutQuotingIt) {
  for (const std::string& secret :
       {std::string("canary"), std::string("whsec_"), std::string("whsec_canary!"), Hmac(23),
        Hmac(65), absl::StrCat("whsk_", absl::Base64Escape(std::string(31, 'c')))}) {
    const absl::Status status = WebhookSigner::Check(secret);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << secret;
    EXPECT_FALSE(absl::StrContains(status.message(), "canary")) << status;
  }
  EXPECT_TRUE(WebhookSigner::Check(Hmac(32)).ok());
}

}  // namespace webhook_signer_test
}  // namespace escapement
