#include "common/kv/replica/move_store.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/kv/layout.h"
#include "common/kv/log/blocking_log.h"
#include "common/kv/replica/leader_log.h"
#include "common/kv/replica/log_record.h"
#include "common/kv/replica/rocks_replica.h"
#include "common/kv/replica/snapshot_keeper.h"
#include "common/kv/replica/snapshot_transfer.h"
#include "common/kv/replica/takeover_timer.h"
#include "common/kv/rocks/rocks_database.h"
#include "common/kv/rocks/store_database.h"
#include "common/kv/snapshot_file/snapshot_file.h"

namespace escapement::kv {
namespace {

namespace fs = std::filesystem;

constexpr char kWorkFolder[] = "moving";
constexpr absl::Duration kPollInterval = absl::Milliseconds(50);

absl::Status Rename(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (!error) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cannot move ", from, " to ", to, ": ", error.message()));
}

void Remove(const std::string& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error)
    Log(LogLevel::kWarning, "move", "cannot delete a folder",
        {{"folder", folder}, {"error", error.message()}});
}

absl::StatusOr<LogState> ReadState(BlockingLog& log) {
  return log.Wait<LogState>([&](auto done) { log.log().ReadState(std::move(done)); });
}

absl::StatusOr<ReadResult> Read(BlockingLog& log, const LogPosition& after) {
  ReadRequest request;
  request.after = after;
  return log.Wait<ReadResult>([&](auto done) { log.log().Read(request, std::move(done)); });
}

absl::StatusOr<LeadResult> Lead(Runtime& runtime, BlockingLog& log, const LogState& seen) {
  LeadRequest request;
  request.seen = seen;
  request.owner = absl::StrCat("move-", absl::Hex(runtime.random().Next(), absl::kZeroPad16));
  return log.Wait<LeadResult>([&](auto done) { log.log().Lead(request, std::move(done)); });
}

void Pause(Runtime& runtime) {
  const auto executor = runtime.NewExecutor("pause");
  absl::Notification over;
  executor->PostAfter(kPollInterval, [&over] { over.Notify(); });
  over.WaitForNotification();
  executor->Stop();
}

// Appends one row behind `place`, which is the log's end, and waits until it is settled.
absl::StatusOr<LogPlace> Append(Runtime& runtime, SharedLog& log, const LogTerm& term,
                                const LogPlace& place, std::string row) {
  LeaderLog::Options options;
  options.term = term;
  options.place = place;
  auto leader = std::make_shared<LeaderLog>(runtime, log, std::move(options));
  absl::Notification settled;
  absl::StatusOr<LogPlace> appended;
  leader->Append(std::move(row), [&](absl::StatusOr<LogPlace> result) {
    appended = std::move(result);
    settled.Notify();
  });
  settled.WaitForNotification();
  leader->Stop();
  return appended;
}

// Changes the own keys of the database in `folder`.
template <typename F>
absl::Status ChangeDatabase(const RocksKvStore::Options& options, const std::string& folder,
                            F change) {
  ASSIGN_OR_RETURN(auto database, RocksDatabase::Open(folder, StoreDatabaseOptions(options)));
  change(database->batch());
  database->Write();
  return absl::OkStatus();
}

// The log's first row. Its state is in a snapshot of the same row. It names the state's last
// commit, so that another attempt can tell whether it is its own.
std::string MovedInRow(const RocksKvStore::Info& info) {
  RecordWriter row(RecordKind::kMovedIn);
  row.Put(ColumnFamily::kMeta, kIncarnationKey, EncodeU64(info.incarnation));
  row.Put(ColumnFamily::kMeta, kSeqKey, EncodeU64(info.seq));
  return row.Take();
}

// The place of the row, which is appended unless an earlier attempt has done it.
absl::StatusOr<LogPlace> AppendMovedIn(Runtime& runtime, BlockingLog& log, const std::string& row) {
  ASSIGN_OR_RETURN(const auto state, ReadState(log));
  const absl::Status taken = absl::FailedPreconditionError(
      "the shared log has a store already: give another name by --replicated_log");
  if (state.last.seq > 1) return taken;
  ASSIGN_OR_RETURN(const auto led, Lead(runtime, log, state));
  LogPlace begin;
  begin.position = led.first;
  begin.genesis = led.first.chain;
  if (led.last.seq == 0) return Append(runtime, log.log(), led.term, begin, row);
  ASSIGN_OR_RETURN(const auto read, Read(log, led.first));
  if (read.rows.size() != 1 || *read.rows.front().data != row) return taken;
  return PlaceBehind(begin, read.rows.front());
}

// Fills the copy with the newest snapshot, or begins an empty one.
absl::Status BeginCopy(Runtime& runtime, SharedLog& log, RocksReplica& copy,
                       const LogState& state) {
  SnapshotKeeper keeper(runtime, log, copy);
  const std::string folder = absl::StrCat(copy.scratch(), "/restore");
  absl::Notification restored;
  absl::StatusOr<ReplicaSnapshots::Found> found;
  keeper.Restore(folder, [&](absl::StatusOr<ReplicaSnapshots::Found> result) {
    found = std::move(result);
    restored.Notify();
  });
  restored.WaitForNotification();
  if (!found.ok()) return found.status();
  return found->has_value() ? copy.Adopt(folder) : copy.Begin(state.first);
}

// Applies the log's rows to the copy, up to its end. True if the last one says that the store has
// moved out; that one is not applied.
absl::StatusOr<bool> CatchUp(Runtime& runtime, BlockingLog& log, RocksReplica& copy,
                             const LogState& state) {
  bool dropped = false;
  while (true) {
    const std::optional<LogPlace> place = copy.place();
    if (!place.has_value()) {
      RETURN_IF_ERROR(BeginCopy(runtime, log.log(), copy, state));
      continue;
    }
    auto read = Read(log, place->position);
    absl::Status status = read.status();
    bool moved_out = false;
    if (status.ok() && !read->rows.empty()) {
      RecordKind last = RecordKind::kBatch;
      RETURN_IF_ERROR(ReadRecordKind(*read->rows.back().data, last));
      moved_out = last == RecordKind::kMovedOut;
      if (moved_out) read->rows.pop_back();
      if (!read->rows.empty()) status = copy.Apply(read->rows);
    }
    if (!status.ok()) {
      // The copy may be an old one; a new one must do.
      if (std::exchange(dropped, true)) return status;
      RETURN_IF_ERROR(copy.Drop());
    } else if (moved_out || !read->more) {
      return moved_out;
    }
  }
}

// Applies all rows and ends the log. The log's leader must be silent.
absl::Status TakeLast(Runtime& runtime, BlockingLog& log, RocksReplica& copy) {
  TakeoverTimer timer;
  std::optional<LogPosition> first_seen;
  while (true) {
    ASSIGN_OR_RETURN(const auto state, ReadState(log));
    if (state.leader.epoch == 0)
      return absl::FailedPreconditionError("there is no log with this name");
    ASSIGN_OR_RETURN(const auto moved_out, CatchUp(runtime, log, copy, state));
    if (moved_out) return absl::OkStatus();
    if (!first_seen.has_value()) first_seen = state.last;
    if (*first_seen != state.last)
      return absl::FailedPreconditionError("a replica still leads: stop all of them first");
    timer.Observe(state, runtime.clock().Elapsed());
    const LogPlace place = *copy.place();
    if (!timer.MayLead(place, runtime.clock().Elapsed())) {
      Pause(runtime);
      continue;
    }
    ASSIGN_OR_RETURN(const auto led, Lead(runtime, log, state));
    return Append(runtime, log.log(), led.term, place, RecordWriter(RecordKind::kMovedOut).Take())
        .status();
  }
}

}  // namespace

