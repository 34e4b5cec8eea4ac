#include "common/kv/replica/testing/mem_replica.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/kv/engine/store_clock.h"
#include "common/kv/engine/store_kernel.h"
#include "common/kv/layout.h"
#include "common/kv/replica/log_record.h"

namespace escapement::kv {
namespace {

std::optional<LogPlace> PlaceIn(MemDisk& disk) {
  std::string value;
  if (!DiskState(disk).Get(ColumnFamily::kMeta, kLogPlaceKey, value)) return std::nullopt;
  return DecodeLogPlace(value).value();
}

void SetPlace(const LogPlace& place, MemDisk& disk) {
  DiskSink(disk).Put(ColumnFamily::kMeta, kLogPlaceKey, EncodeLogPlace(place));
}

absl::Time StoreTimeIn(MemDisk& disk) {
  std::string value;
  if (!DiskState(disk).Get(ColumnFamily::kMeta, kClockKey, value)) return absl::InfinitePast();
  const auto record = DecodeClockRecord(value);
  return record.ok() ? record->store_time : absl::InfinitePast();
}

}  // namespace

MemReplica::MemReplica(Runtime& runtime, Options options, std::shared_ptr<MemDisk> folder)
    : runtime_(runtime), options_(std::move(options)), disk_(std::move(folder)) {}

MemReplica::~MemReplica() { StopLeading(); }

std::optional<LogPlace> MemReplica::place() { return PlaceIn(*disk_); }

absl::Status MemReplica::Begin(const LogPosition& first) {
  LogPlace place;
  place.position = first;
  place.genesis = first.chain;
  SetPlace(place, *disk_);
  return absl::OkStatus();
}

absl::Status MemReplica::Apply(const std::vector<LogRow>& rows) {
  LogPlace place = *this->place();
  DiskSink sink(*disk_);
  for (const LogRow& row : rows) {
    absl::StatusOr<LogPlace> next = PlaceBehind(place, row);
    RETURN_IF_ERROR(next.status());
    // The simulation has no malformed rows, so no row is applied in part.
    CHECK(ApplyRecord(*row.data, sink).ok());
    place = *next;
    SetPlace(place, *disk_);
  }
  return absl::OkStatus();
}

absl::Status MemReplica::Drop() {
  *disk_ = MemDisk();
  return absl::OkStatus();
}

absl::Status MemReplica::NameLog(uint64_t genesis) {
  LogPlace place = *this->place();
  place.genesis = genesis;
  SetPlace(place, *disk_);
  return absl::OkStatus();
}

absl::Status MemReplica::SetAside() { return Drop(); }

std::string MemReplica::LeaderRecord() {
  RecordWriter record(RecordKind::kLeader);
  DiskState state(*disk_);
  if (!StoreKernel::Exists(state)) {
    StoreKernel::Create(record, static_cast<uint64_t>(ToMicros(runtime_.clock().WallNow())),
                        options_.layout);
  }
  return record.Take();
}

void MemReplica::StartLeading(std::shared_ptr<LeaderLog> log, absl::Duration clock_age,
                              std::function<void(absl::Status)> started) {
  auto store = MemLeadingStore::Open(runtime_, options_.store, *disk_, std::move(log), clock_age,
                                     [this, started](absl::Status status) {
                                       serving_ = status.ok();
                                       terms_ += status.ok() ? 1 : 0;
                                       started(std::move(status));
                                     });
  if (!store.ok()) return started(store.status());
  store_ = *std::move(store);
}

void MemReplica::WriteHandover(Closure done) {
  serving_ = false;
  if (store_ == nullptr) return done();
  store_->WriteHandover(std::move(done));
}

void MemReplica::StopLeading() {
  serving_ = false;
  if (const auto store = std::exchange(store_, nullptr)) store->End();
}

absl::Time MemReplica::store_time() {
  return serving_ ? store_->store_time() : StoreTimeIn(*disk_);
}

absl::Status MemReplica::MakeCheckpoint(const std::string& folder) {
  MemDisk& checkpoint = checkpoints_[folder];
  checkpoint = *disk_;
  if (!options_.tears_checkpoints) return absl::OkStatus();
  for (ColumnFamily cf : {ColumnFamily::kEvents, ColumnFamily::kInflight, ColumnFamily::kDone})
    checkpoint.families[static_cast<size_t>(cf)] = torn_.families[static_cast<size_t>(cf)];
  torn_ = *disk_;
  return absl::OkStatus();
}

absl::StatusOr<CheckpointFacts> MemReplica::ReadCheckpoint(const std::string& folder) {
  MemDisk& disk = checkpoints_[folder];
  const auto place = PlaceIn(disk);
  if (!place.has_value()) return absl::DataLossError("a checkpoint has no place in the log");
  return CheckpointFacts{*place, StoreTimeIn(disk)};
}

absl::Status MemReplica::Adopt(const std::string& folder) {
  *disk_ = std::move(checkpoints_[folder]);
  checkpoints_.erase(folder);
  return absl::OkStatus();
}

}  // namespace escapement::kv
