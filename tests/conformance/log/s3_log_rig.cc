#include "tests/conformance/log/s3_log_rig.h"

#include <utility>

#include "common/s3/s3_address.h"
#include "gtest/gtest.h"

namespace escapement::kv {
namespace {

std::unique_ptr<fixtures::S3Server>& S3() {
  static auto* const server = new std::unique_ptr<fixtures::S3Server>();
  return *server;
}

// Ends the server with the tests, not with the process.
class S3Ends : public testing::Environment {
 public:
  void TearDown() override { S3().reset(); }
};

}  // namespace

fixtures::S3Server& TestS3() {
  if (S3() == nullptr) {
    S3() = std::make_unique<fixtures::S3Server>();
    testing::AddGlobalTestEnvironment(new S3Ends());
  }
  return *S3();
}

S3SnapshotLog::Options TestS3Options(const std::string& log_name) {
  S3SnapshotLog::Options options{.address = "s3://snapshots/prod", .log_name = log_name};
  const std::string origin = TestS3().origin();
  options.reach = [origin](absl::string_view bucket) -> absl::StatusOr<S3Options> {
    return S3Options{.place = S3PlaceOf(bucket, "eu-central-1", origin).value(),
                     .environment = fixtures::S3Server::Environment()};
  };
  options.part_bytes = kSnapshotPartBytes;
  options.wait = [](absl::Duration) {};
  return options;
}

S3Rig::S3Rig() {
  for (size_t i = 0; i < kReplicas; ++i) {
    logs_.push_back(
        S3SnapshotLog::Make(TestRuntime(), pg_.log(i), TestS3Options(pg_.store())).value());
  }
}

void S3Rig::Replace(size_t replica, S3SnapshotLog::Options options) {
  logs_.at(replica) =
      S3SnapshotLog::Make(TestRuntime(), pg_.log(replica), std::move(options)).value();
}

void S3Rig::Replace(size_t replica, SharedLog& inner) {
  logs_.at(replica) = S3SnapshotLog::Make(TestRuntime(), inner, TestS3Options(pg_.store())).value();
}

std::unique_ptr<LogRig> MakeS3Rig() { return std::make_unique<S3Rig>(); }

}  // namespace escapement::kv
