// Tests with a fake peer, which also checks the signature of every request.

#include "services/handler/delivery/sqs/sqs_transport.h"

#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/collecting_sink.h"
#include "tests/fixtures/sqs/sqs_server.h"
#include "tests/fixtures/sqs_entries.h"

namespace escapement::handler {
namespace sqs_transport_test {

using fixtures::CollectingSink;
using fixtures::MakeSqsAttempts;
using fixtures::SqsAttemptOptions;
using fixtures::SqsServer;
using nlohmann::json;
using ::testing::HasSubstr;

class SqsTransportTest : public ::testing::Test {
 protected:
  static SqsTransport::Options Allowing() {
    return {.addresses = std::make_shared<AddressRule>(AddressRule::AllowingLoopback())};
  }

  SqsAttemptOptions To(const std::string& queue) const {
    return {.queue_url = server_->QueueUrl(queue), .credentials = fixtures::kSqsCredentials};
  }

  // Sends attempts with the tags 1 to `count` and waits for their results.
  void SendAll(const SqsAttemptOptions& options, uint64_t count) {
    transport_->Send(MakeSqsAttempts(options, 1, count), sink_);
    ASSERT_TRUE(sink_->Await(count));
  }

  DeliveryResult SendOne(const SqsAttemptOptions& options) {
    const uint64_t tag = next_tag_++;
    transport_->Send(MakeSqsAttempts(options, tag, 1), sink_);
    EXPECT_TRUE(sink_->Await(++sent_));
    return sink_->Only(tag);
  }

  // The result of one attempt to a queue that answers like this.
  DeliveryResult ResultOf(const json& step) {
    const std::string queue = absl::StrCat("scripted-", next_tag_);
    server_->Script(queue, json::array({step}));
    return SendOne(To(queue));
  }

  static json Refusal(const std::string& type, const std::string& message) {
    return json{
        {"status", 400},
        {"text", json{{"__type", "com.amazonaws.sqs#" + type}, {"message", message}}.dump()}};
  }

  void ExpectAll(DeliveryStatus status, uint64_t count) {
    EXPECT_EQ(sink_->count(), count);
    for (uint64_t tag = 1; tag <= count; ++tag)
      ASSERT_EQ(sink_->Only(tag).status, status) << tag << " " << sink_->Only(tag).message;
  }

  std::unique_ptr<SqsServer> server_ = SqsServer::StartFake();
  std::shared_ptr<CollectingSink> sink_ = std::make_shared<CollectingSink>();
  std::unique_ptr<SqsTransport> transport_ = std::make_unique<SqsTransport>(Allowing());
  uint64_t next_tag_ = 1;
  size_t sent_ = 0;
};

TEST_F(SqsTransportTest, SignedRequestIsAccepted) {
  EXPECT_EQ(SendOne(To("ok")).status, DeliveryStatus::kAccepted);
  const json requests = server_->Requests("ok");
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0]["entries"].size(), 1u);
}

TEST_F(SqsTransportTest, SessionTokenIsSentAndSigned) {
  SqsAttemptOptions options = To("ok");
  options.credentials = fixtures::kSqsSessionCredentials;
  EXPECT_EQ(SendOne(options).status, DeliveryStatus::kAccepted);
  EXPECT_THAT(server_->Requests("ok")[0]["headers"]["authorization"].get<std::string>(),
              HasSubstr("x-amz-security-token"));
}

TEST_F(SqsTransportTest, SignatureCoversPayloadsOfAllKinds) {
  for (const std::string& payload :
       {std::string("two  blanks \r\n\t\"quoted\" \\ "), std::string("zwölf Ωmega 😀"),
        std::string("\0\xff binary", 9), std::string(1000, '%')}) {
    SqsAttemptOptions options = To("ok");
    options.payload = payload;
    EXPECT_EQ(SendOne(options).status, DeliveryStatus::kAccepted);
  }
}

TEST_F(SqsTransportTest, WrongKeysFailWithTheReason) {
  SqsAttemptOptions options = To("ok");
  options.credentials = "AKIDFAKE:wrong-canary";
  DeliveryResult result = SendOne(options);
  EXPECT_EQ(result.status, DeliveryStatus::kFailed);
  EXPECT_THAT(result.message, HasSubstr("SignatureDoesNotMatch"));
  options.credentials = "NOBODY:wrong-canary";
  result = SendOne(options);
  EXPECT_EQ(result.status, DeliveryStatus::kFailed);
  EXPECT_THAT(result.message, HasSubstr("InvalidClientTokenId"));
}

