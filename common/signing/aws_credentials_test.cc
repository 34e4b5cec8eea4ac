#include "common/signing/aws_credentials.h"

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace escapement {
namespace aws_credentials_test {

constexpr char kAnswer[] =
    "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
    "<SessionToken>tok/en+==</SessionToken><SecretAccessKey>se/cret+</SecretAccessKey>\n"
    "<Expiration>2026-11-26T10:00:00Z</Expiration><AccessKeyId>ASIA1</AccessKeyId></Credentials>"
    "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";

TEST(StsTest, EndpointIsThatOfTheRegion) {
  EXPECT_EQ(StsEndpoint(""), "https://sts.amazonaws.com/");
  EXPECT_EQ(StsEndpoint("eu-central-1"), "https://sts.eu-central-1.amazonaws.com/");
  EXPECT_EQ(StsEndpoint("cn-north-1"), "https://sts.cn-north-1.amazonaws.com.cn/");
}

TEST(StsTest, RequestIsAForm) {
  EXPECT_EQ(StsRequestBody("arn:aws:iam::1:role/r", "a session", "x.y-z_~="),
            "Action=AssumeRoleWithWebIdentity&Version=2011-06-15"
            "&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&RoleSessionName=a%20session"
            "&WebIdentityToken=x.y-z_~%3D");
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

TEST(StsTest, RequestHasTheTokenOfTheFile) {
  AwsEnvironment environment;
  environment.token_file = ::testing::TempDir() + "/sts_token";
  environment.role_arn = "arn";
  environment.session_name = "me";
  environment.region = "eu-central-1";
  std::ofstream(environment.token_file) << "first\n";
  auto request = MakeStsRequest(environment);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->url, "https://sts.eu-central-1.amazonaws.com/");
  EXPECT_EQ(request->body, StsRequestBody("arn", "me", "first"));
  std::ofstream(environment.token_file) << "second";
  environment.session_name = "";
  environment.sts_endpoint = "http://sts";
  request = MakeStsRequest(environment);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->url, "http://sts");
  EXPECT_EQ(request->body, StsRequestBody("arn", "escapement", "second"));
}

const absl::Time kNow = absl::FromUnixSeconds(1'795'687'200);

AwsEnvironment Eks() {
  AwsEnvironment environment;
  environment.token_file = "/token";
  environment.role_arn = "arn";
  return environment;
}

StsCredentials Fetched(absl::Time expires) {
  return {.credentials = {.access_key_id = "id", .secret_access_key = "s", .session_token = "t"},
          .expires = expires};
}

TEST(AwsIdentityTest, KeysOfTheEnvironmentComeFirst) {
  AwsEnvironment environment = Eks();
  environment.access_key_id = "id";
  environment.secret_access_key = "secret";
  const AwsIdentity identity(environment);
  EXPECT_FALSE(identity.fetches());
  ASSERT_TRUE(identity.Current(kNow).ok());
  EXPECT_EQ((*identity.Current(kNow))->secret_access_key, "secret");
}

TEST(AwsIdentityTest, MissingAndMalformedKeysAreNamed) {
  const AwsIdentity none((AwsEnvironment()));
  EXPECT_TRUE(none.known());
  EXPECT_NE(none.Current(kNow).status().message().find("AWS_ROLE_ARN"), std::string::npos);
  AwsEnvironment environment;
  environment.access_key_id = "id";
  environment.secret_access_key = "canary\r\nX: y";
  const absl::Status refused = AwsIdentity(environment).Current(kNow).status();
  EXPECT_NE(refused.message().find("AWS_SECRET_ACCESS_KEY"), std::string::npos);
  EXPECT_EQ(refused.message().find("canary"), std::string::npos);
}

TEST(AwsIdentityTest, FetchedKeysAreReplacedBeforeTheyExpire) {
  AwsIdentity identity(Eks());
  EXPECT_TRUE(identity.fetches());
  EXPECT_FALSE(identity.known());
  EXPECT_EQ(identity.OnFetched(Fetched(kNow + absl::Hours(1)), kNow), absl::Minutes(55));
  EXPECT_TRUE(identity.Current(kNow + absl::Minutes(59)).ok());
  EXPECT_EQ(identity.Current(kNow + absl::Hours(1)).status().message(), "they have expired");
  // A failed fetch leaves the present ones in use.
  EXPECT_EQ(identity.OnFetched(absl::UnavailableError("STS: HTTP 502"), kNow), absl::Seconds(10));
  EXPECT_TRUE(identity.Current(kNow).ok());
  EXPECT_EQ(identity.Current(kNow + absl::Hours(1)).status().message(), "STS: HTTP 502");
  EXPECT_EQ(identity.OnFetched(Fetched(kNow + absl::Seconds(1)), kNow), absl::Seconds(10));
  EXPECT_EQ(identity.OnFetched(Fetched(absl::InfiniteFuture()), kNow), absl::Hours(12));
}

}  // namespace aws_credentials_test
}  // namespace escapement
