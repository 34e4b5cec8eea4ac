#include "tests/bench/beds/security.h"

#include "common/auth/api_key.h"
#include "common/tls/testing/test_certificates.h"

namespace escapement::bench {

Security::Security(const std::string& folder) : key_file_(folder + "/bootstrap.key") {
  const testing::TestCa authority;
  const std::string ca = folder + "/ca.pem";
  testing::WriteFile(ca, authority.pem());
  // Services know each other by the name escapement-service.
  const testing::IdentityFiles service = testing::WriteIdentity(
      authority.Issue(2, std::string("DNS:escapement-service,") + testing::TestCa::kServerNames),
      folder, "tls");
  client_ = {.tls = PeerTls{.ca = ca}, .api_key = auth::NewApiKey().ToString()};
  testing::WriteFile(key_file_, client_.api_key);
  flags_ = {"--tls_cert=" + service.cert, "--tls_key=" + service.key, "--tls_client_ca=" + ca,
            "--peer_ca=" + ca, "--require_credentials"};
}

std::vector<std::string> Security::FlagsOf(const std::string& service) const {
  std::vector<std::string> flags = flags_;
  if (service == "master" || service == "standalone")
    flags.push_back("--bootstrap_key_file=" + key_file_);
  return flags;
}

}  // namespace escapement::bench
