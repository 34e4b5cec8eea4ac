#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/base/uid.h"
#include "common/storage/event_table.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "tests/simulation/record/commit_log.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {
namespace {

using kv::ColumnFamily;
using kv::Mutation;

std::string HexOfUid(absl::string_view bytes) {
  return bytes.size() == Uid::kBytes ? Uid::FromBytes(bytes).ToHex() : "";
}

void ReadPolicy(const Mutation& mutation, bool put, std::vector<ThrottleWrite>* out) {
  const auto name = DecodePolicyKey(mutation.key);
  if (!name.has_value()) return;
  PolicyWrite write;
  write.policy = PolicyUid(name->tenant, name->policy_id).ToHex();
  write.deleted = !put;
  storage::v1::PolicyRecord record;
  if (put && !record.ParseFromString(mutation.value)) return;
  write.max_concurrent = record.max_concurrent();
  write.max_per_second = record.max_per_second();
  write.burst = std::max<uint64_t>(record.burst(), 1);
  write.by_key = record.has_per_key();
  write.per_key = record.per_key().max_concurrent();
  write.key_per_second = record.per_key().max_per_second();
  write.key_burst = std::max<uint64_t>(record.per_key().burst(), 1);
  for (const storage::v1::OverrideRecord& override : record.overrides()) {
    OverrideWrite& other = write.overrides.emplace_back();
    if (override.has_policy_key()) other.key = override.policy_key();
    if (override.has_max_concurrent()) other.max_concurrent = override.max_concurrent();
    other.rate = override.has_max_per_second();
    other.ends = FromMicros(override.expire_time_micros());
  }
  write.paused = record.paused();
  write.hold = absl::Microseconds(record.hold_timeout_micros());
  write.hold_on_expiry = record.hold_on_expiry();
  out->push_back(std::move(write));
}

void ReadState(const Mutation& mutation, bool put, std::vector<ThrottleWrite>* out) {
  if (mutation.key.size() != Uid::kBytes) return;
  storage::v1::StateRecord record;
  if (put && !record.ParseFromString(mutation.value)) return;
  const bool enabled = put && (record.kind() == storage::v1::SCHEDULE_STATE_KIND_ENABLED ||
                               record.kind() == storage::v1::SCHEDULE_STATE_KIND_FINISHED);
  ScheduleStateWrite write{HexOfUid(mutation.key), enabled};
  if (put && record.kind() == storage::v1::SCHEDULE_STATE_KIND_PAUSED)
    write.paused_at = FromMicros(record.pause_time_micros());
  out->push_back(std::move(write));
}

void ReadCounts(const Mutation& mutation, bool put, std::vector<ThrottleWrite>* out) {
  const auto policy = DecodePolicyCountsKey(mutation.key);
  storage::v1::PolicyCountsRecord record;
  if (!policy.has_value() || (put && !record.ParseFromString(mutation.value))) return;
  out->push_back(CountsWrite{policy->ToHex(), !put, record.held()});
}

// 0: not known.
absl::Time TimeOf(int64_t micros) {
  return micros == 0 ? absl::InfinitePast() : FromMicros(micros);
}

// A one-off event has no uid here, and its id in place of the occurrence.
std::string IdOf(const Uid& uid, const storage::v1::EventRecord& waiting) {
  return DeliveredEventId(OneOffEventId(LimitedEventKey(uid, waiting), waiting),
                          waiting.generation());
}

template <typename Write>
void ReadLimits(const storage::v1::EventRecord& event, Write* write) {
  const storage::v1::ThrottleRecord& throttle = event.throttle();
  write->policy_key = throttle.policy_key();
  write->weight = std::max<uint64_t>(throttle.weight(), 1);
  for (const storage::v1::LimitRecord& limit : throttle.more()) {
    write->further.push_back({PolicyUid(event.tenant(), limit.policy_id()).ToHex(),
                              limit.policy_key(), std::max<uint64_t>(limit.weight(), 1)});
  }
}

void ReadGrant(const Mutation& mutation, bool put, std::vector<ThrottleWrite>* out) {
  const auto id = DecodeGrantKey(mutation.key);
  if (!id.has_value()) return ReadCounts(mutation, put, out);
  GrantWrite write;
  write.name = {id->policy.ToHex(), id->epoch, id->number};
  write.deleted = !put;
  storage::v1::GrantRecord record;
  if (put && record.ParseFromString(mutation.value)) {
    if (WaitsAsOneOff(record.event())) {
      write.occurrence = IdOf(Uid::FromBytes(record.uid()), record.event());
    } else {
      write.uid = HexOfUid(record.uid());
      write.occurrence = record.occurrence();
    }
    ReadLimits(record.event(), &write);
    write.retry_at = TimeOf(record.retry_at_micros());
    if (write.retry_at != absl::InfinitePast() && record.holders_size() == 1) {
      RowWrite row;
      row.table = RowWrite::Table::kGrants;
      row.key = mutation.key;
      row.uid = write.uid;
      row.occurrence = write.occurrence;
      row.events = {record.holders(0).first(), record.holders(0).count()};
      row.due = write.retry_at;
      row.last_error = record.event().last_error();
      out->push_back(std::move(row));
    }
    for (const auto& holders : record.holders()) {
      write.holders.push_back({holders.first(), holders.count()});
      write.hold_times.push_back({write.holders.back(), TimeOf(holders.delivered_time_micros()),
                                  TimeOf(holders.expire_time_micros())});
    }
    write.timeout = absl::Microseconds(record.delivery_timeout_micros());
    write.grant_time = FromMicros(record.grant_time_micros());
    write.return_due = FromMicros(record.return_due_micros());
    write.send_before = FromMicros(record.send_before_micros());
  }
  out->push_back(std::move(write));
}

void FillRow(const storage::v1::EventRecord& record, RowWrite* write) {
  if (record.triggered()) write->trigger_time = FromMicros(record.trigger_time_micros());
  const storage::v1::ThrottleRecord& throttle = record.throttle();
  write->events.first += throttle.taken();
  write->events.count = record.count() - std::min(record.count(), throttle.taken());
  write->last_error = record.last_error();
  ReadLimits(record, write);
  if (!throttle.has_window()) return;
  write->window_begin = FromMicros(throttle.window_begin_micros());
  write->window = absl::Microseconds(throttle.window().duration_micros());
  write->pace_first = throttle.pace_first();
  write->pace_count = throttle.pace_count();
  if (throttle.window().on_close() == storage::v1::ON_CLOSE_KIND_DROP ||
      throttle.window().on_close() == storage::v1::ON_CLOSE_KIND_CARRY_OVER)
    write->closes = write->window_begin + write->window;
}

// `key` is a key of `waiting`, or of `events` if the table is kEvents.
bool ReadRowKey(RowWrite::Table table, absl::string_view key, RowWrite* write) {
  write->table = table;
  write->key = std::string(key);
  if (table == RowWrite::Table::kEvents) {
    const auto event = DecodeEventKey(key);
    if (!event.has_value()) return false;
    write->uid = event->uid.ToHex();
    write->occurrence = event->occurrence;
    write->events.first = event->first;
    write->due = event->due_time;
    return !event->occurrence.empty();  // one-off events have no run
  }
  const auto row = DecodeWaitingKey(key);
  if (!row.has_value()) return false;
  const WaitingOwner owner = WaitingOwnerOf(*row);
  write->policy = row->policy.ToHex();
  if (!owner.occurrence.empty()) write->uid = owner.uid.ToHex();
  write->occurrence = owner.occurrence;
  write->events.first = row->first;
  write->due = row->due_time;
  return true;
}

void ReadRow(const Mutation& mutation, bool put, std::vector<ThrottleWrite>* out) {
  storage::v1::EventRecord record;
  if (put && !record.ParseFromString(mutation.value)) return;
  RowWrite write;
  write.deleted = !put;
  bool known = false;
  if (mutation.cf == ColumnFamily::kParked) {
    if (!put) return;  // only the value says which kind of key this is
    known = ReadRowKey(record.has_throttle() ? RowWrite::Table::kWaiting : RowWrite::Table::kEvents,
                       EventKeyOfParked(mutation.key), &write);
    write.table = RowWrite::Table::kParked;
    write.key = mutation.key;
  } else {
    known = ReadRowKey(
        mutation.cf == ColumnFamily::kEvents ? RowWrite::Table::kEvents : RowWrite::Table::kWaiting,
        mutation.key, &write);
  }
  if (!known) return;
  if (put && WaitsAsOneOff(record))
    write.occurrence = IdOf(WaitingOwnerOf(*DecodeWaitingKey(mutation.key)).uid, record);
  FillRow(record, &write);
  out->push_back(std::move(write));
}

void ReadReport(const Mutation& mutation, std::vector<ThrottleWrite>* out) {
  storage::v1::GrantReportRecord record;
  if (!record.ParseFromString(mutation.value)) return;
  for (const auto& entry : record.entries()) {
    ReportWrite write;
    write.grant = {HexOfUid(entry.policy_uid()), entry.epoch(), entry.number()};
    write.kind = storage::v1::GrantReportRecord::Kind_Name(entry.kind());
    write.unreachable = entry.unreachable();
    write.paused_until = TimeOf(entry.paused_until_micros());
    write.events = {entry.first(), entry.count()};
    write.time = TimeOf(entry.time_micros());
    write.delivered = entry.kind() == storage::v1::GrantReportRecord::DELIVERED ||
                      entry.kind() == storage::v1::GrantReportRecord::SUCCEEDED;
    out->push_back(std::move(write));
  }
}

void ReadClaim(const Mutation& mutation, std::vector<ThrottleWrite>* out) {
  const auto key = DecodeInflightKey(mutation.key);
  storage::v1::ClaimRecord record;
  if (!key.has_value() || !key->is_claim() || !record.ParseFromString(mutation.value)) return;
  for (const auto& entry : record.entries()) {
    if (!entry.has_grant()) continue;
    ClaimWrite write;
    write.grant = {HexOfUid(entry.grant().policy_uid()), entry.grant().epoch(),
                   entry.grant().number()};
    for (const auto& range : entry.ranges()) write.events.push_back({range.first(), range.count()});
    out->push_back(std::move(write));
  }
}

void ReadEnd(const Mutation& mutation, std::vector<ThrottleWrite>* out) {
  const auto key = DecodeDoneKey(mutation.key);
  storage::v1::DoneRecord record;
  if (!key.has_value() || !record.ParseFromString(mutation.value)) return;
  EndWrite write;
  if (key->occurrence.empty()) {
    write.occurrence = DeliveredEventId(EndedEventId(*key, record), record.generation());
  } else {
    write.uid = key->uid.ToHex();
    write.occurrence = key->occurrence;
  }
  write.events = {key->first, record.count()};
  write.outcome = OutcomeOf(record.outcome());
  write.reason = record.reason();
  out->push_back(std::move(write));
}

std::string Text(const Indices& events) {
  return absl::StrCat("[", events.first, " +", events.count, "]");
}

struct Describer {
  std::string operator()(const PolicyWrite& policy) const {
    if (policy.deleted) return absl::StrCat("-policy ", policy.policy);
    return absl::StrCat("+policy ", policy.policy, " m ", policy.max_concurrent, " rate ",
                        policy.max_per_second, " burst ", policy.burst, " per key ", policy.per_key,
                        policy.paused ? " paused" : "");
  }
  std::string operator()(const ScheduleStateWrite&) const { return ""; }
  std::string operator()(const GrantWrite& grant) const {
    std::string text = absl::StrCat(grant.deleted ? "-grant " : "+grant ", grant.name.policy, " ",
                                    grant.name.epoch, ".", grant.name.number);
    if (grant.deleted) return text;
    absl::StrAppend(&text, " of ", grant.uid, " ", grant.occurrence, " held by ");
    for (const Indices& holders : grant.holders) absl::StrAppend(&text, Text(holders));
    return text;
  }
  std::string operator()(const RowWrite& row) const {
    if (row.table != RowWrite::Table::kWaiting) return "";
    std::string text = absl::StrCat(row.deleted ? "-waiting " : "+waiting ", row.policy, " due ",
                                    absl::FormatTime("%H:%M:%E6S", row.due, absl::UTCTimeZone()),
                                    " ", row.uid, " ", row.occurrence);
    return absl::StrCat(text, row.deleted ? absl::StrCat("[", row.events.first, "]")
                                          : absl::StrCat(Text(row.events), " ", row.last_error));
  }
  std::string operator()(const ClaimWrite& claim) const {
    std::string text = absl::StrCat("claimed ", claim.grant.epoch, ".", claim.grant.number, " ");
    for (const Indices& events : claim.events) absl::StrAppend(&text, Text(events));
    return text;
  }
  std::string operator()(const CountsWrite&) const { return ""; }
  std::string operator()(const EndWrite&) const { return ""; }  // another function describes ends
  std::string operator()(const ReportWrite&) const { return ""; }
};

std::string DescribeReport(const Mutation& mutation) {
  if (mutation.kind != Mutation::Kind::kPut)
    return absl::StrCat("-report ", absl::BytesToHexString(mutation.key));
  storage::v1::GrantReportRecord record;
  record.ParseFromString(mutation.value);
  std::string text = absl::StrCat("+report ", absl::BytesToHexString(mutation.key));
  for (const auto& entry : record.entries()) {
    absl::StrAppend(&text, " ", storage::v1::GrantReportRecord::Kind_Name(entry.kind()), " ",
                    entry.epoch(), ".", entry.number(), Text({entry.first(), entry.count()}),
                    entry.unreachable() ? " unreachable" : "");
  }
  return text;
}

}  // namespace

