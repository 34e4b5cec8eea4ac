#include "tests/crash/recording_file_system.h"

#include <utility>

#include "absl/strings/match.h"
#include "rocksdb/env.h"

namespace escapement::crash {
namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;
using Kind = DiskOperation::Kind;

class Silent final : public rocksdb::Logger {
 public:
  using Logger::Logv;
  void Logv(const char*, va_list) override {}
  size_t GetLogFileSize() const override { return 0; }
};

IOStatus Unrecorded() { return IOStatus::NotSupported("not recorded"); }

}  // namespace

class RecordingFileSystem::WritableFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  WritableFile(RecordingFileSystem& fs, std::string name, uint64_t file,
               std::unique_ptr<rocksdb::FSWritableFile> target)
      : FSWritableFileOwnerWrapper(std::move(target)),
        fs_(fs),
        name_(std::move(name)),
        file_(file) {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    return fs_.Write(name_, file_, size_, data, [&](const Slice& part) {
      auto status = target()->Append(part, options, debug);
      if (status.ok()) size_ += part.size();
      return status;
    });
  }
  IOStatus Append(const Slice& data, const IOOptions& options, const rocksdb::DataVerificationInfo&,
                  IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                            IODebugContext* debug) override {
    return fs_.Write(name_, file_, offset, data, [&](const Slice& part) {
      auto status = target()->PositionedAppend(part, offset, options, debug);
      if (status.ok()) size_ = offset + part.size();
      return status;
    });
  }
  IOStatus PositionedAppend(const Slice&, uint64_t, const IOOptions&,
                            const rocksdb::DataVerificationInfo&, IODebugContext*) override {
    return Unrecorded();
  }
  IOStatus Truncate(uint64_t size, const IOOptions& options, IODebugContext* debug) override {
    if (size == size_) return IOStatus::OK();
    absl::MutexLock lock(&fs_.mu_);
    auto status = target()->Truncate(size, options, debug);
    if (!status.ok()) return status;
    size_ = size;
    fs_.record_.Add({.kind = Kind::kTruncate, .file = file_, .offset = size});
    return status;
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    return fs_.Sync(name_, file_, [&] { return target()->Sync(options, debug); });
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return fs_.Sync(name_, file_, [&] { return target()->Fsync(options, debug); });
  }
  // Makes nothing durable: after it the file's size may still be missing on the disk.
  IOStatus RangeSync(uint64_t, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();
  }

 private:
  RecordingFileSystem& fs_;
  const std::string name_;
  const uint64_t file_;
  uint64_t size_ = 0;
};

class RecordingFileSystem::RandomRWFile final : public rocksdb::FSRandomRWFileOwnerWrapper {
 public:
  RandomRWFile(RecordingFileSystem& fs, std::string name, uint64_t file,
               std::unique_ptr<rocksdb::FSRandomRWFile> target)
      : FSRandomRWFileOwnerWrapper(std::move(target)),
        fs_(fs),
        name_(std::move(name)),
        file_(file) {}

  IOStatus Write(uint64_t offset, const Slice& data, const IOOptions& options,
                 IODebugContext* debug) override {
    return fs_.Write(name_, file_, offset, data, [&](const Slice& part) {
      return target()->Write(offset, part, options, debug);
    });
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    return fs_.Sync(name_, file_, [&] { return target()->Sync(options, debug); });
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Sync(options, debug);
  }

 private:
  RecordingFileSystem& fs_;
  const std::string name_;
  const uint64_t file_;
};

class RecordingFileSystem::SequentialFile final : public rocksdb::FSSequentialFileOwnerWrapper {
 public:
  SequentialFile(RecordingFileSystem& fs, std::string name,
                 std::unique_ptr<rocksdb::FSSequentialFile> target)
      : FSSequentialFileOwnerWrapper(std::move(target)), fs_(fs), name_(std::move(name)) {}
  IOStatus Read(size_t n, const IOOptions& options, Slice* result, char* scratch,
                IODebugContext* debug) override {
    DiskFault fault;
    if (auto status = fs_.Judge(DiskCall::kRead, name_, &fault); !status.ok()) return status;
    return target()->Read(n, options, result, scratch, debug);
  }