TEST_F(SqsTransportTest, TenAttemptsShareARequest) {
  SendAll(To("ok"), 25);
  ExpectAll(DeliveryStatus::kAccepted, 25);
  std::vector<size_t> sizes;
  for (const json& request : server_->Requests("ok")) sizes.push_back(request["entries"].size());
  EXPECT_THAT(sizes, ::testing::UnorderedElementsAre(10u, 10u, 5u));
}

TEST_F(SqsTransportTest, AttemptsThatWaitForARequestAreJoined) {
  server_->Script("busy", json::array({{{"hold", true}}, json::object()}));
  SqsTransport::Options options = Allowing();
  options.requests_per_queue_max = 1;
  transport_ = std::make_unique<SqsTransport>(options);
  transport_->Send(MakeSqsAttempts(To("busy"), 1, 1), sink_);
  server_->AwaitRequests("busy", 1);
  SqsAttemptOptions other = To("busy");
  other.source = "/tenants/default/schedules/other";
  for (uint64_t tag = 2; tag <= 11; ++tag)
    transport_->Send(MakeSqsAttempts(tag % 2 == 0 ? other : To("busy"), tag, 1), sink_);
  server_->Call("Fake.Release", json::object());
  ASSERT_TRUE(sink_->Await(11));
  ExpectAll(DeliveryStatus::kAccepted, 11);
  const json requests = server_->Requests("busy");
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[1]["entries"].size(), 10u);
}

TEST_F(SqsTransportTest, CredentialsAreNotMixedInARequest) {
  server_->Script("busy", json::array({{{"hold", true}}, json::object()}));
  SqsTransport::Options options = Allowing();
  options.requests_per_queue_max = 1;
  transport_ = std::make_unique<SqsTransport>(options);
  transport_->Send(MakeSqsAttempts(To("busy"), 1, 1), sink_);
  server_->AwaitRequests("busy", 1);
  SqsAttemptOptions session = To("busy");
  session.credentials = fixtures::kSqsSessionCredentials;
  transport_->Send(MakeSqsAttempts(session, 2, 2), sink_);
  transport_->Send(MakeSqsAttempts(To("busy"), 4, 2), sink_);
  server_->Call("Fake.Release", json::object());
  ASSERT_TRUE(sink_->Await(5));
  const json requests = server_->Requests("busy");
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_TRUE(requests[1]["headers"].contains("x-amz-security-token"));
  EXPECT_FALSE(requests[2]["headers"].contains("x-amz-security-token"));
}