absl::Status MoveStoreIntoLog(RocksKvStore::Options options, Runtime& runtime, SharedLog& log) {
  const std::string folder = options.data_dir;
  const std::string database = absl::StrCat(folder, "/", kDatabaseFolder);
  if (!fs::exists(database))
    return absl::FailedPreconditionError(absl::StrCat(folder, " has no store to move"));
  // While it is open, no other process can open it.
  ASSIGN_OR_RETURN(auto store, RocksKvStore::Open(options, runtime.clock()));
  const std::string work = absl::StrCat(folder, "/", kWorkFolder);
  Remove(work);
  RETURN_IF_ERROR(store->MakeCheckpoint(work));
  const RocksKvStore::Info info = store->info();
  BlockingLog blocking(log);
  ASSIGN_OR_RETURN(const auto place, AppendMovedIn(runtime, blocking, MovedInRow(info)));
  RETURN_IF_ERROR(ChangeDatabase(options, work, [&](WriteSink& batch) {
    batch.Put(ColumnFamily::kMeta, kLogPlaceKey, EncodeLogPlace(place));
  }));
  FileHashes hashes;
  ASSIGN_OR_RETURN(const auto uploaded,
                   UploadSnapshot(blocking, work, place, info.store_time, hashes));
  store.reset();
  Remove(work);
  const std::string moved = absl::StrCat(folder, "/", kMovedFolder);
  std::error_code error;
  fs::create_directories(moved, error);
  RETURN_IF_ERROR(Rename(database, absl::StrCat(moved, "/", kDatabaseFolder)));
  RETURN_IF_ERROR(
      Rename(absl::StrCat(folder, "/", kWitnessFile), absl::StrCat(moved, "/", kWitnessFile)));
  RETURN_IF_ERROR(SyncPath(folder));
  Log(LogLevel::kInfo, "move", "the store is in the shared log",
      {{"bytes", uploaded.bytes}, {"commit", info.seq}, {"former_database", moved}});
  return absl::OkStatus();
}

absl::Status MoveStoreOutOfLog(RocksKvStore::Options options, Runtime& runtime, SharedLog& log) {
  const std::string folder = options.data_dir;
  const std::string database = absl::StrCat(folder, "/", kDatabaseFolder);
  if (fs::exists(database))
    return absl::FailedPreconditionError(absl::StrCat(folder, " has a store already"));
  options.data_dir = absl::StrCat(folder, "/", kReplicaFolder);
  ASSIGN_OR_RETURN(auto copy,
                   RocksReplica::Open(options, runtime.clock(), [] { return std::string(); }));
  BlockingLog blocking(log);
  RETURN_IF_ERROR(TakeLast(runtime, blocking, *copy));
  const std::string work = absl::StrCat(folder, "/", kWorkFolder);
  Remove(work);
  RETURN_IF_ERROR(copy->MakeCheckpoint(work));
  copy.reset();
  RETURN_IF_ERROR(ChangeDatabase(
      options, work, [](WriteSink& batch) { batch.Delete(ColumnFamily::kMeta, kLogPlaceKey); }));
  RETURN_IF_ERROR(Rename(work, database));
  RETURN_IF_ERROR(SyncPath(folder));
  Remove(options.data_dir);
  Log(LogLevel::kInfo, "move", "the store has left the shared log", {{"data_dir", folder}});
  return absl::OkStatus();
}

}  // namespace escapement::kv
