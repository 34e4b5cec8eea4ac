// TLS of GrpcServer and NewChannel, on loopback.

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_server.h"
#include "common/rpc/rpc_table_grpc.h"
#include "common/tls/credentials_grpc.h"
#include "common/tls/testing/test_certificates.h"
#include "common/tls/testing/tls_client.h"
#include "common/tls/testing/tls_test_files.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace escapement {
namespace grpc_tls_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Calls a method that does not exist. UNIMPLEMENTED shows that the server has answered.
grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel, bool wait_for_ready = true) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_wait_for_ready(wait_for_ready);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  grpc::CompletionQueue queue;
  const grpc::Slice empty;
  auto call =
      stub.PrepareUnaryCall(&context, "/test.Nothing/Nothing", grpc::ByteBuffer(&empty, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status;
}

constexpr grpc::StatusCode kAnswered = grpc::StatusCode::UNIMPLEMENTED;

class GrpcTlsTest : public ::testing::Test {
 protected:
  void Start(const std::string& client_ca) {
    auto tls =
        TlsFiles::Load({.cert = files_.server().cert, .key = files_.server().key, .ca = client_ca});
    ASSERT_TRUE(tls.ok()) << tls.status();
    auto server = GrpcServer::Start({.tls = *std::move(tls)}, rpcs_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::shared_ptr<grpc::Channel> Channel(const PeerTls& tls) {
    return NewChannel(server_->address(), {.tls = tls});
  }
  PeerTls WithoutCertificate() const { return files_.WithoutCertificate(); }
  PeerTls WithCertificate() const { return files_.WithCertificate(); }

  const testing::TlsTestFiles files_;
  RpcTable rpcs_;
  std::unique_ptr<GrpcServer> server_;
};

TEST_F(GrpcTlsTest, ClientMayHaveNoCertificateOrOneOfTheCa) {
  Start(files_.ca_file());
  EXPECT_EQ(Call(Channel(WithoutCertificate())).error_code(), kAnswered);
  EXPECT_EQ(Call(Channel(WithCertificate())).error_code(), kAnswered);
}

TEST_F(GrpcTlsTest, ClientCertificateOfAnotherCaIsRefused) {
  Start(files_.ca_file());
  const testing::TestCa other;
  const auto files = testing::WriteIdentity(other.Issue(21), files_.folder(), "other");
  const PeerTls tls{.ca = files_.ca_file(), .cert = files.cert, .key = files.key};
  EXPECT_EQ(Call(Channel(tls), false).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(GrpcTlsTest, ServerOfAnotherCaOrHostIsRefused) {
  const testing::TestCa other;
  testing::WriteFile(files_.folder() + "/other.pem", other.pem());
  Start("");
  EXPECT_EQ(Call(Channel({.ca = files_.folder() + "/other.pem"}), false).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  testing::WriteIdentity(files_.ca().Issue(11, "DNS:elsewhere"), files_.folder(), "tls");
  ASSERT_TRUE(testing::AwaitSerial(server_->port(), WithoutCertificate(), 11).ok());
  const grpc::Status status = Call(Channel(WithoutCertificate()), false);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("Hostname Verification"));
}

TEST_F(GrpcTlsTest, PlaintextClientGetsAnError) {
  Start("");
  const grpc::Status status = Call(NewChannel(server_->address()), false);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(GrpcTlsTest, HandshakeThatNeverEndsIsTimedOut) {
  auto tls = TlsFiles::Load({.cert = files_.server().cert, .key = files_.server().key, .ca = ""});
  ASSERT_TRUE(tls.ok()) << tls.status();
  auto server = GrpcServer::Start(
      {.tls = *std::move(tls), .handshake_timeout = absl::Milliseconds(50)}, rpcs_);
  ASSERT_TRUE(server.ok()) << server.status();
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>((*server)->port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int silent = socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(connect(silent, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  char byte = 0;
  EXPECT_LE(read(silent, &byte, 1), 0);  // blocks until the server ends the connection
  close(silent);
}

TEST_F(GrpcTlsTest, TlsClientOfAPlaintextServerGetsAnError) {
  auto server = GrpcServer::Start({}, rpcs_);
  ASSERT_TRUE(server.ok()) << server.status();
  const grpc::Status status =
      Call(NewChannel((*server)->address(), {.tls = WithoutCertificate()}), false);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("andshake"));
}

TEST_F(GrpcTlsTest, RenewedCertificateIsServedWithoutRestart) {
  Start("");
  const auto open = Channel(WithoutCertificate());
  EXPECT_EQ(Call(open).error_code(), kAnswered);
  ASSERT_TRUE(testing::AwaitSerial(server_->port(), WithoutCertificate(), 10).ok());
  testing::WriteIdentity(files_.ca().Issue(11), files_.folder(), "tls");
  const absl::Status renewed = testing::AwaitSerial(server_->port(), WithoutCertificate(), 11);
  EXPECT_TRUE(renewed.ok()) << renewed;
  EXPECT_EQ(Call(open).error_code(), kAnswered);
}

TEST_F(GrpcTlsTest, RenewedClientCaIsInForceWithoutRestart) {
  Start(files_.ca_file());
  const testing::TestCa other;
  const auto files = testing::WriteIdentity(other.Issue(21), files_.folder(), "other");
  const PeerTls tls{.ca = files_.ca_file(), .cert = files.cert, .key = files.key};
  EXPECT_EQ(Call(Channel(tls), false).error_code(), grpc::StatusCode::UNAVAILABLE);
  testing::WriteFile(files_.ca_file(), files_.ca().pem() + other.pem());
  EXPECT_EQ(Call(Channel(tls)).error_code(), kAnswered);
}

// The server asks the client for the names of its certificate.
TEST_F(GrpcTlsTest, NamesOfTheClientAreThoseOfItsCertificate) {
  const testing::TestCa services;
  const std::string services_file = files_.folder() + "/services.pem";
  testing::WriteFile(services_file, services.pem());
  const auto own =
      testing::WriteIdentity(services.Issue(21, "DNS:service"), files_.folder(), "own");
  auto loaded = TlsFiles::Load({.cert = files_.server().cert,
                                .key = files_.server().key,
                                .ca = files_.ca_file(),
                                .service_ca = services_file});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const std::shared_ptr<TlsFiles> tls = *std::move(loaded);
  std::vector<std::vector<std::string>> names;
  class Names final : public grpc::CallbackGenericService {
   public:
    Names(TlsFiles& tls, std::vector<std::vector<std::string>>& names) : tls_(tls), names_(names) {}
    grpc::ServerGenericBidiReactor* CreateReactor(
        grpc::GenericCallbackServerContext* context) override {
      names_.push_back(ClientNames(*context->auth_context(), &tls_));
      class Refused final : public grpc::ServerGenericBidiReactor {
       public:
        Refused() { Finish({kAnswered, ""}); }
        void OnDone() override { delete this; }
      };
      return new Refused();
    }

   private:
    TlsFiles& tls_;
    std::vector<std::vector<std::string>>& names_;
  } service(*tls, names);
  const auto credentials = NewServerCredentials(tls);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", credentials, &port);
  builder.RegisterCallbackGenericService(&service);
  const auto server = builder.BuildAndStart();
  const std::string address = "127.0.0.1:" + std::to_string(port);
  Call(NewChannel(address, {.tls = WithCertificate()}));
  Call(NewChannel(address, {.tls = WithoutCertificate()}));
  Call(NewChannel(address,
                  {.tls = PeerTls{.ca = files_.ca_file(), .cert = own.cert, .key = own.key}}));
  server->Shutdown();
  EXPECT_THAT(names, ElementsAre(ElementsAre("DNS:operator", "IP:10.0.0.1"), IsEmpty(),
                                 ElementsAre("DNS:service", kServiceAuthority)));
}

}  // namespace grpc_tls_test
}  // namespace escapement
