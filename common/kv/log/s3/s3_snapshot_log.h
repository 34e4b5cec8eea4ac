// S3SnapshotLog: a SharedLog over another one. New snapshots' files are objects of S3; the record
// of a snapshot, and everything else, is in the inner log. Without an address it writes nothing to
// S3, and only recognises snapshots that have their files there.
//
// A file is one object (s3_snapshot.h). These rules keep a trim from removing an object that is or
// becomes part of a snapshot, whatever other replicas do at that time:
// - An upload first puts the object's mark into the log, then makes the object. It puts a mark only
//   once. If it does not learn whether that has succeeded, it makes no object of that key.
// - The log publishes a snapshot only with all its marks, in one step with looking for them. It
//   trims a mark only if no snapshot has it.
// - So if an object was seen and then its mark is missing, the mark has been trimmed and does not
//   come back. The object is in no snapshot, and no snapshot can get it. Trim deletes only such
//   objects. Before it looks for their marks a last time, the log acknowledges a write: a former
//   primary that lives on could not, and does not know the latest marks.
// Trim deletes only below the own address: prefix, name of the log, and the chain of the log's
// first row, so that logs do not meet. An object that stays behind is found by a later trim.
//
// Files are read from where the snapshot's record says, with the same region, endpoint and
// credentials.
//
// Parts come and go in groups. A part is durable once all parts of its file are put. Parts are not
// checked one by one, only by the requests to S3: readers check the file's hash.
//
// Errors of S3: UNAVAILABLE if it does not answer, even after S3Client's attempts;
// FAILED_PRECONDITION if it refuses the credentials, or there is no such bucket.
//
// Threads: as SharedLog. S3 is called on an executor of its own, one request at a time, which only
// calls about files and Trim wait for.

#ifndef COMMON_KV_LOG_S3_S3_SNAPSHOT_LOG_H_
#define COMMON_KV_LOG_S3_S3_SNAPSHOT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/log/forwarding_log.h"
#include "common/runtime/runtime.h"
#include "common/s3/s3_client.h"

namespace escapement::kv {

inline constexpr size_t kS3SnapshotPrefixBytesMax = 800;  // a key has at most 1024

// OK if a store's snapshots can be at "s3://bucket/prefix". Otherwise INVALID_ARGUMENT with a
// phrase.
absl::Status CheckS3SnapshotAddress(absl::string_view address);

class S3SnapshotLog final : public ForwardingLog {
 public:
  struct Options {
    std::string address;   // "s3://bucket/prefix"; empty: new snapshots go to the inner log
    std::string log_name;  // as PgLog::Options::store
    // How a bucket is reached. The options below replace its own.
    std::function<absl::StatusOr<S3Options>(absl::string_view bucket)> reach =
        [](absl::string_view bucket) { return S3OptionsOf(bucket); };
    size_t part_bytes = 8 << 20;  // as in S3Options: a file has at most 78 GiB
    std::function<void(absl::Duration)> wait = nullptr;  // as in S3Options; for tests
  };

  // The inner log must outlive it. INVALID_ARGUMENT for bad options. Does not call S3.
  static absl::StatusOr<std::unique_ptr<S3SnapshotLog>> Make(Runtime& runtime, SharedLog& inner,
                                                             Options options);
  // Ends a request that is under way.
  ~S3SnapshotLog() override;

  void MissingFiles(std::vector<SnapshotFile> files,
                    Callback<std::vector<SnapshotFile>> done) override;
  void PutPart(SnapshotPart part, std::function<void(absl::Status)> done) override;
  void PutSnapshot(Snapshot snapshot, std::function<void(absl::Status)> done) override;
  void ListSnapshots(Callback<std::vector<Snapshot>> done) override;
  void ReadPart(SnapshotFile file, uint32_t index, Callback<std::string> done) override;
  void Trim(uint32_t snapshots_kept, Callback<TrimResult> done) override;

 private:
  class Core;
  S3SnapshotLog(Runtime& runtime, SharedLog& inner, Options options);

  const bool to_s3_;
  const std::shared_ptr<Executor> executor_;
  const std::unique_ptr<Core> core_;  // on the executor
};

}  // namespace escapement::kv

#endif  // COMMON_KV_LOG_S3_S3_SNAPSHOT_LOG_H_
