#include "common/kv/replica/snapshot_transfer.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status/return_if_error.h"

namespace escapement::kv {
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
    auto sent = log.WaitForAll<absl::Status>(
        parts.count, [&](size_t i, std::function<void(absl::Status)> done) {
          log.log().PutPart({file, parts.first + static_cast<uint32_t>(i), std::move(data[i])},
                            std::move(done));
        });
    if (!sent.ok()) return sent.status();
    for (const absl::Status& status : *sent) RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::Status FetchFile(BlockingLog& log, const SnapshotFile& file, const std::string& path) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  for (uint64_t first = 0; first < SnapshotParts(file.bytes); first += kPartsInFlight) {
    const Parts parts = NextParts(file, first);
    auto fetched = log.WaitForAll<absl::StatusOr<std::string>>(
        parts.count, [&](size_t i, std::function<void(absl::StatusOr<std::string>)> done) {
          log.log().ReadPart(file, parts.first + static_cast<uint32_t>(i), std::move(done));
        });
    if (!fetched.ok()) return fetched.status();
    for (const absl::StatusOr<std::string>& part : *fetched) {
      if (!part.ok()) return part.status();
      out.write(part->data(), static_cast<std::streamsize>(part->size()));
    }
  }
  out.close();
  if (!out) return absl::InternalError(absl::StrCat("cannot write ", path));
  auto hash = HashFile(path);
  if (!hash.ok()) return hash.status();
  if (*hash != file.hash)
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
    auto hash = hashes.HashOf(path);
    if (!hash.ok()) return hash.status();
    result.bytes += bytes;
    const auto known = paths.emplace(*hash, path);
    if (known.second) snapshot.files.push_back({*hash, bytes});
    const auto same =
        std::find_if(snapshot.files.begin(), snapshot.files.end(),
                     [&hash](const SnapshotFile& file) { return file.hash == *hash; });
    details.files.push_back({name, static_cast<uint32_t>(same - snapshot.files.begin())});
  }
  snapshot.details = EncodeSnapshotDetails(details);
  auto missing = log.Wait<std::vector<SnapshotFile>>(
      [&](auto done) { log.log().MissingFiles(snapshot.files, std::move(done)); });
  if (!missing.ok()) return missing.status();
  for (const SnapshotFile& file : *missing) {
    RETURN_IF_ERROR(SendFile(log, file, paths.at(file.hash)));
    result.bytes_sent += file.bytes;
  }
  auto published =
      log.WaitForAll<absl::Status>(1, [&](size_t, std::function<void(absl::Status)> done) {
        log.log().PutSnapshot(std::move(snapshot), std::move(done));
      });
  if (!published.ok()) return published.status();
  RETURN_IF_ERROR(published->front());
  return result;
}

absl::Status DownloadSnapshot(BlockingLog& log, const Snapshot& snapshot,
                              const std::string& folder) {
  auto details = DecodeSnapshotDetails(snapshot.details);
  if (!details.ok()) return details.status();
  std::error_code error;
  for (const SnapshotDetails::NamedFile& named : details->files) {
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
  auto snapshots = log.Wait<std::vector<Snapshot>>(
      [&log](auto done) { log.log().ListSnapshots(std::move(done)); });
  if (!snapshots.ok()) return snapshots.status();
  if (snapshots->size() < kSnapshotsKept) return absl::OkStatus();
  while (true) {
    auto trimmed = log.Wait<TrimResult>(
        [&log](auto done) { log.log().Trim(kSnapshotsKept, std::move(done)); });
    if (!trimmed.ok()) return trimmed.status();
    if (!trimmed->more) return absl::OkStatus();
  }
}

}  // namespace escapement::kv
