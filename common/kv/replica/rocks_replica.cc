#include "common/kv/replica/rocks_replica.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/kv/engine/store_clock.h"
#include "common/kv/engine/store_kernel.h"
#include "common/kv/layout.h"
#include "common/kv/not_leader.h"
#include "common/kv/replica/log_record.h"
#include "common/kv/replica/takeover_timer.h"
#include "common/kv/rocks/batch_log.h"
#include "common/kv/rocks/room_wait.h"
#include "common/kv/rocks/store_database.h"

namespace escapement::kv {

namespace {

absl::Time StoreTimeIn(RocksDatabase& database) {
  std::string value;
  if (!database.Get(ColumnFamily::kMeta, kClockKey, value)) return absl::InfinitePast();
  const auto record = DecodeClockRecord(value);
  return record.ok() ? record->store_time : absl::InfinitePast();
}

}  // namespace

// The writer's side of the leader's log.
class RocksReplica::Appender final : public BatchLog {
 public:
  Appender(std::shared_ptr<LeaderLog> log, const RocksReplica& replica)
      : log_(std::move(log)), replica_(replica) {}

  WriteSink& Begin(WriteSink& local, Last last) override {
    local_ = &local;
    record_.emplace(last == Last::kYes ? RecordKind::kHandover : RecordKind::kBatch);
    return tee_;
  }

  void Send(absl::Duration began, Done done) override {
    const absl::Duration sent = replica_.clock_.Elapsed();
    // The store waits for `done` before it ends, so this object outlives the call.
    log_->Append(record_->Take(),
                 [this, began, sent, done = std::move(done)](absl::StatusOr<LogPlace> place) {
                   if (!place.ok()) return done(place.status());
                   if (replica_.on_append_) replica_.on_append_(replica_.clock_.Elapsed() - sent);
                   log_->lease().Renew(began);
                   done(EncodeLogPlace(*place));
                 });
  }

  absl::Status MayAnswer() const override {
    if (log_->lease().Holds(replica_.clock_.Elapsed())) return absl::OkStatus();
    // Perhaps another store leads by now, and perhaps not: a client asks all of them.
    return NotLeader("");
  }

  absl::Status WhyEnded() const override { return NotLeader(replica_.leader_address_()); }

 private:
  class Tee final : public WriteSink {
   public:
    explicit Tee(Appender& appender) : appender_(appender) {}
    void Put(ColumnFamily cf, absl::string_view key, absl::string_view value) override {
      appender_.record_->Put(cf, key, value);
      appender_.local_->Put(cf, key, value);
    }
    void Delete(ColumnFamily cf, absl::string_view key) override {
      appender_.record_->Delete(cf, key);
      appender_.local_->Delete(cf, key);
    }
    void DeleteRange(ColumnFamily cf, absl::string_view begin, absl::string_view end) override {
      appender_.record_->DeleteRange(cf, begin, end);
      appender_.local_->DeleteRange(cf, begin, end);
    }

   private:
    Appender& appender_;
  };

