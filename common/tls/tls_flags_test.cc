#include <cstdlib>
#include <string>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "common/tls/testing/test_certificates.h"
#include "common/tls/tls_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

ABSL_DECLARE_FLAG(std::string, tls_cert);
ABSL_DECLARE_FLAG(std::string, tls_key);
ABSL_DECLARE_FLAG(std::string, tls_client_ca);
ABSL_DECLARE_FLAG(std::string, tls_service_ca);
ABSL_DECLARE_FLAG(std::string, peer_ca);

namespace escapement {
namespace tls_flags_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TlsFlagsTest : public ::testing::Test {
 protected:
  TlsFlagsTest() : folder_(::testing::TempDir() + "/flags.XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    files_ = testing::WriteIdentity(ca_.Issue(10), folder_, "tls");
    testing::WriteFile(folder_ + "/ca.pem", ca_.pem());
  }
  static std::vector<std::string> Errors() {
    std::vector<std::string> errors;
    ValidateTlsFlags(errors);
    return errors;
  }

  const absl::FlagSaver saver_;
  testing::TestCa ca_;
  std::string folder_;
  testing::IdentityFiles files_;
};

TEST_F(TlsFlagsTest, WithoutFlagsThereIsNoTls) {
  EXPECT_THAT(Errors(), ElementsAre());
  EXPECT_FALSE(ServesTls());
  EXPECT_EQ(*ServerTlsFromFlags(), nullptr);
  EXPECT_EQ(*PeerTlsFromFlags(), nullptr);
}

TEST_F(TlsFlagsTest, GoodFilesAreTaken) {
  absl::SetFlag(&FLAGS_tls_cert, files_.cert);
  absl::SetFlag(&FLAGS_tls_key, files_.key);
  absl::SetFlag(&FLAGS_tls_client_ca, folder_ + "/ca.pem");
  absl::SetFlag(&FLAGS_peer_ca, folder_ + "/ca.pem");
  EXPECT_THAT(Errors(), ElementsAre());
  EXPECT_TRUE((*ServerTlsFromFlags())->AsksForClientCertificates());
  EXPECT_EQ((*PeerTlsFromFlags())->paths().cert, files_.cert);
}

// A client of the same authority could have a certificate with the name of a service.
TEST_F(TlsFlagsTest, AuthorityOfClientsMayNotBeOneOfServices) {
  absl::SetFlag(&FLAGS_tls_cert, files_.cert);
  absl::SetFlag(&FLAGS_tls_key, files_.key);
  absl::SetFlag(&FLAGS_tls_client_ca, folder_ + "/ca.pem");
  EXPECT_TRUE(ClientsMayPassForServices());
  const testing::TestCa other;
  testing::WriteFile(folder_ + "/services.pem", other.pem());
  absl::SetFlag(&FLAGS_tls_service_ca, folder_ + "/services.pem");
  EXPECT_FALSE(ClientsMayPassForServices());
  EXPECT_THAT(Errors(), ElementsAre());
  testing::WriteFile(folder_ + "/services.pem", other.pem() + ca_.pem());
  EXPECT_THAT(Errors(), ElementsAre(AllOf(StartsWith("--tls_client_ca: " + folder_ + "/ca.pem: "),
                                          HasSubstr("could pass for services"))));
  absl::SetFlag(&FLAGS_tls_client_ca, "");
  EXPECT_THAT(Errors(), ElementsAre());
}

TEST_F(TlsFlagsTest, ErrorsNameTheFlag) {
  absl::SetFlag(&FLAGS_tls_client_ca, folder_ + "/ca.pem");
  EXPECT_THAT(Errors(), ElementsAre("--tls_client_ca: needs --tls_cert and --tls_key as well"));
  absl::SetFlag(&FLAGS_tls_cert, files_.cert);
  EXPECT_THAT(Errors(), ElementsAre("--tls_cert: needs --tls_key as well"));
  absl::SetFlag(&FLAGS_tls_key, folder_ + "/none");
  EXPECT_THAT(Errors(), ElementsAre(StartsWith("--tls_key: ")));
  absl::SetFlag(&FLAGS_tls_key, files_.key);
  testing::WriteFile(folder_ + "/nonsense", "nonsense");
  absl::SetFlag(&FLAGS_tls_client_ca, folder_ + "/nonsense");
  EXPECT_THAT(Errors(), ElementsAre(StartsWith("--tls_client_ca: ")));
  absl::SetFlag(&FLAGS_tls_client_ca, "");
  absl::SetFlag(&FLAGS_peer_ca, folder_ + "/none");
  EXPECT_THAT(Errors(), ElementsAre(StartsWith("--peer_ca: ")));
}

}  // namespace tls_flags_test
}  // namespace escapement
