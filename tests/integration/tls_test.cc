// Store and master as processes that speak TLS with each other and with their clients.

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/tls/testing/test_certificates.h"
#include "common/tls/testing/tls_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/process/child_process.h"
#include "tests/integration/platform.h"
#include "tests/integration/probes.h"

namespace escapement::integration {
namespace tls_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

int PortOf(const std::string& address) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) << address;
  return port;
}

class TlsTest : public ::testing::Test {
 protected:
  TlsTest() : folder_(NewFolder("tls")), ca_file_(folder_ + "/ca.pem") {
    testing::WriteFile(ca_file_, ca_.pem());
    service_ = Issue(10);
    const auto client = testing::WriteIdentity(ca_.Issue(20, "DNS:operator"), folder_, "client");
    client_ = {.ca = ca_file_, .cert = client.cert, .key = client.key};
    std::vector<std::string> flags = {"--tls_cert=" + service_.cert, "--tls_key=" + service_.key,
                                      "--tls_client_ca=" + ca_file_, "--peer_ca=" + ca_file_};
    platform_ = std::make_unique<Platform>(
        Platform::Options{.bin = BuiltFolder(),
                          .folder = folder_,
                          .extra_arguments = {{"store", flags}, {"master", flags}},
                          .tls = client_});
  }

  testing::IdentityFiles Issue(int serial) {
    return testing::WriteIdentity(
        ca_.Issue(serial, "DNS:escapement-service,DNS:localhost,IP:127.0.0.1"), folder_, "tls");
  }
  void Start() {
    const absl::Status status = platform_->Start({"store", "master"});
    ASSERT_TRUE(status.ok()) << status << ReadFile(platform_->log("master"));
  }

  struct Said {
    int exit_code = -1;
    std::string words;
    std::string data = {};
  };
  Said Run(const std::string& program, std::vector<std::string> arguments) {
    const std::string log = absl::StrCat(folder_, "/words", ++runs_);
    auto child = ChildProcess::Start({.program = absl::StrCat(BuiltFolder(), "/", program),
                                      .arguments = std::move(arguments),
                                      .environment = {"ESCAPEMENT_CONFIG_DIR=" + folder_},
                                      .log = log});
    EXPECT_TRUE(child.ok()) << child.status();
    std::string data;
    for (auto line = (*child)->AwaitLine("", absl::Seconds(30)); line.ok();
         line = (*child)->AwaitLine("", absl::Seconds(30))) {
      absl::StrAppend(&data, *line, "\n");
    }
    const auto exit_code = (*child)->Wait(absl::Seconds(30));
    EXPECT_TRUE(exit_code.ok()) << exit_code.status();
    return {.exit_code = exit_code.value_or(-1), .words = ReadFile(log), .data = std::move(data)};
  }
  // `escctl doctor`, which reads the metrics of store and master by TLS.
  Said RunDoctor() {
    return Run("tools/escctl/escctl",
               {"doctor", "--server", platform_->grpc_address("master"), "--tls-ca", ca_file_,
                "--metrics-url", absl::StrCat("https://", platform_->http_address("store")),
                "--metrics-url", absl::StrCat("https://", platform_->http_address("master"))});
  }

  const testing::TestCa ca_;
  const std::string folder_;
  const std::string ca_file_;
  testing::IdentityFiles service_;
  PeerTls client_;
  int runs_ = 0;
  std::unique_ptr<Platform> platform_;
};