 private:
  const RecordingFileSystem& fs_;
  const std::string name_;
};

class RecordingFileSystem::RandomAccessFile final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  RandomAccessFile(RecordingFileSystem& fs, std::string name,
                   std::unique_ptr<rocksdb::FSRandomAccessFile> target)
      : FSRandomAccessFileOwnerWrapper(std::move(target)), fs_(fs), name_(std::move(name)) {}
  IOStatus Read(uint64_t offset, size_t n, const IOOptions& options, Slice* result, char* scratch,
                IODebugContext* debug) const override {
    DiskFault fault;
    if (auto status = fs_.Judge(DiskCall::kRead, name_, &fault); !status.ok()) return status;
    return target()->Read(offset, n, options, result, scratch, debug);
  }
  // Uses single reads, each of which may fail.
  IOStatus MultiRead(rocksdb::FSReadRequest* requests, size_t count, const IOOptions& options,
                     IODebugContext* debug) override {
    for (size_t i = 0; i < count; ++i) {
      requests[i].status = Read(requests[i].offset, requests[i].len, options, &requests[i].result,
                                requests[i].scratch, debug);
    }
    return IOStatus::OK();
  }

 private:
  const RecordingFileSystem& fs_;
  const std::string name_;
};

class RecordingFileSystem::Folder final : public rocksdb::FSDirectoryWrapper {
 public:
  Folder(RecordingFileSystem& fs, std::string name, std::unique_ptr<rocksdb::FSDirectory> target)
      : FSDirectoryWrapper(std::move(target)), fs_(fs), name_(std::move(name)) {}

  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Recorded([&] { return FSDirectoryWrapper::Fsync(options, debug); });
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* debug,
                               const rocksdb::DirFsyncOptions& why) override {
    return Recorded([&] { return FSDirectoryWrapper::FsyncWithDirOptions(options, debug, why); });
  }

 private:
  IOStatus Recorded(const std::function<IOStatus()>& sync) {
    absl::MutexLock lock(&fs_.mu_);
    DiskFault fault;
    auto status = fs_.Judge(DiskCall::kSyncFolder, name_, &fault);
    if (!status.ok() || fault == DiskFault::kLie) return status;
    status = sync();
    if (status.ok()) fs_.record_.Add({.kind = Kind::kSyncFolder, .name = name_});
    return status;
  }
  RecordingFileSystem& fs_;
  const std::string name_;
};

RecordingFileSystem::RecordingFileSystem(std::string folder, DiskRecord& record, DiskFaults faults)
    : FileSystemWrapper(FileSystem::Default()),
      folder_(std::move(folder)),
      record_(record),
      faults_(std::move(faults)) {
  absl::MutexLock lock(&mu_);
  for (const auto& [name, bytes] : record.base().files) files_[name] = ++last_file_;
}

bool RecordingFileSystem::Inside(const std::string& path, std::string* name) const {
  if (!absl::StartsWith(path, folder_)) return false;
  *name = path.substr(folder_.size());
  if (!name->empty() && name->front() != '/') return false;
  while (!name->empty() && name->front() == '/') name->erase(0, 1);
  while (!name->empty() && name->back() == '/') name->pop_back();
  return true;
}

IOStatus RecordingFileSystem::Judge(DiskCall call, const std::string& name,
                                    DiskFault* fault) const {
  *fault = faults_ ? faults_(call, name) : DiskFault::kNone;
  switch (*fault) {
    case DiskFault::kNone:
    case DiskFault::kLie:
      return IOStatus::OK();
    case DiskFault::kNoSpace:
    case DiskFault::kFillsUp:
      return IOStatus::NoSpace("injected", name);
    default:
      return IOStatus::IOError("injected", name);
  }
}

