#include "common/kv/log/snapshot_codec.h"

#include "common/base/big_endian.h"
#include "common/base/stable_hash.h"

namespace escapement::kv {
namespace {

constexpr char kVersion = 1;
constexpr size_t kHeadBytes = 1 + sizeof(uint32_t);
constexpr size_t kFileBytes = kSnapshotHashBytes + sizeof(uint64_t);
constexpr size_t kCheckBytes = sizeof(uint64_t);

}  // namespace

std::string EncodeSnapshot(const Snapshot& snapshot) {
  std::string bytes(1, kVersion);
  bytes.reserve(kHeadBytes + snapshot.files.size() * kFileBytes + snapshot.details.size() +
                kCheckBytes);
  AppendBigEndian<uint32_t>(&bytes, static_cast<uint32_t>(snapshot.files.size()));
  for (const SnapshotFile& file : snapshot.files) {
    bytes.append(file.hash);
    AppendBigEndian<uint64_t>(&bytes, file.bytes);
  }
  bytes.append(snapshot.details);
  AppendBigEndian<uint64_t>(&bytes, StableHash64(bytes));
  return bytes;
}

absl::StatusOr<Snapshot> DecodeSnapshot(const LogPosition& position, absl::string_view bytes) {
  const absl::Status damaged = absl::DataLossError("a snapshot's list of files is damaged");
  if (bytes.size() < kHeadBytes + kCheckBytes) return damaged;
  const absl::string_view checked = bytes.substr(0, bytes.size() - kCheckBytes);
  if (ReadBigEndian<uint64_t>(bytes.substr(checked.size())) != StableHash64(checked))
    return damaged;
  if (checked[0] != kVersion)
    return absl::FailedPreconditionError("a snapshot of another version of this program");
  const auto files = ReadBigEndian<uint32_t>(checked.substr(1));
  absl::string_view rest = checked.substr(kHeadBytes);
  if (rest.size() / kFileBytes < files) return damaged;
  Snapshot snapshot;
  snapshot.position = position;
  for (uint32_t i = 0; i < files; ++i, rest.remove_prefix(kFileBytes)) {
    snapshot.files.push_back({std::string(rest.substr(0, kSnapshotHashBytes)),
                              ReadBigEndian<uint64_t>(rest.substr(kSnapshotHashBytes))});
  }
  snapshot.details = std::string(rest);
  return snapshot;
}

uint64_t SnapshotPartCheck(const SnapshotPart& part) {
  std::string head = part.file.hash;
  AppendBigEndian<uint64_t>(&head, part.index);
  AppendBigEndian<uint64_t>(&head, StableHash64(part.data));
  return StableHash64(head);
}

}  // namespace escapement::kv
