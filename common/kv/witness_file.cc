#include "common/kv/witness_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/base/big_endian.h"
#include "common/base/stable_hash.h"

namespace escapement::kv {
namespace {

constexpr uint64_t kMagic = 0x6573637077697431;  // "escpwit1"
constexpr size_t kSlotBytes = 512;
constexpr size_t kHeadBytes = 32;

absl::Status Failed(absl::string_view what) {
  return absl::ErrnoToStatus(errno, absl::StrCat("witness: ", what));
}

}  // namespace

absl::StatusOr<std::unique_ptr<WitnessFile>> WitnessFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return Failed(absl::StrCat("cannot open ", path));
  std::unique_ptr<WitnessFile> file(new WitnessFile(fd));
  if (auto status = file->ReadSlots(); !status.ok()) return status;
  return file;
}

WitnessFile::~WitnessFile() { close(fd_); }

absl::Status WitnessFile::ReadSlots() {
  for (int slot = 0; slot < 2; ++slot) {
    char bytes[kHeadBytes + 8];
    const ssize_t got = pread(fd_, bytes, sizeof bytes, slot * static_cast<off_t>(kSlotBytes));
    if (got < 0) return Failed("cannot read");
    if (got < static_cast<ssize_t>(sizeof bytes)) continue;
    const absl::string_view head(bytes, kHeadBytes);
    if (ReadBigEndian<uint64_t>(head) != kMagic) continue;
    if (ReadBigEndian<uint64_t>(absl::string_view(bytes + kHeadBytes, 8)) != StableHash64(head))
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
  ++count_;
  std::string slot;
  AppendBigEndian<uint64_t>(&slot, kMagic);
  AppendBigEndian<uint64_t>(&slot, count_);
  AppendBigEndian<uint64_t>(&slot, witnessed.incarnation);
  AppendBigEndian<uint64_t>(&slot, witnessed.seq);
  AppendBigEndian<uint64_t>(&slot, StableHash64(slot));
  slot.resize(kSlotBytes, '\0');
  const off_t offset = static_cast<off_t>(count_ % 2 * kSlotBytes);
  if (pwrite(fd_, slot.data(), slot.size(), offset) != static_cast<ssize_t>(slot.size()))
    return Failed("cannot write");
  if (fdatasync(fd_) != 0) return Failed("cannot sync");
  return absl::OkStatus();
}

}  // namespace escapement::kv
