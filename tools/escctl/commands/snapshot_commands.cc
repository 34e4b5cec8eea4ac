#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/kv/layout.h"
#include "common/kv/snapshot_file/snapshot_file.h"
#include "common/kv/wire/leader_search.h"
#include "common/rpc/status_conversion.h"
#include "escapement/v1/store_service.grpc.pb.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = 1 << 20;
constexpr char kStandardStream[] = "-";
constexpr char kDraft[] = ".part";

absl::Status CannotWrite(const std::string& path) {
  return absl::InternalError(absl::StrCat("cannot write ", path));
}

// Writes the snapshot while it comes, and checks it.
absl::Status Receive(Session& session, const std::string& name, std::ostream& out,
                     uint64_t& bytes) {
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
    if (status.ok() &&
        !out.write(response.data().data(), static_cast<std::streamsize>(response.data().size())))
      status = CannotWrite(name);
  }
  if (!status.ok()) context.TryCancel();
  const grpc::Status finished = reader->Finish();
  if (status.ok() && !finished.ok()) status = FromGrpcStatus(finished);
  if (status.ok()) status = check.Finish();
  if (status.ok() && !out.flush()) status = CannotWrite(name);
  return status;
}

// Receives the snapshot into a draft beside the file, and gives it its name once it is whole.
absl::Status Export(Session& session, const std::string& file, uint64_t& bytes) {
  if (fs::exists(file)) return absl::AlreadyExistsError(absl::StrCat(file, " exists"));
  const std::string draft = file + kDraft;
  std::ofstream out(draft, std::ios::binary | std::ios::trunc);
  if (!out) return CannotWrite(draft);
  absl::Status status = Receive(session, draft, out, bytes);
  out.close();
  if (status.ok() && !out) status = CannotWrite(draft);
  if (status.ok()) status = kv::SyncPath(draft);
  std::error_code error;
  if (!status.ok()) {
    fs::remove(draft, error);
    return status;
  }
  fs::rename(draft, file, error);
  return error ? CannotWrite(file) : kv::SyncPath(fs::absolute(file).parent_path());
}

// The name that a backup of this instant gets in a folder of backups. Names sort by time.
std::string BackupName(absl::Time time) {
  return absl::FormatTime("escapement-%Y%m%dT%H%M%SZ.snapshot", time, absl::UTCTimeZone());
}

// True if the name has the form that BackupName gives. Other files are never deleted.
bool IsBackupName(absl::string_view name) {
  const std::string model = BackupName(absl::UnixEpoch());
  return std::equal(name.begin(), name.end(), model.begin(), model.end(), [](char c, char m) {
    return absl::ascii_isdigit(m) ? absl::ascii_isdigit(c) : c == m;
  });
}

// Paths of the folder's backups, the newest first.
absl::StatusOr<std::vector<std::string>> BackupsIn(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    if (IsBackupName(each->path().filename().string())) paths.push_back(each->path().string());
  }
  if (error) return absl::InternalError(absl::StrCat("cannot read ", folder));
  std::sort(paths.rbegin(), paths.rend());
  return paths;
}

bool IsFolder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

absl::StatusOr<std::string> NewestBackup(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, BackupsIn(folder));
  if (paths.empty()) return absl::NotFoundError(absl::StrCat(folder, " has no backup"));
  return paths.front();
}

// Deletes the oldest backups of the folder, so that `keep` stay.
absl::Status DeleteOldBackups(const std::string& folder, size_t keep) {
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, BackupsIn(folder));
  std::error_code error;
  for (size_t i = keep; i < paths.size(); ++i) {
    fs::remove(paths[i], error);
    if (error) return absl::InternalError(absl::StrCat("cannot delete ", paths[i]));
  }
  return kv::SyncPath(folder);
}

// Deletes what exports left that were killed. Returns the first error, and goes on after it.
absl::Status DeleteDrafts(const std::string& folder) {
  absl::Status first;
  std::error_code unread;
  for (fs::directory_iterator each(folder, unread), end; !unread && each != end;) {
    const fs::path path = each->path();
    each.increment(unread);
    if (path.extension() != kDraft || !IsBackupName(path.stem().string())) continue;
    std::error_code error;
    fs::remove(path, error);
    if (error) first.Update(absl::InternalError(absl::StrCat("cannot delete ", path.string())));
  }
  if (unread) first.Update(absl::InternalError(absl::StrCat("cannot read ", folder)));
  return first;
}

