#include "common/signing/aws_signer.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement {
namespace aws_signer_test {

using ::testing::ElementsAre;
using ::testing::EndsWith;

// The examples of AWS: docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html.
const AwsCredentials kS3Keys = {.access_key_id = "AKIAIOSFODNN7EXAMPLE",
                                .secret_access_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                                .session_token = ""};
const absl::Time kS3Day =
    absl::FromCivil(absl::CivilSecond(2013, 5, 24, 0, 0, 0), absl::UTCTimeZone());
constexpr char kS3Host[] = "examplebucket.s3.amazonaws.com";

std::string SignedByS3Example(AwsSigner::Request request) {
  request.region = "us-east-1";
  request.service = "s3";
  request.headers.emplace_back("Host", kS3Host);
  request.headers.emplace_back("x-amz-content-sha256", request.payload_hash);
  return AwsSigner().HeaderLines(request, kS3Keys, kS3Day).back();
}

TEST(AwsSignerTest, SignsTheExamplesOfS3) {
  const std::string empty = AwsPayloadHash("");
  EXPECT_EQ(empty, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(SignedByS3Example({.method = "GET",
                               .path = "/test.txt",
                               .headers = {{"Range", "bytes=0-9"}},
                               .payload_hash = empty}),
            "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"
            "aws4_request, SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, Signature="
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  const std::string path = AwsEncode("/test$file.text", "/");
  EXPECT_THAT(
      SignedByS3Example({.method = "PUT",
                         .path = path,
                         .headers = {{"Date", "Fri, 24 May 2013 00:00:00 GMT"},
                                     {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                         .payload_hash = AwsPayloadHash("Welcome to Amazon S3.")}),
      EndsWith("Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"));
  EXPECT_THAT(
      SignedByS3Example({.method = "GET", .query = "lifecycle=", .payload_hash = empty}),
      EndsWith("Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
  EXPECT_THAT(
      SignedByS3Example({.method = "GET", .query = "max-keys=2&prefix=J", .payload_hash = empty}),
      EndsWith("Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

// The test suite of Signature Version 4 (aws-sig-v4-test-suite) and the example of IAM.
const AwsCredentials kSuiteKeys = {.access_key_id = "AKIDEXAMPLE",
                                   .secret_access_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                                   .session_token = ""};
const absl::Time kSuiteTime =
    absl::FromCivil(absl::CivilSecond(2015, 8, 30, 12, 36, 0), absl::UTCTimeZone());

std::string SignedBySuite(AwsSigner::Request request) {
  request.region = "us-east-1";
  return AwsSigner().HeaderLines(request, kSuiteKeys, kSuiteTime).back();
}

TEST(AwsSignerTest, SignsTheTestSuiteOfAws) {
  const std::string empty = AwsPayloadHash("");
  const auto signed_with = [&empty](absl::string_view method, absl::string_view query) {
    return SignedBySuite({.method = method,
                          .query = query,
                          .headers = {{"Host", "example.amazonaws.com"}},
                          .payload_hash = empty,
                          .service = "service"});
  };
  EXPECT_EQ(signed_with("GET", ""),
            "Authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/"
            "aws4_request, SignedHeaders=host;x-amz-date, Signature="
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
  EXPECT_THAT(
      signed_with("POST", ""),
      EndsWith("Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"));
  EXPECT_THAT(
      signed_with("GET", "Param1=value1&Param2=value2"),
      EndsWith("Signature=b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"));
  EXPECT_THAT(
      SignedBySuite(
          {.method = "GET",
           .query = "Action=ListUsers&Version=2010-05-08",
           .headers = {{"Host", "iam.amazonaws.com"},
                       {"Content-Type", "application/x-www-form-urlencoded; charset=utf-8"}},
           .payload_hash = empty,
           .service = "iam"}),
      EndsWith("Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"));
}

TEST(AwsSignerTest, LinesAreInTheOrderOfTheirNames) {
  AwsCredentials keys = kSuiteKeys;
  keys.session_token = "token";
  EXPECT_THAT(
      AwsSigner().HeaderLines(
          {.method = "GET",
           .headers = {{"X-Amz-Target", "t"}, {"range", ""}, {"host", "h"}, {"Content-Type", "c"}},
           .payload_hash = "x",
           .region = "r",
           .service = "s"},
          keys, kSuiteTime),
      ElementsAre("Content-Type: c", "host: h", "X-Amz-Date: 20150830T123600Z",
                  "X-Amz-Security-Token: token", "X-Amz-Target: t",
                  ::testing::HasSubstr("SignedHeaders=content-type;host;x-amz-date;"
                                       "x-amz-security-token;x-amz-target,")));
}

// A signer that has kept keys signs as a new one.
TEST(AwsSignerTest, KeptKeysAreOfOneDayRegionServiceAndSecret) {
  AwsCredentials other = kSuiteKeys;
  other.secret_access_key = "another";
  std::set<std::string> signatures;
  AwsSigner kept;
  for (int round = 0; round < 2; ++round) {
    for (const absl::Time now : {kSuiteTime, kSuiteTime + absl::Hours(12)}) {
      for (const char* region : {"eu-central-1", "us-east-1"}) {
        for (const char* service : {"sqs", "s3"}) {
          for (const AwsCredentials& keys : {kSuiteKeys, other}) {
            const AwsSigner::Request request = {.method = "GET",
                                                .headers = {{"Host", "h"}},
                                                .payload_hash = "x",
                                                .region = region,
                                                .service = service};
            const auto lines = kept.HeaderLines(request, keys, now);
            EXPECT_EQ(lines, AwsSigner().HeaderLines(request, keys, now));
            signatures.insert(lines.back());
          }
        }
      }
    }
  }
  EXPECT_EQ(signatures.size(), 16u);
}

TEST(AwsSignerTest, ManySecretsAreSignedRightly) {
  AwsSigner kept;
  AwsCredentials keys = kSuiteKeys;
  const AwsSigner::Request request = {.method = "GET",
                                      .headers = {{"Host", "h"}},
                                      .payload_hash = "x",
                                      .region = "r",
                                      .service = "s"};
  for (int i = 0; i < 2'500; ++i) {
    keys.secret_access_key = absl::StrCat("secret-", i % 1'250);
    ASSERT_EQ(kept.HeaderLines(request, keys, kSuiteTime),
              AwsSigner().HeaderLines(request, keys, kSuiteTime));
  }
}

TEST(AwsSignerTest, EncodesAllBytesButUnreservedOnes) {
  EXPECT_EQ(AwsEncode("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(AwsEncode("a/b c+%\xc3\xa9"), "a%2Fb%20c%2B%25%C3%A9");
  EXPECT_EQ(AwsEncode("/a b/c", "/"), "/a%20b/c");
}

TEST(AwsSignerTest, HostHasNoDefaultPort) {
  EXPECT_EQ(AwsHostOf("https://sqs.eu-central-1.amazonaws.com"), "sqs.eu-central-1.amazonaws.com");
  EXPECT_EQ(AwsHostOf("https://sqs.eu-central-1.amazonaws.com:443"),
            "sqs.eu-central-1.amazonaws.com");
  EXPECT_EQ(AwsHostOf("http://h:80"), "h");
  EXPECT_EQ(AwsHostOf("http://h:443"), "h:443");
  EXPECT_EQ(AwsHostOf("https://[::1]:8443"), "[::1]:8443");
}

}  // namespace aws_signer_test
}  // namespace escapement
