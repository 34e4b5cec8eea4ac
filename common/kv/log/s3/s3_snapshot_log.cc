#include "common/kv/log/s3/s3_snapshot_log.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/base/hash.h"
#include "common/base/status_macros.h"
#include "common/kv/log/blocking_log.h"
#include "common/kv/log/s3/s3_snapshot.h"
#include "common/kv/log/snapshot_codec.h"
#include "common/s3/s3_address.h"

namespace escapement::kv {
namespace {

// Files that are uploaded at a time. Each has one group of parts in memory.
constexpr size_t kOpenUploadsMax = 8;
// Parts of one file that may wait for an earlier one.
constexpr size_t kEarlyPartsMax = 16;
// Parts that one request reads. They stay in memory until they are asked for.
constexpr uint64_t kReadPartsMax = 8;
// An object's name: two hexadecimal numbers, and the dash between them.
constexpr size_t kObjectNameBytes = 2 * kSnapshotHashBytes + 1 + 16;

// `done` is called, also if what this returns is destroyed without a call.
template <typename T>
std::function<void(T)> Surely(std::function<void(T)> done) {
  struct Answer {
    std::function<void(T)> done;
    ~Answer() {
      if (done) done(absl::CancelledError("the log has ended"));
    }
  };
  return [answer = std::shared_ptr<Answer>(new Answer{std::move(done)})](T value) {
    std::exchange(answer->done, nullptr)(std::move(value));
  };
}

// As the log's callers know it: NOT_FOUND is an object or an upload that is gone.
absl::Status AsLogError(const absl::Status& status) {
  if (absl::IsPermissionDenied(status) || absl::StrContains(status.message(), "NoSuchBucket"))
    return absl::FailedPreconditionError(status.message());
  return status;
}

}  // namespace

absl::Status CheckS3SnapshotAddress(absl::string_view address) {
  ASSIGN_OR_RETURN(const S3Address parsed, ParseS3Address(address));
  if (parsed.key.size() > kS3SnapshotPrefixBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the prefix has more than ", kS3SnapshotPrefixBytesMax, " bytes"));
  }
  return absl::OkStatus();
}

class S3SnapshotLog::Core {
 public:
  Core(Runtime& runtime, SharedLog& inner, Options options)
      : runtime_(runtime), log_(inner), options_(std::move(options)) {}

  // From any thread: ends what runs.
  void Cancel() {
    stopped_.Notify();
    log_.Cancel();
  }

  absl::StatusOr<std::vector<SnapshotFile>> MissingFiles(const std::vector<SnapshotFile>& files);
  absl::Status PutPart(SnapshotPart part);
  absl::Status PutSnapshot(Snapshot snapshot);
  // Learns where the files of these snapshots are, which the inner log has listed.
  absl::Status TakePlaces(const std::vector<Snapshot>& snapshots);
  // Empty: ask the inner log.
  absl::StatusOr<std::optional<std::string>> ReadPart(const SnapshotFile& file, uint32_t index);
  // Deletes objects and uploads whose marks have been trimmed.
  absl::Status DeleteTrimmed();

  absl::StatusOr<S3Client*> ClientOf(const std::string& bucket);

 private:
  // Where an object is.
  struct Place {
    std::string folder;  // "s3://bucket/folder"
    uint64_t upload = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };
  struct Upload {
    Place place;
    std::unique_ptr<S3Writer> writer;
    uint32_t next = 0;                           // the part that the writer waits for
    std::map<uint32_t, std::string> early = {};  // parts behind it
  };
  // An object, or a multipart upload that is not complete.
  struct Found {
    std::string key;
    SnapshotFile mark;
    std::string upload_id;  // empty: an object
  };