void ReadThrottleWrites(const Mutation& mutation, std::vector<ThrottleWrite>* out) {
  const bool put = mutation.kind == Mutation::Kind::kPut;
  if (!put && mutation.kind != Mutation::Kind::kDelete) return;
  switch (mutation.cf) {
    case ColumnFamily::kPolicies:
      return ReadPolicy(mutation, put, out);
    case ColumnFamily::kStates:
      return ReadState(mutation, put, out);
    case ColumnFamily::kGrants:
      return ReadGrant(mutation, put, out);
    case ColumnFamily::kWaiting:
      if (!IsReportKey(mutation.key)) return ReadRow(mutation, put, out);
      if (put) ReadReport(mutation, out);
      return;
    case ColumnFamily::kParked:
    case ColumnFamily::kEvents:
      return ReadRow(mutation, put, out);
    case ColumnFamily::kInflight:
      if (put) ReadClaim(mutation, out);
      return;
    case ColumnFamily::kDone:
      if (put) ReadEnd(mutation, out);
      return;
    default:
      return;
  }
}

std::string DescribeThrottle(const Mutation& mutation) {
  if (mutation.cf == ColumnFamily::kWaiting && IsReportKey(mutation.key))
    return DescribeReport(mutation);
  std::vector<ThrottleWrite> writes;
  ReadThrottleWrites(mutation, &writes);
  std::string text;
  for (const ThrottleWrite& write : writes) {
    const std::string one = std::visit(Describer(), write);
    if (!one.empty()) absl::StrAppend(&text, text.empty() ? "" : "; ", one);
  }
  return text;
}

std::vector<std::string> ReadThrottleLeftover(const kv::MemDisk& disk) {
  std::vector<std::string> rows;
  for (const auto cf : {ColumnFamily::kGrants, ColumnFamily::kWaiting}) {
    for (const auto& [key, value] : disk.families[static_cast<size_t>(cf)]) {
      if (cf == ColumnFamily::kGrants && !DecodeGrantKey(key).has_value()) continue;
      Mutation mutation;
      mutation.cf = cf;
      mutation.key = key;
      mutation.value = value;
      const std::string text = DescribeThrottle(mutation);
      rows.push_back(text.empty() ? absl::BytesToHexString(key) : text);
    }
  }
  return rows;
}

}  // namespace escapement::simulation
