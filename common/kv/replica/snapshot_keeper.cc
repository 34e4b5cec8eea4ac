#include "common/kv/replica/snapshot_keeper.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/kv/replica/snapshot_transfer.h"

namespace escapement::kv {

absl::StatusOr<std::string> HashFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::InternalError(absl::StrCat("cannot read ", path));
  Sha256 hash;
  std::vector<char> buffer(1 << 20);
  while (file) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    hash.Add({buffer.data(), static_cast<size_t>(file.gcount())});
  }
  if (file.bad()) return absl::InternalError(absl::StrCat("cannot read ", path));
  return hash.Finish();
}

absl::StatusOr<std::string> FileHashes::HashOf(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0)
    return absl::InternalError(absl::StrCat("cannot read ", path, ": error ", errno));
  const Id id(info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  if (const auto known = known_.find(id); known != known_.end()) return known->second;
  auto hash = HashFile(path);
  if (!hash.ok()) return hash;
  if (known_.size() >= kKnownMax) known_.clear();
  known_.emplace(id, *hash);
  return hash;
}

namespace {

void Delete(const std::string& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (error)
    Log(LogLevel::kWarning, "replica", "cannot delete a checkpoint", {{"error", error.message()}});
}

absl::StatusOr<std::vector<Snapshot>> List(BlockingLog& log) {
  return log.Wait<std::vector<Snapshot>>(
      [&log](auto done) { log.log().ListSnapshots(std::move(done)); });
}

}  // namespace

SnapshotKeeper::SnapshotKeeper(Runtime& runtime, SharedLog& log, ReplicaCopy& copy)
    : copy_(copy), log_(log), executor_(runtime.NewExecutor("snapshots")) {}

SnapshotKeeper::~SnapshotKeeper() { Stop(); }

void SnapshotKeeper::Stop() {
  log_.Cancel();
  executor_->Stop();
}

void SnapshotKeeper::Find(std::function<void(absl::StatusOr<Found>)> done) {
  executor_->Post([this, done = std::move(done)] {
    auto snapshots = List(log_);
    if (!snapshots.ok()) return done(snapshots.status());
    if (snapshots->empty()) return done(Found());
    auto details = DecodeSnapshotDetails(snapshots->front().details);
    if (!details.ok()) return done(details.status());
    done(Found({details->place, details->store_time}));
  });
}

void SnapshotKeeper::Upload(std::string folder,
                            std::function<void(absl::StatusOr<CheckpointFacts>)> done) {
  executor_->Post([this, folder = std::move(folder), done = std::move(done)] {
    auto uploaded = UploadNow(folder);
    Delete(folder);
    if (uploaded.ok()) {
      if (absl::Status status = TrimLog(log_); !status.ok())
        Log(LogLevel::kWarning, "replica", "cannot trim the log", {{"error", status.ToString()}});
    }
    done(uploaded);
  });
}

absl::StatusOr<CheckpointFacts> SnapshotKeeper::UploadNow(const std::string& folder) {
  ASSIGN_OR_RETURN(auto facts, copy_.ReadCheckpoint(folder));
  ASSIGN_OR_RETURN(auto result,
                   UploadSnapshot(log_, folder, facts.place, facts.store_time, hashes_));
  Log(LogLevel::kInfo, "replica", "snapshot uploaded",
      {{"row", facts.place.position.seq},
       {"bytes", result.bytes},
       {"bytes_sent", result.bytes_sent}});
  return facts;
}

void SnapshotKeeper::Restore(std::string folder, std::function<void(absl::StatusOr<Found>)> done) {
  executor_->Post(
      [this, folder = std::move(folder), done = std::move(done)] { done(RestoreNow(folder)); });
}

absl::StatusOr<SnapshotKeeper::Found> SnapshotKeeper::RestoreNow(const std::string& folder) {
  ASSIGN_OR_RETURN(auto snapshots, List(log_));
  absl::Status first;  // the newest snapshot's
  for (const Snapshot& snapshot : snapshots) {
    Delete(folder);
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return absl::InternalError(absl::StrCat("cannot make ", folder));
    absl::Status last = DownloadSnapshot(log_, snapshot, folder);
    if (last.ok()) {
      auto facts = copy_.ReadCheckpoint(folder);
      last = facts.status();
      if (last.ok() && facts->place.position == snapshot.position) {
        Log(LogLevel::kInfo, "replica", "restored from a snapshot",
            {{"row", snapshot.position.seq}});
        return Found(*facts);
      }
      if (last.ok()) last = absl::DataLossError("a snapshot is not that of its row");
    }
    Log(LogLevel::kWarning, "replica", "cannot restore a snapshot",
        {{"row", snapshot.position.seq}, {"error", last.ToString()}});
    // An older one may be elsewhere.
    if (!absl::IsDataLoss(last) && !absl::IsNotFound(last) && !absl::IsFailedPrecondition(last))
      return last;
    first.Update(last);
  }
  Delete(folder);
  if (!first.ok()) return absl::DataLossError(first.message());
  return Found();
}

}  // namespace escapement::kv