TEST_F(TlsTest, MasterReachesTheStoreAndClientsReachBoth) {
  Start();
  const std::string& master = platform_->http_address("master");
  const std::string path = "/v1/tenants/default/schedules";
  EXPECT_THAT(*testing::TlsGet(master, client_, path), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(*testing::TlsGet(master, {.ca = ca_file_}, path), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(*testing::TlsGet(platform_->http_address("store"), client_, "/healthz"),
              StartsWith("HTTP/1.1 200 "));
  for (const char* service : {"store", "master"}) {
    EXPECT_EQ(CheckHealth(platform_->grpc_address(service)), Health::kUnreachable) << service;
    EXPECT_EQ(CheckHealth(platform_->grpc_address(service), client_), Health::kServing) << service;
    EXPECT_FALSE(HttpGet(platform_->http_address(service), "/healthz").ok()) << service;
  }
}

TEST_F(TlsTest, RenewedFilesAreUsedWithoutRestart) {
  Start();
  Issue(11);
  for (const char* service : {"store", "master"}) {
    for (const std::string& address :
         {platform_->grpc_address(service), platform_->http_address(service)}) {
      const absl::Status renewed = testing::AwaitSerial(PortOf(address), client_, 11);
      EXPECT_TRUE(renewed.ok()) << service << " " << address << ": " << renewed;
    }
  }
  // The master connects again, with the new certificate.
  platform_->Kill("store");
  ASSERT_TRUE(platform_->Restart("store").ok());
  const absl::Status ready = platform_->AwaitReady("master");
  EXPECT_TRUE(ready.ok()) << ready;
}

TEST_F(TlsTest, ExpiredFilesAreNotServedAndSeenInMetrics) {
  Start();
  const std::string labels = "{file=\"" + service_.cert + "\"} ";
  const auto metrics = [&](const char* service) {
    return testing::TlsGet(platform_->http_address(service), client_, "/metrics").value_or("");
  };
  const std::string refused = "escapement_tls_certificate_refused" + labels;
  for (const char* service : {"store", "master"}) {
    EXPECT_THAT(metrics(service),
                AllOf(HasSubstr("escapement_tls_certificate_expiry_seconds" + labels),
                      HasSubstr("escapement_tls_certificate_expiry_seconds{file=\"" + ca_file_),
                      HasSubstr(refused + "0")));
  }
  Said doctor = RunDoctor();
  // It may find other things wrong: the disk of the machine may be almost full.
  EXPECT_LE(doctor.exit_code, 1) << doctor.words;
  EXPECT_THAT(doctor.data, Not(HasSubstr(service_.cert)));
  testing::WriteIdentity(ca_.Issue(11, "DNS:localhost,IP:127.0.0.1", testing::kExpired), folder_,
                         "tls");
  for (const char* service : {"store", "master"}) {
    EXPECT_TRUE(Await([&] { return absl::StrContains(metrics(service), refused + "1"); }));
    EXPECT_TRUE(testing::AwaitSerial(PortOf(platform_->grpc_address(service)), client_, 10).ok());
    EXPECT_THAT(ReadFile(platform_->log(service)), HasSubstr("has expired at"));
  }
  doctor = RunDoctor();
  EXPECT_EQ(doctor.exit_code, 1) << doctor.words;
  EXPECT_THAT(doctor.data, HasSubstr(service_.cert + " cannot be used as it is on disk"));
  Issue(12);
  for (const char* service : {"store", "master"}) {
    EXPECT_TRUE(Await([&] { return absl::StrContains(metrics(service), refused + "0"); }));
    EXPECT_TRUE(testing::AwaitSerial(PortOf(platform_->http_address(service)), client_, 12).ok());
  }
}

// Each problem of a connection is one line that says what to do.
TEST_F(TlsTest, EscctlSpeaksTlsAndSaysWhatIsWrong) {
  ASSERT_TRUE(platform_->Start({"store", "master"}).ok());
  const std::string& master = platform_->grpc_address("master");
  const auto list = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--timeout", "10", "schedule", "list"});
    return Run("tools/escctl/escctl", std::move(flags));
  };
  const auto refused = [&](std::vector<std::string> flags, absl::string_view words) {
    const Said said = list(std::move(flags));
    EXPECT_EQ(said.exit_code, 5);
    EXPECT_THAT(said.words, HasSubstr(std::string(words)));
    EXPECT_EQ(said.words.find('\n'), said.words.size() - 1) << said.words;
  };
  const std::vector<std::string> tls = {"--tls-ca",  ca_file_,    "--tls-cert", client_.cert,
                                        "--tls-key", client_.key, "--server",   master};
  EXPECT_EQ(list({"--server", master, "--tls-ca", ca_file_}).exit_code, 0);
  EXPECT_EQ(list(tls).exit_code, 0);
  refused({"--server", master}, "does the server use TLS? Then --tls-ca is needed");
  testing::WriteFile(folder_ + "/other.pem", testing::TestCa().pem());
  refused({"--server", master, "--tls-ca", folder_ + "/other.pem"},
          "the server's certificate is not from the authorities in --tls-ca");
  Platform plain({.bin = BuiltFolder(), .folder = NewFolder("plain")});
  ASSERT_TRUE(plain.Start({"store"}).ok());
  refused({"--server", plain.grpc_address("store"), "--tls-ca", ca_file_},
          "the server does not use TLS");

  std::vector<std::string> set = {"config", "set-context", "here"};
  set.insert(set.end(), tls.begin(), tls.end());
  EXPECT_EQ(Run("tools/escctl/escctl", set).exit_code, 0);
  EXPECT_EQ(list({"--context", "here"}).exit_code, 0);
  // The files belong to the context's server.
  EXPECT_THAT(list({"--context", "here", "--server", master}).words,
              HasSubstr("Then --tls-ca is needed"));
  const Said bad = list({"--server", master, "--tls-ca", folder_ + "/none"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.words, HasSubstr("/none: cannot be read"));
}

TEST_F(TlsTest, FilesThatCannotBeUsedAreErrorsAtTheStart) {
  const std::vector<std::string> flags = {"--data_dir=" + folder_ + "/data", "--listen=0.0.0.0:0"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), flags.begin(), flags.end());
    const Said said = Run("services/store/store", more);
    EXPECT_EQ(said.exit_code, 2);
    return said.words;
  };
  EXPECT_THAT(with({"--tls_cert=" + service_.cert, "--tls_key=" + client_.key}),
              AllOf(HasSubstr("--tls_key: "), HasSubstr("is not the key of the certificate"),
                    HasSubstr("--listen: 0.0.0.0:0 is reachable from other machines and there is "
                              "no required credentials")));
  EXPECT_THAT(with({"--peer_ca=" + folder_ + "/none"}),
              AllOf(HasSubstr("--peer_ca: "), HasSubstr("neither TLS nor required credentials")));
}

}  // namespace tls_test
}  // namespace escapement::integration
