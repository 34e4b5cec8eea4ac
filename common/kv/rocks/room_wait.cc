#include "common/kv/rocks/room_wait.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rocksdb/file_system.h"
#include "spdlog/spdlog.h"

namespace escapement::kv {
namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

// A write is run again after the first pause, and then after pauses that double up to the last.
constexpr absl::Duration kFirstPause = absl::Milliseconds(20);
constexpr absl::Duration kLastPause = absl::Milliseconds(500);

// RocksDB takes "no space" for an error after which it may go on. After a failed sync it may not.
IOStatus Fatal(IOStatus status) {
  return status.IsNoSpace() ? IOStatus::IOError(status.ToString()) : status;
}

class WaitingFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  WaitingFile(std::unique_ptr<rocksdb::FSWritableFile> target, std::string path,
              std::shared_ptr<RoomWait> room)
      : FSWritableFileOwnerWrapper(std::move(target)),
        path_(std::move(path)),
        room_(std::move(room)) {}

  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  IODebugContext* debug) override {
    const IOStatus status = room_->Run(path_, [&] {
      // An append that fails may have written a part, and has then moved the position in the file.
      // So each later one says where it begins.
      if (moved_) return target()->PositionedAppend(data, size_, options, debug);
      IOStatus appended = target()->Append(data, options, debug);
      moved_ = !appended.ok();
      return appended;
    });
    if (status.ok()) size_ += data.size();
    return status;
  }
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo&, IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  IOStatus Truncate(uint64_t size, const IOOptions& options, IODebugContext* debug) override {
    IOStatus status = target()->Truncate(size, options, debug);
    if (status.ok()) size_ = size;
    return status;
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    return Fatal(target()->Sync(options, debug));
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Fatal(target()->Fsync(options, debug));
  }
  IOStatus RangeSync(uint64_t offset, uint64_t bytes, const IOOptions& options,
                     IODebugContext* debug) override {
    return Fatal(target()->RangeSync(offset, bytes, options, debug));
  }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    return Fatal(target()->Close(options, debug));
  }

 private:
  const std::string path_;
  const std::shared_ptr<RoomWait> room_;
  uint64_t size_ = 0;
  bool moved_ = false;
};

class WaitingFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  WaitingFileSystem(const std::shared_ptr<FileSystem>& target, const std::string& folder,
                    std::shared_ptr<RoomWait> room)
      : FileSystemWrapper(target), folder_(absl::StrCat(folder, "/")), room_(std::move(room)) {}
  const char* Name() const override { return "WaitingFileSystem"; }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file,
                           IODebugContext* debug) override {
    if (!absl::StartsWith(path, folder_))
      return target()->NewWritableFile(path, options, file, debug);
    std::unique_ptr<rocksdb::FSWritableFile> made;
    IOStatus status =
        room_->Run(path, [&] { return target()->NewWritableFile(path, options, &made, debug); });
    if (status.ok()) *file = std::make_unique<WaitingFile>(std::move(made), path, room_);
    return status;
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* debug) override {
    if (!absl::StartsWith(to, folder_)) return target()->RenameFile(from, to, options, debug);
    return room_->Run(to, [&] { return target()->RenameFile(from, to, options, debug); });
  }

 private:
  const std::string folder_;
  const std::shared_ptr<RoomWait> room_;
};

}  // namespace

IOStatus RoomWait::Run(const std::string& path, absl::FunctionRef<IOStatus()> write) {
  IOStatus status = write();
  if (!status.IsNoSpace() || !Pause(absl::ZeroDuration())) return status;
  if (waiting_++ == 0)
    spdlog::warn("the disk is full: writes wait until there is room, first that to {}", path);
  absl::Duration pause = kFirstPause;
  while (status.IsNoSpace() && Pause(pause)) {
    status = write();
    pause = std::min(2 * pause, kLastPause);
  }
  absl::MutexLock lock(&mu_);
  if (--waiting_ == 0 && status.ok()) spdlog::warn("the disk has room again: writes go on");
  return Fatal(std::move(status));
}

void RoomWait::AwaitRoom() {
  if (!waiting()) return;
  const auto none = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return ended_ || !waiting(); };
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&none));
}

bool RoomWait::Pause(absl::Duration pause) {
  absl::MutexLock lock(&mu_);
  if (begun_) mu_.AwaitWithTimeout(absl::Condition(&ended_), pause);
  return begun_ && !ended_;
}

void RoomWait::Begin() {
  absl::MutexLock lock(&mu_);
  begun_ = true;
}

void RoomWait::End() {
  absl::MutexLock lock(&mu_);
  ended_ = true;
}

std::shared_ptr<rocksdb::FileSystem> NewWaitingFileSystem(
    std::shared_ptr<rocksdb::FileSystem> target, const std::string& folder,
    std::shared_ptr<RoomWait> room) {
  return std::make_shared<WaitingFileSystem>(std::move(target), folder, std::move(room));
}

}  // namespace escapement::kv
