#include "tests/simulation/record/commit_log.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/kv/layout.h"
#include "common/lease/lease_table.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "tests/simulation/record/history.h"
#include "tests/simulation/record/store_observer.h"

namespace escapement::simulation {
namespace {

using kv::ColumnFamily;
using kv::Condition;
using kv::Mutation;

// kind "/" index without leading zeros, as the whole history names leases.
std::optional<std::string> LeaseName(absl::string_view key) {
  for (const char* kind : {"partition", "queue_shard", "policy_shard"}) {
    if (const auto index = lease::LeaseIndexOf(kind, key)) return absl::StrCat(kind, "/", *index);
  }
  return std::nullopt;
}

void ReadFence(const Condition& condition, Commit* commit) {
  if (condition.cf != ColumnFamily::kLeases || condition.kind != Condition::Kind::kValuePrefix)
    return;
  const auto name = LeaseName(condition.key);
  if (name.has_value() && condition.value.size() >= 8) {
    commit->fence.push_back({*name, ReadBigEndian<uint64_t>(condition.value)});
  }
}

void ReadCheckpoint(const kv::Group& group, const Mutation& mutation, Commit* commit) {
  if (mutation.key.size() < 3 || mutation.value.size() != 8) return;
  const uint16_t partition = ReadBigEndian<uint16_t>(mutation.key);
  const bool planned = mutation.key == PlannedToKey(partition);
  if (!planned && mutation.key != EmittedToKey(partition)) return;
  const std::string name = absl::StrCat(planned ? "planned_to/" : "emitted_to/", partition);
  commit->checkpoints.push_back({name, ToMicros(DecodeCheckpoint(mutation.value))});
  // Any process may make the first checkpoints, so a write that requires their absence has no
  // owner.
  for (const Condition& condition : group.conditions) {
    if (condition.kind == Condition::Kind::kAbsent && condition.key == mutation.key) return;
  }
  commit->owned.push_back({name, absl::StrCat("partition/", partition), std::nullopt});
}

void ReadInflight(const Mutation& mutation, Commit* commit) {
  const auto key = DecodeInflightKey(mutation.key);
  if (!key.has_value()) return;
  OwnedWrite write;
  write.what = absl::StrCat(key->is_end() ? "end of claim " : "claim ", key->claim.epoch, ".",
                            key->claim.number);
  write.lease = absl::StrCat("queue_shard/", key->claim.shard);
  // If events hold tokens, the owner of their policy shard puts the claim.
  if (IsGranted(key->claim) && key->is_claim() && mutation.kind == Mutation::Kind::kPut) {
    write.lease =
        absl::StrCat("policy_shard/", static_cast<uint16_t>(key->claim.number >> 40 & 0x7fff));
  }
  // A claim's next owner may write its ends, so they name no epoch.
  if (key->is_claim() && mutation.kind == Mutation::Kind::kPut) write.epoch = key->claim.epoch;
  commit->owned.push_back(std::move(write));
}

// The policy shard under whose fence the commit was made; empty if there is none.
std::string PolicyShardFence(const Commit& commit) {
  for (const FenceSeen& fence : commit.fence) {
    if (absl::StartsWith(fence.lease, "policy_shard/")) return fence.lease;
  }
  return "";
}

void ReadDoneWrite(const Mutation& mutation, bool put, Commit* commit) {
  const auto key = DecodeDoneKey(mutation.key);
  storage::v1::DoneRecord record;
  if (!key.has_value()) return;
  const std::string name =
      absl::StrCat(key->uid.ToHex(), " ", key->occurrence, "[", key->first, "]");
  if (mutation.kind == Mutation::Kind::kDelete) commit->done.push_back({name, "", true});
  if (!put || !record.ParseFromString(mutation.value)) return;
  // The count of a summary may grow, so the same record may be written again.
  if (record.skipped_occurrences() > 1) return;
  commit->done.push_back(
      {name, absl::StrCat(static_cast<int>(record.outcome()), " ", record.reason())});
  const Outcome outcome = OutcomeOf(record.outcome());
  // Only the owner of a queue shard ends deliveries; if the events are throttled, the owner of
  // their policy shard. The master may cancel and skip, too.
  if (outcome == Outcome::kSucceeded || outcome == Outcome::kFailed) {
    const std::string policy_shard = PolicyShardFence(*commit);
    commit->owned.push_back(
        {absl::StrCat("outcome of ", name),
         policy_shard.empty() ? absl::StrCat("queue_shard/", key->shard) : policy_shard,
         std::nullopt});
  }
}

// Owned writes to grants, to run parts of throttled runs, and to handlers' reports.
void ReadThrottleOwners(const Mutation& mutation, bool put, Commit* commit) {
  if (mutation.cf == ColumnFamily::kGrants) {
    // Any process that deletes a policy deletes its counts, too.
    // Masters delete a policy's counts and last hour with the policy.
    if (!put && !DecodeGrantKey(mutation.key).has_value() &&
        !DecodeKeyRateKey(mutation.key).has_value())
      return;
    OwnedWrite write;
    write.what = absl::StrCat("row of grants ", absl::BytesToHexString(mutation.key));
    write.lease = absl::StrCat("policy_shard/", ReadBigEndian<uint16_t>(mutation.key));
    commit->owned.push_back(std::move(write));
  } else if (mutation.cf == ColumnFamily::kWaiting && put && IsReportKey(mutation.key)) {
    KeyReader reader(mutation.key);
    reader.U16();
    reader.U8();
    const uint16_t origin = reader.U16();
    const uint64_t epoch = reader.U64();
    if (origin == kReportFromDoor) return;
    commit->owned.push_back({absl::StrCat("report ", absl::BytesToHexString(mutation.key)),
                             absl::StrCat("queue_shard/", origin), epoch});
  } else if (mutation.cf == ColumnFamily::kRunParts && put && mutation.key.size() > 2) {
    const uint16_t part =
        ReadBigEndian<uint16_t>(absl::string_view(mutation.key).substr(mutation.key.size() - 2));
    if (part == kMasterRunPart) return;
    commit->owned.push_back({absl::StrCat("run part ", part),
                             part >= 0x8000 ? absl::StrCat("policy_shard/", part & 0x7fff)
                                            : absl::StrCat("queue_shard/", part),
                             std::nullopt});
  }
}

// Counts of a run, or of all runs of a schedule.
void ReadRunPart(const Mutation& mutation, Commit* commit) {
  absl::string_view key = mutation.key;
  storage::v1::RunPartRecord record;
  if (key.size() < Uid::kBytes || !record.ParseFromString(mutation.value)) return;
  const uint16_t part = ReadBigEndian<uint16_t>(key.substr(key.size() - 2));
  key.remove_suffix(2);
  const std::optional<RunKey> run = DecodeRunKey(key);
  if (!run.has_value()) return;
  if (run->occurrence.empty()) {
    commit->schedule_counts.push_back({.uid = run->uid.ToHex(),
                                       .part = part,
                                       .succeeded = record.succeeded(),
                                       .failed = record.failed()});
    return;
  }
  commit->run_reports.push_back({.uid = run->uid.ToHex(),
                                 .occurrence = run->occurrence,
                                 .part = part,
                                 .never_started = record.never_started(),
                                 .tokens = record.tokens()});
}

void ReadMutation(const kv::Group& group, const Mutation& mutation, absl::string_view stamped,
                  Commit* commit) {
  const bool put =
      mutation.kind == Mutation::Kind::kPut || mutation.kind == Mutation::Kind::kPutStamped;
  ReadThrottleWrites(mutation, &commit->throttle);
  ReadThrottleOwners(mutation, put, commit);
  switch (mutation.cf) {
    case ColumnFamily::kLeases:
      if (const auto name = LeaseName(mutation.key); name.has_value() && put) {
        const auto row =
            lease::DecodeLeaseValue(stamped.empty() ? absl::string_view(mutation.value) : stamped);
        if (row.has_value()) commit->leases.push_back({*name, row->epoch, row->owner, row->end});
      }
      break;
    case ColumnFamily::kCheckpoints:
      if (put) ReadCheckpoint(group, mutation, commit);
      break;
    case ColumnFamily::kInflight:
      ReadInflight(mutation, commit);
      break;
    case ColumnFamily::kMeta:
      if (mutation.key == kv::kClockHoldKey) commit->clock_hold = put;
      break;
    case ColumnFamily::kDone:
      ReadDoneWrite(mutation, put, commit);
      break;
    case ColumnFamily::kRunParts:
      if (put) ReadRunPart(mutation, commit);
      break;
    default:
      break;
  }
}

std::string Describe(const EventKey& key) {
  return absl::StrCat("shard ", key.shard, " lane ", key.lane, " due ",
                      absl::FormatTime(key.due_time, absl::UTCTimeZone()), " uid ", key.uid.ToHex(),
                      " ", key.occurrence, "[", key.first, "]");
}

std::string Describe(const Mutation& mutation) {
  const char* verb = mutation.kind == Mutation::Kind::kDelete        ? "-"
                     : mutation.kind == Mutation::Kind::kDeleteRange ? "--"
                                                                     : "+";
  switch (mutation.cf) {
    case ColumnFamily::kEvents:
      if (const auto key = DecodeEventKey(mutation.key)) {
        storage::v1::EventRecord record;
        const bool known = mutation.kind == Mutation::Kind::kPut &&
                           record.ParseFromString(mutation.value) && record.count() != 1;
        return absl::StrCat(verb, "event ", Describe(*key),
                            known ? absl::StrCat(" +", record.count()) : "");
      }
      break;
    case ColumnFamily::kParked:
      if (const auto key = DecodeEventKey(EventKeyOfParked(mutation.key))) {
        return absl::StrCat(verb, "parked ", Describe(*key));
      }
      break;
    case ColumnFamily::kInflight:
      if (const auto key = DecodeInflightKey(mutation.key)) {
        return absl::StrCat(verb, key->is_end() ? "end of claim " : "claim ", key->claim.shard, "/",
                            key->claim.epoch, ".", key->claim.number);
      }
      break;
    case ColumnFamily::kDone:
      if (const auto key = DecodeDoneKey(mutation.key)) {
        storage::v1::DoneRecord record;
        record.ParseFromString(mutation.value);
        return absl::StrCat(verb, "done ", key->uid.ToHex(), " ", key->occurrence, "[", key->first,
                            " +", record.count(), "] outcome ", static_cast<int>(record.outcome()),
                            " ", record.reason());
      }
      break;
    case ColumnFamily::kStates: {
      storage::v1::StateRecord record;
      const std::string text = absl::StrCat(verb, "state ", absl::BytesToHexString(mutation.key));
      if (!record.ParseFromString(mutation.value) || record.cancelled_before_micros() == 0)
        return text;
      return absl::StrCat(
          text, " cancelled before ",
          absl::FormatTime(FromMicros(record.cancelled_before_micros()), absl::UTCTimeZone()));
    }
    case ColumnFamily::kCheckpoints:
      if (const auto launch = DecodeLaunchKey(mutation.key)) {
        return absl::StrCat(verb, "launch ", launch->uid.ToHex(), " ", launch->occurrence, " due ",
                            absl::FormatTime(launch->launch_time, absl::UTCTimeZone()));
      }
      if (const auto run = DecodeActiveRunKey(mutation.key))
        return absl::StrCat(verb, "active ", run->uid.ToHex(), " ", run->occurrence);
      break;
    case ColumnFamily::kLeases:
      return absl::StrCat(verb, "lease ", LeaseName(mutation.key).value_or(""));
    default:
      break;
  }
  return "";
}

}  // namespace

std::string DescribeCommit(const kv::CommitRecord& record) {
  std::string text;
  for (size_t i = 0; i < record.request->groups.size(); ++i) {
    if (i >= record.verdicts.size() || !record.verdicts[i].applied) continue;
    for (const Mutation& mutation : record.request->groups[i].mutations) {
      std::string one = Describe(mutation);
      const std::string throttle = DescribeThrottle(mutation);
      if (!throttle.empty()) absl::StrAppend(&one, one.empty() ? "" : ", ", throttle);
      if (!one.empty()) absl::StrAppend(&text, text.empty() ? "" : "; ", one);
    }
  }
  if (text.empty()) return text;
  return absl::StrCat("commit ", record.seq, " (session ", record.request->session, " number ",
                      record.request->number, "): ", text);
}

Commit ReadCommit(const kv::CommitRecord& record, absl::Time now) {
  Commit commit;
  commit.time = now;
  commit.seq = record.seq;
  commit.store_time = record.store_time;
  commit.session = record.request->session;
  commit.number = record.request->number;
  commit.verdicts = HashOfVerdicts(record.verdicts);
  commit.queue = ReadQueueWrites(record);
  commit.times = ReadTimesWrites(record);
  for (const Condition& condition : record.request->fence) ReadFence(condition, &commit);
  size_t stamped = 0;
  for (size_t i = 0; i < record.request->groups.size(); ++i) {
    const kv::Group& group = record.request->groups[i];
    if (i >= record.verdicts.size() || !record.verdicts[i].applied) continue;
    for (const Condition& condition : group.conditions) ReadFence(condition, &commit);
    for (const Mutation& mutation : group.mutations) {
      absl::string_view value;
      if (mutation.kind == Mutation::Kind::kPutStamped && stamped < record.stamped.size()) {
        value = record.stamped[stamped++];
      }
      ReadMutation(group, mutation, value, &commit);
    }
  }
  return commit;
}

std::vector<DoneRow> ReadDone(const kv::MemDisk& disk) {
  std::vector<DoneRow> rows;
  for (const auto& [key_bytes, value] : disk.families[static_cast<size_t>(ColumnFamily::kDone)]) {
    const auto key = DecodeDoneKey(key_bytes);
    storage::v1::DoneRecord record;
    DoneRow row;
    if (!key.has_value() || !record.ParseFromString(value)) {
      row.event_id = absl::StrCat("broken row ", absl::BytesToHexString(key_bytes));
      rows.push_back(row);
      continue;
    }
    const bool one_off = key->occurrence.empty();
    if (one_off) {
      row.event_id = DeliveredEventId(EndedEventId(*key, record), record.generation());
    } else {
      row.uid = key->uid.ToHex();
    }
    row.occurrence = key->occurrence;
    row.first = key->first;
    row.count = record.count();
    row.shard = key->shard;
    row.outcome = OutcomeOf(record.outcome());
    row.reason = record.reason();
    row.nominal = FromMicros(record.nominal_time_micros());
    row.version = record.version();
    row.attempts = record.attempts();
    row.run_skipped = record.run_skipped();
    row.occurrences = std::max<uint64_t>(record.skipped_occurrences(), 1);
    row.last = row.occurrences > 1 ? FromMicros(record.last_nominal_time_micros()) : row.nominal;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::string> ReadLeftover(const kv::MemDisk& disk) {
  std::vector<std::string> rows;
  for (const auto& [key, value] : disk.families[static_cast<size_t>(ColumnFamily::kEvents)]) {
    const auto event = DecodeEventKey(key);
    rows.push_back(absl::StrCat(
        "events: ", event.has_value() ? Describe(*event) : absl::BytesToHexString(key)));
  }
  for (const auto& [key, value] : disk.families[static_cast<size_t>(ColumnFamily::kParked)]) {
    const auto event = DecodeEventKey(EventKeyOfParked(key));
    rows.push_back(absl::StrCat(
        "parked: ", event.has_value() ? Describe(*event) : absl::BytesToHexString(key)));
  }
  for (const auto& [key, value] : disk.families[static_cast<size_t>(ColumnFamily::kInflight)]) {
    const auto claim = DecodeInflightKey(key);
    if (!claim.has_value()) {
      rows.push_back(absl::StrCat("inflight: ", absl::BytesToHexString(key)));
      continue;
    }
    rows.push_back(absl::StrCat("inflight: shard ", claim->claim.shard, " claim ",
                                claim->claim.epoch, ".", claim->claim.number,
                                claim->is_end() ? " end" : ""));
  }
  for (const auto& [key, value] : disk.families[static_cast<size_t>(ColumnFamily::kChildren)]) {
    const auto cron = DecodeChildKey(key);
    const auto instant = DecodeInstantChildKey(key);
    rows.push_back(absl::StrCat("children: ", cron.has_value()      ? cron->uid.ToHex()
                                              : instant.has_value() ? instant->uid.ToHex()
                                                                    : absl::BytesToHexString(key)));
  }
  for (std::string& row : ReadThrottleLeftover(disk)) rows.push_back(std::move(row));
  return rows;
}

bool AnyQueued(const kv::MemDisk& disk) {
  for (kv::ColumnFamily cf : {kv::ColumnFamily::kEvents, kv::ColumnFamily::kInflight,
                              kv::ColumnFamily::kParked, kv::ColumnFamily::kWaiting}) {
    if (!disk.families[static_cast<size_t>(cf)].empty()) return true;
  }
  return false;
}

bool AnyWaiting(const kv::MemDisk& disk) {
  return !disk.families[static_cast<size_t>(kv::ColumnFamily::kWaiting)].empty();
}

bool AnyGrant(const kv::MemDisk& disk) {
  const auto& grants = disk.families[static_cast<size_t>(kv::ColumnFamily::kGrants)];
  return std::any_of(grants.begin(), grants.end(),
                     [](const auto& entry) { return DecodeGrantKey(entry.first).has_value(); });
}

}  // namespace escapement::simulation
