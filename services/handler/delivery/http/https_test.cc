// HTTPS against nginx, with a private authority. Nginx also offers HTTP/2, which is not taken.

#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/tls/testing/test_certificates.h"
#include "escapement/storage/v1/records.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/handler/delivery/http/http_transport.h"
#include "tests/fixtures/attempts.h"
#include "tests/fixtures/collecting_sink.h"
#include "tests/fixtures/nginx/nginx.h"
#include "tests/fixtures/raw_call.h"

namespace escapement::handler {
namespace https_test {

using fixtures::CollectingSink;
using fixtures::MakeAttemptsTo;
using fixtures::Nginx;
using fixtures::OnLoopback;
using ::testing::HasSubstr;

class HttpsTest : public ::testing::Test {
 protected:
  HttpsTest() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = absl::StrCat(::testing::TempDir(), "/https_", test->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    const testing::IdentityFiles server = testing::WriteIdentity(ca_.Issue(1), folder_, "server");
    options_.cert = server.cert;
    options_.key = server.key;
  }

  void Start() { nginx_ = *Nginx::Start(folder_, options_); }

  storage::v1::TargetRecord Target(const std::string& path = "/") const {
    storage::v1::TargetRecord target;
    target.mutable_http()->set_uri(nginx_->origin() + path);
    target.mutable_http()->set_method("POST");
    target.mutable_http()->mutable_tls()->set_ca_certificates(ca_.pem());
    return target;
  }

  void Identify(const testing::Identity& identity, storage::v1::TargetRecord& target) const {
    target.mutable_http()->mutable_tls()->set_client_certificate(identity.cert);
    target.mutable_http()->mutable_tls()->set_client_key(identity.key);
  }

  // Expects that each of many events arrives once, by one attempt.
  void SendManyOverConnectionsOf(int requests) {
    options_.requests_per_connection = requests;
    Start();
    // Many connections are opened, which takes long on a busy machine.
    constexpr uint64_t kCount = 300;
    transport_.Send(MakeAttemptsTo(Target(), {.timeout = absl::Minutes(2)}, 1, kCount), sink_);
    ASSERT_TRUE(sink_->Await(kCount));
    for (const auto& [tag, results] : sink_->results()) {
      EXPECT_EQ(results[0].status, DeliveryStatus::kAccepted) << tag << ": " << results[0].message;
    }
    std::multiset<std::string> ids;
    for (const Nginx::Request& request : nginx_->Stop()) ids.insert(request.event_id);
    EXPECT_EQ(ids.size(), kCount);
    EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), kCount);
  }

  DeliveryResult SendTo(const storage::v1::TargetRecord& target) {
    const uint64_t tag = ++sent_;
    transport_.Send(MakeAttemptsTo(target, {}, tag, 1), sink_);
    EXPECT_TRUE(sink_->Await(sent_));
    return sink_->Only(tag);
  }

  const testing::TestCa ca_;
  std::string folder_;
  Nginx::Options options_;
  std::unique_ptr<Nginx> nginx_;
  std::shared_ptr<CollectingSink> sink_ = std::make_shared<CollectingSink>();
  HttpTransport transport_{OnLoopback<HttpTransport>()};
  uint64_t sent_ = 0;
};

TEST_F(HttpsTest, ManyEventsShareConnections) {
  constexpr uint64_t kCount = 2000;
  Start();
  ASSERT_EQ(SendTo(Target()).status, DeliveryStatus::kAccepted);
  transport_.Send(MakeAttemptsTo(Target(), {.payload = std::string(500, 'p')}, 2, kCount - 1),
                  sink_);
  ASSERT_TRUE(sink_->Await(kCount));
  for (const auto& [tag, results] : sink_->results())
    ASSERT_EQ(results[0].status, DeliveryStatus::kAccepted) << results[0].message;
  std::set<std::string> ids;
  std::set<std::string> connections;
  for (const Nginx::Request& request : nginx_->Stop()) {
    EXPECT_EQ(request.protocol, "HTTP/1.1");
    ids.insert(request.event_id);
    connections.insert(request.connection);
  }
  EXPECT_EQ(ids.size(), kCount);
  // Nginx ends a connection after 1,000 requests.
  EXPECT_LE(connections.size(), 2 * 64u);
}

TEST_F(HttpsTest, StatusesAreThoseOfHttp) {
  Start();
  EXPECT_EQ(SendTo(Target("/status/500")).status, DeliveryStatus::kFailed);
  EXPECT_EQ(SendTo(Target("/status/410")).status, DeliveryStatus::kRejected);
}

TEST_F(HttpsTest, AServerOfAnotherAuthorityGetsNothing) {
  Start();
  storage::v1::TargetRecord target = Target();
  target.mutable_http()->mutable_tls()->set_ca_certificates(testing::TestCa().pem());
  const DeliveryResult other = SendTo(target);
  EXPECT_EQ(other.status, DeliveryStatus::kFailed);
  EXPECT_TRUE(other.not_sent);
  EXPECT_THAT(other.message, HasSubstr("certificate"));
  target.mutable_http()->clear_tls();  // the authorities of the system
  EXPECT_THAT(SendTo(target).message, HasSubstr("certificate"));
  EXPECT_TRUE(nginx_->Stop().empty());
}

TEST_F(HttpsTest, ACertificateForAnotherHostIsRefused) {
  const testing::IdentityFiles other =
      testing::WriteIdentity(ca_.Issue(2, "DNS:other.example"), folder_, "other");
  options_.cert = other.cert;
  options_.key = other.key;
  Start();
  EXPECT_EQ(SendTo(Target()).status, DeliveryStatus::kFailed);
  EXPECT_TRUE(nginx_->Stop().empty());
}

TEST_F(HttpsTest, TargetsOfOneHostKeepTheirClientCertificatesApart) {
  const std::string ca_file = folder_ + "/ca.pem";
  testing::WriteFile(ca_file, ca_.pem());
  options_.client_ca = ca_file;
  Start();
  storage::v1::TargetRecord one = Target();
  storage::v1::TargetRecord two = Target();
  Identify(ca_.Issue(0x11), one);
  Identify(ca_.Issue(0x22), two);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(SendTo(one).status, DeliveryStatus::kAccepted);
    EXPECT_EQ(SendTo(two).status, DeliveryStatus::kAccepted);
  }
  // Nginx answers 400 to a client without a certificate that it knows.
  EXPECT_EQ(SendTo(Target()).status, DeliveryStatus::kFailed);
  storage::v1::TargetRecord stranger = Target();
  Identify(testing::TestCa().Issue(0x33), stranger);
  EXPECT_NE(SendTo(stranger).status, DeliveryStatus::kAccepted);
  std::string serials;
  for (const Nginx::Request& request : nginx_->Stop()) {
    if (request.status == "200") absl::StrAppend(&serials, request.client_serial, " ");
  }
  EXPECT_EQ(serials, "11 22 11 22 11 22 ");
}

TEST_F(HttpsTest, ConnectionsThatTheServerEndsLoseNothing) { SendManyOverConnectionsOf(100); }

TEST_F(HttpsTest, ConnectionsOfFewRequestsLoseAndRepeatNothing) { SendManyOverConnectionsOf(3); }

}  // namespace https_test
}  // namespace escapement::handler
