// RecordingFileSystem: the machine's file system under one folder. Every change is written to a
// DiskRecord, and a plan can make operations fail.
//
// An operation and its entry in the record are one step under one lock, so the record has the true
// order. Paths outside the folder are passed on unrecorded. RocksDB's text log is dropped.
//
// Threads: any.

#ifndef TESTS_CRASH_RECORDING_FILE_SYSTEM_H_
#define TESTS_CRASH_RECORDING_FILE_SYSTEM_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "rocksdb/file_system.h"
#include "tests/crash/disk_record.h"

namespace escapement::crash {

enum class DiskCall { kCreate, kWrite, kSync, kRename, kUnlink, kSyncFolder, kRead };
enum class DiskFault {
  kNone,
  kIoError,
  kNoSpace,
  kShortWrite,  // half of the bytes, then an error
  kFillsUp,     // half of the bytes, then no space
  kLie,         // returns OK and does nothing
};
// Called before every operation on a path (relative to the folder), on any thread.
using DiskFaults = std::function<DiskFault(DiskCall call, absl::string_view path)>;

class RecordingFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  // `folder` holds the content of `record.base()`. `record` outlives the file system. `faults` may
  // be null.
  RecordingFileSystem(std::string folder, DiskRecord& record, DiskFaults faults);

  const char* Name() const override { return "RecordingFileSystem"; }

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewRandomRWFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSRandomRWFile>* file,
                                    rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewSequentialFile(const std::string& path, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                      rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewRandomAccessFile(const std::string& path,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewDirectory(const std::string& path, const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* folder,
                                 rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus CreateDir(const std::string& path, const rocksdb::IOOptions& options,
                              rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus CreateDirIfMissing(const std::string& path, const rocksdb::IOOptions& options,
                                       rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus DeleteFile(const std::string& path, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewLogger(const std::string& path, const rocksdb::IOOptions& options,
                              std::shared_ptr<rocksdb::Logger>* logger,
                              rocksdb::IODebugContext* debug) override;

  // Refused: the store does not use it, and it would not be recorded.
  rocksdb::IOStatus ReopenWritableFile(const std::string&, const rocksdb::FileOptions&,
                                       std::unique_ptr<rocksdb::FSWritableFile>*,
                                       rocksdb::IODebugContext*) override;
  rocksdb::IOStatus ReuseWritableFile(const std::string&, const std::string&,
                                      const rocksdb::FileOptions&,
                                      std::unique_ptr<rocksdb::FSWritableFile>*,
                                      rocksdb::IODebugContext*) override;
  rocksdb::IOStatus Truncate(const std::string&, size_t, const rocksdb::IOOptions&,
                             rocksdb::IODebugContext*) override;
  rocksdb::IOStatus LinkFile(const std::string&, const std::string&, const rocksdb::IOOptions&,
                             rocksdb::IODebugContext*) override;
  rocksdb::IOStatus DeleteDir(const std::string&, const rocksdb::IOOptions&,
                              rocksdb::IODebugContext*) override;

 private:
  class WritableFile;
  class RandomRWFile;
  class SequentialFile;
  class RandomAccessFile;
  class Folder;

  bool Inside(const std::string& path, std::string* name) const;
  rocksdb::IOStatus Judge(DiskCall call, const std::string& name, DiskFault* fault) const;
  // Writes `data` by `write`, or as much of it as the plan allows, and records it.
  rocksdb::IOStatus Write(const std::string& name, uint64_t file, uint64_t offset,
                          const rocksdb::Slice& data,
                          const std::function<rocksdb::IOStatus(const rocksdb::Slice&)>& write)
      ABSL_LOCKS_EXCLUDED(mu_);
  rocksdb::IOStatus Sync(const std::string& name, uint64_t file,
                         const std::function<rocksdb::IOStatus()>& sync) ABSL_LOCKS_EXCLUDED(mu_);

  const std::string folder_;
  DiskRecord& record_;
  const DiskFaults faults_;
  absl::Mutex mu_;
  uint64_t last_file_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, uint64_t> files_ ABSL_GUARDED_BY(mu_);  // by name
};

}  // namespace escapement::crash

#endif  // TESTS_CRASH_RECORDING_FILE_SYSTEM_H_
