#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "escapement/storage/v1/records.pb.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "services/handler/delivery/http/http_transport.h"
#include "services/handler/delivery/http/request_maker.h"
#include "tests/fixtures/attempts.h"
#include "tests/fixtures/collecting_sink.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/fixtures/raw_call.h"

namespace escapement::handler {
namespace slack_requests_test {

storage::v1::TargetRecord Hook(const std::string& url, const std::string& text) {
  storage::v1::TargetRecord target;
  target.mutable_slack()->set_webhook_url(url);
  target.mutable_slack()->set_text(text);
  return target;
}

// The text that Slack would get.
std::string TextOf(const std::string& text, const std::string& payload) {
  SlackRequests maker;
  HttpRequest request;
  const auto attempts =
      fixtures::MakeAttemptsTo(Hook("https://hooks.example/x", text), {.payload = payload}, 7, 1);
  const absl::Status made = maker.Make(attempts[0], &request);
  if (!made.ok()) return made.ToString();
  EXPECT_EQ(request.uri, "https://hooks.example/x");
  return nlohmann::json::parse(request.body)["text"];
}

TEST(SlackRequests, TheTextComesFromTheTemplate) {
  EXPECT_EQ(TextOf("*{{payload.name}}* failed <https://x|here> ({{id}})", R"({"name":"backup"})"),
            "*backup* failed <https://x|here> (event-7)");
  EXPECT_EQ(TextOf("{{payload}}", "\"quoted\"\n\\ line"), "\"quoted\"\n\\ line");
}

TEST(SlackRequests, APayloadCannotMentionPeopleOrMakeLinks) {
  EXPECT_EQ(TextOf("{{payload.t}} {{payload}}", R"({"t":"<!channel> & co"})"),
            R"(&lt;!channel&gt; &amp; co {"t":"&lt;!channel&gt; &amp; co"})");
}

TEST(SlackRequests, LongTextIsCutByCharactersBeforeItIsEscaped) {
  std::string umlauts;
  for (int i = 0; i < 40'000; ++i) umlauts += "ä";
  EXPECT_TRUE(TextOf("{{payload}}", umlauts) == umlauts);
  EXPECT_TRUE(TextOf("{{payload}}", umlauts + "z") == umlauts);
  std::string escaped;
  for (int i = 0; i < 40'000; ++i) escaped += "&amp;";
  EXPECT_TRUE(TextOf("{{payload}}", std::string(40'001, '&')) == escaped);
}

TEST(SlackRequests, AnEmptyMessageIsNotSent) {
  EXPECT_TRUE(absl::StrContains(TextOf("{{payload}}", ""), "empty"));
}

TEST(SlackRequests, AnswersMeanWhatSlackDocuments) {
  const SlackRequests maker;
  const auto status = [&maker](int code, const std::string& body) {
    HttpAnswer answer;
    answer.status = code;
    answer.body_head = body;
    return maker.ResultOf(answer, false).status;
  };
  EXPECT_EQ(status(200, "ok"), DeliveryStatus::kAccepted);
  EXPECT_EQ(status(400, "invalid_payload"), DeliveryStatus::kRejected);
  EXPECT_EQ(status(403, "action_prohibited"), DeliveryStatus::kRejected);
  EXPECT_EQ(status(404, "no_service"), DeliveryStatus::kRejected);
  EXPECT_EQ(status(410, "channel_is_archived"), DeliveryStatus::kRejected);
  EXPECT_EQ(status(500, "rollup_error"), DeliveryStatus::kFailed);
  EXPECT_EQ(status(302, ""), DeliveryStatus::kFailed);
  HttpAnswer limited;
  limited.status = 429;
  limited.retry_after = absl::Seconds(30);
  EXPECT_EQ(maker.ResultOf(limited, false).status, DeliveryStatus::kFailed);
  EXPECT_EQ(maker.ResultOf(limited, false).retry_after, absl::Seconds(30));
  HttpAnswer gone;
  gone.status = 404;
  gone.body_head = "no_service";
  EXPECT_EQ(maker.ResultOf(gone, false).message, "Slack answered 404: no_service");
  EXPECT_EQ(maker.ResultOf(gone, false).status_code, 404);
  EXPECT_EQ(maker.ResultOf(gone, false).answer, "no_service");
  EXPECT_TRUE(maker.ResultOf(gone, false).gone);
  gone.status = 410;
  EXPECT_TRUE(maker.ResultOf(gone, false).gone);
  for (const int other : {200, 400, 403, 429, 500}) {
    gone.status = other;
    EXPECT_FALSE(maker.ResultOf(gone, false).gone) << other;
  }
}

TEST(SlackRequests, AMessageArrivesAndTheUrlIsInNoError) {
  fixtures::Receipts receipts;
  const auto receiver = *fixtures::HttpReceiver::Start({.kept_requests_max = 10}, &receipts);
  const auto sink = std::make_shared<fixtures::CollectingSink>();
  HttpTransport transport(fixtures::OnLoopback<HttpTransport>(
      {.new_maker = [] { return std::make_unique<SlackRequests>(); }}));
  const auto send = [&](uint64_t tag, const std::string& url) {
    transport.Send(fixtures::MakeAttemptsTo(Hook(url, "{{payload}}"),
                                            {.payload = "hi", .timeout = absl::Seconds(5)}, tag, 1),
                   sink);
    EXPECT_TRUE(sink->Await(tag));
    return sink->Only(tag);
  };
  EXPECT_EQ(send(1, receiver->origin() + "/status/200?canary").status, DeliveryStatus::kAccepted);
  const auto requests = receiver->KeptRequests();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_TRUE(absl::StartsWith(requests[0].first, "POST /status/200?canary HTTP/1.1\r\n"));
  EXPECT_EQ(requests[0].second, "{\"text\":\"hi\"}");
  for (const std::string& url :
       {receiver->origin() + "/status/404?canary", std::string("https://127.0.0.1:1/canary"),
        std::string("http://10.0.0.1/canary"), std::string("https://[::bad/canary")}) {
    static uint64_t tag = 2;
    const DeliveryResult result = send(tag++, url);
    EXPECT_NE(result.status, DeliveryStatus::kAccepted);
    EXPECT_FALSE(absl::StrContains(result.message, "canary")) << result.message;
  }
}

}  // namespace slack_requests_test
}  // namespace escapement::handler
