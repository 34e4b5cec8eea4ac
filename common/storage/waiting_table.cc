#include "common/storage/waiting_table.h"

#include <algorithm>
#include <limits>

#include "common/base/hash.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/storage/event_table.h"
#include "common/storage/schedule_table.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

namespace {

constexpr uint64_t kBehindGrants = std::numeric_limits<uint64_t>::max();  // an epoch of no lease

}  // namespace

std::string GrantShardPrefix(uint16_t policy_shard) { return KeyWriter().U16(policy_shard).Take(); }

std::string PolicyCountsKey(uint16_t policy_shard, const Uid& policy) {
  return KeyWriter().U16(policy_shard).Id(policy).Take();
}

std::optional<Uid> DecodePolicyCountsKey(absl::string_view key) {
  KeyReader reader(key);
  reader.U16();
  const Uid policy = reader.Id();
  if (!reader.done()) return std::nullopt;
  return policy;
}

std::string EncodeGrantKey(const GrantId& grant) {
  return KeyWriter(PolicyCountsKey(grant.policy_shard, grant.policy))
      .U64(grant.epoch)
      .U64(grant.number)
      .Take();
}

namespace {

// The key of a grant or of a row behind the grants.
std::optional<GrantId> DecodeKey(absl::string_view key) {
  KeyReader reader(key);
  GrantId grant;
  grant.policy_shard = reader.U16();
  grant.policy = reader.Id();
  grant.epoch = reader.U64();
  grant.number = reader.U64();
  if (!reader.done()) return std::nullopt;
  return grant;
}

}  // namespace

std::optional<GrantId> DecodeGrantKey(absl::string_view key) {
  const std::optional<GrantId> grant = DecodeKey(key);
  if (!grant.has_value() || grant->epoch == kBehindGrants) return std::nullopt;
  return grant;
}

std::optional<Uid> DecodeKeyRateKey(absl::string_view key) {
  const std::optional<GrantId> rate = DecodeKey(key);
  if (!rate.has_value() || rate->epoch != kBehindGrants || rate->number == 0) return std::nullopt;
  return rate->policy;
}

std::string GrantsBegin(uint16_t policy_shard, const Uid& policy) {
  return KeyAfter(PolicyCountsKey(policy_shard, policy));
}

std::string GrantsEnd(uint16_t policy_shard, const Uid& policy) {
  return KeyWriter(PolicyCountsKey(policy_shard, policy)).U64(kBehindGrants).Take();
}

std::string PolicyHistoryKey(uint16_t policy_shard, const Uid& policy) {
  return EncodeGrantKey(
      {.policy_shard = policy_shard, .policy = policy, .epoch = kBehindGrants, .number = 0});
}

std::string KeyRateKey(uint16_t policy_shard, const Uid& policy, absl::string_view policy_key) {
  return EncodeGrantKey({.policy_shard = policy_shard,
                         .policy = policy,
                         .epoch = kBehindGrants,
                         .number = std::max<uint64_t>(StableHash64(policy_key), 1)});
}

namespace {

constexpr uint64_t kGrantedBit = uint64_t{1} << 63;
constexpr uint8_t kClaim = 0;
constexpr uint8_t kEnd = 1;
constexpr uint8_t kTakeover = 2;

}  // namespace

std::string ClaimPrefix(const ClaimId& claim) {
  return KeyWriter().U16(claim.shard).U64(claim.epoch).U64(claim.number).Take();
}

uint64_t GrantedClaimNumber(uint16_t policy_shard, uint64_t counter) {
  return kGrantedBit | uint64_t{policy_shard} << 40 | counter;
}

bool IsGranted(const ClaimId& claim) { return (claim.number & kGrantedBit) != 0; }

std::string EncodeClaimKey(const ClaimId& claim) {
  return KeyWriter(ClaimPrefix(claim)).U8(kClaim).Take();
}

std::string EncodeClaimEndKey(const ClaimId& claim, uint32_t end_number) {
  return KeyWriter(ClaimPrefix(claim)).U8(kEnd).U32(end_number).Take();
}

std::string EncodeClaimTakeoverKey(const ClaimId& claim) {
  return KeyWriter(ClaimPrefix(claim)).U8(kTakeover).Take();
}

std::optional<InflightKey> DecodeInflightKey(absl::string_view bytes) {
  KeyReader reader(bytes);
  InflightKey key;
  key.claim.shard = reader.U16();
  key.claim.epoch = reader.U64();
  key.claim.number = reader.U64();
  const uint8_t kind = reader.U8();
  if (kind == kEnd) key.end_number = reader.U32();
  if (!reader.done()) return std::nullopt;
  switch (kind) {
    case kClaim:
      return key;
    case kEnd:
      key.kind = InflightKey::Kind::kEnd;
      return key;
    case kTakeover:
      key.kind = InflightKey::Kind::kTakeover;
      return key;
    default:
      return std::nullopt;
  }
}

std::string InflightShardBegin(uint16_t shard) { return KeyWriter().U16(shard).Take(); }

std::string InflightShardEnd(uint16_t shard) { return PrefixEnd(InflightShardBegin(shard)); }

std::string TakeoverMarkKey(uint16_t shard) {
  return KeyWriter("takeover_mark/").U16(shard).Take();
}

std::string ClaimMarkKey(uint16_t shard) { return KeyWriter("claim_mark/").U16(shard).Take(); }

namespace {

constexpr uint8_t kReport = 0;
constexpr uint8_t kRow = 1;
constexpr char kOneOffMark = '!';  // begins no occurrence of a schedule

}  // namespace

