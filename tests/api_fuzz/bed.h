// Bed: a standalone platform with consumers, for one seed after the other.

#ifndef TESTS_API_FUZZ_BED_H_
#define TESTS_API_FUZZ_BED_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tests/api_fuzz/fuzz_run.h"
#include "tests/api_fuzz/wire_api.h"
#include "tests/fixtures/grpc_receiver.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/fixtures/receipts.h"
#include "tests/integration/platform.h"

namespace escapement::api_fuzz {

class Bed {
 public:
  // `bin` holds services/standalone/standalone; data and logs go below `folder`, which exists.
  static absl::StatusOr<std::unique_ptr<Bed>> Start(const std::string& bin,
                                                    const std::string& folder);

  WireApi& api() { return *api_; }
  FuzzRun::Options OptionsFor(uint64_t seed, uint64_t calls);
  // Sends SIGTERM. Returns "" if the process ended well; otherwise how it ended.
  std::string End();

 private:
  Bed() = default;

  fixtures::Receipts receipts_;
  std::unique_ptr<fixtures::HttpReceiver> http_;
  std::unique_ptr<fixtures::GrpcReceiver> grpc_;
  std::unique_ptr<fixtures::GrpcReceiver> rejecting_;
  std::unique_ptr<integration::Platform> platform_;
  std::unique_ptr<WireApi> api_;
};

}  // namespace escapement::api_fuzz

#endif  // TESTS_API_FUZZ_BED_H_
