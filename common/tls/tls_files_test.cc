#include "common/tls/tls_files.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <cstdlib>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/tls/credentials_grpc.h"
#include "common/tls/testing/test_certificates.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement {
namespace tls_files_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TlsFilesTest : public ::testing::Test {
 protected:
  TlsFilesTest() : folder_(::testing::TempDir() + "/tls.XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    const auto [cert, key] = testing::WriteIdentity(ca_.Issue(10), folder_, "tls");
    files_ = {.cert = cert, .key = key, .ca = folder_ + "/ca.pem"};
    testing::WriteFile(files_.ca, ca_.pem());
  }

  absl::StatusOr<std::shared_ptr<TlsFiles>> Load() {
    return TlsFiles::Load(files_, {[this] { return now_; }, [this] { return wall_; }});
  }
  std::string ErrorOfLoad() { return std::string(Load().status().message()); }

  testing::TestCa ca_;
  std::string folder_;
  TlsPaths files_;
  absl::Duration now_ = absl::Hours(1);
  absl::Time wall_ = absl::Now();
};

TEST_F(TlsFilesTest, ChangedFilesAreInForceAfterASecond) {
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

TEST_F(TlsFilesTest, BrokenFileKeepsTheFormerAndWarnsOnce) {
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

TEST_F(TlsFilesTest, ExpiredCertificateDoesNotReplaceAValidOne) {
  const auto tls = Load();
  ASSERT_TRUE(tls.ok()) << tls.status();
  const auto first = (*tls)->Current();
  ::testing::internal::CaptureStderr();
  testing::WriteIdentity(ca_.Issue(11, "DNS:localhost", testing::kExpired), folder_, "tls");
  for (int i = 0; i < 3; ++i) {
    now_ += absl::Seconds(1);
    EXPECT_EQ((*tls)->Current(), first);
    EXPECT_THAT((*tls)->Refusal(), StartsWith(files_.cert + ": has expired at "));
  }
  const std::string once = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(once, HasSubstr("the former ones stay in force"));
  EXPECT_EQ(once.find('\n'), once.size() - 1) << once;

  testing::WriteIdentity(ca_.Issue(12), folder_, "tls");
  now_ += absl::Seconds(1);
  EXPECT_GT((*tls)->Current()->version, first->version);
  EXPECT_EQ((*tls)->Refusal(), "");
}

TEST_F(TlsFilesTest, ExpiredAuthoritiesDoNotReplaceValidOnes) {
  const auto tls = Load();
  ASSERT_TRUE(tls.ok()) << tls.status();
  const auto first = (*tls)->Current();
  const testing::TestCa expired(testing::kExpired);
  testing::WriteFile(files_.ca, expired.pem());
  now_ += absl::Seconds(1);
  EXPECT_EQ((*tls)->Current(), first);
  EXPECT_THAT((*tls)->Refusal(), StartsWith(files_.ca + ": has expired at "));
  // The old authority may stay in the file beside the new one.
  testing::WriteFile(files_.ca, expired.pem() + testing::TestCa().pem());
  now_ += absl::Seconds(1);
  EXPECT_GT((*tls)->Current()->version, first->version);
}

TEST_F(TlsFilesTest, CertificateIsInForceWhenItsTimeBegins) {
  const auto tls = Load();
  ASSERT_TRUE(tls.ok()) << tls.status();
  const auto first = (*tls)->Current();
  testing::WriteIdentity(ca_.Issue(11, "DNS:localhost", {.begins = absl::Minutes(10)}), folder_,
                         "tls");
  now_ += absl::Seconds(1);
  EXPECT_EQ((*tls)->Current(), first);
  EXPECT_THAT((*tls)->Refusal(), HasSubstr("is valid only from "));
  now_ += absl::Minutes(10);
  wall_ += absl::Minutes(10);
  EXPECT_GT((*tls)->Current()->version, first->version);
}

// Otherwise new files could not mend a process that has started with expired ones.
TEST_F(TlsFilesTest, ExpiredCertificateIsReplacedByAnyOther) {
  testing::WriteIdentity(ca_.Issue(10, "DNS:localhost", testing::kExpired), folder_, "tls");
  const auto tls = Load();
  ASSERT_TRUE(tls.ok()) << tls.status();
  testing::WriteIdentity(ca_.Issue(11, "DNS:localhost", testing::kExpired), folder_, "tls");
  now_ += absl::Seconds(1);
  EXPECT_EQ((*tls)->Current()->version, 2u);
}

TEST_F(TlsFilesTest, FirstCertificateToExpireEndsAChain) {
  const std::string chain =
      ca_.Issue(11).cert + testing::TestCa({.ends = absl::Hours(2)}).pem() + ca_.pem();
  EXPECT_LT(ValidityOfChain({files_.cert, chain})->ends, wall_ + absl::Hours(3));
  EXPECT_GT(ValidityOfAuthorities({files_.ca, chain})->ends, wall_ + absl::Hours(23));
}

TEST_F(TlsFilesTest, OnlyCertificatesOfTheServicesAuthorityMayBeServices) {
  const testing::TestCa services, next;
  files_.service_ca = folder_ + "/services.pem";
  testing::WriteFile(files_.service_ca, services.pem());
  const auto tls = Load();
  ASSERT_TRUE(tls.ok()) << tls.status();
  const std::string service = services.Issue(20).cert;
  EXPECT_TRUE((*tls)->MayBeService(service));
  EXPECT_FALSE((*tls)->MayBeService(ca_.Issue(21).cert));
  // A client may send further certificates of its choice.
  EXPECT_FALSE((*tls)->MayBeService(ca_.Issue(22).cert + service + services.pem()));
  EXPECT_FALSE((*tls)->MayBeService(""));
  const std::string later = next.Issue(23).cert;
  EXPECT_FALSE((*tls)->MayBeService(later));

  testing::WriteFile(files_.service_ca, next.pem());
  now_ += absl::Seconds(1);
  EXPECT_EQ((*tls)->Current()->version, 2u);
  EXPECT_TRUE((*tls)->MayBeService(later));
  EXPECT_TRUE((*tls)->MayBeService(service)) << "its connection may be open still";
  EXPECT_FALSE((*tls)->MayBeService(services.Issue(24).cert));

  // The clients' authority cannot become one of the services' while the process runs.
  testing::WriteFile(files_.ca, ca_.pem() + next.pem());
  now_ += absl::Seconds(1);
  EXPECT_EQ((*tls)->Current()->version, 2u);
  EXPECT_THAT((*tls)->Refusal(), StartsWith(files_.ca + ": has an authority of "));
}

TEST_F(TlsFilesTest, ErrorsNameTheFile) {
  testing::WriteFile(files_.ca, "nonsense");
  EXPECT_THAT(ErrorOfLoad(), StartsWith(files_.ca + ": has no certificate"));
  files_.ca.clear();
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

TEST_F(TlsFilesTest, NamesOfACertificateHaveTheirKind) {
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

}  // namespace tls_files_test
}  // namespace escapement
