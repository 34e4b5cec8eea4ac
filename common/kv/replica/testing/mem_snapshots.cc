#include "common/kv/replica/testing/mem_snapshots.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/key_codec.h"
#include "common/kv/replica/log_record.h"
#include "common/kv/replica/snapshot_transfer.h"

namespace escapement::kv {
namespace {

constexpr uint32_t kSnapshotsKept = 2;

std::string HashOf(absl::string_view bytes) {
  std::string hash;
  AppendBigEndian<uint64_t>(&hash, StableHash64(bytes));
  hash.resize(kSnapshotHashBytes, 'h');
  return hash;
}

// A family as a row of the log that writes it.
std::string FileOf(ColumnFamily cf, const MemDisk::Family& family) {
  RecordWriter writer(RecordKind::kBatch);
  for (const auto& [key, value] : family) writer.Put(cf, key, value);
  return writer.Take();
}

}  // namespace

struct MemSnapshots::Upward {
  std::string folder;
  CheckpointFacts facts;
  Snapshot snapshot;
  std::map<std::string, std::string> bytes;  // by hash
  std::vector<SnapshotFile> missing;
  uint32_t part = 0;  // the next one of missing.back()
  std::function<void(absl::StatusOr<CheckpointFacts>)> done;
};

struct MemSnapshots::Downward {
  std::string folder;
  std::vector<Snapshot> snapshots;  // the newest last
  MemDisk disk;
  size_t file = 0;
  std::string bytes;  // the parts that are here; only for this file
  absl::Status last;
  std::function<void(absl::StatusOr<Found>)> done;
};

MemSnapshots::MemSnapshots(Runtime& runtime, SharedLog& log, MemReplica& copy)
    : log_(log), copy_(copy), executor_(runtime.NewExecutor("snapshots")) {}

void MemSnapshots::Find(std::function<void(absl::StatusOr<Found>)> done) {
  log_.ListSnapshots(Here<absl::StatusOr<std::vector<Snapshot>>>(
      [done = std::move(done)](absl::StatusOr<std::vector<Snapshot>> snapshots) {
        if (!snapshots.ok()) return done(snapshots.status());
        if (snapshots->empty()) return done(Found());
        auto details = DecodeSnapshotDetails(snapshots->front().details);
        if (!details.ok()) return done(details.status());
        done(Found({details->place, details->store_time}));
      }));
}

void MemSnapshots::Upload(std::string folder,
                          std::function<void(absl::StatusOr<CheckpointFacts>)> done) {
  auto work = std::make_shared<Upward>();
  work->folder = std::move(folder);
  work->done = std::move(done);
  auto facts = copy_.ReadCheckpoint(work->folder);
  if (!facts.ok()) return Finish(work, facts.status());
  work->facts = *facts;
  SnapshotDetails details;
  details.place = facts->place;
  details.store_time = facts->store_time;
  work->snapshot.position = facts->place.position;
  const MemDisk& disk = copy_.checkpoint(work->folder);
  for (size_t i = 0; i < disk.families.size(); ++i) {
    if (disk.families[i].empty()) continue;
    std::string bytes = FileOf(static_cast<ColumnFamily>(i), disk.families[i]);
    const std::string hash = HashOf(bytes);
    details.files.push_back({absl::StrCat(i), static_cast<uint32_t>(work->snapshot.files.size())});
    work->snapshot.files.push_back({hash, bytes.size()});
    work->bytes.emplace(hash, std::move(bytes));
  }
  work->snapshot.details = EncodeSnapshotDetails(details);
  log_.MissingFiles(work->snapshot.files,
                    Here<absl::StatusOr<std::vector<SnapshotFile>>>(
                        [this, work](absl::StatusOr<std::vector<SnapshotFile>> missing) {
                          if (!missing.ok()) return Finish(work, missing.status());
                          work->missing = *std::move(missing);
                          SendPart(work);
                        }));
}

void MemSnapshots::SendPart(const std::shared_ptr<Upward>& work) {
  if (work->missing.empty()) return Publish(work);
  const SnapshotFile& file = work->missing.back();
  SnapshotPart part;
  part.file = file;
  part.index = work->part++;
  part.data = work->bytes.at(file.hash).substr(part.index * kSnapshotPartBytes, kSnapshotPartBytes);
  if (work->part == SnapshotParts(file.bytes)) {
    work->missing.pop_back();
    work->part = 0;
  }
  log_.PutPart(std::move(part), Here<absl::Status>([this, work](absl::Status put) {
                 if (!put.ok()) return Finish(work, put);
                 SendPart(work);
               }));
}

void MemSnapshots::Publish(const std::shared_ptr<Upward>& work) {
  log_.PutSnapshot(work->snapshot, Here<absl::Status>([this, work](absl::Status put) {
                     if (!put.ok()) return Finish(work, put);
                     ++uploaded_;
                     Trim(work);
                   }));
}

// Only when there are two snapshots. A failure does not matter: the next upload trims again.
void MemSnapshots::Trim(const std::shared_ptr<Upward>& work) {
  log_.ListSnapshots(Here<absl::StatusOr<std::vector<Snapshot>>>(
      [this, work](absl::StatusOr<std::vector<Snapshot>> snapshots) {
        if (!snapshots.ok() || snapshots->size() < kSnapshotsKept)
          return Finish(work, absl::OkStatus());
        log_.Trim(kSnapshotsKept,
                  Here<absl::StatusOr<TrimResult>>([this, work](absl::StatusOr<TrimResult>) {
                    Finish(work, absl::OkStatus());
                  }));
      }));
}

void MemSnapshots::Finish(const std::shared_ptr<Upward>& work, const absl::Status& status) {
  copy_.DeleteCheckpoint(work->folder);
  if (!status.ok()) return work->done(status);
  work->done(work->facts);
}

void MemSnapshots::Restore(std::string folder, std::function<void(absl::StatusOr<Found>)> done) {
  auto work = std::make_shared<Downward>();
  work->folder = std::move(folder);
  work->done = std::move(done);
  log_.ListSnapshots(Here<absl::StatusOr<std::vector<Snapshot>>>(
      [this, work](absl::StatusOr<std::vector<Snapshot>> snapshots) {
        if (!snapshots.ok()) return work->done(snapshots.status());
        work->snapshots = *std::move(snapshots);
        std::reverse(work->snapshots.begin(), work->snapshots.end());
        TryNext(work);
      }));
}

void MemSnapshots::TryNext(const std::shared_ptr<Downward>& work) {
  if (work->snapshots.empty()) {
    if (!work->last.ok()) return work->done(absl::DataLossError(work->last.message()));
    return work->done(Found());
  }
  work->disk = MemDisk();
  work->file = 0;
  work->bytes.clear();
  FetchPart(work);
}

void MemSnapshots::FetchPart(const std::shared_ptr<Downward>& work) {
  const Snapshot& snapshot = work->snapshots.back();
  if (work->file == snapshot.files.size()) return OnWhole(work);
  const SnapshotFile& file = snapshot.files[work->file];
  log_.ReadPart(
      file, static_cast<uint32_t>(work->bytes.size() / kSnapshotPartBytes),
      Here<absl::StatusOr<std::string>>([this, work, file](absl::StatusOr<std::string> part) {
        if (!part.ok()) return OnFailed(work, part.status());
        work->bytes += *part;
        if (work->bytes.size() < file.bytes) return FetchPart(work);
        DiskSink sink(work->disk);
        if (HashOf(work->bytes) != file.hash || !ApplyRecord(work->bytes, sink).ok())
          return OnFailed(work, absl::DataLossError("a file is not what its hash says"));
        ++work->file;
        work->bytes.clear();
        FetchPart(work);
      }));
}

void MemSnapshots::OnWhole(const std::shared_ptr<Downward>& work) {
  const LogPosition position = work->snapshots.back().position;
  copy_.checkpoint(work->folder) = std::move(work->disk);
  auto facts = copy_.ReadCheckpoint(work->folder);
  if (facts.ok() && facts->place.position != position)
    facts = absl::DataLossError("a snapshot is not that of its row");
  if (!facts.ok()) return OnFailed(work, facts.status());
  ++restored_;
  work->done(Found(*facts));
}

void MemSnapshots::OnFailed(const std::shared_ptr<Downward>& work, const absl::Status& status) {
  if (!absl::IsDataLoss(status) && !absl::IsNotFound(status)) return work->done(status);
  work->last = status;
  work->snapshots.pop_back();
  TryNext(work);
}

}  // namespace escapement::kv
