// Handshakes with a gRPC server and a gRPC client while their files change.

#include <chrono>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/tls/credentials_grpc.h"
#include "common/tls/testing/test_certificates.h"
#include "common/tls/testing/tls_client.h"
#include "common/tls/testing/tls_test_files.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace escapement {
namespace handshake_grpc_test {

using testing::TlsClient;

// Longer than the files' readers take to see a change: a second each, the second one after the
// first.
constexpr absl::Duration kSeen = absl::Milliseconds(2500);

class HandshakeTest : public ::testing::Test {
 protected:
  HandshakeTest() {
    auto tls = TlsFiles::Load(
        {.cert = files_.server().cert, .key = files_.server().key, .ca = files_.ca_file()});
    EXPECT_TRUE(tls.ok()) << tls.status();
    server_tls_ = *std::move(tls);
    credentials_ = NewServerCredentials(server_tls_);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", credentials_, &port_);
    builder.RegisterCallbackGenericService(&no_service_);
    server_ = builder.BuildAndStart();
  }
  ~HandshakeTest() override { server_->Shutdown(); }

  // The serial number that clients are shown for a while: -1 if not always the same, or if a
  // handshake failed.
  int64_t SerialOfAllHandshakes() {
    const absl::Time end = absl::Now() + kSeen;
    int64_t serial = 0;
    do {
      const auto client = TlsClient::Connect(port_, files_.WithoutCertificate());
      if (!client.ok() || (serial != 0 && (*client)->serial() != serial)) return -1;
      serial = (*client)->serial();
    } while (absl::Now() < end);
    return serial;
  }
  absl::Status AwaitSerial(int serial) {
    return testing::AwaitSerial(port_, files_.WithoutCertificate(), serial);
  }
  void WriteServer(int serial, testing::TestValidity validity) {
    testing::WriteIdentity(files_.ca().Issue(serial, testing::TestCa::kServerNames, validity),
                           files_.folder(), "tls");
  }

  // One connection of its own.
  bool Connects(const PeerCredentials& client) {
    grpc::ChannelArguments own;
    own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    own.SetSslTargetNameOverride("localhost");
    const auto channel =
        grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port_), client.channel(), own);
    return channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(2));
  }

  const testing::TlsTestFiles files_;
  std::shared_ptr<TlsFiles> server_tls_;
  std::shared_ptr<grpc::ServerCredentials> credentials_;  // outlive the server
  int port_ = 0;
  grpc::CallbackGenericService no_service_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(HandshakeTest, ServerKeepsAGoodCertificateUntilAnotherGoodOneComes) {
  ASSERT_TRUE(AwaitSerial(10).ok());
  WriteServer(11, testing::kExpired);
  EXPECT_EQ(SerialOfAllHandshakes(), 10);
  testing::WriteFile(files_.server().cert, "nonsense");
  EXPECT_EQ(SerialOfAllHandshakes(), 10);
  testing::WriteFile(files_.server().cert, files_.ca().Issue(12).cert);  // with the key of 11
  EXPECT_EQ(SerialOfAllHandshakes(), 10);
  WriteServer(13, {});
  const absl::Status renewed = AwaitSerial(13);
  EXPECT_TRUE(renewed.ok()) << renewed;
}

// The same of the store's clients: --peer_ca, and --tls_cert as the client certificate.
TEST_F(HandshakeTest, ClientKeepsGoodFilesUntilOtherGoodOnesCome) {
  const std::string ca = files_.folder() + "/peer_ca.pem";
  testing::WriteFile(ca, files_.ca().pem());
  const auto write = [&](const testing::TestCa& authority, testing::TestValidity validity) {
    return testing::WriteIdentity(authority.Issue(20, "DNS:client", validity), files_.folder(),
                                  "peer");
  };
  const testing::IdentityFiles own = write(files_.ca(), {});
  auto tls = TlsFiles::Load({.cert = own.cert, .key = own.key, .ca = ca});
  ASSERT_TRUE(tls.ok()) << tls.status();
  PeerCredentials client(*std::move(tls));
  const auto connects_always = [&] {
    const absl::Time end = absl::Now() + kSeen;
    do {
      client.Refresh();
      if (!Connects(client)) return false;
    } while (absl::Now() < end);
    return true;
  };
  EXPECT_TRUE(Connects(client));
  write(files_.ca(), testing::kExpired);
  EXPECT_TRUE(connects_always());
  testing::WriteFile(own.key, "nonsense");
  EXPECT_TRUE(connects_always());
  testing::WriteFile(ca, testing::TestCa(testing::kExpired).pem());
  EXPECT_TRUE(connects_always());

  // Good files do come into force: the authority of another server is believed.
  const testing::TestCa other;
  testing::WriteFile(ca, other.pem());
  write(files_.ca(), {});
  const absl::Time end = absl::Now() + absl::Seconds(10);
  bool refused = false;
  while (!refused && absl::Now() < end) {
    client.Refresh();
    refused = !Connects(client);
  }
  EXPECT_TRUE(refused);
}

}  // namespace handshake_grpc_test
}  // namespace escapement
