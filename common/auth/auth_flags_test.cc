#include <string>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "common/auth/platform_gate.h"
#include "common/auth/testing/test_issuer.h"
#include "common/tls/testing/test_certificates.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

ABSL_DECLARE_FLAG(std::vector<std::string>, certificate_roles);
ABSL_DECLARE_FLAG(std::string, jwt_issuers);

namespace escapement::auth {
namespace auth_flags_test {

using ::escapement::testing::KeySet;
using ::escapement::testing::SigningKey;
using ::escapement::testing::WriteFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

class AuthFlags : public ::testing::Test {
 protected:
  static std::vector<std::string> Errors() {
    std::vector<std::string> errors;
    ValidateAuthFlags(errors);
    return errors;
  }
  // The errors with an issuer of these fields.
  std::vector<std::string> ErrorsOfIssuer(const std::string& fields) {
    WriteFile(folder_ + "/issuers.yaml",
              absl::StrCat("issuers: [{issuer: i, audience: a, tenant: t, role: admin, ", fields,
                           "}]\n"));
    absl::SetFlag(&FLAGS_jwt_issuers, folder_ + "/issuers.yaml");
    return Errors();
  }

  const std::string folder_ = ::testing::TempDir();
  absl::FlagSaver saver_;
};

TEST_F(AuthFlags, DefaultsAreGoodAndAcceptNoTokens) {
  EXPECT_THAT(Errors(), IsEmpty());
  EXPECT_TRUE(TokenIssuers()->empty());
}

TEST_F(AuthFlags, CertificateRolesAreNamesWithRoles) {
  absl::SetFlag(&FLAGS_certificate_roles, {"a=b=admin", "c", "d=boss"});
  EXPECT_THAT(CertificateRoles(), ElementsAre(Pair("a=b", v1::Access::ADMIN)));
  EXPECT_THAT(Errors(), ElementsAre(HasSubstr("\"c\" is not"), HasSubstr("\"d=boss\" is not")));
}

TEST_F(AuthFlags, IssuersAreReadFromAFile) {
  WriteFile(folder_ + "/keys.json", KeySet({SigningKey::Ec("k")}));
  EXPECT_THAT(ErrorsOfIssuer(absl::StrCat("jwks_file: ", folder_, "/keys.json")), IsEmpty());
  EXPECT_EQ(TokenIssuers()->size(), 1u);
}

TEST_F(AuthFlags, UrlsAreNotCalled) {
  EXPECT_THAT(ErrorsOfIssuer("jwks_url: 'https://nowhere.invalid/'"), IsEmpty());
}

TEST_F(AuthFlags, FilesOfIssuersMustBeUsable) {
  absl::SetFlag(&FLAGS_jwt_issuers, folder_ + "/missing.yaml");
  EXPECT_THAT(Errors(), ElementsAre(HasSubstr("--jwt_issuers: cannot read ")));
  EXPECT_THAT(ErrorsOfIssuer("colour: red"), ElementsAre(HasSubstr("unknown field 'colour'")));
  EXPECT_THAT(ErrorsOfIssuer("jwks_file: /missing.json"),
              ElementsAre("--jwt_issuers: cannot read /missing.json: No such file or directory"));
  WriteFile(folder_ + "/none.json", R"({"keys":[{"kty":"oct"}]})");
  EXPECT_THAT(ErrorsOfIssuer(absl::StrCat("jwks_file: ", folder_, "/none.json")),
              ElementsAre(HasSubstr("none.json: has no RSA key")));
  EXPECT_THAT(ErrorsOfIssuer("jwks_url: 'https://a/', jwks_ca: /missing.pem"),
              ElementsAre(HasSubstr("/missing.pem")));
}

TEST_F(AuthFlags, SecretOfTheClientMustBeReadable) {
  const auto errors = [this](const std::string& file) {
    WriteFile(folder_ + "/issuers.yaml",
              absl::StrCat("issuers: [{issuer: 'https://i', audience: a, tenant: t, role: admin, "
                           "jwks_url: 'https://i/', sign_in: {client_id: page, "
                           "origin: 'https://o', client_secret_file: ",
                           file, "}}]\n"));
    absl::SetFlag(&FLAGS_jwt_issuers, folder_ + "/issuers.yaml");
    EXPECT_THAT(Errors(), IsEmpty());  // only masters need the secret
    std::vector<std::string> errors;
    ValidateSignInFlags(errors);
    return errors;
  };
  WriteFile(folder_ + "/client.secret", "s3cret\n");
  EXPECT_THAT(errors(folder_ + "/client.secret"), IsEmpty());
  WriteFile(folder_ + "/client.secret", "\n");
  EXPECT_THAT(errors(folder_ + "/client.secret"), ElementsAre(HasSubstr("client.secret is empty")));
  EXPECT_THAT(errors("/missing.secret"), ElementsAre(HasSubstr("/missing.secret")));
}

}  // namespace auth_flags_test
}  // namespace escapement::auth