  absl::Status FindFolder();
  absl::Status FindPlaces();
  // The place of a file that is whole in `folder_`.
  std::optional<Place> OwnPlaceOf(const std::string& hash) const;
  absl::Status PutMark(const SnapshotPart& mark);
  absl::StatusOr<std::set<std::string>> MissingMarks(const std::vector<SnapshotFile>& marks);
  absl::StatusOr<Upload> BeginUpload(const SnapshotFile& file);
  absl::Status AddPart(Upload& upload, SnapshotPart part);
  absl::Status FetchParts(const Place& place, const SnapshotFile& file, uint32_t index);
  absl::StatusOr<std::vector<Found>> FindTrimmed(std::vector<Found> found);

  Runtime& runtime_;
  BlockingLog log_;
  const Options options_;
  absl::Notification stopped_;
  std::map<std::string, std::unique_ptr<S3Client>> clients_;  // by bucket
  std::string folder_;                     // "s3://bucket/folder" of this log; empty: not known yet
  std::map<std::string, Place> places_;    // by hash: files of snapshots, as last read
  std::set<std::string> inner_files_;      // hashes: files of snapshots in the inner log
  std::map<std::string, Place> uploaded_;  // by hash: whole files that no snapshot has yet
  std::map<std::string, Upload> uploads_;  // by hash
  std::string read_hash_;                  // the file that was read last
  std::map<uint32_t, std::string> read_;   // its parts that were read and not asked for
};

absl::StatusOr<S3Client*> S3SnapshotLog::Core::ClientOf(const std::string& bucket) {
  std::unique_ptr<S3Client>& client = clients_[bucket];
  if (client == nullptr) {
    ASSIGN_OR_RETURN(S3Options options, options_.reach(bucket));
    options.part_bytes = options_.part_bytes;
    options.cancelled = [this] { return stopped_.HasBeenNotified(); };
    options.wait = options_.wait ? options_.wait : [this](absl::Duration time) {
      stopped_.WaitForNotificationWithTimeout(time);
    };
    client = std::make_unique<S3Client>(std::move(options));
  }
  return client.get();
}

// Asks each time: the database may have another log now.
absl::Status S3SnapshotLog::Core::FindFolder() {
  ASSIGN_OR_RETURN(const LogState state, log_.Wait<LogState>([this](auto done) {
    log_.log().ReadState(std::move(done));
  }));
  if (state.leader.epoch == 0) return absl::AbortedError("there is no log yet");
  ASSIGN_OR_RETURN(const S3Address address, ParseS3Address(options_.address));
  folder_ = absl::StrCat("s3://", address.bucket, "/", address.key, address.key.empty() ? "" : "/",
                         options_.log_name, "/", absl::Hex(state.first.chain, absl::kZeroPad16));
  return absl::OkStatus();
}

absl::Status S3SnapshotLog::Core::FindPlaces() {
  ASSIGN_OR_RETURN(const auto snapshots, log_.Wait<std::vector<Snapshot>>([this](auto done) {
    log_.log().ListSnapshots(std::move(done));
  }));
  return TakePlaces(snapshots);
}

absl::Status S3SnapshotLog::Core::TakePlaces(const std::vector<Snapshot>& snapshots) {
  places_.clear();
  inner_files_.clear();
  for (const Snapshot& stored : snapshots) {
    ASSIGN_OR_RETURN(const auto snapshot, DecodeS3Snapshot(stored));
    if (!snapshot.has_value()) {
      for (const SnapshotFile& file : stored.files) inner_files_.insert(file.hash);
      continue;
    }
    for (const auto& [file, upload] : snapshot->files) {
      if (file.bytes == 0) continue;
      Place& place = places_[file.hash];
      if (place.folder.empty() || (place.folder != folder_ && snapshot->folder == folder_))
        place = {snapshot->folder, upload};
    }
  }
  return absl::OkStatus();
}

std::optional<S3SnapshotLog::Core::Place> S3SnapshotLog::Core::OwnPlaceOf(
    const std::string& hash) const {
  for (const auto* places : {&uploaded_, &places_}) {
    const auto found = places->find(hash);
    if (found != places->end() && found->second.folder == folder_) return found->second;
  }
  return std::nullopt;
}

absl::Status S3SnapshotLog::Core::PutMark(const SnapshotPart& mark) {
  ASSIGN_OR_RETURN(const auto answers, log_.WaitForAll<absl::Status>(
                                           1, [&](size_t, std::function<void(absl::Status)> done) {
                                             log_.log().PutPart(mark, std::move(done));
                                           }));
  return answers.front();
}

// Their hashes.
absl::StatusOr<std::set<std::string>> S3SnapshotLog::Core::MissingMarks(
    const std::vector<SnapshotFile>& marks) {
  std::set<std::string> missing;
  for (size_t begin = 0; begin < marks.size(); begin += kSnapshotFilesMax) {
    const size_t end = std::min(marks.size(), begin + kSnapshotFilesMax);
    ASSIGN_OR_RETURN(const auto some, log_.Wait<std::vector<SnapshotFile>>([&](auto done) {
      log_.log().MissingFiles({marks.begin() + static_cast<ptrdiff_t>(begin),
                               marks.begin() + static_cast<ptrdiff_t>(end)},
                              std::move(done));
    }));
    for (const SnapshotFile& mark : some) missing.insert(mark.hash);
  }
  return missing;
}

absl::StatusOr<std::vector<SnapshotFile>> S3SnapshotLog::Core::MissingFiles(
    const std::vector<SnapshotFile>& files) {
  uploads_.clear();  // whoever begins again puts all parts
  RETURN_IF_ERROR(FindFolder());
  RETURN_IF_ERROR(FindPlaces());
  ASSIGN_OR_RETURN(const S3Address folder, ParseS3Address(folder_));
  ASSIGN_OR_RETURN(S3Client * client, ClientOf(folder.bucket));
  // A rule of the bucket, or a person, may have deleted objects of snapshots.
  ASSIGN_OR_RETURN(const auto objects, client->List(folder.key + "/"));
  std::map<std::string, uint64_t> bytes;  // by key
  for (const S3Object& object : objects) bytes[object.key] = object.bytes;
  std::vector<SnapshotFile> marks;
  for (const SnapshotFile& file : files) {
    if (const auto place = OwnPlaceOf(file.hash); place.has_value())
      marks.push_back(MarkOf(folder_, S3ObjectName(file.hash, place->upload)).file);
  }
  ASSIGN_OR_RETURN(const auto missing_marks, MissingMarks(marks));
  std::vector<SnapshotFile> missing;
  std::map<std::string, Place> whole;
  for (const SnapshotFile& file : files) {
    if (file.bytes == 0) continue;
    const auto place = OwnPlaceOf(file.hash);
    const std::string name = place.has_value() ? S3ObjectName(file.hash, place->upload) : "";
    const auto object = bytes.find(absl::StrCat(folder.key, "/", name));
    if (object != bytes.end() && object->second == file.bytes &&
        !missing_marks.contains(MarkOf(folder_, name).file.hash)) {
      whole[file.hash] = *place;
    } else {
      missing.push_back(file);
      places_.erase(file.hash);
    }
  }
  uploaded_ = std::move(whole);
  return missing;
}

absl::StatusOr<S3SnapshotLog::Core::Upload> S3SnapshotLog::Core::BeginUpload(
    const SnapshotFile& file) {
  if (uploads_.size() >= kOpenUploadsMax)
    return absl::ResourceExhaustedError("too many files of snapshots are uploaded at a time");
  RETURN_IF_ERROR(FindFolder());
  Upload upload{.place = {folder_, runtime_.random().Next()}, .writer = nullptr};
  const std::string name = S3ObjectName(file.hash, upload.place.upload);
  RETURN_IF_ERROR(PutMark(MarkOf(folder_, name)));
  ASSIGN_OR_RETURN(const S3Address folder, ParseS3Address(folder_));
  ASSIGN_OR_RETURN(S3Client * client, ClientOf(folder.bucket));
  upload.writer = std::make_unique<S3Writer>(*client, absl::StrCat(folder.key, "/", name));
  return upload;
}

absl::Status S3SnapshotLog::Core::AddPart(Upload& upload, SnapshotPart part) {
  if (part.index < upload.next) return absl::OkStatus();  // again
  if (part.index > upload.next && upload.early.size() >= kEarlyPartsMax)
    return absl::ResourceExhaustedError("too many parts of a file have come before an earlier one");
  upload.early[part.index] = std::move(part.data);
  while (!upload.early.empty() && upload.early.begin()->first == upload.next) {
    RETURN_IF_ERROR(upload.writer->Add(upload.early.begin()->second));
    upload.early.erase(upload.early.begin());
    ++upload.next;
  }
  return upload.next == SnapshotParts(part.file.bytes) ? upload.writer->Finish() : absl::OkStatus();
}

absl::Status S3SnapshotLog::Core::PutPart(SnapshotPart part) {
  const SnapshotFile file = part.file;
  if (uploaded_.contains(file.hash)) return absl::OkStatus();
  auto open = uploads_.find(file.hash);
  if (open == uploads_.end()) {
    ASSIGN_OR_RETURN(Upload upload, BeginUpload(file));
    open = uploads_.emplace(file.hash, std::move(upload)).first;
  }
  const absl::Status added = AddPart(open->second, std::move(part));
  if (absl::IsResourceExhausted(added)) return added;
  if (added.ok() && open->second.next < SnapshotParts(file.bytes)) return added;
  if (added.ok()) uploaded_[file.hash] = open->second.place;
  uploads_.erase(open);
  // A trim ends uploads whose marks it has removed.
  return absl::IsNotFound(added) ? absl::AbortedError(added.message()) : added;
}

absl::Status S3SnapshotLog::Core::PutSnapshot(Snapshot snapshot) {
  RETURN_IF_ERROR(FindFolder());
  S3Snapshot stored{folder_, {}, snapshot.position, std::move(snapshot.details)};
  for (const SnapshotFile& file : snapshot.files) {
    const auto place = file.bytes == 0 ? Place() : OwnPlaceOf(file.hash);
    if (!place.has_value()) return absl::AbortedError("a file of the snapshot is not in S3");
    stored.files.push_back({file, place->upload});
  }
  ASSIGN_OR_RETURN(
      const auto put,
      log_.WaitForAll<absl::Status>(1, [&](size_t, std::function<void(absl::Status)> done) {
        log_.log().PutSnapshot(EncodeS3Snapshot(stored), std::move(done));
      }));
  RETURN_IF_ERROR(put.front());
  for (const auto& [file, upload] : stored.files) {
    if (auto uploaded = uploaded_.extract(file.hash)) places_[file.hash] = uploaded.mapped();
  }
  return absl::OkStatus();
}

absl::Status S3SnapshotLog::Core::FetchParts(const Place& place, const SnapshotFile& file,
                                             uint32_t index) {
  ASSIGN_OR_RETURN(const S3Address folder, ParseS3Address(place.folder));
  ASSIGN_OR_RETURN(S3Client * client, ClientOf(folder.bucket));
  const uint64_t from = index * uint64_t{kSnapshotPartBytes};
  ASSIGN_OR_RETURN(
      const std::string bytes,
      client->GetRange(absl::StrCat(folder.key, "/", S3ObjectName(file.hash, place.upload)), from,
                       std::min<uint64_t>(kReadPartsMax * kSnapshotPartBytes, file.bytes - from)));
  read_hash_ = file.hash;
  read_.clear();
  for (size_t begin = 0; begin < bytes.size(); begin += kSnapshotPartBytes)
    read_[index++] = bytes.substr(begin, kSnapshotPartBytes);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> S3SnapshotLog::Core::ReadPart(const SnapshotFile& file,
                                                                         uint32_t index) {
  // Each part is given once: then a file that was trimmed is not found.
  const auto take = [&]() -> std::optional<std::string> {
    if (read_hash_ != file.hash) return std::nullopt;
    auto part = read_.extract(index);
    return part ? std::optional<std::string>(std::move(part.mapped())) : std::nullopt;
  };
  if (auto part = take()) return part;
  if (inner_files_.contains(file.hash)) return std::nullopt;
  if (!places_.contains(file.hash)) RETURN_IF_ERROR(FindPlaces());
  auto found = places_.find(file.hash);
  if (found == places_.end()) return std::nullopt;
  const Place place = found->second;
  if (options_.address.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the files of the snapshot are in ", place.folder,
                     ": start the store with --snapshots=s3://BUCKET/PREFIX"));
  }
  if (index >= SnapshotParts(file.bytes)) return absl::NotFoundError("the file has no such part");
  absl::Status fetched = AsLogError(FetchParts(place, file, index));
  if (absl::IsNotFound(fetched)) {
    // A later snapshot may have the file in another place.
    RETURN_IF_ERROR(FindPlaces());
    found = places_.find(file.hash);
    if (found == places_.end()) return std::nullopt;
    if (found->second != place) fetched = AsLogError(FetchParts(found->second, file, index));
  }
  RETURN_IF_ERROR(fetched);
  return take();
}

