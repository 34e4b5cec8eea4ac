#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/base/uid.h"
#include "common/storage/children_table.h"
#include "common/storage/done_table.h"
#include "common/storage/event_table.h"
#include "common/storage/inflight_table.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "tests/simulation/record/commit_log.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {
namespace {

using kv::ColumnFamily;
using kv::Mutation;

uint64_t HashOfKey(const Mutation& mutation) {
  return StableHash64(mutation.key) * 31 + static_cast<uint64_t>(mutation.cf);
}

ClaimId IdOf(const escapement::ClaimId& claim) { return {claim.shard, claim.epoch, claim.number}; }

void ReadClaimPut(const InflightKey& key, const Mutation& mutation, std::vector<QueueWrite>* out) {
  storage::v1::ClaimRecord record;
  if (!record.ParseFromString(mutation.value)) return;
  ClaimPut put;
  put.claim = IdOf(key.claim);
  put.granted = IsGranted(key.claim);
  put.timeout = absl::Microseconds(record.delivery_timeout_max_micros());
  for (const auto& entry : record.entries()) {
    ClaimedEvents events;
    events.attempts = entry.event().attempts();
    events.version = entry.claimed_version();
    if (entry.event().triggered())
      events.trigger_time = FromMicros(entry.event().trigger_time_micros());
    if (const auto row = DecodeEventKey(entry.event_key()); row && !put.granted) {
      if (!row->occurrence.empty()) events.uid = row->uid.ToHex();
      events.occurrence = row->occurrence.empty() ? OneOffEventId(entry.event_key(), entry.event())
                                                  : row->occurrence;
    } else if (const auto waiting = DecodeWaitingKey(entry.event_key())) {
      events.uid = waiting->uid.ToHex();
      events.occurrence = waiting->occurrence;
    }
    for (const auto& range : entry.ranges()) {
      events.events = {range.first(), range.count()};
      put.events.push_back(events);
    }
  }
  out->push_back(std::move(put));
}

void ReadInflight(const Mutation& mutation, std::vector<QueueWrite>* out) {
  const auto key = DecodeInflightKey(mutation.key);
  if (mutation.kind == Mutation::Kind::kDeleteRange) {
    // The range holds all keys of one claim. Its prefix is the claim's key without the last byte.
    const auto claim = DecodeInflightKey(absl::StrCat(mutation.key, std::string(1, '\0')));
    if (claim.has_value()) out->push_back(ClaimGone{IdOf(claim->claim)});
    return;
  }
  if (!key.has_value() || !key->is_claim()) return;
  if (mutation.kind == Mutation::Kind::kDelete) {
    out->push_back(ClaimGone{IdOf(key->claim)});
  } else {
    ReadClaimPut(*key, mutation, out);
  }
}

void ReadRow(const Mutation& mutation, std::vector<QueueWrite>* out) {
  if (mutation.cf == ColumnFamily::kWaiting && IsReportKey(mutation.key)) return;
  if (mutation.kind == Mutation::Kind::kDelete) {
    out->push_back(QueueGone{HashOfKey(mutation)});
    return;
  }
  storage::v1::EventRecord record;
  if (mutation.kind != Mutation::Kind::kPut || !record.ParseFromString(mutation.value)) return;
  QueuePut put;
  put.key = HashOfKey(mutation);
  put.attempts = record.attempts();
  const bool parked = mutation.cf == ColumnFamily::kParked;
  const std::string key = parked ? EventKeyOfParked(mutation.key) : mutation.key;
  const bool waiting = mutation.cf == ColumnFamily::kWaiting || (parked && record.has_throttle());
  const uint64_t taken = waiting ? record.throttle().taken() : 0;
  if (const auto row = waiting ? DecodeWaitingKey(key) : std::nullopt) {
    put.uid = row->uid.ToHex();
    put.occurrence = row->occurrence;
    put.due = row->due_time;
    put.events.first = row->first + taken;
  } else if (const auto event = waiting ? std::nullopt : DecodeEventKey(key)) {
    if (!event->occurrence.empty()) put.uid = event->uid.ToHex();
    put.occurrence = event->occurrence.empty() ? OneOffEventId(key, record) : event->occurrence;
    put.due = event->due_time;
    put.events.first = event->first;
  } else {
    return;
  }
  put.events.count = record.count() - std::min(record.count(), taken);
  put.table = parked    ? RowWrite::Table::kParked
              : waiting ? RowWrite::Table::kWaiting
                        : RowWrite::Table::kEvents;
  out->push_back(std::move(put));
}

void ReadState(const Mutation& mutation, std::vector<QueueWrite>* out) {
  if (mutation.key.size() != Uid::kBytes) return;
  StateWrite write;
  write.uid = Uid::FromBytes(mutation.key).ToHex();
  storage::v1::StateRecord record;
  if (mutation.kind == Mutation::Kind::kPut && record.ParseFromString(mutation.value)) {
    write.version = record.version();
    for (const auto& run : record.cancelled_runs())
      write.cancelled_runs.push_back(run.occurrence());
    switch (record.kind()) {
      case storage::v1::SCHEDULE_STATE_KIND_ENABLED:
        write.kind = StateWrite::Kind::kEnabled;
        break;
      case storage::v1::SCHEDULE_STATE_KIND_FINISHED:
        write.kind = StateWrite::Kind::kFinished;
        break;
      case storage::v1::SCHEDULE_STATE_KIND_PAUSED:
        write.kind = StateWrite::Kind::kPaused;
        write.paused_at = FromMicros(record.pause_time_micros());
        break;
      case storage::v1::SCHEDULE_STATE_KIND_DELETED:
        write.kind = StateWrite::Kind::kDeleted;
        break;
      default:
        break;
    }
  }
  out->push_back(std::move(write));
}

void ReadChild(const Mutation& mutation, std::vector<QueueWrite>* out) {
  ChildWrite write;
  write.deleted = mutation.kind == Mutation::Kind::kDelete;
  if (!write.deleted && mutation.kind != Mutation::Kind::kPut) return;
  write.key = mutation.key;
  if (const auto child = DecodeInstantChildKey(mutation.key)) {
    write.uid = child->uid.ToHex();
    write.partition = child->partition;
  } else if (const auto cron = DecodeChildKey(mutation.key)) {
    write.uid = cron->uid.ToHex();
    write.partition = cron->expression.partition;
    write.expression = ExpressionPrefix(cron->expression);
  } else {
    return;
  }
  out->push_back(std::move(write));
}

void ReadRequest(const Mutation& mutation, std::vector<QueueWrite>* out) {
  KeyReader reader(mutation.key);
  const std::string tenant = reader.Text();
  RequestWrite write;
  write.request = absl::StrCat(tenant, "/", reader.Text());
  write.deleted = mutation.kind != Mutation::Kind::kPut;
  storage::v1::RequestRecord record;
  if (!write.deleted && record.ParseFromString(mutation.value)) {
    write.method = record.method();
    write.response_hash = StableHash64(record.response());
  }
  out->push_back(std::move(write));
}

void ReadOneOffEnd(const Mutation& mutation, std::vector<QueueWrite>* out) {
  const auto key = DecodeDoneKey(mutation.key);
  storage::v1::DoneRecord record;
  if (!key.has_value() || !key->occurrence.empty() || mutation.kind != Mutation::Kind::kPut ||
      !record.ParseFromString(mutation.value))
    return;
  out->push_back(
      OneOffEnd{EndedEventId(*key, record), OutcomeOf(record.outcome()), record.reason()});
}

void ReadOne(const Mutation& mutation, std::vector<QueueWrite>* out) {
  switch (mutation.cf) {
    case ColumnFamily::kInflight:
      return ReadInflight(mutation, out);
    case ColumnFamily::kEvents:
    case ColumnFamily::kWaiting:
    case ColumnFamily::kParked:
      return ReadRow(mutation, out);
    case ColumnFamily::kStates:
      return ReadState(mutation, out);
    case ColumnFamily::kChildren:
      return ReadChild(mutation, out);
    case ColumnFamily::kInUse:
      out->push_back(InUseWrite{mutation.key, mutation.kind == Mutation::Kind::kDelete});
      return;
    case ColumnFamily::kRequests:
      return ReadRequest(mutation, out);
    case ColumnFamily::kDone:
      return ReadOneOffEnd(mutation, out);
    default:
      return;
  }
}

}  // namespace

std::vector<QueueWrite> ReadQueueWrites(const kv::CommitRecord& record) {
  std::vector<QueueWrite> writes;
  for (size_t i = 0; i < record.request->groups.size(); ++i) {
    if (i >= record.verdicts.size() || !record.verdicts[i].applied) continue;
    for (const Mutation& mutation : record.request->groups[i].mutations) ReadOne(mutation, &writes);
  }
  return writes;
}

}  // namespace escapement::simulation
