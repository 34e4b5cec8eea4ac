// Deliveries by HTTP, judged by the CloudEvents SDK and by the library of Standard Webhooks.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "escapement/storage/v1/records.pb.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "services/handler/delivery/http/http_transport.h"
#include "tests/fixtures/attempts.h"
#include "tests/fixtures/collecting_sink.h"
#include "tests/fixtures/process/child_process.h"
#include "tests/fixtures/raw_call.h"

namespace escapement::handler {
namespace webhooks_test {

constexpr char kOld[] = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
constexpr char kNew[] = "whsec_AfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

class WebhooksTest : public ::testing::Test {
 protected:
  // Starts the consumer, which knows this secret; "" for none.
  void Start(const std::string& secret) {
    receiver_ = *integration::ChildProcess::Start(
        {.program = "/usr/bin/env",
         .arguments = {"node", "tests/oracles/webhooks/receiver.js", secret}});
    const auto line = receiver_->AwaitLine("listening ", absl::Seconds(60));
    ASSERT_TRUE(line.ok()) << line.status();
    port_ = line->substr(line->find(' ') + 1);
  }

  // Delivers one event and returns what the consumer says.
  nlohmann::json Judged(const std::vector<std::string>& secrets,
                        fixtures::AttemptOptions options = {}) {
    storage::v1::TargetRecord target;
    target.mutable_http()->set_uri(absl::StrCat("http://127.0.0.1:", port_, "/hook"));
    target.mutable_http()->set_method("POST");
    for (const std::string& secret : secrets) target.mutable_http()->add_signing_secrets(secret);
    const uint64_t tag = ++sent_;
    transport_.Send(fixtures::MakeAttemptsTo(target, options, tag, 1), sink_);
    EXPECT_TRUE(sink_->Await(tag));
    EXPECT_EQ(sink_->Only(tag).status, DeliveryStatus::kAccepted) << sink_->Only(tag).message;
    const auto line = receiver_->AwaitLine("{", absl::Seconds(60));
    EXPECT_TRUE(line.ok()) << line.status();
    return nlohmann::json::parse(line.value_or("{}"));
  }

  std::unique_ptr<integration::ChildProcess> receiver_;
  std::string port_;
  std::shared_ptr<fixtures::CollectingSink> sink_ = std::make_shared<fixtures::CollectingSink>();
  HttpTransport transport_{fixtures::OnLoopback<HttpTransport>()};
  uint64_t sent_ = 0;
};

TEST_F(WebhooksTest, AreCloudEvents) {
  Start("");
  const nlohmann::json event = Judged({}, {.payload = R"({"a":"ä","n":1})"});
  EXPECT_FALSE(event.contains("cloudevent")) << event;
  EXPECT_EQ(event["specversion"], "1.0");
  EXPECT_EQ(event["id"], "event-1");
  EXPECT_EQ(event["source"], "/tenants/default/schedules/nightly");
  EXPECT_EQ(event["type"], "escapement.trigger.v1");
  EXPECT_EQ(event["time"], "2026-03-01T00:00:00.000Z");
  EXPECT_EQ(event["subject"], "2026-03-01T00:00:00Z/1");
  EXPECT_EQ(event["data"], (nlohmann::json{{"a", "ä"}, {"n", 1}}));
}

TEST_F(WebhooksTest, AnEmptyPayloadIsACloudEventWithoutData) {
  Start("");
  const nlohmann::json event = Judged({}, {.payload = ""});
  EXPECT_FALSE(event.contains("cloudevent")) << event;
  EXPECT_FALSE(event.contains("contentType")) << event;
  EXPECT_EQ(event["body"], "");
}

TEST_F(WebhooksTest, TextIsACloudEventToo) {
  Start("");
  const nlohmann::json event = Judged({}, {.payload = "plain", .content_type = "text/plain"});
  EXPECT_FALSE(event.contains("cloudevent")) << event;
  EXPECT_EQ(event["data"], "plain");
}

TEST_F(WebhooksTest, TheReferenceLibraryVerifiesTheSignature) {
  Start(kOld);
  for (const char* payload : {"{}", "", R"("ä\n")", R"({"long":"............................"})"}) {
    const nlohmann::json judged = Judged({kOld}, {.payload = payload});
    EXPECT_FALSE(judged.contains("signature")) << judged;
  }
  EXPECT_TRUE(Judged({kNew}).contains("signature"));
  EXPECT_TRUE(Judged({}).contains("signature"));
}

// While both secrets stand in the target, consumers with either one are served.
TEST_F(WebhooksTest, BothSecretsVerifyWhileAConsumerChangesOver) {
  Start(kOld);
  EXPECT_FALSE(Judged({kOld, kNew}).contains("signature"));
  Start(kNew);
  EXPECT_FALSE(Judged({kOld, kNew}).contains("signature"));
  EXPECT_FALSE(Judged({kNew}).contains("signature"));
}

// RFC 8032, 7.1, test 1.
TEST_F(WebhooksTest, NodeVerifiesEd25519) {
  const auto key = [](absl::string_view prefix, absl::string_view hex) {
    return absl::StrCat(prefix, absl::Base64Escape(absl::HexStringToBytes(hex)));
  };
  Start(key("whpk_", "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"));
  const std::string own =
      key("whsk_", "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
  EXPECT_FALSE(Judged({own}).contains("signature"));
  EXPECT_FALSE(Judged({kOld, own}).contains("signature"));
  EXPECT_TRUE(Judged({kOld}).contains("signature"));
}

}  // namespace webhooks_test
}  // namespace escapement::handler
