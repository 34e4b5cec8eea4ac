#include "tests/e2e/secure_platform.h"

#include <utility>
#include <vector>

#include "common/auth/api_key.h"
#include "common/tls/testing/test_certificates.h"

namespace escapement::e2e {

SecureFiles::SecureFiles(const std::string& folder) : key_file(folder + "/admin.key") {
  const testing::TestCa ca;
  const std::string ca_file = folder + "/ca.pem";
  testing::WriteFile(ca_file, ca.pem());
  const auto service = testing::WriteIdentity(
      ca.Issue(1, "DNS:escapement-service,DNS:localhost,IP:127.0.0.1"), folder, "tls");
  service_cert_ = service.cert;
  service_key_ = service.key;
  proof.tls = PeerTls{.ca = ca_file};
  proof.key = auth::NewApiKey().ToString();
  testing::WriteFile(key_file, proof.key);
}

integration::Platform::Options SecureFiles::PlatformOptions(const std::string& bin,
                                                            const std::string& folder) const {
  const std::string& ca = proof.tls->ca;
  const std::vector<std::string> flags = {"--require_credentials", "--tls_cert=" + service_cert_,
                                          "--tls_key=" + service_key_, "--tls_client_ca=" + ca,
                                          "--peer_ca=" + ca};
  integration::Platform::Options options{.bin = bin, .folder = folder, .tls = proof.tls};
  for (const char* service : {"store", "master", "emitter", "token_manager", "handler"})
    options.extra_arguments[service] = flags;
  options.extra_arguments["master"].push_back("--bootstrap_key_file=" + key_file);
  return options;
}

}  // namespace escapement::e2e
