#include "common/kv/log/snapshot_codec.h"

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/key_codec.h"
#include "common/base/status_macros.h"

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

namespace {

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

absl::Status ValidateName(absl::string_view what, absl::string_view name) {
  if (name.size() > kLogNameBytesMax) return Invalid(absl::StrCat(what, " is too long"));
  if (name.find('\0') != absl::string_view::npos)
    return Invalid(absl::StrCat(what, " has a zero byte"));
  return absl::OkStatus();
}

absl::Status ValidateFile(const SnapshotFile& file) {
  if (file.hash.size() != kSnapshotHashBytes) return Invalid("a file's hash has a wrong size");
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateLead(const LeadRequest& request) {
  if (request.owner.empty()) return Invalid("the owner has no name");
  RETURN_IF_ERROR(ValidateName("the owner", request.owner));
  return ValidateName("the address", request.address);
}

absl::Status ValidateAppend(const AppendRequest& request) {
  if (request.term.epoch == 0 || request.term.owner.empty())
    return Invalid("an append without a term");
  RETURN_IF_ERROR(ValidateName("the owner", request.term.owner));
  if (request.rows.empty()) return Invalid("an append without rows");
  if (request.rows.size() > kLogAppendRowsMax) return Invalid("an append with too many rows");
  uint64_t seq = request.after.seq;
  size_t bytes = 0;
  for (const LogRow& row : request.rows) {
    if (row.position.seq != ++seq) return Invalid("rows that do not follow on each other");
    if (row.epoch != request.term.epoch) return Invalid("a row of another epoch");
    if (row.data->size() > kLogRowBytesMax) return Invalid("a row that is too large");
    bytes += row.data->size();
  }
  if (bytes > kLogAppendBytesMax) return Invalid("an append that is too large");
  return absl::OkStatus();
}

absl::Status ValidateRead(const ReadRequest& request) {
  if (request.rows_max == 0 || request.bytes_max == 0) return Invalid("a read of nothing");
  if (request.bytes_max > kLogReadBytesMax) return Invalid("a read of too many bytes");
  return absl::OkStatus();
}

absl::Status ValidateFiles(const std::vector<SnapshotFile>& files) {
  if (files.size() > kSnapshotFilesMax) return Invalid("too many files");
  for (const SnapshotFile& file : files) RETURN_IF_ERROR(ValidateFile(file));
  return absl::OkStatus();
}

absl::Status ValidatePart(const SnapshotPart& part) {
  RETURN_IF_ERROR(ValidateFile(part.file));
  const uint64_t parts = SnapshotParts(part.file.bytes);
  if (part.index >= parts) return Invalid("the file has no part of this number");
  const uint64_t rest = part.file.bytes - part.index * kSnapshotPartBytes;
  if (part.data.size() != (rest < kSnapshotPartBytes ? rest : kSnapshotPartBytes))
    return Invalid("a part of a wrong size");
  return absl::OkStatus();
}

absl::Status ValidateSnapshot(const Snapshot& snapshot) {
  RETURN_IF_ERROR(ValidateFiles(snapshot.files));
  if (snapshot.details.size() > kSnapshotDetailsBytesMax)
    return Invalid("details that are too large");
  return absl::OkStatus();
}

absl::Status ValidateTrim(uint32_t snapshots_kept) {
  return snapshots_kept == 0 ? Invalid("a trim that keeps no snapshot") : absl::OkStatus();
}

absl::Status ValidateReport(const std::string& replica, const std::string& details) {
  if (replica.empty()) return Invalid("a report of a replica without a name");
  RETURN_IF_ERROR(ValidateName("the replica", replica));
  if (details.size() > kReplicaReportBytesMax) return Invalid("a report is too long");
  return absl::OkStatus();
}

}  // namespace escapement::kv
