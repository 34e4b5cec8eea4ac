// TlsTestFiles: an authority, and the certificates of a server and of a client, as files in a
// folder of the test.

#ifndef COMMON_TLS_TESTING_TLS_TEST_FILES_H_
#define COMMON_TLS_TESTING_TLS_TEST_FILES_H_

#include <string>

#include "common/tls/testing/test_certificates.h"
#include "common/tls/tls_files.h"

namespace escapement::testing {

class TlsTestFiles {
 public:
  TlsTestFiles();

  const std::string& folder() const { return folder_; }
  const TestCa& ca() const { return ca_; }
  const std::string& ca_file() const { return ca_file_; }
  // Serial 10, in "tls.pem" and "tls.key".
  const IdentityFiles& server() const { return server_; }

  // For clients that verify the server. With a certificate they are DNS:operator and IP:10.0.0.1.
  PeerTls WithoutCertificate() const { return {.ca = ca_file_}; }
  PeerTls WithCertificate() const {
    return {.ca = ca_file_, .cert = client_.cert, .key = client_.key};
  }

 private:
  std::string folder_;
  TestCa ca_;
  std::string ca_file_;
  IdentityFiles server_;
  IdentityFiles client_;
};

}  // namespace escapement::testing

#endif  // COMMON_TLS_TESTING_TLS_TEST_FILES_H_
