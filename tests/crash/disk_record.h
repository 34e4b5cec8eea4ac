// DiskRecord: a store's operations on its disk in order, with marks of how many answers the store
// had given by then. crash_image.h makes from it what a power loss could have left.
//
// Threads: Add may be called from any thread; the order of the calls is that of the operations.
// Reading is allowed only after the last write.

#ifndef TESTS_CRASH_DISK_RECORD_H_
#define TESTS_CRASH_DISK_RECORD_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace escapement::crash {

struct DiskOperation {
  enum class Kind : uint8_t {
    kMakeFolder,  // name
    kCreate,      // name, file
    kWrite,       // file, offset, bytes
    kTruncate,    // file, offset = the new size
    kSync,        // file
    kSyncFailed,  // file; its unsynced data may be lost for good, whatever a later sync says
    kRename,      // name, to
    kUnlink,      // name
    kSyncFolder,  // name
    kAnswers,     // count: answers given so far
  };
  Kind kind = Kind::kWrite;
  std::string name = {};  // paths are relative to the data folder, which is ""
  std::string to = {};
  uint64_t file = 0;  // a file keeps its number when it is renamed
  uint64_t offset = 0;
  std::string bytes = {};
  uint64_t count = 0;
};

// Files by path, and folders: a disk whose content is all durable.
struct DiskContent {
  std::map<std::string, std::string> files;
  std::set<std::string> folders;
};

class DiskRecord {
 public:
  // Numbers the files of `base` 1, 2, 3 … in the order of their names.
  explicit DiskRecord(DiskContent base) : base_(std::move(base)) {}

  const DiskContent& base() const { return base_; }
  void Add(DiskOperation operation) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    operations_.push_back(std::move(operation));
  }
  void Answers(uint64_t count) { Add({.kind = DiskOperation::Kind::kAnswers, .count = count}); }
  std::vector<DiskOperation> Operations() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return operations_;
  }

 private:
  const DiskContent base_;
  mutable absl::Mutex mu_;
  std::vector<DiskOperation> operations_ ABSL_GUARDED_BY(mu_);
};

}  // namespace escapement::crash

#endif  // TESTS_CRASH_DISK_RECORD_H_
