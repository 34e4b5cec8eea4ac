#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "services/handler/delivery/sqs/own_credentials.h"

namespace escapement::handler {
namespace sts_test {

constexpr char kAnswer[] =
    "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
    "<SessionToken>tok/en+==</SessionToken><SecretAccessKey>se/cret+</SecretAccessKey>\n"
    "<Expiration>2026-11-26T10:00:00Z</Expiration><AccessKeyId>ASIA1</AccessKeyId></Credentials>"
    "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";

TEST(SqsCredentialsTest, ReadTwoOrThreeParts) {
  auto read = ParseSqsCredentials("id:sec/ret+");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->access_key_id, "id");
  EXPECT_EQ(read->secret_access_key, "sec/ret+");
  EXPECT_EQ(read->session_token, "");
  read = ParseSqsCredentials("id:secret:to:ken");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->session_token, "to:ken");
  for (const char* bad : {"", "id", "id:", ":secret", "id:secret:a\r\nb", "i d:s"}) {
    EXPECT_EQ(ParseSqsCredentials(bad).status().message(),
              "the target's credentials are malformed");
  }
}

TEST(StsTest, EndpointIsThatOfTheRegion) {
  EXPECT_EQ(StsEndpoint(""), "https://sts.amazonaws.com/");
  EXPECT_EQ(StsEndpoint("eu-central-1"), "https://sts.eu-central-1.amazonaws.com/");
  EXPECT_EQ(StsEndpoint("cn-north-1"), "https://sts.cn-north-1.amazonaws.com.cn/");
}

TEST(StsTest, RequestIsAForm) {
  EXPECT_EQ(StsRequestBody("arn:aws:iam::1:role/r", "a session", "x.y-z_~="),
            "Action=AssumeRoleWithWebIdentity&Version=2011-06-15"
            "&RoleArn=arn%3aaws%3aiam%3a%3a1%3arole%2fr&RoleSessionName=a%20session"
            "&WebIdentityToken=x.y-z_~%3d");
}

TEST(StsTest, AnswerHasCredentials) {
  const auto read = ReadStsAnswer(200, kAnswer);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->credentials.access_key_id, "ASIA1");
  EXPECT_EQ(read->credentials.secret_access_key, "se/cret+");
  EXPECT_EQ(read->credentials.session_token, "tok/en+==");
  EXPECT_EQ(read->expires, absl::FromUnixSeconds(1'795'687'200));
}

TEST(StsTest, IncompleteAnswerIsMalformed) {
  for (const char* part : {"SessionToken", "SecretAccessKey", "Expiration", "AccessKeyId"}) {
    const std::string without = absl::StrReplaceAll(kAnswer, {{part, "Other"}});
    EXPECT_EQ(ReadStsAnswer(200, without).status().message(), "STS: the answer is malformed")
        << part;
  }
  EXPECT_FALSE(ReadStsAnswer(200, "").ok());
}

TEST(StsTest, RefusalHasItsReason) {
  EXPECT_EQ(ReadStsAnswer(403, "<Error><Code>AccessDenied</Code><Message>no\n</Message></Error>")
                .status()
                .message(),
            "STS: AccessDenied: no");
  EXPECT_EQ(ReadStsAnswer(502, "<html>").status().message(), "STS: HTTP 502");
}

}  // namespace sts_test
}  // namespace escapement::handler
