#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "escapement/storage/v1/records.pb.h"
#include "gtest/gtest.h"
#include "services/handler/delivery/http/http_transport.h"
#include "services/handler/delivery/http/request_maker.h"
#include "tests/fixtures/attempts.h"
#include "tests/fixtures/collecting_sink.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/fixtures/raw_call.h"

namespace escapement::handler {
namespace ping_requests_test {

class PingRequestsTest : public ::testing::Test {
 protected:
  DeliveryResult Ping(const std::string& path) {
    storage::v1::TargetRecord target;
    target.mutable_ping()->set_uri(receiver_->origin() + path);
    transport_.Send(fixtures::MakeAttemptsTo(target, {.payload = "canary"}, next_tag_, 1), sink_);
    EXPECT_TRUE(sink_->Await(next_tag_));
    return sink_->Only(next_tag_++);
  }

  fixtures::Receipts receipts_;
  std::unique_ptr<fixtures::HttpReceiver> receiver_ =
      *fixtures::HttpReceiver::Start({.kept_requests_max = 10}, &receipts_);
  std::shared_ptr<fixtures::CollectingSink> sink_ = std::make_shared<fixtures::CollectingSink>();
  HttpTransport transport_{fixtures::OnLoopback<HttpTransport>(
      {.new_maker = [] { return std::make_unique<PingRequests>(); }})};
  uint64_t next_tag_ = 1;
};

TEST_F(PingRequestsTest, IsAGetWithoutBodyAndWithoutTheEvent) {
  EXPECT_EQ(Ping("/ping/ok?a=b").status, DeliveryStatus::kAccepted);
  const auto requests = receiver_->KeptRequests();
  ASSERT_EQ(requests.size(), 1u);
  const auto& [head, body] = requests[0];
  EXPECT_TRUE(absl::StartsWith(head, "GET /ping/ok?a=b HTTP/1.1\r\n")) << head;
  EXPECT_TRUE(absl::StrContains(head, "\r\nUser-Agent: Escapement")) << head;
  for (const char* absent : {"Content-", "ce-", "Idempotency-Key"})
    EXPECT_FALSE(absl::StrContains(head, absent)) << head;
  EXPECT_EQ(body, "");
}

TEST_F(PingRequestsTest, ResultsAreThoseOfHttpTargets) {
  EXPECT_EQ(Ping("/ping/status/500").status, DeliveryStatus::kFailed);
  EXPECT_EQ(Ping("/ping/status/410").status, DeliveryStatus::kRejected);
  EXPECT_EQ(Ping("/ping/ok").status, DeliveryStatus::kAccepted);
}

}  // namespace ping_requests_test
}  // namespace escapement::handler
