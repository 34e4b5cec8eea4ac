// BackupPlace: where backups of one platform are kept: a folder, or objects in a bucket of S3 whose
// keys begin with one prefix. Each backup is one file there. It has its name once it is whole.
//
// Threads: one at a time. All calls block.

#ifndef TOOLS_ESCCTL_COMMANDS_BACKUP_PLACE_H_
#define TOOLS_ESCCTL_COMMANDS_BACKUP_PLACE_H_

#include <istream>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace escapement::escctl {

// The name that a backup of this instant gets. Names sort by time.
std::string BackupName(absl::Time time);

// Takes the next bytes of a file.
using TakeBytes = absl::FunctionRef<absl::Status(absl::string_view)>;
// Gives the bytes of a file.
using FillFile = absl::FunctionRef<absl::Status(TakeBytes)>;

// Makes a file, durable. It has its name once it is whole. ALREADY_EXISTS: there is one.
absl::Status WriteSnapshotFile(const std::string& path, FillFile fill);

// Reads to the end of the stream; `name` is for errors.
absl::Status ReadSnapshot(std::istream& in, absl::string_view name, TakeBytes take);

class BackupPlace {
 public:
  virtual ~BackupPlace() = default;

  // For people: the path or address of a backup.
  virtual std::string PathOf(const std::string& name) const = 0;
  // Makes a backup of the bytes that `fill` gives. If `fill` fails, there is none.
  virtual absl::Status Write(const std::string& name, FillFile fill) = 0;
  virtual absl::Status Read(const std::string& name, TakeBytes take) = 0;
  // The backups, the newest first. Files with names of another form do not count.
  virtual absl::StatusOr<std::vector<std::string>> Names() = 0;
  virtual absl::Status Delete(const std::string& name) = 0;
  // Deletes what writers left that were killed, if their backups would be older than this one.
  virtual absl::Status DeleteBroken(const std::string& before) = 0;
};

std::unique_ptr<BackupPlace> NewBackupFolder(std::string folder);

// How a bucket is reached; what is empty comes from the environment of AWS.
struct S3Flags {
  std::string endpoint;
  std::string region;
};

// A file in a bucket: "s3://bucket/prefix/name". The name is empty if the address does not end with
// that of a snapshot: it names a place.
struct S3Backup {
  std::unique_ptr<BackupPlace> place;
  std::string name;
};

// INVALID_ARGUMENT if the address or the flags cannot be used. Does not call S3.
absl::StatusOr<S3Backup> OpenS3Backup(absl::string_view address, const S3Flags& flags);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_COMMANDS_BACKUP_PLACE_H_
