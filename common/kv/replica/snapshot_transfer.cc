#include "common/kv/replica/snapshot_transfer.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"

namespace escapement::kv {

namespace {

constexpr char kVersion = 1;
constexpr size_t kPlaceBytes = kLogPlaceBasicBytes;
constexpr size_t kHeadBytes = 1 + kPlaceBytes + 8;

absl::Status MalformedDetails() {
  return absl::DataLossError("a snapshot's details are malformed");
}

}  // namespace

std::string EncodeSnapshotDetails(const SnapshotDetails& details) {
  std::string out(1, kVersion);
  out += EncodeLogPlace(details.place).substr(0, kPlaceBytes);
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
  ASSIGN_OR_RETURN(auto place, DecodeLogPlace(bytes.substr(1, kPlaceBytes)));
  details.place = place;
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

namespace {

constexpr size_t kPartsInFlight = 4;
constexpr uint32_t kSnapshotsKept = 2;

// The parts of a file from `first` on, at most kPartsInFlight, each with its number.
struct Parts {
  uint32_t first = 0;
  size_t count = 0;
};
Parts NextParts(const SnapshotFile& file, uint64_t first) {
  return {static_cast<uint32_t>(first), static_cast<size_t>(std::min<uint64_t>(
                                            kPartsInFlight, SnapshotParts(file.bytes) - first))};
}

absl::Status SendFile(BlockingLog& log, const SnapshotFile& file, const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::InternalError(absl::StrCat("cannot read ", path));
  for (uint64_t first = 0; first < SnapshotParts(file.bytes); first += kPartsInFlight) {
    const Parts parts = NextParts(file, first);
    std::vector<std::string> data(parts.count);
    for (size_t i = 0; i < parts.count; ++i) {
      const uint64_t begin = (first + i) * kSnapshotPartBytes;
      data[i].resize(std::min<uint64_t>(kSnapshotPartBytes, file.bytes - begin));
      if (!in.read(data[i].data(), static_cast<std::streamsize>(data[i].size())))
        return absl::InternalError(absl::StrCat("cannot read ", path));
    }
    ASSIGN_OR_RETURN(auto sent,
                     log.WaitForAll<absl::Status>(
                         parts.count, [&](size_t i, std::function<void(absl::Status)> done) {
                           log.log().PutPart(
                               {file, parts.first + static_cast<uint32_t>(i), std::move(data[i])},
                               std::move(done));
                         }));
    for (const absl::Status& status : sent) RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::Status FetchFile(BlockingLog& log, const SnapshotFile& file, const std::string& path) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  for (uint64_t first = 0; first < SnapshotParts(file.bytes); first += kPartsInFlight) {
    const Parts parts = NextParts(file, first);
    ASSIGN_OR_RETURN(
        auto fetched,
        log.WaitForAll<absl::StatusOr<std::string>>(
            parts.count, [&](size_t i, std::function<void(absl::StatusOr<std::string>)> done) {
              log.log().ReadPart(file, parts.first + static_cast<uint32_t>(i), std::move(done));
            }));
    for (const absl::StatusOr<std::string>& part : fetched) {
      if (!part.ok()) return part.status();
      out.write(part->data(), static_cast<std::streamsize>(part->size()));
    }
  }
  out.close();
  if (!out) return absl::InternalError(absl::StrCat("cannot write ", path));
  ASSIGN_OR_RETURN(auto hash, HashFile(path));
  if (hash != file.hash)
    return absl::DataLossError(absl::StrCat("a file of the snapshot is damaged: ", path));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UploadResult> UploadSnapshot(BlockingLog& log, const std::string& folder,
                                            const LogPlace& place, absl::Time store_time,
                                            FileHashes& hashes) {
  SnapshotDetails details;
  details.place = place;
  details.store_time = store_time;
  Snapshot snapshot;
  snapshot.position = place.position;
  std::map<std::string, std::string> paths;  // by hash
  UploadResult result;
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    files.push_back(entry.path());
  if (error) return absl::InternalError(absl::StrCat("cannot list ", folder));
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& path : files) {
    const std::string name = path.filename();
    const uint64_t bytes = std::filesystem::file_size(path, error);
    if (error) return absl::InternalError(absl::StrCat("cannot read ", path.string()));
    // LOCK and the text logs of RocksDB say nothing of the state.
    if (name == "LOCK" || name.rfind("LOG", 0) == 0) continue;
    if (bytes == 0) {
      details.files.push_back({name, SnapshotDetails::kEmptyFile});
      continue;
    }
    ASSIGN_OR_RETURN(auto hash, hashes.HashOf(path));
    result.bytes += bytes;
    const auto known = paths.emplace(hash, path);
    if (known.second) snapshot.files.push_back({hash, bytes});
    const auto same = std::find_if(snapshot.files.begin(), snapshot.files.end(),
                                   [&hash](const SnapshotFile& file) { return file.hash == hash; });
    details.files.push_back({name, static_cast<uint32_t>(same - snapshot.files.begin())});
  }
  snapshot.details = EncodeSnapshotDetails(details);
  ASSIGN_OR_RETURN(auto missing, log.Wait<std::vector<SnapshotFile>>([&](auto done) {
    log.log().MissingFiles(snapshot.files, std::move(done));
  }));
  for (const SnapshotFile& file : missing) {
    RETURN_IF_ERROR(SendFile(log, file, paths.at(file.hash)));
    result.bytes_sent += file.bytes;
  }
  ASSIGN_OR_RETURN(
      auto published,
      log.WaitForAll<absl::Status>(1, [&](size_t, std::function<void(absl::Status)> done) {
        log.log().PutSnapshot(std::move(snapshot), std::move(done));
      }));
  RETURN_IF_ERROR(published.front());
  return result;
}

absl::Status DownloadSnapshot(BlockingLog& log, const Snapshot& snapshot,
                              const std::string& folder) {
  ASSIGN_OR_RETURN(auto details, DecodeSnapshotDetails(snapshot.details));
  std::error_code error;
  for (const SnapshotDetails::NamedFile& named : details.files) {
    const std::string path = absl::StrCat(folder, "/", named.name);
    if (named.file == SnapshotDetails::kEmptyFile) {
      if (!std::ofstream(path)) return absl::InternalError(absl::StrCat("cannot write ", path));
      continue;
    }
    if (named.file >= snapshot.files.size())
      return absl::DataLossError("a snapshot names a file that it does not have");
    RETURN_IF_ERROR(FetchFile(log, snapshot.files[named.file], path));
  }
  return absl::OkStatus();
}

absl::Status TrimLog(BlockingLog& log) {
  ASSIGN_OR_RETURN(auto snapshots, log.Wait<std::vector<Snapshot>>([&log](auto done) {
    log.log().ListSnapshots(std::move(done));
  }));
  if (snapshots.size() < kSnapshotsKept) return absl::OkStatus();
  while (true) {
    ASSIGN_OR_RETURN(auto trimmed, log.Wait<TrimResult>([&log](auto done) {
      log.log().Trim(kSnapshotsKept, std::move(done));
    }));
    if (!trimmed.more) return absl::OkStatus();
  }
}

}  // namespace escapement::kv