IOStatus RecordingFileSystem::Write(const std::string& name, uint64_t file, uint64_t offset,
                                    const Slice& data,
                                    const std::function<IOStatus(const Slice&)>& write) {
  absl::MutexLock lock(&mu_);
  DiskFault fault;
  const IOStatus judged = Judge(DiskCall::kWrite, name, &fault);
  Slice part = data;
  const bool half = fault == DiskFault::kShortWrite || fault == DiskFault::kFillsUp;
  if (half) part = Slice(data.data(), data.size() / 2);
  if (!judged.ok() && !half) return judged;
  const IOStatus status = write(part);
  if (!status.ok()) return status;
  record_.Add({.kind = Kind::kWrite, .file = file, .offset = offset, .bytes = part.ToString()});
  return judged;
}

IOStatus RecordingFileSystem::Sync(const std::string& name, uint64_t file,
                                   const std::function<IOStatus()>& sync) {
  absl::MutexLock lock(&mu_);
  DiskFault fault;
  IOStatus status = Judge(DiskCall::kSync, name, &fault);
  if (fault == DiskFault::kLie) return status;
  if (status.ok()) status = sync();
  record_.Add({.kind = status.ok() ? Kind::kSync : Kind::kSyncFailed, .file = file});
  return status;
}

IOStatus RecordingFileSystem::NewWritableFile(const std::string& path, const FileOptions& options,
                                              std::unique_ptr<rocksdb::FSWritableFile>* file,
                                              IODebugContext* debug) {
  std::string name;
  if (!Inside(path, &name)) return target()->NewWritableFile(path, options, file, debug);
  absl::MutexLock lock(&mu_);
  DiskFault fault;
  if (auto status = Judge(DiskCall::kCreate, name, &fault); !status.ok()) return status;
  std::unique_ptr<rocksdb::FSWritableFile> opened;
  if (auto status = target()->NewWritableFile(path, options, &opened, debug); !status.ok())
    return status;
  auto it = files_.find(name);
  if (it != files_.end()) {
    record_.Add({.kind = Kind::kTruncate, .file = it->second, .offset = 0});
  } else {
    it = files_.emplace(name, ++last_file_).first;
    record_.Add({.kind = Kind::kCreate, .name = name, .file = it->second});
  }
  *file = std::make_unique<WritableFile>(*this, name, it->second, std::move(opened));
  return IOStatus::OK();
}

IOStatus RecordingFileSystem::NewRandomRWFile(const std::string& path, const FileOptions& options,
                                              std::unique_ptr<rocksdb::FSRandomRWFile>* file,
                                              IODebugContext* debug) {
  std::string name;
  if (!Inside(path, &name)) return target()->NewRandomRWFile(path, options, file, debug);
  absl::MutexLock lock(&mu_);
  std::unique_ptr<rocksdb::FSRandomRWFile> opened;
  if (auto status = target()->NewRandomRWFile(path, options, &opened, debug); !status.ok())
    return status;
  *file = std::make_unique<RandomRWFile>(*this, name, files_.at(name), std::move(opened));
  return IOStatus::OK();
}

IOStatus RecordingFileSystem::NewSequentialFile(const std::string& path, const FileOptions& options,
                                                std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                                IODebugContext* debug) {
  auto status = target()->NewSequentialFile(path, options, file, debug);
  std::string name;
  if (status.ok() && faults_ && Inside(path, &name))
    *file = std::make_unique<SequentialFile>(*this, name, std::move(*file));
  return status;
}

IOStatus RecordingFileSystem::NewRandomAccessFile(
    const std::string& path, const FileOptions& options,
    std::unique_ptr<rocksdb::FSRandomAccessFile>* file, IODebugContext* debug) {
  auto status = target()->NewRandomAccessFile(path, options, file, debug);
  std::string name;
  if (status.ok() && faults_ && Inside(path, &name))
    *file = std::make_unique<RandomAccessFile>(*this, name, std::move(*file));
  return status;
}

