#include "common/tls/certificate_watch.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "common/tls/testing/test_certificates.h"
#include "common/tls/testing/tls_test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement {
namespace certificate_watch_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::Duration kDay = absl::Hours(24);

class CertificateWatchTest : public ::testing::Test {
 protected:
  void Start() {
    auto tls = TlsFiles::Load(
        {.cert = files_.server().cert, .key = files_.server().key, .ca = files_.ca_file()},
        {.monotonic = [this] { return now_; }, .wall = [this] { return wall_; }});
    ASSERT_TRUE(tls.ok()) << tls.status();
    std::vector<std::shared_ptr<TlsFiles>> sets = {*std::move(tls)};
    watch_ =
        std::make_unique<CertificateWatch>(metrics_, std::move(sets), [this] { return wall_; });
  }
  void Write(int serial, testing::TestValidity validity) {
    testing::WriteIdentity(files_.ca().Issue(serial, testing::TestCa::kServerNames, validity),
                           files_.folder(), "tls");
  }
  // Returns what the log says then.
  std::string Pass(absl::Duration time) {
    now_ += time;
    wall_ += time;
    ::testing::internal::CaptureStderr();
    watch_->Step();
    return ::testing::internal::GetCapturedStderr();
  }
  double Gauge(const std::string& name, const std::string& file) {
    return metrics_
        .GetGauge(absl::StrCat("escapement_tls_certificate_", name), "", {{"file", file}})
        ->Value();
  }
  double SecondsLeft(const std::string& file) {
    return Gauge("expiry_seconds", file) - absl::ToDoubleSeconds(wall_ - absl::UnixEpoch());
  }

  const testing::TlsTestFiles files_;
  const std::string& cert_ = files_.server().cert;
  Metrics metrics_;
  absl::Duration now_ = absl::Hours(1);
  absl::Time wall_ = absl::Now();
  std::unique_ptr<CertificateWatch> watch_;
};

TEST_F(CertificateWatchTest, EachFileHasItsExpiryAndItsLifetime) {
  Write(11, {.begins = -kDay, .ends = 89 * kDay});
  Start();
  EXPECT_NEAR(SecondsLeft(cert_), 89 * 86400, 60);
  EXPECT_NEAR(SecondsLeft(files_.ca_file()), 86400, 60);
  EXPECT_NEAR(Gauge("lifetime_seconds", cert_), 90 * 86400, 60);
  EXPECT_EQ(Gauge("refused", cert_), 0);
  EXPECT_THAT(metrics_.Serialize(),
              HasSubstr(absl::StrCat("escapement_tls_certificate_expiry_seconds{file=\"", cert_)));
}

TEST_F(CertificateWatchTest, RefusedFileKeepsTheExpiryOfTheOneInForce) {
  Start();
  const double before = Gauge("expiry_seconds", cert_);
  Write(11, testing::kExpired);
  Pass(absl::Seconds(1));
  EXPECT_EQ(Gauge("refused", cert_), 1);
  EXPECT_EQ(Gauge("refused", files_.ca_file()), 0);
  EXPECT_EQ(Gauge("expiry_seconds", cert_), before);
  testing::WriteFile(cert_, files_.ca().Issue(12).cert);  // its key comes later
  Pass(absl::Seconds(1));
  EXPECT_EQ(Gauge("refused", cert_), 1);
  Write(13, {.ends = 9 * kDay});
  Pass(absl::Seconds(1));
  EXPECT_EQ(Gauge("refused", cert_), 0);
  EXPECT_GT(Gauge("expiry_seconds", cert_), before);
}

TEST_F(CertificateWatchTest, WarnsEachDayBeforeTheEndAndAtTheEnd) {
  testing::WriteFile(files_.ca_file(), testing::TestCa({.ends = 9000 * kDay}).pem());
  Write(11, {.begins = absl::ZeroDuration(), .ends = 60 * kDay});
  Start();
  EXPECT_EQ(Pass(49 * kDay), "");
  EXPECT_THAT(Pass(kDay + absl::Minutes(1)), AllOf(HasSubstr("expires soon"), HasSubstr(cert_)));
  EXPECT_EQ(Pass(absl::Hours(23)), "");
  EXPECT_THAT(Pass(absl::Hours(1)), HasSubstr("expires soon"));
  EXPECT_THAT(Pass(9 * kDay), HasSubstr("has expired"));
  EXPECT_EQ(Pass(absl::Hours(23)), "");
  Write(12, {.ends = 200 * kDay});
  EXPECT_THAT(Pass(absl::Seconds(1)), HasSubstr("changed files are in force"));
  EXPECT_EQ(Pass(absl::Seconds(1)), "");
}

// A certificate of an hour is renewed each half hour.
TEST_F(CertificateWatchTest, ShortCertificateIsWarnedOfInItsLastSixth) {
  testing::WriteFile(files_.ca_file(), testing::TestCa({.ends = 9000 * kDay}).pem());
  Write(11, {.begins = absl::ZeroDuration(), .ends = absl::Hours(1)});
  Start();
  EXPECT_EQ(Pass(absl::Minutes(49)), "");
  EXPECT_THAT(Pass(absl::Minutes(2)), HasSubstr("expires soon"));
}

}  // namespace certificate_watch_test
}  // namespace escapement
