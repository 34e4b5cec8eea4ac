// SnapshotExport: ExportSnapshot of escapement.v1.StoreService. A checkpoint of the store goes out
// as one file (common/kv/snapshot_file), piece by piece. One export runs at a time.
//
// Threads: gRPC's, and one of its own that reads the files.

#ifndef SERVICES_STORE_SERVICE_SNAPSHOT_EXPORT_GRPC_H_
#define SERVICES_STORE_SERVICE_SNAPSHOT_EXPORT_GRPC_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/runtime/runtime.h"

namespace escapement {
class RpcTable;
}

namespace escapement::store {

class SnapshotExport {
 public:
  // `folder` is for a checkpoint on the store's file system; an older one there is deleted.
  // `make_checkpoint` makes a checkpoint in it.
  SnapshotExport(std::string folder,
                 std::function<absl::Status(const std::string& folder)> make_checkpoint,
                 Runtime& runtime);
  // Shut the gRPC server down before.
  ~SnapshotExport();

  void AddRpcs(RpcTable& table);

 private:
  class Stream;

  const std::string folder_;
  const std::function<absl::Status(const std::string&)> make_checkpoint_;
  const std::shared_ptr<Executor> executor_;
  std::atomic<bool> running_{false};
};

}  // namespace escapement::store

#endif  // SERVICES_STORE_SERVICE_SNAPSHOT_EXPORT_GRPC_H_