IOStatus RecordingFileSystem::NewDirectory(const std::string& path, const IOOptions& options,
                                           std::unique_ptr<rocksdb::FSDirectory>* folder,
                                           IODebugContext* debug) {
  auto status = target()->NewDirectory(path, options, folder, debug);
  std::string name;
  if (status.ok() && Inside(path, &name))
    *folder = std::make_unique<Folder>(*this, name, std::move(*folder));
  return status;
}

IOStatus RecordingFileSystem::CreateDir(const std::string& path, const IOOptions& options,
                                        IODebugContext* debug) {
  absl::MutexLock lock(&mu_);
  auto status = target()->CreateDir(path, options, debug);
  std::string name;
  if (status.ok() && Inside(path, &name)) record_.Add({.kind = Kind::kMakeFolder, .name = name});
  return status;
}

IOStatus RecordingFileSystem::CreateDirIfMissing(const std::string& path, const IOOptions& options,
                                                 IODebugContext* debug) {
  if (target()->FileExists(path, options, debug).ok()) return IOStatus::OK();
  return CreateDir(path, options, debug);
}

IOStatus RecordingFileSystem::RenameFile(const std::string& from, const std::string& to,
                                         const IOOptions& options, IODebugContext* debug) {
  std::string name;
  std::string new_name;
  if (!Inside(from, &name) || !Inside(to, &new_name))
    return target()->RenameFile(from, to, options, debug);
  absl::MutexLock lock(&mu_);
  DiskFault fault;
  if (auto status = Judge(DiskCall::kRename, new_name, &fault); !status.ok()) return status;
  auto status = target()->RenameFile(from, to, options, debug);
  if (!status.ok() || files_.count(name) == 0) return status;
  files_[new_name] = files_.at(name);
  files_.erase(name);
  record_.Add({.kind = Kind::kRename, .name = name, .to = new_name});
  return status;
}

IOStatus RecordingFileSystem::DeleteFile(const std::string& path, const IOOptions& options,
                                         IODebugContext* debug) {
  std::string name;
  if (!Inside(path, &name)) return target()->DeleteFile(path, options, debug);
  absl::MutexLock lock(&mu_);
  DiskFault fault;
  if (auto status = Judge(DiskCall::kUnlink, name, &fault); !status.ok()) return status;
  auto status = target()->DeleteFile(path, options, debug);
  if (status.ok() && files_.erase(name) > 0) record_.Add({.kind = Kind::kUnlink, .name = name});
  return status;
}

IOStatus RecordingFileSystem::NewLogger(const std::string&, const IOOptions&,
                                        std::shared_ptr<rocksdb::Logger>* logger, IODebugContext*) {
  *logger = std::make_shared<Silent>();
  return IOStatus::OK();
}

IOStatus RecordingFileSystem::ReopenWritableFile(const std::string&, const FileOptions&,
                                                 std::unique_ptr<rocksdb::FSWritableFile>*,
                                                 IODebugContext*) {
  return Unrecorded();
}
IOStatus RecordingFileSystem::ReuseWritableFile(const std::string&, const std::string&,
                                                const FileOptions&,
                                                std::unique_ptr<rocksdb::FSWritableFile>*,
                                                IODebugContext*) {
  return Unrecorded();
}
IOStatus RecordingFileSystem::Truncate(const std::string&, size_t, const IOOptions&,
                                       IODebugContext*) {
  return Unrecorded();
}
IOStatus RecordingFileSystem::LinkFile(const std::string&, const std::string&, const IOOptions&,
                                       IODebugContext*) {
  return Unrecorded();
}
IOStatus RecordingFileSystem::DeleteDir(const std::string&, const IOOptions&, IODebugContext*) {
  return Unrecorded();
}

}  // namespace escapement::crash
