#include "common/kv/snapshot_file/snapshot_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/status_macros.h"

namespace escapement::kv {
namespace {

constexpr absl::string_view kMagic = "escapement snapshot\n";
constexpr uint32_t kVersion = 1;
constexpr size_t kHeadBytes = kMagic.size() + 4;
constexpr char kFile = 1;
constexpr char kEnd = 0;

absl::Status CannotRead(absl::string_view path) {
  return absl::InternalError(absl::StrCat("cannot read ", path));
}
absl::Status CannotWrite(absl::string_view path) {
  return absl::InternalError(absl::StrCat("cannot write ", path));
}
absl::Status Damaged() {
  return absl::DataLossError("the snapshot is damaged, or it is not one of Escapement's");
}

// The name becomes a path.
bool IsGoodName(const std::string& name) {
  return !name.empty() && !absl::StartsWith(name, ".") && !absl::StrContains(name, '/') &&
         !absl::StrContains(name, '\0');
}

}  // namespace

absl::Status SnapshotFileWriter::List() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename();
    // They say nothing of the state.
    if (name != "LOCK" && !absl::StartsWith(name, "LOG")) names_.push_back(name);
  }
  if (error) return CannotRead(folder_);
  std::sort(names_.rbegin(), names_.rend());
  return absl::OkStatus();
}

absl::Status SnapshotFileWriter::Open(const std::string& name, std::string& chunk) {
  const std::string path = absl::StrCat(folder_, "/", name);
  std::error_code error;
  content_left_ = std::filesystem::file_size(path, error);
  content_ = std::ifstream(path, std::ios::binary);
  if (error || !content_) return CannotRead(path);
  chunk += kFile;
  AppendBigEndian<uint16_t>(&chunk, static_cast<uint16_t>(name.size()));
  chunk += name;
  AppendBigEndian<uint64_t>(&chunk, content_left_);
  return absl::OkStatus();
}

absl::StatusOr<std::string> SnapshotFileWriter::Next() {
  std::string chunk;
  if (ended_) return chunk;
  if (!std::exchange(begun_, true)) {
    RETURN_IF_ERROR(List());
    chunk.append(kMagic.data(), kMagic.size());
    AppendBigEndian<uint32_t>(&chunk, kVersion);
  }
  while (content_left_ > 0 || !names_.empty()) {
    if (content_left_ == 0) {
      RETURN_IF_ERROR(Open(names_.back(), chunk));
      names_.pop_back();
    }
    const size_t begin = chunk.size();
    if (begin >= kChunkBytesMax) break;
    const size_t bytes = std::min<uint64_t>(content_left_, kChunkBytesMax - begin);
    chunk.resize(begin + bytes);
    if (!content_.read(chunk.data() + begin, static_cast<std::streamsize>(bytes)))
      return CannotRead(folder_);
    content_left_ -= bytes;
    if (chunk.size() == kChunkBytesMax) break;
  }
  ended_ = content_left_ == 0 && names_.empty();
  if (ended_) chunk += kEnd;
  hash_.Add(chunk);
  if (ended_) chunk += hash_.Finish();
  return chunk;
}

void SnapshotFileReader::Consume(size_t bytes) {
  hash_.Add(absl::string_view(head_).substr(0, bytes));
  head_.erase(0, bytes);
}

absl::Status SnapshotFileReader::TakeHead() {
  if (head_.size() < kHeadBytes) return absl::OkStatus();
  if (!absl::StartsWith(head_, kMagic)) return Damaged();
  if (ReadBigEndian<uint32_t>(absl::string_view(head_).substr(kMagic.size())) != kVersion)
    return absl::FailedPreconditionError("a newer program has made the snapshot");
  Consume(kHeadBytes);
  begun_ = true;
  return absl::OkStatus();
}

absl::Status SnapshotFileReader::TakeEntry() {
  if (head_.empty()) return absl::OkStatus();
  if (head_[0] == kEnd) {
    ended_ = true;
    Consume(1);
    return absl::OkStatus();
  }
  if (head_[0] != kFile) return Damaged();
  if (head_.size() < 3) return absl::OkStatus();
  const size_t name_bytes = ReadBigEndian<uint16_t>(absl::string_view(head_).substr(1));
  if (head_.size() < 3 + name_bytes + 8) return absl::OkStatus();
  const std::string name = head_.substr(3, name_bytes);
  if (!IsGoodName(name)) return Damaged();
  content_left_ = ReadBigEndian<uint64_t>(absl::string_view(head_).substr(3 + name_bytes));
  Consume(3 + name_bytes + 8);
  return Open(name);
}

absl::Status SnapshotFileReader::Open(const std::string& name) {
  if (folder_.empty()) return absl::OkStatus();
  path_ = absl::StrCat(folder_, "/", name);
  if (std::filesystem::exists(path_)) return Damaged();
  content_ = std::ofstream(path_, std::ios::binary | std::ios::trunc);
  if (!content_) return CannotWrite(path_);
  return content_left_ == 0 ? Close() : absl::OkStatus();
}

absl::Status SnapshotFileReader::Close() {
  if (folder_.empty()) return absl::OkStatus();
  content_.close();
  if (!content_) return CannotWrite(path_);
  return SyncPath(std::exchange(path_, ""));
}

absl::Status SnapshotFileReader::Take(absl::string_view bytes) {
  while (!bytes.empty() && !ended_) {
    if (content_left_ > 0) {
      const absl::string_view part = bytes.substr(0, content_left_);
      bytes.remove_prefix(part.size());
      hash_.Add(part);
      if (!folder_.empty() &&
          !content_.write(part.data(), static_cast<std::streamsize>(part.size())))
        return CannotWrite(path_);
      content_left_ -= part.size();
      if (content_left_ == 0) RETURN_IF_ERROR(Close());
      continue;
    }
    // Heads are short and rare.
    head_ += bytes.front();
    bytes.remove_prefix(1);
    RETURN_IF_ERROR(begun_ ? TakeEntry() : TakeHead());
  }
  head_.append(bytes.data(), bytes.size());
  return !ended_ || head_.size() <= kSha256Bytes ? absl::OkStatus() : Damaged();
}

absl::Status SnapshotFileReader::Finish() {
  if (!ended_ || head_.size() != kSha256Bytes || head_ != hash_.Finish()) return Damaged();
  return folder_.empty() ? absl::OkStatus() : SyncPath(folder_);
}

absl::Status SyncPath(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = file >= 0 && fsync(file) == 0;
  const int error = errno;
  if (file >= 0) close(file);
  if (synced) return absl::OkStatus();
  return absl::ErrnoToStatus(error, absl::StrCat("cannot sync ", path));
}

}  // namespace escapement::kv