TEST_F(SqsTransportTest, RequestKeepsWithinItsBytes) {
  SqsAttemptOptions options = To("ok");
  options.payload = std::string(100'000, 'p');
  SendAll(options, 5);
  ExpectAll(DeliveryStatus::kAccepted, 5);
  std::set<std::string> ids;
  for (const json& request : server_->Requests("ok")) {
    EXPECT_LE(request["entries"].size(), 2u);
    for (const json& entry : request["entries"])
      ids.insert(entry["MessageAttributes"]["ce_id"]["StringValue"].get<std::string>());
  }
  EXPECT_EQ(ids.size(), 5u);
}

TEST_F(SqsTransportTest, TooLargeMessageIsRejectedAlone) {
  SqsAttemptOptions options = To("ok");
  options.payload = std::string(262'144, 'p');
  const DeliveryResult result = SendOne(options);
  EXPECT_EQ(result.status, DeliveryStatus::kRejected);
  EXPECT_THAT(result.message, HasSubstr("SQS takes 262144"));
  EXPECT_EQ(server_->Requests("ok").size(), 0u);
  EXPECT_EQ(SendOne(To("ok")).status, DeliveryStatus::kAccepted);
}

TEST_F(SqsTransportTest, RequestOfMoreThanAMebibyteArrives) {
  SqsTransport::Options options = Allowing();
  options.batch_bytes_max = 1'048'576;
  transport_ = std::make_unique<SqsTransport>(options);
  SqsAttemptOptions attempt = To("ok");
  attempt.payload = std::string(1'047'000, '"');  // twice as many bytes in JSON
  EXPECT_EQ(SendOne(attempt).status, DeliveryStatus::kAccepted);
  EXPECT_GT(server_->Requests("ok")[0]["body_bytes"].get<int>(), 2'000'000);
}

TEST_F(SqsTransportTest, EntriesHaveTheirOwnResults) {
  const json failed = {
      {"1", {{"SenderFault", true}, {"Code", "InvalidMessageContents"}, {"Message", "a\nb"}}},
      {"2", {{"SenderFault", false}, {"Code", "InternalError"}, {"Message", "try again"}}},
      {"3", {{"SenderFault", true}, {"Code", "KMS.ThrottlingException"}, {"Message", "slowly"}}}};
  server_->Script(
      "mixed",
      json::array(
          {{{"failed", failed}, {"missing", json::array({"4"})}, {"twice", json::array({"5"})}}}));
  SendAll(To("mixed"), 7);
  EXPECT_EQ(sink_->Only(1).status, DeliveryStatus::kAccepted);
  EXPECT_EQ(sink_->Only(2).status, DeliveryStatus::kRejected);
  EXPECT_EQ(sink_->Only(2).message, "InvalidMessageContents: a b");
  EXPECT_EQ(sink_->Only(3).status, DeliveryStatus::kFailed);
  EXPECT_EQ(sink_->Only(3).message, "InternalError: try again");
  EXPECT_EQ(sink_->Only(4).status, DeliveryStatus::kFailed);
  EXPECT_EQ(sink_->Only(5).status, DeliveryStatus::kUnknown);
  EXPECT_EQ(sink_->Only(6).status, DeliveryStatus::kUnknown);
  EXPECT_EQ(sink_->Only(7).status, DeliveryStatus::kAccepted);
}

TEST_F(SqsTransportTest, RefusedRequestsFailWithTheReason) {
  for (const char* type :
       {"QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", "AccessDeniedException",
        "ExpiredTokenException", "ThrottlingException", "RequestThrottled", "KmsAccessDenied"}) {
    const DeliveryResult result = ResultOf(Refusal(type, "because"));
    EXPECT_EQ(result.status, DeliveryStatus::kFailed) << type;
    EXPECT_EQ(result.message, absl::StrCat(type, ": because"));
    EXPECT_EQ(result.retry_after, absl::ZeroDuration());
  }
}

TEST_F(SqsTransportTest, RetryAfterCountsWithThrottling) {
  const auto with = [](json step) {
    step["headers"] = {{"Retry-After", "7"}};
    return step;
  };
  for (const json& step : {json{{"status", 429}}, json{{"status", 503}, {"text", "<html>"}},
                           Refusal("ThrottlingException", "slowly")}) {
    const DeliveryResult result = ResultOf(with(step));
    EXPECT_EQ(result.status, DeliveryStatus::kFailed);
    EXPECT_EQ(result.retry_after, absl::Seconds(7)) << result.message;
  }
  EXPECT_EQ(ResultOf(with({{"status", 500}})).retry_after, absl::ZeroDuration());
}

TEST_F(SqsTransportTest, OtherStatusesFail) {
  EXPECT_EQ(ResultOf({{"status", 500}, {"text", "oops\n"}}).message, "HTTP 500: oops ");
  EXPECT_EQ(ResultOf({{"status", 404}}).status, DeliveryStatus::kFailed);
  const DeliveryResult moved =
      ResultOf({{"status", 302}, {"headers", {{"Location", "http://127.0.0.1:1/"}}}});
  EXPECT_EQ(moved.status, DeliveryStatus::kFailed);
  EXPECT_EQ(moved.message, "HTTP 302");
}

TEST_F(SqsTransportTest, MalformedAnswerIsUnknown) {
  for (const char* text : {"", "{", "[]", "null", "{\"Successful\":{}}", "{\"Successful\":[1]}"})
    EXPECT_EQ(ResultOf({{"status", 200}, {"text", text}}).status, DeliveryStatus::kUnknown) << text;
  EXPECT_EQ(ResultOf({{"status", 200}, {"text", std::string(100'000, ' ')}}).status,
            DeliveryStatus::kUnknown);
}

TEST_F(SqsTransportTest, AnswerThatIsNotHttpIsUnknown) {
  for (const char* raw : {"hello\n", "HTTP/9.9 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n", ""})
    EXPECT_EQ(ResultOf({{"raw", raw}}).status, DeliveryStatus::kUnknown) << raw;
}

TEST_F(SqsTransportTest, BadMessageDoesNotSpoilOthersOfItsRequest) {
  server_->Script("strict",
                  json::array({Refusal("InvalidMessageContents", "bad"), json::object(),
                               Refusal("InvalidMessageContents", "bad"), json::object()}));
  SqsTransport::Options options = Allowing();
  options.requests_per_queue_max = 1;  // so that the steps are in order
  transport_ = std::make_unique<SqsTransport>(options);
  SendAll(To("strict"), 3);
  EXPECT_EQ(sink_->Only(1).status, DeliveryStatus::kAccepted);
  EXPECT_EQ(sink_->Only(2).status, DeliveryStatus::kRejected);
  EXPECT_EQ(sink_->Only(2).message, "InvalidMessageContents: bad");
  EXPECT_EQ(sink_->Only(3).status, DeliveryStatus::kAccepted);
  EXPECT_EQ(server_->Requests("strict").size(), 4u);
}

TEST_F(SqsTransportTest, ResetIsUnknown) {
  EXPECT_EQ(ResultOf({{"reset", true}}).status, DeliveryStatus::kUnknown);
}

TEST_F(SqsTransportTest, RequestIsRepeatedIfAKeptConnectionWasClosed) {
  server_->Script("closing", json::array({{{"close", true}}}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(SendOne(To("closing")).status, DeliveryStatus::kAccepted);
  EXPECT_EQ(server_->Requests("closing").size(), 3u);
}

TEST_F(SqsTransportTest, RefusedConnectionGetsNothingAndFails) {
  SqsAttemptOptions options = To("ok");
  options.endpoint = "http://127.0.0.1:1";
  const DeliveryResult result = SendOne(options);
  EXPECT_EQ(result.status, DeliveryStatus::kFailed);
  EXPECT_TRUE(result.not_sent);
}

TEST_F(SqsTransportTest, TimeoutIsUnknownOnce) {
  server_->Script("hang", json::array({{{"hang", true}}}));
  SqsAttemptOptions options = To("hang");
  options.timeout = absl::Milliseconds(300);
  SendAll(options, 12);
  for (uint64_t tag = 1; tag <= 12; ++tag) {
    EXPECT_EQ(sink_->Only(tag).status, DeliveryStatus::kUnknown);
    EXPECT_THAT(sink_->Only(tag).message, HasSubstr("timed out"));
  }
  transport_.reset();
  EXPECT_EQ(sink_->count(), 12u);
}

TEST_F(SqsTransportTest, AttemptsThatWaitTooLongAreUnsent) {
  server_->Script("hang", json::array({{{"hang", true}}}));
  SqsTransport::Options options = Allowing();
  options.requests_per_queue_max = 1;
  transport_ = std::make_unique<SqsTransport>(options);
  transport_->Send(MakeSqsAttempts(To("hang"), 1, 1), sink_);  // takes the queue's only request
  server_->AwaitRequests("hang", 1);
  SqsAttemptOptions brief = To("hang");
  brief.timeout = absl::Milliseconds(200);
  transport_->Send(MakeSqsAttempts(brief, 2, 30), sink_);
  ASSERT_TRUE(sink_->Await(30));
  for (uint64_t tag = 2; tag <= 31; ++tag)
    EXPECT_EQ(sink_->Only(tag).status, DeliveryStatus::kUnsent);
  EXPECT_EQ(server_->Requests("hang").size(), 1u);
}

TEST_F(SqsTransportTest, HangingQueueDoesNotStopOthers) {
  server_->Script("hang", json::array({{{"hang", true}}}));
  SqsTransport::Options options = Allowing();
  options.requests_max = 10;
  transport_ = std::make_unique<SqsTransport>(options);
  const auto hanging = std::make_shared<CollectingSink>();
  transport_->Send(MakeSqsAttempts(To("hang"), 1, 1000), hanging);
  server_->AwaitRequests("hang", 2);
  SendAll(To("ok"), 500);
  ExpectAll(DeliveryStatus::kAccepted, 500);
  EXPECT_EQ(hanging->count(), 0u);
  EXPECT_EQ(server_->Requests("hang").size(), 2u);
}

TEST_F(SqsTransportTest, DestructorAnswersOutstandingAttempts) {
  server_->Script("hang", json::array({{{"hang", true}}}));
  SqsTransport::Options options = Allowing();
  options.requests_per_queue_max = 1;
  transport_ = std::make_unique<SqsTransport>(options);
  transport_->Send(MakeSqsAttempts(To("hang"), 1, 1), sink_);
  server_->AwaitRequests("hang", 1);
  transport_->Send(MakeSqsAttempts(To("hang"), 2, 40), sink_);
  transport_.reset();
  EXPECT_EQ(sink_->count(), 41u);
  EXPECT_EQ(sink_->Only(1).status, DeliveryStatus::kUnknown);
  for (uint64_t tag = 2; tag <= 41; ++tag)
    EXPECT_EQ(sink_->Only(tag).status, DeliveryStatus::kUnsent);
}

TEST_F(SqsTransportTest, TenThousandEventsArriveOnce) {
  constexpr uint64_t kCount = 10'000;
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread] {
      for (uint64_t first = thread * 2500 + 1; first <= (thread + 1) * 2500; first += 50)
        transport_->Send(MakeSqsAttempts(To("ok"), first, 50), sink_);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(sink_->Await(kCount));
  ExpectAll(DeliveryStatus::kAccepted, kCount);
  std::set<std::string> ids;
  size_t messages = 0;
  const json requests = server_->Requests("ok");
  for (const json& request : requests) {
    for (const json& entry : request["entries"]) {
      ids.insert(entry["MessageAttributes"]["ce_id"]["StringValue"].get<std::string>());
      ++messages;
    }
  }
  EXPECT_EQ(messages, kCount);
  EXPECT_EQ(ids.size(), kCount);
  EXPECT_LE(requests.size(), kCount / 9);
}

TEST_F(SqsTransportTest, AddressRuleRefuses) {
  transport_ = std::make_unique<SqsTransport>(
      SqsTransport::Options{.addresses = std::make_shared<AddressRule>()});
  const DeliveryResult result = SendOne(To("ok"));
  EXPECT_EQ(result.status, DeliveryStatus::kFailed);
  EXPECT_EQ(result.message, "the address of the target is not allowed");
  EXPECT_EQ(server_->Requests("ok").size(), 0u);
}

TEST_F(SqsTransportTest, MissingCredentialsFail) {
  SqsAttemptOptions options = To("ok");
  options.credentials = "";
  const DeliveryResult result = SendOne(options);
  EXPECT_EQ(result.status, DeliveryStatus::kFailed);
  EXPECT_THAT(result.message, HasSubstr("--sqs_use_own_credentials"));
  options.credentials = "only-a-canary";
  EXPECT_EQ(SendOne(options).message, "the target's credentials are malformed");
}

TEST_F(SqsTransportTest, MessagesOfResultsHaveNoSecret) {
  std::vector<std::string> messages;
  const auto add = [&](const SqsAttemptOptions& options) {
    messages.push_back(SendOne(options).message);
  };
  for (const char* credentials :
       {fixtures::kSqsSessionCredentials, "AKIDFAKE:canary", "canary", "canary canary:b",
        "ASIAFAKE:session-secret-canary:other-canary"}) {
    SqsAttemptOptions options = To("secret");
    server_->Script("secret", json::array({Refusal("AccessDenied", "no")}));
    options.credentials = credentials;
    add(options);
    options.endpoint = "http://127.0.0.1:1";
    add(options);
    options.endpoint = "nonsense://x y";
    add(options);
    options.endpoint = server_->origin();
    server_->Script("secret", json::array({{{"reset", true}}}));
    add(options);
  }
  EXPECT_EQ(messages.size(), 20u);
  for (const std::string& message : messages) {
    EXPECT_FALSE(message.empty());
    EXPECT_FALSE(absl::StrContains(message, fixtures::kSqsSecretPart)) << message;
  }
}

}  // namespace sqs_transport_test
}  // namespace escapement::handler
