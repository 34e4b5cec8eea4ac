// InstanceFile: the proof that a former process of this place is dead.
//
// A process locks the file as long as it lives, and writes its instance into it. When the
// process dies, in whatever way, the kernel releases the lock. So the next process that gets the
// lock knows that the instances in the file are dead, and need not wait for the end of their leases
// (LeaseKeeper::Options::dead_instances).
//
// The file proves nothing about processes of other machines, or from before the last boot: their
// locks are other locks. Therefore it also names the boot, and its own inode. A file that was
// copied, restored or moved from elsewhere names another boot or inode, and its instances do not
// count.
//
// Threads: one.

#ifndef COMMON_PROCESS_INSTANCE_FILE_H_
#define COMMON_PROCESS_INSTANCE_FILE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement {

class InstanceFile {
 public:
  // Creates the file and its folder if need be. `boot_id`: Clock::BootId; if empty, no
  // former instance counts as dead. Errors: FAILED_PRECONDITION if a living process has the file,
  // UNAVAILABLE if it cannot be opened or written.
  static absl::StatusOr<std::unique_ptr<InstanceFile>> Lock(const std::string& path,
                                                            absl::string_view instance,
                                                            absl::string_view boot_id);
  ~InstanceFile();  // releases the lock
  InstanceFile(const InstanceFile&) = delete;
  InstanceFile& operator=(const InstanceFile&) = delete;

  // The instances that had the file before and are dead, the last one first. At most 16.
  const std::vector<std::string>& dead_instances() const { return dead_; }

 private:
  explicit InstanceFile(int file) : file_(file) {}

  const int file_;
  std::vector<std::string> dead_;
};

}  // namespace escapement

#endif  // COMMON_PROCESS_INSTANCE_FILE_H_
