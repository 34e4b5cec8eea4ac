#include "common/tls/server_tls.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <cstdlib>
#include <string>

#include "common/tls/credentials_grpc.h"
#include "common/tls/testing/test_certificates.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement {
namespace server_tls_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ServerTlsTest : public ::testing::Test {
 protected:
  ServerTlsTest() : folder_(::testing::TempDir() + "/tls.XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    const auto [cert, key] = testing::WriteIdentity(ca_.Issue(10), folder_, "tls");
    files_ = {.cert = cert, .key = key, .client_ca = folder_ + "/ca.pem"};
    testing::WriteFile(files_.client_ca, ca_.pem());
  }

  absl::StatusOr<std::shared_ptr<ServerTls>> Load() {
    return ServerTls::Load(files_, [this] { return now_; });
  }
  std::string ErrorOfLoad() { return std::string(Load().status().message()); }

  testing::TestCa ca_;
  std::string folder_;
  ServerTlsFiles files_;
  absl::Duration now_ = absl::Hours(1);
};

TEST_F(ServerTlsTest, ChangedFilesAreInForceAfterASecond) {
  const auto tls = Load();
  ASSERT_TRUE(tls.ok()) << tls.status();
  const auto first = (*tls)->Current();
  testing::WriteIdentity(ca_.Issue(11), folder_, "tls");
  EXPECT_EQ((*tls)->Current(), first);
  now_ += absl::Seconds(1);
  const auto second = (*tls)->Current();
  EXPECT_GT(second->version, first->version);
  EXPECT_NE(second->context, first->context);
  now_ += absl::Seconds(1);
  EXPECT_EQ((*tls)->Current(), second);
}

TEST_F(ServerTlsTest, BrokenFileKeepsTheFormerAndWarnsOnce) {
  const auto tls = Load();
  ASSERT_TRUE(tls.ok()) << tls.status();
  const auto first = (*tls)->Current();
  const testing::Identity next = ca_.Issue(11);
  ::testing::internal::CaptureStderr();
  testing::WriteFile(files_.cert, next.cert);  // its key comes later
  for (int i = 0; i < 3; ++i) {
    now_ += absl::Seconds(1);
    EXPECT_EQ((*tls)->Current(), first);
  }
  const std::string once = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(once, HasSubstr("is not the key of the certificate"));
  EXPECT_EQ(once.find('\n'), once.size() - 1) << once;

  ::testing::internal::CaptureStderr();
  ASSERT_EQ(remove(files_.cert.c_str()), 0);
  for (int i = 0; i < 3; ++i) {
    now_ += absl::Seconds(1);
    EXPECT_EQ((*tls)->Current(), first);
  }
  const std::string gone = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(gone, HasSubstr("cannot be read"));
  EXPECT_EQ(gone.find('\n'), gone.size() - 1) << gone;

  testing::WriteIdentity(next, folder_, "tls");
  now_ += absl::Seconds(1);
  EXPECT_GT((*tls)->Current()->version, first->version);
}

TEST_F(ServerTlsTest, ErrorsNameTheFile) {
  testing::WriteFile(files_.client_ca, "nonsense");
  EXPECT_THAT(ErrorOfLoad(), StartsWith(files_.client_ca + ": has no certificate"));
  files_.client_ca.clear();
  EXPECT_TRUE(Load().ok());
  testing::WriteFile(files_.key, ca_.Issue(12).key);
  EXPECT_THAT(ErrorOfLoad(), StartsWith(files_.key + ": is not the key"));
  testing::WriteFile(files_.key, ca_.pem());
  EXPECT_THAT(ErrorOfLoad(), StartsWith(files_.key + ": has no private key"));
  testing::WriteFile(files_.cert, ca_.Issue(12).cert.substr(0, 200));
  EXPECT_THAT(ErrorOfLoad(), StartsWith(files_.cert + ": has no certificate"));
  testing::WriteFile(files_.cert, ca_.Issue(12).cert + ca_.pem().substr(0, 200));
  EXPECT_THAT(ErrorOfLoad(), StartsWith(files_.cert + ": has a broken certificate"));
  files_.cert = folder_;
  EXPECT_THAT(ErrorOfLoad(), StartsWith(folder_ + ": cannot be read"));
  files_.cert = folder_ + "/none";
  EXPECT_THAT(ErrorOfLoad(), StartsWith(folder_ + "/none: cannot be read"));
}

TEST_F(ServerTlsTest, NamesOfACertificateHaveTheirKind) {
  const std::string names =
      "DNS:escapement-service,URI:spiffe://c/ns/jobs,email:ops@example.com,IP:10.0.0.1,IP:::1";
  const std::string pem = ca_.Issue(13, names).cert;
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  X509* certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
  ASSERT_NE(certificate, nullptr);
  EXPECT_THAT(SubjectAlternativeNames(*certificate),
              ElementsAre("DNS:escapement-service", "URI:spiffe://c/ns/jobs",
                          "email:ops@example.com", "IP:10.0.0.1", "IP:::1"));
  X509_free(certificate);
  BIO_free(bio);
}

}  // namespace server_tls_test
}  // namespace escapement
