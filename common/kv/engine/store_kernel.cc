#include "common/kv/engine/store_kernel.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/status_macros.h"
#include "common/kv/layout.h"

namespace escapement::kv {
namespace {

std::optional<uint64_t> ReadU64(BaseState& base, absl::string_view key) {
  std::string value;
  if (!base.Get(ColumnFamily::kMeta, key, value) || value.size() != 8) return std::nullopt;
  return ReadBigEndian<uint64_t>(value);
}

}  // namespace

bool StoreKernel::Exists(BaseState& base) {
  std::string value;
  return base.Get(ColumnFamily::kMeta, kFormatKey, value);
}

absl::Status StoreKernel::CheckFormat(BaseState& base) {
  std::string value;
  if (!base.Get(ColumnFamily::kMeta, kFormatKey, value)) return absl::OkStatus();
  if (value.size() != 4) return absl::DataLossError("the store's format version is malformed");
  const uint32_t version = ReadBigEndian<uint32_t>(value);
  if (version == kFormatVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the data has format ", version, ", this program reads and writes format ", kFormatVersion,
      " only and cannot convert it: run the program that wrote the "
      "data, or use an empty data folder"));
}

void StoreKernel::Create(WriteSink& sink, uint64_t incarnation, const Layout& layout) {
  std::string version;
  AppendBigEndian<uint32_t>(&version, kFormatVersion);
  sink.Put(ColumnFamily::kMeta, kFormatKey, version);
  sink.Put(ColumnFamily::kMeta, kIncarnationKey, EncodeU64(incarnation));
  sink.Put(ColumnFamily::kMeta, kSeqKey, EncodeU64(0));
  sink.Put(ColumnFamily::kMeta, kLayoutKey, EncodeLayout(layout));
}

void StoreKernel::NewIncarnation(BaseState& base, WriteSink& sink, uint64_t at_least) {
  const uint64_t old = ReadU64(base, kIncarnationKey).value_or(0);
  sink.Put(ColumnFamily::kMeta, kIncarnationKey, EncodeU64(std::max(at_least, old + 1)));
  // Delete all sessions: they may hold numbers and answers of commits that are lost.
  std::vector<std::string> keys;
  base.ForEach(ColumnFamily::kMeta, kSessionPrefix, kSessionPrefixEnd,
               [&](absl::string_view key, absl::string_view) {
                 keys.emplace_back(key);
                 return true;
               });
  for (const std::string& key : keys) sink.Delete(ColumnFamily::kMeta, key);
}

absl::StatusOr<std::unique_ptr<StoreKernel>> StoreKernel::Load(Options options, BaseState& base,
                                                               const ClockReading& now) {
  if (!Exists(base)) return absl::DataLossError("the store's format version is missing");
  RETURN_IF_ERROR(CheckFormat(base));
  std::string value;
  const auto seq = ReadU64(base, kSeqKey);
  const auto incarnation = ReadU64(base, kIncarnationKey);
  if (!seq.has_value() || !incarnation.has_value()) {
    return absl::DataLossError("the store's sequence or incarnation is missing");
  }
  std::optional<ClockRecord> record;
  if (base.Get(ColumnFamily::kMeta, kClockKey, value)) {
    ASSIGN_OR_RETURN(auto decoded, DecodeClockRecord(value));
    record = std::move(decoded);
  }
  const bool hold_stored = base.Get(ColumnFamily::kMeta, kClockHoldKey, value);
  StoreClock clock(std::move(record), options.boot_id, now, options.lease_ttl, options.clock_age);
  return std::unique_ptr<StoreKernel>(new StoreKernel(std::move(options), base, *seq, *incarnation,
                                                      std::move(clock), hold_stored, now));
}

StoreKernel::StoreKernel(Options options, BaseState& base, CommitSeq seq, uint64_t incarnation,
                         StoreClock clock, bool hold_stored, const ClockReading& now)
    : engine_(options.engine, base, seq),
      incarnation_(incarnation),
      lease_ttl_(options.lease_ttl),
      stamps_since_(now.boottime - options.clock_age.value_or(absl::ZeroDuration())),
      clock_(std::move(clock)),
      hold_stored_(hold_stored),
      recorded_(now.boottime - StoreClock::kRecordInterval) {}

absl::Time StoreKernel::Now(const ClockReading& now) {
  const absl::Time time = clock_.Now(now);
  if (clock_.steps() != steps_seen_) {
    steps_seen_ = clock_.steps();
    stamps_since_ = now.boottime;
  }
  return time;
}

bool StoreKernel::WantsBatch(const ClockReading& now) {
  Now(now);
  return clock_.hold() != hold_stored_ || now.boottime - recorded_ >= StoreClock::kRecordInterval;
}

ClockState StoreKernel::AskClock(const ClockCall& call, const ClockReading& now) {
  if (call.host.has_value()) clock_.NoteHost(*call.host, now);
  if (call.confirm) clock_.Confirm(now);
  Now(now);
  return clock_.State();
}

CommitEngine::Decision StoreKernel::Decide(std::shared_ptr<const CommitRequest> request) {
  CommitEngine::Decision decision = engine_.Decide(std::move(request));
  if (decision.answer.ok()) decision.answer->pace = clock_.pace();
  return decision;
}

std::shared_ptr<const CommitRecord> StoreKernel::BeginBatch(WriteSink& sink,
                                                            const ClockReading& now,
                                                            absl::Time now_low) {
  // The record of an advance is due at once, even if no commit of the batch writes anything.
  if (clock_.AdvanceTo(now_low, now)) recorded_ = now.boottime - StoreClock::kRecordInterval;
  const ClockRecord record = clock_.Record(now);
  batch_time_ = Now(now);
  batch_boottime_ = now.boottime;
  engine_.BeginBatch(sink, batch_time_, now.boottime - stamps_since_ >= lease_ttl_);
  sink.Put(ColumnFamily::kMeta, kClockKey, EncodeClockRecord(record));
  if (clock_.hold() == hold_stored_) return nullptr;
  hold_stored_ = clock_.hold();
  auto request = std::make_shared<CommitRequest>();
  Mutation mutation;
  mutation.key = std::string(kClockHoldKey);
  mutation.kind = hold_stored_ ? Mutation::Kind::kPut : Mutation::Kind::kDelete;
  if (hold_stored_)
    mutation.value =
        EncodeU64(static_cast<uint64_t>(absl::ToInt64Microseconds(clock_.disagreement())));
  request->groups.resize(1);
  request->groups[0].mutations.push_back(std::move(mutation));
  return engine_.DecideOwn(std::move(request)).record;
}

bool StoreKernel::EndBatch(CommitEngine::Ended ended) {
  const bool wrote = engine_.EndBatch(ended);
  const bool record_due = batch_boottime_ - recorded_ >= StoreClock::kRecordInterval;
  if (wrote || record_due) recorded_ = batch_boottime_;
  return wrote || record_due;
}

absl::StatusOr<SessionInfo> StoreKernel::OpenSession(uint64_t seen_incarnation, CommitSeq seen) {
  if (seen_incarnation > incarnation_ ||
      (seen_incarnation == incarnation_ && seen > engine_.seq())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the store is behind what this client has seen: it holds incarnation ", incarnation_,
        ", commit ", engine_.seq(), "; the client has seen ", seen_incarnation, ", ", seen));
  }
  return SessionInfo{engine_.OpenSession(), incarnation_, engine_.seq(), batch_time_,
                     clock_.pace()};
}

}  // namespace escapement::kv
