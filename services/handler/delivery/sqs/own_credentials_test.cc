// Tests of the transport with the handler's own credentials.

#include "services/handler/delivery/sqs/own_credentials.h"

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/handler/delivery/sqs/sqs_transport.h"
#include "tests/fixtures/collecting_sink.h"
#include "tests/fixtures/sqs/sqs_server.h"
#include "tests/fixtures/sqs_entries.h"

namespace escapement::handler {
namespace own_credentials_test {

using fixtures::CollectingSink;
using fixtures::MakeSqsAttempts;
using fixtures::SqsServer;
using nlohmann::json;
using ::testing::HasSubstr;

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

class OwnCredentialsTest : public ::testing::Test {
 protected:
  // The environment that EKS gives to a process.
  AwsEnvironment Eks(const std::string& web_identity_token) const {
    const std::string file = absl::StrCat(::testing::TempDir(), "/web_identity_token");
    std::ofstream(file) << web_identity_token << "\n";
    AwsEnvironment environment;
    environment.token_file = file;
    environment.role_arn = "arn:aws:iam::123456789012:role/events";
    environment.sts_endpoint = server_->origin();
    return environment;
  }

  void Start(const AwsEnvironment& environment) {
    SqsTransport::Options options;
    options.addresses = std::make_shared<AddressRule>(AddressRule::AllowingLoopback());
    options.own_credentials = environment;
    transport_ = std::make_unique<SqsTransport>(options);
  }

  void Send(uint64_t tag) {
    transport_->Send(MakeSqsAttempts({.queue_url = server_->QueueUrl("ok")}, tag, 1), sink_);
  }

  DeliveryResult SendOne() {
    Send(1);
    EXPECT_TRUE(sink_->Await(1));
    return sink_->Only(1);
  }

  std::unique_ptr<SqsServer> server_ = SqsServer::StartFake();
  std::shared_ptr<CollectingSink> sink_ = std::make_shared<CollectingSink>();
  std::unique_ptr<SqsTransport> transport_;
};

TEST_F(OwnCredentialsTest, KeysOfTheEnvironmentAreUsed) {
  AwsEnvironment environment;
  environment.access_key_id = "ASIAFAKE";
  environment.secret_access_key = "session-secret-canary";
  environment.session_token = "token/canary+x==";
  Start(environment);
  EXPECT_EQ(SendOne().status, DeliveryStatus::kAccepted);
}

TEST_F(OwnCredentialsTest, WebIdentityIsExchangedOnce) {
  server_->Script("sts", json::array({{{"hold", true}}}));
  Start(Eks(fixtures::kSqsWebIdentityToken));
  server_->AwaitRequests("sts", 1);
  Send(1);  // waits for the keys
  server_->Call("Fake.Release", json::object());
  ASSERT_TRUE(sink_->Await(1));
  Send(2);
  ASSERT_TRUE(sink_->Await(2));
  for (uint64_t tag : {1, 2}) EXPECT_EQ(sink_->Only(tag).status, DeliveryStatus::kAccepted);
  const json requests = server_->Requests("sts");
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0]["form"]["RoleArn"][0], "arn:aws:iam::123456789012:role/events");
  EXPECT_EQ(requests[0]["form"]["RoleSessionName"][0], "escapement");
}

TEST_F(OwnCredentialsTest, RefusedWebIdentityFailsWithTheReason) {
  Start(Eks("another-canary"));
  const DeliveryResult result = SendOne();
  EXPECT_EQ(result.status, DeliveryStatus::kFailed);
  EXPECT_THAT(result.message, HasSubstr("InvalidIdentityToken: The token is not valid."));
  EXPECT_FALSE(absl::StrContains(result.message, fixtures::kSqsSecretPart));
}

TEST_F(OwnCredentialsTest, MissingTokenFileFailsWithTheReason) {
  AwsEnvironment environment = Eks("");
  std::remove(environment.token_file.c_str());
  Start(environment);
  const DeliveryResult result = SendOne();
  EXPECT_EQ(result.status, DeliveryStatus::kFailed);
  EXPECT_THAT(result.message, HasSubstr("web_identity_token"));
}

TEST_F(OwnCredentialsTest, ExpiredKeysAreNotUsed) {
  server_->Script("sts", json::array({{{"expires_in", -1}}}));
  Start(Eks(fixtures::kSqsWebIdentityToken));
  const DeliveryResult result = SendOne();
  EXPECT_EQ(result.status, DeliveryStatus::kFailed);
  EXPECT_THAT(result.message, HasSubstr("they have expired"));
}

TEST_F(OwnCredentialsTest, EmptyEnvironmentFailsWithTheReason) {
  Start(AwsEnvironment());
  const DeliveryResult result = SendOne();
  EXPECT_EQ(result.status, DeliveryStatus::kFailed);
  EXPECT_THAT(result.message, HasSubstr("AWS_WEB_IDENTITY_TOKEN_FILE"));
}

TEST_F(OwnCredentialsTest, AttemptsDoNotWaitForKeysForever) {
  server_->Script("sts", json::array({{{"hang", true}}}));
  Start(Eks(fixtures::kSqsWebIdentityToken));
  transport_->Send(
      MakeSqsAttempts({.queue_url = server_->QueueUrl("ok"), .timeout = absl::Milliseconds(200)}, 1,
                      1),
      sink_);
  ASSERT_TRUE(sink_->Await(1));
  EXPECT_EQ(sink_->Only(1).status, DeliveryStatus::kUnsent);
}

// The object alone, with a clock that the test moves.
TEST_F(OwnCredentialsTest, KeysAreFetchedAgainBeforeTheyExpire) {
  const AddressRule rule = AddressRule::AllowingLoopback();
  absl::Mutex mutex;
  int fetched = 0;
  OwnCredentials own(Eks(fixtures::kSqsWebIdentityToken), [&] {
    absl::MutexLock lock(&mutex);
    ++fetched;
  });
  TransferLoop loop({.protocols = "http", .addresses = std::make_shared<const AddressRule>(rule)});
  const auto await = [&](int count) {
    const auto enough = [&] { return fetched >= count; };
    absl::MutexLock lock(&mutex);
    return mutex.AwaitWithTimeout(absl::Condition(&enough), absl::Minutes(1));
  };
  EXPECT_FALSE(own.known());
  MonotonicMicros now = MonotonicNow();
  own.FetchIfDue(loop, now);
  ASSERT_TRUE(await(1));
  EXPECT_TRUE(own.known());
  // An hour, less five minutes.
  EXPECT_GT(own.fetch_at(), now + TimeoutMicros(absl::Minutes(54)));
  EXPECT_LT(own.fetch_at(), now + TimeoutMicros(absl::Minutes(56)));
  own.FetchIfDue(loop, now + TimeoutMicros(absl::Minutes(54)));
  EXPECT_EQ(server_->Requests("sts").size(), 1u);
  server_->Script("sts", json::array({{{"status", 500}}}));
  own.FetchIfDue(loop, now + TimeoutMicros(absl::Minutes(56)));
  ASSERT_TRUE(await(2));
  EXPECT_EQ(server_->Requests("sts").size(), 2u);
  EXPECT_TRUE(own.Current().ok()) << "the present keys stay in use";
  now = MonotonicNow();
  EXPECT_LE(own.fetch_at(), now + TimeoutMicros(absl::Seconds(10)));
}

}  // namespace own_credentials_test
}  // namespace escapement::handler
