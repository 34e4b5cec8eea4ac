// Security: the files that make a platform of a benchmark secure: an authority, a certificate for
// all services, and the file of the first API key.
//
// Threads: immutable after construction.

#ifndef TESTS_BENCH_BEDS_SECURITY_H_
#define TESTS_BENCH_BEDS_SECURITY_H_

#include <string>
#include <vector>

#include "tests/bench/beds/caller.h"

namespace escapement::bench {

class Security {
 public:
  // Writes the files to `folder`, which exists.
  explicit Security(const std::string& folder);

  // The flags of a service: TLS on its ports, mTLS with the store, required credentials.
  std::vector<std::string> FlagsOf(const std::string& service) const;
  // A client without a certificate, with the API key of an admin.
  const Caller& client() const { return client_; }

 private:
  std::vector<std::string> flags_;
  std::string key_file_;
  Caller client_;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_BEDS_SECURITY_H_
