#include "tools/escctl/commands/backup_place.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/kv/layout.h"
#include "common/kv/snapshot_file/snapshot_file.h"
#include "common/s3/s3_address.h"
#include "common/s3/s3_client.h"

namespace escapement::escctl {
namespace {

namespace fs = std::filesystem;

constexpr char kBegin[] = "escapement-";
constexpr char kSnapshot[] = ".snapshot";
constexpr char kDraft[] = ".part";
constexpr size_t kReadBytes = 1 << 20;

absl::Status CannotWriteFile(const std::string& path) {
  return absl::InternalError(absl::StrCat("cannot write ", path));
}

// True if the name has the form that BackupName gives. Other files are never deleted.
bool IsBackupName(absl::string_view name) {
  const std::string model = BackupName(absl::UnixEpoch());
  return std::equal(name.begin(), name.end(), model.begin(), model.end(), [](char c, char m) {
    return absl::ascii_isdigit(m) ? absl::ascii_isdigit(c) : c == m;
  });
}

class BackupFolder final : public BackupPlace {
 public:
  explicit BackupFolder(std::string folder) : folder_(std::move(folder)) {}

  std::string PathOf(const std::string& name) const override { return fs::path(folder_) / name; }

  absl::Status Write(const std::string& name, FillFile fill) override {
    return WriteSnapshotFile(PathOf(name), fill);
  }

  absl::Status Read(const std::string& name, TakeBytes take) override {
    std::ifstream in(PathOf(name), std::ios::binary);
    return ReadSnapshot(in, PathOf(name), take);
  }

  absl::StatusOr<std::vector<std::string>> Names() override {
    std::error_code error;
    std::vector<std::string> names;
    for (fs::directory_iterator each(folder_, error), end; !error && each != end;
         each.increment(error)) {
      if (IsBackupName(each->path().filename().string()))
        names.push_back(each->path().filename().string());
    }
    if (error) return absl::InternalError(absl::StrCat("cannot read ", folder_));
    std::sort(names.rbegin(), names.rend());
    return names;
  }

  absl::Status Delete(const std::string& name) override {
    std::error_code error;
    fs::remove(PathOf(name), error);
    if (error) return absl::InternalError(absl::StrCat("cannot delete ", PathOf(name)));
    return kv::SyncPath(folder_);
  }

  absl::Status DeleteBroken(const std::string& before) override {
    absl::Status first;
    std::error_code unread;
    for (fs::directory_iterator each(folder_, unread), end; !unread && each != end;) {
      const fs::path path = each->path();
      each.increment(unread);
      const std::string name = path.stem().string();
      if (path.extension() != kDraft || !IsBackupName(name) || name >= before) continue;
      std::error_code error;
      fs::remove(path, error);
      if (error) first.Update(absl::InternalError(absl::StrCat("cannot delete ", path.string())));
    }
    if (unread) first.Update(absl::InternalError(absl::StrCat("cannot read ", folder_)));
    return first;
  }

 private:
  const std::string folder_;
};

// Escctl's advice for other codes is about its own server.
absl::Status AsS3Error(const absl::Status& status) {
  if (!absl::IsPermissionDenied(status) && !absl::IsUnavailable(status)) return status;
  return absl::FailedPreconditionError(status.message());
}

class BackupBucket final : public BackupPlace {
 public:
  BackupBucket(S3Address address, S3Options options)
      : address_(std::move(address)), client_(std::move(options)) {}

  std::string PathOf(const std::string& name) const override {
    return absl::StrCat("s3://", address_.bucket, "/", KeyOf(name));
  }

  // An object appears when it is complete. Otherwise the writer's end aborts the upload.
  absl::Status Write(const std::string& name, FillFile fill) override {
    S3Writer writer(client_, KeyOf(name));
    RETURN_IF_ERROR(
        fill([&writer](absl::string_view bytes) { return AsS3Error(writer.Add(bytes)); }));
    return AsS3Error(writer.Finish());
  }

  absl::Status Read(const std::string& name, TakeBytes take) override {
    return AsS3Error(client_.Get(KeyOf(name), take));
  }

