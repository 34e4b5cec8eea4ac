#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/kv/layout.h"
#include "common/kv/snapshot_file/snapshot_file.h"
#include "common/kv/wire/leader_search.h"
#include "common/rpc/status_conversion.h"
#include "common/s3/s3_address.h"
#include "escapement/v1/store_service.grpc.pb.h"
#include "tools/escctl/commands/backup_place.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {
namespace {

namespace fs = std::filesystem;

constexpr char kStandardStream[] = "-";

absl::Status CannotWrite(const std::string& path) {
  return absl::InternalError(absl::StrCat("cannot write ", path));
}

// Gives the snapshot to `take` while it comes, and checks it.
absl::Status Receive(Session& session, TakeBytes take, uint64_t& bytes) {
  v1::StoreService::Stub stub(session.channel());
  grpc::ClientContext context;
  session.Authorize(context);
  const auto reader = stub.ExportSnapshot(&context, v1::ExportSnapshotRequest());
  v1::ExportSnapshotResponse response;
  kv::SnapshotFileReader check("");
  absl::Status status;
  while (status.ok() && reader->Read(&response)) {
    bytes += response.data().size();
    status = check.Take(response.data());
    if (status.ok()) status = take(response.data());
  }
  if (!status.ok()) context.TryCancel();
  const grpc::Status finished = reader->Finish();
  if (status.ok() && !finished.ok()) status = FromGrpcStatus(finished);
  return status.ok() ? check.Finish() : status;
}

absl::Status WriteToOutput(FillFile fill) {
  const auto written = [](std::ostream& out) {
    return out ? absl::OkStatus() : CannotWrite("the output");
  };
  RETURN_IF_ERROR(fill([&written](absl::string_view bytes) {
    return written(std::cout.write(bytes.data(), static_cast<std::streamsize>(bytes.size())));
  }));
  return written(std::cout.flush());
}

bool IsFolder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// Only the store that leads has the data to export. A master, or a store that follows, knows it.
// Returns false if the server is that store, or knows none.
bool GoToLeader(Session& session) {
  v1::StoreStatus status;
  if (!session.Call(&v1::StoreService::Stub::GetStatus, v1::GetStatusRequest(), status).ok())
    return false;
  const std::string& leader = status.replication().leader_address();
  if (leader.empty() || leader == session.server() || !kv::OfLeader(status)) return false;
  session.CallServer(leader);
  return true;
}

// The parts of a store that the folder has.
std::vector<fs::path> StoreIn(const fs::path& data_dir) {
  std::vector<fs::path> parts;
  for (const char* name : {kv::kDatabaseFolder, kv::kWitnessFile, kv::kReplicaFolder}) {
    if (fs::exists(data_dir / name)) parts.push_back(data_dir / name);
  }
  return parts;
}

// True if a process has the database open: RocksDB holds a lock on this file.
bool IsOpen(const fs::path& database) {
  const int file = open((database / "LOCK").c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return false;
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const bool held = fcntl(file, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  close(file);
  return held;
}

// Moves the store that the folder has to a folder of its own inside it.
absl::Status MoveAside(const fs::path& data_dir) {
  fs::path former;
  for (int i = 1; former.empty() || fs::exists(former); ++i)
    former = data_dir / absl::StrCat("former.", i);
  std::error_code error;
  if (!fs::create_directory(former, error)) return CannotWrite(former);
  for (const fs::path& part : StoreIn(data_dir)) {
    fs::rename(part, former / part.filename(), error);
    if (error) return CannotWrite(former);
  }
  return kv::SyncPath(data_dir);
}

// Makes a data folder. It has its database only once that is complete.
absl::Status Import(FillFile file, const std::string& data_dir, bool replace) {
  std::error_code error;
  fs::create_directories(data_dir, error);
  if (error) return CannotWrite(data_dir);
  fs::permissions(data_dir, fs::perms::owner_all, error);
  if (!replace && !StoreIn(data_dir).empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        data_dir, " has a store already: import into an empty folder, or use --replace"));
  }
  for (const fs::path& part : StoreIn(data_dir)) {
    if (IsOpen(part) || IsOpen(part / kv::kDatabaseFolder)) {
      return absl::FailedPreconditionError(
          absl::StrCat("a process uses the store in ", data_dir, ": stop it first"));
    }
  }
  const std::string draft = data_dir + "/importing";
  fs::remove_all(draft, error);
  fs::create_directory(draft, error);
  if (error) return CannotWrite(draft);
  kv::SnapshotFileReader reader(draft);
  absl::Status status = file([&reader](absl::string_view bytes) { return reader.Take(bytes); });
  if (status.ok()) status = reader.Finish();
  if (status.ok() && !StoreIn(data_dir).empty()) status = MoveAside(data_dir);
  if (status.ok()) {
    const std::string imported = absl::StrCat(data_dir, "/", kv::kImportedFile);
    if (!std::ofstream(imported)) return CannotWrite(imported);
    status = kv::SyncPath(data_dir);
  }
  if (!status.ok()) {
    fs::remove_all(draft, error);
    return status;
  }
  fs::rename(draft, absl::StrCat(data_dir, "/", kv::kDatabaseFolder), error);
  return error ? CannotWrite(data_dir) : kv::SyncPath(data_dir);
}

struct ExportOptions {
  std::string file;
  size_t keep = 0;  // backups in the place; 0: all
  S3Flags s3;
};

void AddS3Flags(CLI::App& command, S3Flags& flags) {
  command
      .add_option("--s3-endpoint", flags.endpoint,
                  "https://HOST:PORT of a service with the API of S3, with the bucket in the path, "
                  "or {bucket} in HOST; default: AWS")
      ->envname("AWS_ENDPOINT_URL_S3");
  command.add_option("--s3-region", flags.region,
                     "region of the bucket; default: AWS_REGION, and us-east-1 at an endpoint");
}

// Deletes the oldest backups, so that `keep` stay. The newest one must be `name`.
absl::Status KeepBackups(BackupPlace& place, const std::string& name, size_t keep) {
  // The store makes one export at a time, so no other one writes here now.
  RETURN_IF_ERROR(place.DeleteBroken(name));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, place.Names());
  if (names.empty() || names.front() != name) {
    return absl::FailedPreconditionError(
        absl::StrCat(place.PathOf(names.empty() ? name : names.front()),
                     names.empty() ? " is gone"
                                   : " has a later name than the new backup: look at the clocks, "
                                     "and move it away; nothing was deleted"));
  }
  for (size_t i = keep; keep > 0 && i < names.size(); ++i) RETURN_IF_ERROR(place.Delete(names[i]));
  return absl::OkStatus();
}

