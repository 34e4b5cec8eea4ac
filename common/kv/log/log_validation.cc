#include "common/kv/log/log_validation.h"

#include "absl/strings/str_cat.h"
#include "common/status/return_if_error.h"

namespace escapement::kv {
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