std::string WaitingShardPrefix(uint16_t policy_shard) {
  return KeyWriter().U16(policy_shard).Take();
}

std::string WaitingRowsPrefix(uint16_t policy_shard) {
  return KeyWriter().U16(policy_shard).U8(kRow).Take();
}

std::string ReportsPrefix(uint16_t policy_shard) {
  return KeyWriter().U16(policy_shard).U8(kReport).Take();
}

std::string WaitingPolicyPrefix(uint16_t policy_shard, const Uid& policy) {
  return KeyWriter(WaitingRowsPrefix(policy_shard)).Id(policy).Take();
}

std::string WaitingGroupPrefix(uint16_t policy_shard, const Uid& policy, uint8_t priority,
                               const Uid& uid) {
  return KeyWriter(WaitingPolicyPrefix(policy_shard, policy)).U8(priority).Id(uid).Take();
}

std::string EncodeWaitingKey(const WaitingKey& key) {
  return KeyWriter(WaitingGroupPrefix(key.policy_shard, key.policy, key.priority, key.uid))
      .Time(key.due_time)
      .Text(key.occurrence)
      .U64(key.first)
      .Take();
}

std::optional<WaitingKey> DecodeWaitingKey(absl::string_view bytes) {
  KeyReader reader(bytes);
  WaitingKey key;
  key.policy_shard = reader.U16();
  const bool row = reader.U8() == kRow;
  key.policy = reader.Id();
  key.priority = reader.U8();
  key.uid = reader.Id();
  key.due_time = reader.Time();
  key.occurrence = reader.Text();
  key.first = reader.U64();
  if (!row || !reader.done()) return std::nullopt;
  return key;
}

std::optional<std::pair<uint8_t, Uid>> WaitingGroupIn(absl::string_view key) {
  KeyReader reader(key);
  reader.U16();
  const bool row = reader.U8() == kRow;
  reader.Id();  // the policy
  const uint8_t priority = reader.U8();
  const Uid uid = reader.Id();
  if (!row || !reader.ok()) return std::nullopt;
  return std::make_pair(priority, uid);
}

std::string EncodeReportKey(const ReportKey& key) {
  return KeyWriter(ReportsPrefix(key.policy_shard))
      .U16(key.origin)
      .U64(key.a)
      .U64(key.b)
      .U32(key.c)
      .Take();
}

bool IsReportKey(absl::string_view key) {
  return key.size() > 2 && static_cast<uint8_t>(key[2]) == kReport;
}

std::string OneOffOccurrence(const Uid& uid) {
  std::string occurrence(1, kOneOffMark);
  occurrence.append(uid.bytes().data(), uid.bytes().size());
  return occurrence;
}

WaitingKey WaitingKeyOf(const storage::v1::EventRecord& row, const Uid& uid,
                        absl::string_view occurrence, uint64_t first, absl::Time due_time,
                        uint32_t policy_shards) {
  WaitingKey key;
  const WaitingPlace place = WaitingPlaceOf(row.tenant(), row.throttle(), uid, policy_shards);
  key.policy = place.policy;
  key.policy_shard = place.policy_shard;
  key.priority = static_cast<uint8_t>(row.priority());
  key.uid = uid;
  key.due_time = due_time;
  key.occurrence = std::string(occurrence);
  key.first = first;
  if (WaitsAsOneOff(row)) {
    key.uid = Uid::FromBytes(row.wait_group());
    key.occurrence = OneOffOccurrence(uid);
  }
  return key;
}

bool WaitsAsOneOff(const storage::v1::EventRecord& row) {
  return row.wait_group().size() == Uid::kBytes;
}

Uid WaitGroupOf(absl::string_view target_key, const storage::v1::ThrottleRecord& throttle) {
  KeyWriter group;
  group.Text("one-off").Text(target_key).Text(throttle.policy_key());
  if (throttle.weight() > 1) group.U64(throttle.weight());
  for (const storage::v1::LimitRecord& limit : throttle.more())
    group.Text(limit.policy_id()).Text(limit.policy_key()).U64(limit.weight());
  return StableHash128(std::move(group).Take());
}

WaitingOwner WaitingOwnerOf(const WaitingKey& key) {
  const bool one_off =
      key.occurrence.size() == 1 + Uid::kBytes && key.occurrence.front() == kOneOffMark;
  if (!one_off) return {.uid = key.uid, .occurrence = key.occurrence};
  return {.uid = Uid::FromBytes(absl::string_view(key.occurrence).substr(1)), .occurrence = {}};
}

std::string LimitedEventKey(const Uid& uid, const storage::v1::EventRecord& waiting) {
  return EncodeEventKey({.shard = static_cast<uint16_t>(waiting.queue_shard()),
                         .lane = kLaneLimited,
                         .due_time = FromMicros(waiting.launch_time_micros()),
                         .uid = uid,
                         .occurrence = {}});
}

kv::Mutation WaitingRowOf(const storage::v1::EventRecord& row, uint16_t queue_shard, const Uid& uid,
                          absl::Time due_time, uint32_t policy_shards) {
  storage::v1::EventRecord waiting = row;
  waiting.clear_payload();
  waiting.set_queue_shard(queue_shard);
  return kv::Put(kv::ColumnFamily::kWaiting,
                 EncodeWaitingKey(WaitingKeyOf(row, uid, "", /*first=*/0, due_time, policy_shards)),
                 waiting.SerializeAsString());
}

}  // namespace escapement