absl::Status RunExport(const ExportOptions& o, Session& session) {
  std::unique_ptr<BackupPlace> place;  // null: FILE is one file
  const bool in_s3 = IsS3Address(o.file);
  if (in_s3) {
    ASSIGN_OR_RETURN(S3Backup backup, OpenS3Backup(o.file, o.s3));
    if (!backup.name.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(o.file, " is the address of one backup: give s3://BUCKET/PREFIX"));
    }
    place = std::move(backup.place);
  } else if (IsFolder(o.file)) {
    place = NewBackupFolder(o.file);
  } else if (o.keep > 0) {
    return absl::InvalidArgumentError(absl::StrCat("--keep: ", o.file, " is not a folder"));
  }
  const std::string name = BackupName(absl::Now());
  uint64_t bytes = 0;
  const auto fill = [&](TakeBytes take) { return Receive(session, take, bytes); };
  const auto write = [&] {
    if (place != nullptr) return place->Write(name, fill);
    return o.file == kStandardStream ? WriteToOutput(fill) : WriteSnapshotFile(o.file, fill);
  };
  absl::Status status = write();
  const bool elsewhere = absl::IsUnimplemented(status) || absl::IsUnavailable(status) ||
                         absl::IsFailedPrecondition(status);
  if (elsewhere && bytes == 0 && GoToLeader(session)) status = write();
  RETURN_IF_ERROR(status);
  session.Say(absl::StrCat(place == nullptr ? o.file : place->PathOf(name), ": ", bytes, " bytes"));
  // Without --keep, the caller needs no right in the bucket but to write.
  if (place == nullptr || (in_s3 && o.keep == 0)) return absl::OkStatus();
  return KeepBackups(*place, name, o.keep);
}

