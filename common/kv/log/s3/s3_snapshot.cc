#include "common/kv/log/s3/s3_snapshot.h"

#include <cstddef>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/hash.h"
#include "common/base/key_codec.h"

namespace escapement::kv {
namespace {

constexpr size_t kEntryBytes = kSnapshotHashBytes + 2 * sizeof(uint64_t);

}  // namespace

std::string S3ObjectName(absl::string_view hash, uint64_t upload) {
  return absl::StrCat(absl::BytesToHexString(hash), "-", absl::Hex(upload, absl::kZeroPad16));
}

SnapshotPart MarkOf(absl::string_view folder, absl::string_view object_name) {
  std::string address = absl::StrCat(folder, "/", object_name);
  Sha256 hash;
  hash.Add(address);
  return {{hash.Finish(), address.size()}, 0, std::move(address)};
}

Snapshot EncodeS3Snapshot(const S3Snapshot& snapshot) {
  Snapshot stored{snapshot.position, {}, std::string(kS3SnapshotTag)};
  std::string& details = stored.details;
  AppendBigEndian<uint16_t>(&details, static_cast<uint16_t>(snapshot.folder.size()));
  details += snapshot.folder;
  AppendBigEndian<uint32_t>(&details, static_cast<uint32_t>(snapshot.files.size()));
  for (const auto& [file, upload] : snapshot.files) {
    details += file.hash;
    AppendBigEndian<uint64_t>(&details, file.bytes);
    AppendBigEndian<uint64_t>(&details, upload);
    if (file.bytes > 0)
      stored.files.push_back(MarkOf(snapshot.folder, S3ObjectName(file.hash, upload)).file);
  }
  details += snapshot.details;
  return stored;
}

absl::StatusOr<std::optional<S3Snapshot>> DecodeS3Snapshot(const Snapshot& stored) {
  absl::string_view rest = stored.details;
  if (!absl::ConsumePrefix(&rest, kS3SnapshotTag)) return std::nullopt;
  const absl::Status malformed =
      absl::DataLossError("a snapshot's list of files in S3 is malformed");
  S3Snapshot snapshot;
  snapshot.position = stored.position;
  if (rest.size() < sizeof(uint16_t)) return malformed;
  const size_t folder_bytes = ReadBigEndian<uint16_t>(rest);
  rest.remove_prefix(sizeof(uint16_t));
  if (rest.size() < folder_bytes + sizeof(uint32_t)) return malformed;
  snapshot.folder = std::string(rest.substr(0, folder_bytes));
  const uint32_t files = ReadBigEndian<uint32_t>(rest.substr(folder_bytes));
  rest.remove_prefix(folder_bytes + sizeof(uint32_t));
  if (rest.size() / kEntryBytes < files) return malformed;
  for (uint32_t i = 0; i < files; ++i, rest.remove_prefix(kEntryBytes)) {
    const absl::string_view numbers = rest.substr(kSnapshotHashBytes);
    snapshot.files.push_back(
        {{std::string(rest.substr(0, kSnapshotHashBytes)), ReadBigEndian<uint64_t>(numbers)},
         ReadBigEndian<uint64_t>(numbers.substr(sizeof(uint64_t)))});
  }
  snapshot.details = std::string(rest);
  return snapshot;
}

Snapshot SnapshotOf(const S3Snapshot& snapshot) {
  Snapshot seen{snapshot.position, {}, snapshot.details};
  for (const S3File& file : snapshot.files) seen.files.push_back(file.file);
  return seen;
}

}  // namespace escapement::kv