  const std::shared_ptr<LeaderLog> log_;
  const RocksReplica& replica_;
  Tee tee_{*this};
  std::optional<RecordWriter> record_;
  WriteSink* local_ = nullptr;
};

absl::StatusOr<std::unique_ptr<RocksReplica>> RocksReplica::Open(
    RocksKvStore::Options options, Clock& clock, std::function<std::string()> leader_address,
    std::function<void(absl::Duration)> on_append) {
  RETURN_IF_ERROR(ValidateLayout(options.layout));
  if (!options.on_fatal) options.on_fatal = EndStoreProcess;
  options.beat_interval = kBeatInterval;
  std::unique_ptr<RocksReplica> replica(
      new RocksReplica(std::move(options), clock, std::move(leader_address), std::move(on_append)));
  RETURN_IF_ERROR(replica->OpenDatabase());
  return replica;
}

RocksReplica::RocksReplica(RocksKvStore::Options options, Clock& clock,
                           std::function<std::string()> leader_address,
                           std::function<void(absl::Duration)> on_append)
    : options_(std::move(options)),
      clock_(clock),
      leader_address_(std::move(leader_address)),
      on_append_(std::move(on_append)) {}

RocksReplica::~RocksReplica() = default;

std::string RocksReplica::path() const {
  return absl::StrCat(options_.data_dir, "/", kDatabaseFolder);
}

absl::Status RocksReplica::OpenDatabase() {
  std::error_code error;
  std::filesystem::create_directories(options_.data_dir, error);
  if (error) {
    return absl::InternalError(
        absl::StrCat("cannot make ", options_.data_dir, ": ", error.message()));
  }
  const RocksDatabase::Options options = StoreDatabaseOptions(options_);
  auto database = RocksDatabase::Open(path(), options);
  // Neither another process nor a full disk says that the copy is damaged.
  if (!database.ok() && !absl::IsUnavailable(database.status()) &&
      !absl::IsResourceExhausted(database.status())) {
    Log(LogLevel::kWarning, "replica", "the copy cannot be opened: it is made again",
        {{"error", database.status().ToString()}});
    RETURN_IF_ERROR(Rename(absl::StrCat(path(), ".aside.damaged")));
    database = RocksDatabase::Open(path(), options);
  }
  if (!database.ok()) return database.status();
  database_ = *std::move(database);
  absl::MutexLock lock(&mu_);
  room_ = database_->room();
  if (ending_) {
    room_->End();
  } else {
    room_->Begin();
  }
  return absl::OkStatus();
}

void RocksReplica::EndWaits() {
  absl::MutexLock lock(&mu_);
  ending_ = true;
  room_->End();
}

std::optional<LogPlace> RocksReplica::place() {
  std::string value;
  if (!database_->Get(ColumnFamily::kMeta, kLogPlaceKey, value)) return std::nullopt;
  auto place = DecodeLogPlace(value);
  if (!place.ok()) options_.on_fatal(place.status());
  return *place;
}

absl::Status RocksReplica::Begin(const LogPosition& first) {
  LogPlace place;
  place.position = first;
  place.genesis = first.chain;
  database_->batch().Put(ColumnFamily::kMeta, kLogPlaceKey, EncodeLogPlace(place));
  database_->WriteUnsynced();
  return absl::OkStatus();
}

absl::Status RocksReplica::Apply(const std::vector<LogRow>& rows) {
  LogPlace place = *this->place();
  for (const LogRow& row : rows) {
    absl::StatusOr<LogPlace> next = PlaceBehind(place, row);
    absl::Status status = next.status();
    if (status.ok() && next->kind == RecordKind::kMovedIn && !StoreKernel::Exists(*database_))
      status = absl::OutOfRangeError("the state before this row is in a snapshot");
    if (status.ok() && next->kind == RecordKind::kMovedOut)
      status = absl::FailedPreconditionError("the store has moved out of the shared log");
    if (status.ok()) status = ApplyRecord(*row.data, database_->batch());
    if (!status.ok()) {
      database_->ClearBatch();
      return status;
    }
    place = *next;
  }
  database_->batch().Put(ColumnFamily::kMeta, kLogPlaceKey, EncodeLogPlace(place));
  database_->WriteUnsynced();
  return absl::OkStatus();
}

absl::Status RocksReplica::Drop() {
  database_.reset();
  std::error_code error;
  std::filesystem::remove_all(path(), error);
  if (error)
    Log(LogLevel::kWarning, "replica", "cannot delete the copy", {{"error", error.message()}});
  absl::Status status = OpenDatabase();
  // Without a database nothing can go on.
  if (!status.ok()) options_.on_fatal(status);
  return status;
}

absl::Status RocksReplica::NameLog(uint64_t genesis) {
  LogPlace place = *this->place();
  place.genesis = genesis;
  database_->batch().Put(ColumnFamily::kMeta, kLogPlaceKey, EncodeLogPlace(place));
  database_->WriteUnsynced();
  return absl::OkStatus();
}

absl::Status RocksReplica::SetAside() {
  const std::optional<LogPlace> last = place();
  database_.reset();
  const absl::Status renamed =
      Rename(absl::StrCat(path(), ".aside.", last.has_value() ? last->position.seq : 0));
  absl::Status status = OpenDatabase();
  // Without a database nothing can go on.
  if (!status.ok()) options_.on_fatal(status);
  return renamed.ok() ? status : renamed;
}

absl::Status RocksReplica::Rename(std::string name) {
  while (std::filesystem::exists(name)) name += "+";
  std::error_code error;
  std::filesystem::rename(path(), name, error);
  if (error) return absl::InternalError(absl::StrCat("cannot rename the copy: ", error.message()));
  Log(LogLevel::kWarning, "replica", "the copy is kept aside", {{"folder", name}});
  return absl::OkStatus();
}

std::string RocksReplica::LeaderRecord() {
  RecordWriter record(RecordKind::kLeader);
  if (!StoreKernel::Exists(*database_)) {
    StoreKernel::Create(record, static_cast<uint64_t>(ToMicros(clock_.WallNow())), options_.layout);
  } else if (options_.accept_loss && !loss_accepted_) {
    StoreKernel::NewIncarnation(*database_, record,
                                static_cast<uint64_t>(ToMicros(clock_.WallNow())));
  }
  return record.Take();
}

void RocksReplica::StartLeading(std::shared_ptr<LeaderLog> log, absl::Duration clock_age,
                                std::function<void(absl::Status)> started) {
  appender_ = std::make_unique<Appender>(std::move(log), *this);
  auto store =
      RocksKvStore::OpenReplica(options_, clock_, {std::move(database_), *appender_, clock_age});
  if (!store.ok()) return started(store.status());
  loss_accepted_ = true;
  {
    absl::MutexLock lock(&mu_);
    store_ = *std::move(store);
  }
  started(absl::OkStatus());
}

void RocksReplica::CloseStore(bool hand_over) {
  std::shared_ptr<RocksKvStore> store;
  {
    absl::MutexLock lock(&mu_);
    store.swap(store_);
  }
  if (store != nullptr) database_ = store->Release(hand_over);
}

void RocksReplica::WriteHandover(Closure done) {
  CloseStore(/*hand_over=*/true);
  done();
}

void RocksReplica::StopLeading() {
  CloseStore(/*hand_over=*/false);
  appender_.reset();
  if (database_ != nullptr) return;
  // The store could not be opened, and has closed the copy.
  if (absl::Status status = OpenDatabase(); !status.ok()) options_.on_fatal(status);
}

absl::Time RocksReplica::store_time() {
  if (const auto leading = store(); leading != nullptr) return leading->info().store_time;
  return StoreTimeIn(*database_);
}

absl::Status RocksReplica::MakeCheckpoint(const std::string& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);  // an earlier process's
  if (const auto leading = store(); leading != nullptr) return leading->MakeCheckpoint(folder);
  return database_->MakeCheckpoint(folder);
}

