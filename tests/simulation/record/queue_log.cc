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
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
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
    events.lost_claims = entry.event().lost_claims();
    events.version = entry.claimed_version();
    if (entry.event().triggered())
      events.trigger_time = FromMicros(entry.event().trigger_time_micros());
    const auto row = DecodeEventKey(entry.event_key());
    if (row && (!put.granted || entry.row_stays())) {
      if (!row->occurrence.empty()) events.uid = row->uid.ToHex();
      events.occurrence = row->occurrence.empty()
                              ? DeliveredEventId(OneOffEventId(entry.event_key(), entry.event()),
                                                 entry.event().generation())
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
    const WaitingOwner owner = WaitingOwnerOf(*row);
    if (WaitsAsOneOff(record)) {
      put.occurrence = DeliveredEventId(OneOffEventId(LimitedEventKey(owner.uid, record), record),
                                        record.generation());
    } else {
      put.uid = owner.uid.ToHex();
      put.occurrence = owner.occurrence;
    }
    put.due = row->due_time;
    put.events.first = row->first + taken;
  } else if (const auto event = waiting ? std::nullopt : DecodeEventKey(key)) {
    if (event->lane == kLaneLimited) return;  // its row in `waiting` counts
    if (!event->occurrence.empty()) put.uid = event->uid.ToHex();
    put.occurrence = event->occurrence.empty()
                         ? DeliveredEventId(OneOffEventId(key, record), record.generation())
                         : event->occurrence;
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
  out->push_back(OneOffEnd{DeliveredEventId(EndedEventId(*key, record), record.generation()),
                           OutcomeOf(record.outcome()), record.reason()});
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

namespace {

using kv::ColumnFamily;
using kv::Mutation;

class GroupReader {
 public:
  explicit GroupReader(std::vector<TimesWrite>* out) : out_(out) {}

  void Read(const kv::Group& group) {
    // If the group deletes a launch record, the run record that it puts launches the run.
    bool launches = false;
    for (const Mutation& mutation : group.mutations) {
      launches = launches || (mutation.cf == ColumnFamily::kCheckpoints &&
                              mutation.kind == Mutation::Kind::kDelete &&
                              DecodeLaunchKey(mutation.key).has_value());
    }
    for (const Mutation& mutation : group.mutations) ReadOne(mutation, launches);
  }

 private:
  void ReadOne(const Mutation& mutation, bool launches) {
    const bool put = mutation.kind == Mutation::Kind::kPut;
    switch (mutation.cf) {
      case ColumnFamily::kEvents:
        if (put) {
          if (const auto key = DecodeEventKey(mutation.key))
            ReadRow(key->uid, key->occurrence, mutation.value);
        }
        break;
      case ColumnFamily::kWaiting:
        if (put) {
          if (const auto key = DecodeWaitingKey(mutation.key)) {
            const WaitingOwner owner = WaitingOwnerOf(*key);
            ReadRow(owner.uid, owner.occurrence, mutation.value);
          }
        }
        break;
      case ColumnFamily::kCheckpoints:
        ReadCheckpoint(mutation, put);
        break;
      case ColumnFamily::kRuns:
        if (put && launches) ReadRun(mutation);
        break;
      case ColumnFamily::kStates:
        if (put) ReadState(mutation);
        break;
      case ColumnFamily::kDone:
        ReadDone(mutation, put);
        break;
      default:
        break;
    }
  }

  void ReadRow(const Uid& uid, const std::string& occurrence, const std::string& value) {
    storage::v1::EventRecord record;
    if (occurrence.empty() || !record.ParseFromString(value)) return;
    out_->push_back(EmissionWrite{uid.ToHex(), occurrence, record.version(),
                                  FromMicros(record.nominal_time_micros()),
                                  FromMicros(record.launch_time_micros()), record.triggered()});
  }

  void ReadCheckpoint(const Mutation& mutation, bool put) {
    if (const auto run = DecodeActiveRunKey(mutation.key)) {
      out_->push_back(MarkWrite{run->uid.ToHex(), run->occurrence, !put});
      return;
    }
    const auto launch = DecodeLaunchKey(mutation.key);
    storage::v1::LaunchRecord record;
    if (!put || !launch.has_value() || !record.ParseFromString(mutation.value)) return;
    out_->push_back(EmissionWrite{launch->uid.ToHex(), launch->occurrence, record.version(),
                                  FromMicros(record.nominal_time_micros()), launch->launch_time,
                                  /*triggered=*/false, /*record=*/true});
  }

  void ReadRun(const Mutation& mutation) {
    const auto key = DecodeRunKey(mutation.key);
    storage::v1::RunRecord record;
    if (!key.has_value() || !record.ParseFromString(mutation.value)) return;
    out_->push_back(LaunchWrite{key->uid.ToHex(), key->occurrence, record.version(),
                                FromMicros(record.nominal_time_micros()), record.event_count()});
  }

  void ReadState(const Mutation& mutation) {
    storage::v1::StateRecord record;
    if (mutation.key.size() != Uid::kBytes || !record.ParseFromString(mutation.value)) return;
    if (record.cancelled_before_micros() == 0) return;
    out_->push_back(CancelWrite{Uid::FromBytes(mutation.key).ToHex(),
                                FromMicros(record.cancelled_before_micros())});
  }

  void ReadDone(const Mutation& mutation, bool put) {
    const auto key = DecodeDoneKey(mutation.key);
    if (!key.has_value() || key->occurrence.empty()) return;
    OutcomeWrite write;
    write.uid = key->uid.ToHex();
    write.occurrence = key->occurrence;
    write.first = key->first;
    write.deleted = !put;
    storage::v1::DoneRecord record;
    if (put && record.ParseFromString(mutation.value)) {
      write.count = record.count();
      write.outcome = OutcomeOf(record.outcome());
      write.reason = record.reason();
      write.version = record.version();
      write.nominal = FromMicros(record.nominal_time_micros());
      write.run_skipped = record.run_skipped();
      write.attempts = record.attempts();
      write.occurrences = std::max<uint64_t>(record.skipped_occurrences(), 1);
      write.last =
          write.occurrences > 1 ? FromMicros(record.last_nominal_time_micros()) : write.nominal;
    }
    out_->push_back(std::move(write));
  }

  std::vector<TimesWrite>* const out_;
};

}  // namespace

std::vector<TimesWrite> ReadTimesWrites(const kv::CommitRecord& record) {
  std::vector<TimesWrite> writes;
  GroupReader reader(&writes);
  for (size_t i = 0; i < record.request->groups.size(); ++i) {
    if (i < record.verdicts.size() && record.verdicts[i].applied)
      reader.Read(record.request->groups[i]);
  }
  return writes;
}

std::vector<std::string> ReadTimesLeftover(const kv::MemDisk& disk) {
  std::vector<std::string> rows;
  for (const auto& [key, value] : disk.families[static_cast<size_t>(ColumnFamily::kCheckpoints)]) {
    if (const auto launch = DecodeLaunchKey(key)) {
      rows.push_back(
          absl::StrCat("launch record: uid ", launch->uid.ToHex(), " ", launch->occurrence));
    } else if (const auto run = DecodeActiveRunKey(key)) {
      rows.push_back(absl::StrCat("active run: uid ", run->uid.ToHex(), " ", run->occurrence));
    }
  }
  return rows;
}

}  // namespace escapement::simulation
