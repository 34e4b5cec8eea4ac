// A platform that uses TLS on every port, client certificates between its services, and API keys.

#ifndef TESTS_E2E_SECURE_PLATFORM_H_
#define TESTS_E2E_SECURE_PLATFORM_H_

#include <string>

#include "tests/fixtures/policy_client.h"
#include "tests/integration/platform.h"

namespace escapement::e2e {

// Files for one such platform, in a folder that exists: an authority, certificates for services and
// a client, and the first key.
struct SecureFiles {
  explicit SecureFiles(const std::string& folder);

  // Options for store, master, emitter, token manager and handler.
  integration::Platform::Options PlatformOptions(const std::string& bin,
                                                 const std::string& folder) const;

  fixtures::CallerProof proof;  // an admin's
  std::string key_file;

 private:
  std::string service_cert_;
  std::string service_key_;
};

}  // namespace escapement::e2e

#endif  // TESTS_E2E_SECURE_PLATFORM_H_