absl::Status ExportTo(Session& session, const std::string& file, uint64_t& bytes) {
  return file == kStandardStream ? Receive(session, "the output", std::cout, bytes)
                                 : Export(session, file, bytes);
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

absl::Status Read(const std::string& file, const std::string& folder) {
  std::ifstream opened;
  if (file != kStandardStream) opened.open(file, std::ios::binary);
  std::istream& in = file == kStandardStream ? std::cin : opened;
  if (!in) return absl::NotFoundError(absl::StrCat("cannot read ", file));
  kv::SnapshotFileReader reader(folder);
  std::vector<char> buffer(kReadBytes);
  while (in) {
    in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    RETURN_IF_ERROR(reader.Take({buffer.data(), static_cast<size_t>(in.gcount())}));
  }
  if (in.bad()) return absl::InternalError(absl::StrCat("cannot read ", file));
  return reader.Finish();
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
absl::Status Import(const std::string& file, const std::string& data_dir, bool replace) {
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
  absl::Status status = Read(file, draft);
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
  size_t keep = 0;  // backups in the folder; 0: all
};

absl::Status RunExport(const ExportOptions& o, Session& session) {
  const bool into_folder = IsFolder(o.file);
  if (o.keep > 0 && !into_folder)
    return absl::InvalidArgumentError(absl::StrCat("--keep: ", o.file, " is not a folder"));
  const std::string file =
      into_folder ? (fs::path(o.file) / BackupName(absl::Now())).string() : o.file;
  uint64_t bytes = 0;
  absl::Status status = ExportTo(session, file, bytes);
  const bool elsewhere = absl::IsUnimplemented(status) || absl::IsUnavailable(status) ||
                         absl::IsFailedPrecondition(status);
  if (elsewhere && bytes == 0 && GoToLeader(session)) status = ExportTo(session, file, bytes);
  RETURN_IF_ERROR(status);
  session.Say(absl::StrCat(file, ": ", bytes, " bytes"));
  if (!into_folder) return absl::OkStatus();
  // The store makes one export at a time, so no other one has a draft here now.
  RETURN_IF_ERROR(DeleteDrafts(o.file));
  ASSIGN_OR_RETURN(const std::string newest, NewestBackup(o.file));
  if (newest != file) {
    return absl::FailedPreconditionError(
        absl::StrCat(newest,
                     " has a later name than the new backup: look at the clocks, and move "
                     "it away; nothing was deleted"));
  }
  return o.keep > 0 ? DeleteOldBackups(o.file, o.keep) : absl::OkStatus();
}

void AddExport(CLI::App& group, Session& session) {
  auto o = std::make_shared<ExportOptions>();
  CLI::App* command = group.add_subcommand(
      "export",
      "write a consistent copy of all data to a file; --server is a store, standalone, or a master "
      "of a replicated store");
  command
      ->add_option("FILE", o->file,
                   "a new file; - is the standard output; in a folder the file is called "
                   "escapement-TIME.snapshot")
      ->required();
  command
      ->add_option(
          "--keep", o->keep,
          "FILE is a folder: delete its oldest files of such names, so that this many stay")
      ->check(CLI::PositiveNumber);
  command->callback([o, &session] {
    const absl::Status status = RunExport(*o, session);
    if (!status.ok()) session.Fail(ToGrpcStatus(status));
  });
}

void AddImport(CLI::App& group, Session& session) {
  struct Options {
    std::string file;
    std::string data_dir;
    bool replace = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand(
      "import",
      "make a store's data folder, on this machine, of such a file; then start the store "
      "with it");
  command
      ->add_option("FILE", o->file,
                   "written by export; - is the standard input; of a folder the newest backup")
      ->required();
  command->add_option("--data-dir", o->data_dir, "a folder without a store")->required();
  command->add_flag("--replace", o->replace,
                    "the folder may have a store, whose process has ended; it is moved to former.N "
                    "in the folder once the file has been read");
  command->callback([o, &session] {
    absl::StatusOr<std::string> file = o->file;
    if (IsFolder(o->file)) file = NewestBackup(o->file);
    const absl::Status status = file.ok() ? Import(*file, o->data_dir, o->replace) : file.status();
    if (!status.ok()) return session.Fail(ToGrpcStatus(status));
    session.Say(absl::StrCat(*file, ": imported; ", o->data_dir,
                             " is a store's data folder; start the store with "
                             "--data_dir, and restart all its clients"));
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
