// RoomWait: writes to a full disk wait here until there is room.
//
// Before a write, RocksKvStore makes sure that the disk has some room. Others may fill the disk
// all the same. A write to a full disk writes nothing or a part and harms nothing, so it is run
// again until it succeeds. Only writes wait: after a failed sync the kernel may have dropped the
// data, so a sync is never run again, and its failure for want of room is an error like any other.
//
// Threads: any.

#ifndef COMMON_KV_ROCKS_ROOM_WAIT_H_
#define COMMON_KV_ROCKS_ROOM_WAIT_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "rocksdb/io_status.h"

namespace rocksdb {
class FileSystem;
}  // namespace rocksdb

namespace escapement::kv {

class RoomWait {
 public:
  // Runs `write`, and again while the disk has no room for it. Before Begin and after End it
  // returns an error instead. `write` must have the same effect however often it is run.
  rocksdb::IOStatus Run(const std::string& path, absl::FunctionRef<rocksdb::IOStatus()> write)
      ABSL_LOCKS_EXCLUDED(mu_);
  // True while a write waits.
  bool waiting() const { return waiting_ > 0; }

  // Returns when no write waits, or after End.
  void AwaitRoom() ABSL_LOCKS_EXCLUDED(mu_);

  // Not before the start has succeeded: a start on a full disk fails with a reason.
  void Begin() ABSL_LOCKS_EXCLUDED(mu_);
  // For good. Writes that wait fail at once.
  void End() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Returns false if the write may not wait.
  bool Pause(absl::Duration pause) ABSL_LOCKS_EXCLUDED(mu_);

  std::atomic<int> waiting_{0};
  absl::Mutex mu_;
  bool begun_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
};

// The files of `target`. In `folder`, writes, new files and renames wait for room.
std::shared_ptr<rocksdb::FileSystem> NewWaitingFileSystem(
    std::shared_ptr<rocksdb::FileSystem> target, const std::string& folder,
    std::shared_ptr<RoomWait> room);

}  // namespace escapement::kv

#endif  // COMMON_KV_ROCKS_ROOM_WAIT_H_
