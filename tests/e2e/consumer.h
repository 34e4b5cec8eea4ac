// Consumer: the receiver of tests/fixtures as a process of its own, and what it has noted.

#ifndef TESTS_E2E_CONSUMER_H_
#define TESTS_E2E_CONSUMER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tests/e2e/judge.h"
#include "tests/integration/child_process.h"

namespace escapement::e2e {

class Consumer {
 public:
  static absl::StatusOr<std::unique_ptr<Consumer>> Start(const std::string& program,
                                                         const std::string& log);

  // What targets are given.
  std::string http_uri(absl::string_view path) const;
  std::string grpc_uri() const;

  // Distinct event ids of the sources that begin with `prefix`.
  absl::StatusOr<uint64_t> CountEvents(absl::string_view prefix) const;
  // Every arrival of them, in order.
  absl::StatusOr<std::vector<Arrival>> ListArrivals(absl::string_view prefix) const;

 private:
  Consumer(std::unique_ptr<integration::ChildProcess> process, std::string http, std::string grpc);
  std::unique_ptr<integration::ChildProcess> process_;
  const std::string http_;  // "127.0.0.1:port"
  const std::string grpc_;
};

}  // namespace escapement::e2e

#endif  // TESTS_E2E_CONSUMER_H_
