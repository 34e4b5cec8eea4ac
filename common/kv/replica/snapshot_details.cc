#include "common/kv/replica/snapshot_details.h"

#include <utility>

#include "absl/strings/match.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"

namespace escapement::kv {
namespace {

constexpr char kVersion = 1;
constexpr size_t kPlaceBytes = 33;
constexpr size_t kHeadBytes = 1 + kPlaceBytes + 8;

absl::Status MalformedDetails() {
  return absl::DataLossError("a snapshot's details are malformed");
}

}  // namespace

std::string EncodeSnapshotDetails(const SnapshotDetails& details) {
  std::string out(1, kVersion);
  out += EncodeLogPlace(details.place);
  AppendBigEndian<uint64_t>(&out, static_cast<uint64_t>(ToMicros(details.store_time)));
  for (const SnapshotDetails::NamedFile& file : details.files) {
    AppendBigEndian<uint16_t>(&out, static_cast<uint16_t>(file.name.size()));
    out += file.name;
    AppendBigEndian<uint32_t>(&out, file.file);
  }
  return out;
}

absl::StatusOr<SnapshotDetails> DecodeSnapshotDetails(absl::string_view bytes) {
  if (bytes.empty()) return MalformedDetails();
  if (bytes[0] != kVersion)
    return absl::FailedPreconditionError("a newer program has made the snapshot");
  if (bytes.size() < kHeadBytes) return MalformedDetails();
  SnapshotDetails details;
  auto place = DecodeLogPlace(bytes.substr(1, kPlaceBytes));
  if (!place.ok()) return place.status();
  details.place = *place;
  details.store_time =
      FromMicros(static_cast<int64_t>(ReadBigEndian<uint64_t>(bytes.substr(1 + kPlaceBytes))));
  bytes.remove_prefix(kHeadBytes);
  while (!bytes.empty()) {
    if (bytes.size() < 2) return MalformedDetails();
    const size_t size = ReadBigEndian<uint16_t>(bytes);
    bytes.remove_prefix(2);
    if (bytes.size() < size + 4) return MalformedDetails();
    SnapshotDetails::NamedFile file{std::string(bytes.substr(0, size)),
                                    ReadBigEndian<uint32_t>(bytes.substr(size))};
    bytes.remove_prefix(size + 4);
    // The name becomes a path.
    if (file.name.empty() || absl::StartsWith(file.name, ".") || absl::StrContains(file.name, '/'))
      return MalformedDetails();
    details.files.push_back(std::move(file));
  }
  return details;
}

}  // namespace escapement::kv
