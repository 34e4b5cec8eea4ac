#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/kv/layout.h"
#include "common/kv/snapshot_file/snapshot_file.h"
#include "common/rpc/status_conversion.h"
#include "escapement/v1/store_service.grpc.pb.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = 1 << 20;
constexpr char kStandardStream[] = "-";

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
    if (!out.write(response.data().data(), static_cast<std::streamsize>(response.data().size())))
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
  const std::string draft = file + ".part";
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

void AddExport(CLI::App& group, Session& session) {
  auto file = std::make_shared<std::string>();
  CLI::App* command = group.add_subcommand(
      "export",
      "write a consistent copy of all data to a file; --server is the store that leads, "
      "or standalone");
  command->add_option("FILE", *file, "a new file; - is the standard output")->required();
  command->callback([file, &session] {
    uint64_t bytes = 0;
    const absl::Status status = *file == kStandardStream
                                    ? Receive(session, "the output", std::cout, bytes)
                                    : Export(session, *file, bytes);
    if (!status.ok()) return session.Fail(ToGrpcStatus(status));
    session.Say(absl::StrCat(*file, ": ", bytes, " bytes"));
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
  command->add_option("FILE", o->file, "written by export; - is the standard input")->required();
  command->add_option("--data-dir", o->data_dir, "a folder without a store")->required();
  command->add_flag("--replace", o->replace,
                    "the folder may have a store, whose process has ended; it is moved to former.N "
                    "in the folder once the file has been read");
  command->callback([o, &session] {
    const absl::Status status = Import(o->file, o->data_dir, o->replace);
    if (!status.ok()) return session.Fail(ToGrpcStatus(status));
    session.Say(absl::StrCat(o->data_dir,
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