absl::StatusOr<std::vector<S3SnapshotLog::Core::Found>> S3SnapshotLog::Core::FindTrimmed(
    std::vector<Found> found) {
  std::vector<SnapshotFile> marks;
  for (const Found& each : found) marks.push_back(each.mark);
  ASSIGN_OR_RETURN(const auto missing, MissingMarks(marks));
  std::erase_if(found, [&](const Found& each) { return !missing.contains(each.mark.hash); });
  return found;
}

absl::Status S3SnapshotLog::Core::DeleteTrimmed() {
  RETURN_IF_ERROR(FindFolder());
  ASSIGN_OR_RETURN(const S3Address folder, ParseS3Address(folder_));
  ASSIGN_OR_RETURN(S3Client * client, ClientOf(folder.bucket));
  const std::string prefix = folder.key + "/";
  std::vector<Found> found;
  const auto add = [&](const std::string& key, const std::string& upload_id) {
    const std::string name = key.substr(prefix.size());
    if (name.size() == kObjectNameBytes)  // others are not ours
      found.push_back({key, MarkOf(folder_, name).file, upload_id});
  };
  // All of them have got their marks before they are seen here.
  ASSIGN_OR_RETURN(const auto objects, client->List(prefix));
  for (const S3Object& object : objects) add(object.key, "");
  ASSIGN_OR_RETURN(const auto uploads, client->ListUploads(prefix));
  for (const S3Upload& upload : uploads) add(upload.key, upload.id);
  ASSIGN_OR_RETURN(std::vector<Found> trimmed, FindTrimmed(std::move(found)));
  if (trimmed.empty()) return absl::OkStatus();
  // A server that acknowledges a write now has all marks that were acknowledged before. This one is
  // of no object; the next trim removes it.
  RETURN_IF_ERROR(PutMark(MarkOf(folder_, absl::StrCat(runtime_.random().Next()))));
  ASSIGN_OR_RETURN(trimmed, FindTrimmed(std::move(trimmed)));
  for (const Found& each : trimmed) {
    RETURN_IF_ERROR(each.upload_id.empty() ? client->Delete(each.key)
                                           : client->AbortUpload({each.key, each.upload_id}));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<S3SnapshotLog>> S3SnapshotLog::Make(Runtime& runtime,
                                                                   SharedLog& inner,
                                                                   Options options) {
  if (!options.address.empty()) {
    RETURN_IF_ERROR(CheckS3SnapshotAddress(options.address));
    ASSIGN_OR_RETURN(const S3Address address, ParseS3Address(options.address));
    RETURN_IF_ERROR(options.reach(address.bucket).status());
  }
  return std::unique_ptr<S3SnapshotLog>(new S3SnapshotLog(runtime, inner, std::move(options)));
}

S3SnapshotLog::S3SnapshotLog(Runtime& runtime, SharedLog& inner, Options options)
    : ForwardingLog(inner),
      to_s3_(!options.address.empty()),
      executor_(runtime.NewExecutor("log-s3")),
      core_(std::make_unique<Core>(runtime, inner, std::move(options))) {}

S3SnapshotLog::~S3SnapshotLog() {
  core_->Cancel();
  executor_->Stop();
}

void S3SnapshotLog::MissingFiles(std::vector<SnapshotFile> files,
                                 Callback<std::vector<SnapshotFile>> done) {
  if (!to_s3_) return inner_.MissingFiles(std::move(files), std::move(done));
  if (auto status = ValidateFiles(files); !status.ok()) return done(status);
  executor_->Post([this, files = std::move(files), done = Surely(std::move(done))] {
    auto missing = core_->MissingFiles(files);
    done(missing.ok() ? std::move(missing) : AsLogError(missing.status()));
  });
}

void S3SnapshotLog::PutPart(SnapshotPart part, std::function<void(absl::Status)> done) {
  if (!to_s3_) return inner_.PutPart(std::move(part), std::move(done));
  if (auto status = ValidatePart(part); !status.ok()) return done(status);
  executor_->Post([this, part = std::move(part), done = Surely(std::move(done))]() mutable {
    done(AsLogError(core_->PutPart(std::move(part))));
  });
}

void S3SnapshotLog::PutSnapshot(Snapshot snapshot, std::function<void(absl::Status)> done) {
  if (!to_s3_) return inner_.PutSnapshot(std::move(snapshot), std::move(done));
  if (auto status = ValidateSnapshot(snapshot); !status.ok()) return done(status);
  executor_->Post([this, snapshot = std::move(snapshot), done = Surely(std::move(done))]() mutable {
    done(core_->PutSnapshot(std::move(snapshot)));
  });
}

void S3SnapshotLog::ListSnapshots(Callback<std::vector<Snapshot>> done) {
  inner_.ListSnapshots([this, executor = executor_,
                        done = std::move(done)](absl::StatusOr<std::vector<Snapshot>> stored) {
    if (!stored.ok()) return done(stored.status());
    executor->Post([this, stored = *stored] { core_->TakePlaces(stored).IgnoreError(); });
    for (Snapshot& each : *stored) {
      const auto snapshot = DecodeS3Snapshot(each);
      if (!snapshot.ok()) return done(snapshot.status());
      if (snapshot->has_value()) each = SnapshotOf(**snapshot);
    }
    done(std::move(stored));
  });
}

void S3SnapshotLog::ReadPart(SnapshotFile file, uint32_t index, Callback<std::string> done) {
  if (auto status = ValidateFiles({file}); !status.ok()) return done(status);
  executor_->Post([this, file = std::move(file), index, done = Surely(std::move(done))]() mutable {
    auto part = core_->ReadPart(file, index);
    if (!part.ok()) return done(AsLogError(part.status()));
    if (part->has_value()) return done(**std::move(part));
    inner_.ReadPart(std::move(file), index, std::move(done));
  });
}

void S3SnapshotLog::Trim(uint32_t snapshots_kept, Callback<TrimResult> done) {
  if (!to_s3_) return inner_.Trim(snapshots_kept, std::move(done));
  inner_.Trim(snapshots_kept, [this, executor = executor_, done = Surely(std::move(done))](
                                  const absl::StatusOr<TrimResult>& trimmed) {
    if (!trimmed.ok() || trimmed->more) return done(trimmed);
    executor->Post([this, trimmed, done] {
      const absl::Status deleted = AsLogError(core_->DeleteTrimmed());
      done(deleted.ok() ? trimmed : deleted);
    });
  });
}

}  // namespace escapement::kv
