#include "services/handler/delivery/sqs/request_signer.h"

#include <curl/curl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/http_receiver.h"

namespace escapement::handler {
namespace request_signer_test {

using ::testing::ElementsAre;
using ::testing::StartsWith;

constexpr char kHost[] = "sqs.eu-central-1.amazonaws.com";
constexpr char kRegion[] = "eu-central-1";
const absl::Time kNow =
    absl::FromCivil(absl::CivilSecond(2026, 3, 1, 23, 59, 58), absl::UTCTimeZone());

AwsCredentials Credentials(std::string token = "") {
  return {.access_key_id = "AKIDEXAMPLE",
          .secret_access_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
          .session_token = std::move(token)};
}

int OnDebug(CURL*, curl_infotype type, char* data, size_t size, void* sent) {
  if (type == CURLINFO_HEADER_OUT) static_cast<std::string*>(sent)->append(data, size);
  return 0;
}

size_t Drop(char*, size_t size, size_t count, void*) { return size * count; }

// The header lines of a request that libcurl signs.
std::vector<std::string> LinesOfLibcurl(const std::string& origin, const AwsCredentials& keys,
                                        const std::string& body) {
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> easy(curl_easy_init(),
                                                                 &curl_easy_cleanup);
  curl_slist* headers = curl_slist_append(nullptr, "Content-Type: application/x-amz-json-1.0");
  headers = curl_slist_append(headers, "X-Amz-Target: AmazonSQS.SendMessageBatch");
  if (!keys.session_token.empty()) {
    headers = curl_slist_append(headers,
                                absl::StrCat("X-Amz-Security-Token: ", keys.session_token).c_str());
  }
  std::string sent;
  curl_easy_setopt(easy.get(), CURLOPT_URL, (origin + "/").c_str());
  curl_easy_setopt(easy.get(), CURLOPT_PROXY, "");
  curl_easy_setopt(easy.get(), CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDS, body.data());
  curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
  curl_easy_setopt(easy.get(), CURLOPT_AWS_SIGV4, "aws:amz:eu-central-1:sqs");
  curl_easy_setopt(easy.get(), CURLOPT_USERNAME, keys.access_key_id.c_str());
  curl_easy_setopt(easy.get(), CURLOPT_PASSWORD, keys.secret_access_key.c_str());
  curl_easy_setopt(easy.get(), CURLOPT_WRITEFUNCTION, &Drop);
  curl_easy_setopt(easy.get(), CURLOPT_VERBOSE, 1L);
  curl_easy_setopt(easy.get(), CURLOPT_DEBUGFUNCTION, &OnDebug);
  curl_easy_setopt(easy.get(), CURLOPT_DEBUGDATA, &sent);
  EXPECT_EQ(curl_easy_perform(easy.get()), CURLE_OK);
  curl_slist_free_all(headers);
  return absl::StrSplit(sent, "\r\n", absl::SkipEmpty());
}

// The value of a header; "" if there is none.
std::string ValueOf(const std::vector<std::string>& lines, absl::string_view name) {
  for (absl::string_view line : lines) {
    if (absl::ConsumePrefix(&line, absl::StrCat(name, ": "))) return std::string(line);
  }
  return "";
}

TEST(SqsRequestSignerTest, SignsAsLibcurlDoes) {
  fixtures::Receipts receipts;
  const auto receiver = fixtures::HttpReceiver::Start({}, &receipts);
  ASSERT_TRUE(receiver.ok());
  const std::string origin = (*receiver)->origin();
  SqsRequestSigner signer;
  for (const char* token : {"", "token/x+y=="}) {
    for (const std::string& body : {std::string("{}"), std::string(20'000, 'b')}) {
      const std::vector<std::string> theirs = LinesOfLibcurl(origin, Credentials(token), body);
      absl::Time time;
      ASSERT_TRUE(
          absl::ParseTime("%E4Y%m%dT%H%M%SZ", ValueOf(theirs, "X-Amz-Date"), &time, nullptr));
      const std::vector<std::string> ours =
          signer.HeaderLines(AwsHostOf(origin), kRegion, Credentials(token), body, time);
      for (const char* name : {"Host", "Content-Type", "X-Amz-Target", "X-Amz-Security-Token"})
        EXPECT_EQ(ValueOf(ours, name), ValueOf(theirs, name)) << name;
      EXPECT_EQ(ValueOf(ours, "Authorization"), ValueOf(theirs, "Authorization"));
    }
  }
}

TEST(SqsRequestSignerTest, LinesOfARequest) {
  EXPECT_THAT(SqsRequestSigner().HeaderLines(kHost, kRegion, Credentials("token"), "{}", kNow),
              ElementsAre("Content-Type: application/x-amz-json-1.0",
                          "Host: sqs.eu-central-1.amazonaws.com", "X-Amz-Date: 20260301T235958Z",
                          "X-Amz-Security-Token: token", "X-Amz-Target: AmazonSQS.SendMessageBatch",
                          StartsWith("Authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"
                                     "20260301/eu-central-1/sqs/aws4_request, SignedHeaders="
                                     "content-type;host;x-amz-date;x-amz-security-token;"
                                     "x-amz-target, Signature=")));
}

}  // namespace request_signer_test
}  // namespace escapement::handler