absl::StatusOr<CheckpointFacts> RocksReplica::ReadCheckpoint(const std::string& folder) {
  RocksDatabase::Options options = StoreDatabaseOptions(options_);
  options.block_cache_bytes = 1 << 20;
  auto database = RocksDatabase::Open(folder, options);
  if (!database.ok()) return absl::DataLossError(database.status().message());
  std::string value;
  if (!(*database)->Get(ColumnFamily::kMeta, kLogPlaceKey, value))
    return absl::DataLossError("a checkpoint has no place in the log");
  ASSIGN_OR_RETURN(auto place, DecodeLogPlace(value));
  return CheckpointFacts{place, StoreTimeIn(**database)};
}

absl::Status RocksReplica::Adopt(const std::string& folder) {
  database_.reset();
  std::error_code error;
  std::filesystem::remove_all(path(), error);
  std::filesystem::rename(folder, path(), error);
  if (error)
    Log(LogLevel::kWarning, "replica", "cannot move a checkpoint", {{"error", error.message()}});
  absl::Status status = OpenDatabase();
  // Without a database nothing can go on.
  if (!status.ok()) options_.on_fatal(status);
  return status;
}

std::shared_ptr<RocksKvStore> RocksReplica::store() const {
  absl::MutexLock lock(&mu_);
  return store_;
}

}  // namespace escapement::kv
