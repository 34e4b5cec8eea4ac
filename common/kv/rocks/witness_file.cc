#include "common/kv/rocks/witness_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/key_codec.h"
#include "common/base/status_macros.h"
#include "common/kv/rocks/room_wait.h"
#include "rocksdb/file_system.h"

namespace escapement::kv {
namespace {

constexpr uint64_t kMagic = 0x6573637077697431;  // "escpwit1"
constexpr size_t kSlotBytes = 512;
constexpr size_t kHeadBytes = 32;

absl::Status Failed(absl::string_view what, const rocksdb::IOStatus& status) {
  return absl::InternalError(absl::StrCat("witness: ", what, ": ", status.ToString()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<WitnessFile>> WitnessFile::Open(rocksdb::FileSystem& file_system,
                                                               const std::string& path,
                                                               std::shared_ptr<RoomWait> room) {
  const rocksdb::FileOptions options;
  if (file_system.FileExists(path, options.io_options, nullptr).IsNotFound()) {
    std::unique_ptr<rocksdb::FSWritableFile> made;
    auto status = file_system.NewWritableFile(path, options, &made, nullptr);
    if (status.ok()) status = made->Close(options.io_options, nullptr);
    if (!status.ok()) return Failed(absl::StrCat("cannot make ", path), status);
  }
  std::unique_ptr<rocksdb::FSRandomRWFile> opened;
  if (auto status = file_system.NewRandomRWFile(path, options, &opened, nullptr); !status.ok())
    return Failed(absl::StrCat("cannot open ", path), status);
  std::unique_ptr<WitnessFile> file(new WitnessFile(std::move(opened), path, std::move(room)));
  RETURN_IF_ERROR(file->ReadSlots());
  return file;
}

WitnessFile::WitnessFile(std::unique_ptr<rocksdb::FSRandomRWFile> file, std::string path,
                         std::shared_ptr<RoomWait> room)
    : file_(std::move(file)), path_(std::move(path)), room_(std::move(room)) {}
WitnessFile::~WitnessFile() = default;

absl::Status WitnessFile::ReadSlots() {
  for (uint64_t slot = 0; slot < 2; ++slot) {
    char bytes[kHeadBytes + 8];
    rocksdb::Slice got;
    if (auto status = file_->Read(slot * kSlotBytes, sizeof bytes, rocksdb::IOOptions(), &got,
                                  bytes, nullptr);
        !status.ok()) {
      return Failed("cannot read", status);
    }
    if (got.size() < sizeof bytes) continue;
    const absl::string_view head(got.data(), kHeadBytes);
    if (ReadBigEndian<uint64_t>(head) != kMagic) continue;
    if (ReadBigEndian<uint64_t>(absl::string_view(got.data() + kHeadBytes, 8)) !=
        StableHash64(head))
      continue;
    const uint64_t count = ReadBigEndian<uint64_t>(head.substr(8));
    if (count <= count_) continue;
    count_ = count;
    found_ = Witnessed{ReadBigEndian<uint64_t>(head.substr(16)),
                       ReadBigEndian<uint64_t>(head.substr(24))};
  }
  return absl::OkStatus();
}

absl::Status WitnessFile::Write(const Witnessed& witnessed) {
  const uint64_t count = count_ + 1;
  std::string slot;
  AppendBigEndian<uint64_t>(&slot, kMagic);
  AppendBigEndian<uint64_t>(&slot, count);
  AppendBigEndian<uint64_t>(&slot, witnessed.incarnation);
  AppendBigEndian<uint64_t>(&slot, witnessed.seq);
  AppendBigEndian<uint64_t>(&slot, StableHash64(slot));
  slot.resize(kSlotBytes, '\0');
  const rocksdb::IOOptions options;
  const rocksdb::IOStatus written = room_->Run(
      path_, [&] { return file_->Write(count % 2 * kSlotBytes, slot, options, nullptr); });
  if (!written.ok()) return Failed("cannot write", written);
  if (auto status = file_->Sync(options, nullptr); !status.ok())
    return Failed("cannot sync", status);
  count_ = count;
  return absl::OkStatus();
}

}  // namespace escapement::kv
