// gRPC targets with TLS: a private authority, names, client certificates.

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/tls/testing/test_certificates.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/trigger_receiver_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "services/handler/delivery/grpc/grpc_transport.h"
#include "tests/fixtures/attempts.h"
#include "tests/fixtures/collecting_sink.h"
#include "tests/fixtures/raw_call.h"

namespace escapement::handler {
namespace tls_test {

// Accepts everything. The message says whether it knows the client.
class Receiver final : public v1::TriggerReceiver::Service {
 public:
  grpc::Status Deliver(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::DeliveryResult, v1::Delivery>* stream) override {
    v1::Delivery delivery;
    while (stream->Read(&delivery)) {
      v1::DeliveryResult result;
      result.set_delivery_number(delivery.delivery_number());
      result.set_status(v1::DeliveryResult::ACCEPTED);
      result.set_message(context->auth_context()->IsPeerAuthenticated() ? "known" : "unknown");
      stream->Write(result);
    }
    return grpc::Status::OK;
  }
};

class GrpcTlsTest : public ::testing::Test {
 protected:
  void Start(const std::string& names, bool wants_client) {
    const testing::Identity identity = ca_.Issue(1, names);
    grpc::SslServerCredentialsOptions options(
        wants_client ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                     : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
    options.pem_key_cert_pairs.push_back({identity.key, identity.cert});
    options.pem_root_certs = ca_.pem();
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(options), &port_);
    builder.RegisterService(&receiver_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  ~GrpcTlsTest() override {
    transport_.reset();
    if (server_ != nullptr) server_->Shutdown();
  }

  storage::v1::TargetRecord Target(const std::string& host) const {
    storage::v1::TargetRecord target;
    target.mutable_grpc()->set_uri(absl::StrCat(host, ":", port_));
    target.mutable_grpc()->mutable_tls()->set_ca_certificates(ca_.pem());
    return target;
  }

  DeliveryResult SendTo(const storage::v1::TargetRecord& target) {
    const uint64_t tag = ++sent_;
    transport_->Send(fixtures::MakeAttemptsTo(target, {.timeout = absl::Seconds(10)}, tag, 1),
                     sink_);
    EXPECT_TRUE(sink_->Await(tag));
    return sink_->Only(tag);
  }

  const testing::TestCa ca_;
  Receiver receiver_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<fixtures::CollectingSink> sink_ = std::make_shared<fixtures::CollectingSink>();
  std::unique_ptr<GrpcTransport> transport_ =
      std::make_unique<GrpcTransport>(fixtures::OnLoopback<GrpcTransport>());
  uint64_t sent_ = 0;
};

TEST_F(GrpcTlsTest, TheServersNameMustBeInItsCertificate) {
  Start("DNS:localhost", /*wants_client=*/false);
  EXPECT_EQ(SendTo(Target("localhost")).status, DeliveryStatus::kAccepted);
  EXPECT_EQ(SendTo(Target("dns:///localhost")).status, DeliveryStatus::kAccepted);
  EXPECT_EQ(SendTo(Target("127.0.0.1")).status, DeliveryStatus::kFailed);
}

TEST_F(GrpcTlsTest, AServerOfAnotherAuthorityGetsNothing) {
  Start(testing::TestCa::kServerNames, /*wants_client=*/false);
  storage::v1::TargetRecord target = Target("localhost");
  target.mutable_grpc()->mutable_tls()->set_ca_certificates(testing::TestCa().pem());
  EXPECT_EQ(SendTo(target).status, DeliveryStatus::kFailed);
  target.mutable_grpc()->mutable_tls()->clear_ca_certificates();  // those of the system
  EXPECT_EQ(SendTo(target).status, DeliveryStatus::kFailed);
  target.mutable_grpc()->clear_tls();  // plaintext
  EXPECT_EQ(SendTo(target).status, DeliveryStatus::kFailed);
}

TEST_F(GrpcTlsTest, ShowsItsCertificate) {
  Start(testing::TestCa::kServerNames, /*wants_client=*/true);
  EXPECT_EQ(SendTo(Target("localhost")).status, DeliveryStatus::kFailed);
  storage::v1::TargetRecord target = Target("localhost");
  const testing::Identity identity = ca_.Issue(2);
  target.mutable_grpc()->mutable_tls()->set_client_certificate(identity.cert);
  target.mutable_grpc()->mutable_tls()->set_client_key(identity.key);
  EXPECT_EQ(SendTo(target).message, "known");
}

}  // namespace tls_test
}  // namespace escapement::handler
