// The S3 of a test program, and replicas whose snapshots are there.

#ifndef TESTS_CONFORMANCE_LOG_S3_LOG_RIG_H_
#define TESTS_CONFORMANCE_LOG_S3_LOG_RIG_H_

#include <memory>
#include <string>
#include <vector>

#include "common/kv/log/s3/s3_snapshot_log.h"
#include "tests/conformance/log/pg_log_rig.h"
#include "tests/fixtures/s3/s3_server.h"

namespace escapement::kv {

inline constexpr char kTestBucket[] = "snapshots";

// Started by the first call, from the main thread.
fixtures::S3Server& TestS3();

// Snapshots are at "s3://snapshots/prod". A part of a multipart upload is one of a snapshot, and
// attempts follow at once.
S3SnapshotLog::Options TestS3Options(const std::string& log_name);

class S3Rig final : public LogRig {
 public:
  S3Rig();

  SharedLog& log(size_t replica) override { return *logs_.at(replica); }
  void Disconnect(size_t replica) override { pg_.Disconnect(replica); }
  void Await(absl::Mutex& mu, absl::FunctionRef<bool()> done) override { pg_.Await(mu, done); }

  PgRig& pg() { return pg_; }
  // Ends the replica's log and opens another one.
  void Replace(size_t replica, S3SnapshotLog::Options options);
  void Replace(size_t replica, SharedLog& inner);

 private:
  PgRig pg_;
  std::vector<std::unique_ptr<S3SnapshotLog>> logs_;
};

}  // namespace escapement::kv

#endif  // TESTS_CONFORMANCE_LOG_S3_LOG_RIG_H_
