// Tests of HTTP/2 against Node's server: requests that the server has not processed, by its own
// word.

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/tls/testing/test_certificates.h"
#include "escapement/storage/v1/records.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/handler/delivery/http/http_transport.h"
#include "tests/fixtures/attempts.h"
#include "tests/fixtures/collecting_sink.h"
#include "tests/fixtures/http2/http2_server.h"
#include "tests/fixtures/raw_call.h"

namespace escapement::handler {
namespace http2_test {

using fixtures::CollectingSink;
using fixtures::MakeAttemptsTo;
using fixtures::OnLoopback;
using ::testing::HasSubstr;

class Http2Test : public ::testing::Test {
 protected:
  // Its connections may have `streams` at once.
  void Start(int streams) {
    const std::string folder =
        absl::StrCat(::testing::TempDir(), "/http2_",
                     ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder);
    const testing::IdentityFiles files = testing::WriteIdentity(ca_.Issue(1), folder, "server");
    server_ =
        fixtures::Http2Server::Start({.cert = files.cert, .key = files.key, .streams = streams});
  }

  void Send(const std::string& path, uint64_t first, uint64_t count) {
    storage::v1::TargetRecord target;
    target.mutable_http()->set_uri(server_->origin() + path);
    target.mutable_http()->set_method("POST");
    target.mutable_http()->mutable_tls()->set_ca_certificates(ca_.pem());
    transport_.Send(MakeAttemptsTo(target, {.timeout = absl::Minutes(2)}, first, count), sink_);
    ASSERT_TRUE(sink_->Await(sent_ += count));
  }

  DeliveryResult SendOne(const std::string& path) {
    const uint64_t tag = next_tag_++;
    Send(path, tag, 1);
    return sink_->Only(tag);
  }

  // How often the server has processed the event of the last SendOne.
  std::string TimesProcessed() {
    return SendOne(absl::StrCat("/seen/event-", next_tag_ - 1)).answer;
  }

  const testing::TestCa ca_;
  std::unique_ptr<fixtures::Http2Server> server_;
  std::shared_ptr<CollectingSink> sink_ = std::make_shared<CollectingSink>();
  HttpTransport transport_{OnLoopback<HttpTransport>()};
  uint64_t next_tag_ = 1;
  uint64_t sent_ = 0;
};

TEST_F(Http2Test, StreamLimitOfTheServerMakesRequestsWait) {
  Start(10);
  Send("/ok", 1, 200);
  for (const auto& [tag, results] : sink_->results()) {
    EXPECT_EQ(results[0].status, DeliveryStatus::kAccepted) << results[0].message;
    EXPECT_EQ(results[0].answer, "1") << "processed more than once";
  }
}

TEST_F(Http2Test, RefusedRequestIsSentAgainUnderTheSameAttempt) {
  Start(100);
  for (int times = 0; times <= 8; ++times) {
    const DeliveryResult result = SendOne(absl::StrCat("/refuse/", times));
    EXPECT_EQ(result.status, DeliveryStatus::kAccepted) << times << ": " << result.message;
    EXPECT_EQ(result.answer, "1");
  }
}

TEST_F(Http2Test, RequestThatIsAlwaysRefusedFails) {
  Start(100);
  const DeliveryResult result = SendOne("/refuse/1000");
  EXPECT_EQ(result.status, DeliveryStatus::kFailed);
  EXPECT_THAT(result.message, HasSubstr("REFUSED_STREAM"));
  EXPECT_EQ(TimesProcessed(), "0");
}

TEST_F(Http2Test, RequestThatGoawayLeavesOutIsSentAgain) {
  Start(100);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(SendOne("/ok").answer, "1");
    const DeliveryResult result = SendOne("/goaway");
    EXPECT_EQ(result.status, DeliveryStatus::kAccepted) << result.message;
    EXPECT_EQ(result.answer, "1");
  }
}

TEST_F(Http2Test, RequestThatMayHaveArrivedIsUnknown) {
  Start(100);
  for (const char* path : {"/reset", "/break"}) {
    EXPECT_EQ(SendOne("/ok").status, DeliveryStatus::kAccepted);
    EXPECT_EQ(SendOne(path).status, DeliveryStatus::kUnknown) << path;
    EXPECT_EQ(TimesProcessed(), "1") << path;
  }
}

}  // namespace http2_test
}  // namespace escapement::handler
