#include "common/tls/testing/tls_test_files.h"

#include <cstdlib>

#include "gtest/gtest.h"

namespace escapement::testing {

TlsTestFiles::TlsTestFiles() : folder_(::testing::TempDir() + "/tls.XXXXXX") {
  EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  ca_file_ = folder_ + "/ca.pem";
  WriteFile(ca_file_, ca_.pem());
  server_ = WriteIdentity(ca_.Issue(10), folder_, "tls");
  client_ = WriteIdentity(ca_.Issue(20, "DNS:operator,IP:10.0.0.1"), folder_, "client");
}

}  // namespace escapement::testing