void AddExport(CLI::App& group, Session& session) {
  auto o = std::make_shared<ExportOptions>();
  CLI::App* command = group.add_subcommand(
      "export",
      "write a consistent copy of all data to a file; --server is a store, standalone, or a master "
      "of a replicated store");
  command
      ->add_option("FILE", o->file,
                   "a new file; - is the standard output; in a folder, or below "
                   "s3://BUCKET/PREFIX, the file is called escapement-TIME.snapshot")
      ->required();
  command
      ->add_option("--keep", o->keep,
                   "FILE is a folder, or s3://BUCKET/PREFIX: delete its oldest files of such "
                   "names, so that this many stay")
      ->check(CLI::PositiveNumber);
  AddS3Flags(*command, o->s3);
  command->callback([o, &session] {
    const absl::Status status = RunExport(*o, session);
    if (!status.ok()) session.Fail(ToGrpcStatus(status));
  });
}

struct ImportOptions {
  std::string file;
  std::string data_dir;
  bool replace = false;
  S3Flags s3;
};

absl::Status RunImport(const ImportOptions& o, Session& session) {
  S3Backup backup;  // no place: FILE is one file
  if (IsS3Address(o.file)) {
    ASSIGN_OR_RETURN(backup, OpenS3Backup(o.file, o.s3));
  } else if (IsFolder(o.file)) {
    backup.place = NewBackupFolder(o.file);
  }
  if (backup.place != nullptr && backup.name.empty()) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names, backup.place->Names());
    if (names.empty()) return absl::NotFoundError(absl::StrCat(o.file, " has no backup"));
    backup.name = names.front();
  }
  const auto file = [&](TakeBytes take) {
    if (backup.place != nullptr) return backup.place->Read(backup.name, take);
    std::ifstream opened;
    if (o.file != kStandardStream) opened.open(o.file, std::ios::binary);
    return ReadSnapshot(o.file == kStandardStream ? std::cin : opened, o.file, take);
  };
  RETURN_IF_ERROR(Import(file, o.data_dir, o.replace));
  session.Say(absl::StrCat(
      backup.place == nullptr ? o.file : backup.place->PathOf(backup.name), ": imported; ",
      o.data_dir,
      " is a store's data folder; start the store with --data_dir, and restart all its clients"));
  return absl::OkStatus();
}

void AddImport(CLI::App& group, Session& session) {
  auto o = std::make_shared<ImportOptions>();
  CLI::App* command = group.add_subcommand(
      "import",
      "make a store's data folder, on this machine, of such a file; then start the store "
      "with it");
  command
      ->add_option("FILE", o->file,
                   "written by export, also s3://BUCKET/PREFIX/NAME; - is the standard input; of "
                   "a folder, or s3://BUCKET/PREFIX, the newest backup")
      ->required();
  command->add_option("--data-dir", o->data_dir, "a folder without a store")->required();
  command->add_flag("--replace", o->replace,
                    "the folder may have a store, whose process has ended; it is moved to former.N "
                    "in the folder once the file has been read");
  AddS3Flags(*command, o->s3);
  command->callback([o, &session] {
    const absl::Status status = RunImport(*o, session);
    if (!status.ok()) session.Fail(ToGrpcStatus(status));
  });
}

}  // namespace

void AddSnapshotCommands(CLI::App& store, Session& session) {
  CLI::App* group = store.add_subcommand("snapshot", "backups");
  group->require_subcommand(1);
  group->fallthrough();
  AddExport(*group, session);
  AddImport(*group, session);
}

}  // namespace escapement::escctl