  absl::StatusOr<std::vector<std::string>> Names() override {
    const absl::StatusOr<std::vector<S3Object>> objects = client_.List(KeyOf(kBegin));
    if (!objects.ok()) return AsS3Error(objects.status());
    std::vector<std::string> names;
    for (const S3Object& object : *objects) {
      const std::string name = NameOf(object.key);
      if (IsBackupName(name)) names.push_back(name);
    }
    std::sort(names.rbegin(), names.rend());
    return names;
  }

  absl::Status Delete(const std::string& name) override {
    return AsS3Error(client_.Delete(KeyOf(name)));
  }

  absl::Status DeleteBroken(const std::string& before) override {
    const absl::StatusOr<std::vector<S3Upload>> uploads = client_.ListUploads(KeyOf(kBegin));
    if (!uploads.ok()) return AsS3Error(uploads.status());
    for (const S3Upload& upload : *uploads) {
      const std::string name = NameOf(upload.key);
      if (IsBackupName(name) && name < before)
        RETURN_IF_ERROR(AsS3Error(client_.AbortUpload(upload)));
    }
    return absl::OkStatus();
  }

 private:
  std::string KeyOf(absl::string_view name) const {
    return absl::StrCat(address_.key, address_.key.empty() ? "" : "/", name);
  }
  // `key` begins with KeyOf("").
  std::string NameOf(const std::string& key) const { return key.substr(KeyOf("").size()); }

  const S3Address address_;  // the key is the prefix
  S3Client client_;
};

}  // namespace

std::string BackupName(absl::Time time) {
  return absl::FormatTime(absl::StrCat(kBegin, "%Y%m%dT%H%M%SZ", kSnapshot), time,
                          absl::UTCTimeZone());
}

// The bytes go to a draft beside the file, which gets its name at the end.
absl::Status WriteSnapshotFile(const std::string& path, FillFile fill) {
  if (fs::exists(path)) return absl::AlreadyExistsError(absl::StrCat(path, " exists"));
  const std::string draft = path + kDraft;
  std::ofstream out(draft, std::ios::binary | std::ios::trunc);
  if (!out) return CannotWriteFile(draft);
  absl::Status status = fill([&](absl::string_view bytes) {
    return out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()))
               ? absl::OkStatus()
               : CannotWriteFile(draft);
  });
  out.close();
  if (status.ok() && !out) status = CannotWriteFile(draft);
  if (status.ok()) status = kv::SyncPath(draft);
  std::error_code error;
  if (!status.ok()) {
    fs::remove(draft, error);
    return status;
  }
  fs::rename(draft, path, error);
  return error ? CannotWriteFile(path) : kv::SyncPath(fs::absolute(path).parent_path());
}

absl::Status ReadSnapshot(std::istream& in, absl::string_view name, TakeBytes take) {
  if (!in) return absl::NotFoundError(absl::StrCat("cannot read ", name));
  std::vector<char> buffer(kReadBytes);
  while (in) {
    in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    RETURN_IF_ERROR(take({buffer.data(), static_cast<size_t>(in.gcount())}));
  }
  if (in.bad()) return absl::InternalError(absl::StrCat("cannot read ", name));
  return absl::OkStatus();
}

std::unique_ptr<BackupPlace> NewBackupFolder(std::string folder) {
  return std::make_unique<BackupFolder>(std::move(folder));
}

absl::StatusOr<S3Backup> OpenS3Backup(absl::string_view address, const S3Flags& flags) {
  ASSIGN_OR_RETURN(S3Address parsed, ParseS3Address(address));
  S3Backup backup;
  if (absl::EndsWith(parsed.key, kSnapshot)) {
    const size_t slash = parsed.key.rfind('/');
    backup.name = slash == std::string::npos ? parsed.key : parsed.key.substr(slash + 1);
    parsed.key.resize(slash == std::string::npos ? 0 : slash);
  }
  absl::StatusOr<S3Options> options = S3OptionsOf(parsed.bucket, flags.region, flags.endpoint);
  if (!options.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--s3-endpoint, --s3-region: ", options.status().message()));
  }
  backup.place = std::make_unique<BackupBucket>(std::move(parsed), *std::move(options));
  return backup;
}

}  // namespace escapement::escctl
