// Keys of the column families `grants` (GrantId), `inflight` (ClaimId, InflightKey) and `waiting`
// (WaitingKey, ReportKey).

#ifndef COMMON_STORAGE_WAITING_TABLE_H_
#define COMMON_STORAGE_WAITING_TABLE_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/kv/kv_store.h"

namespace escapement {

// The column family `grants`: which events hold tokens, a policy's counts, its last hour and the
// rates of its keys. Only the owner of the policy shard writes it.
//
// policy shard (u16), policy uid → PolicyCountsRecord
//
// policy shard (u16), policy uid, epoch (u64), number (u64) → GrantRecord. Epoch and number are the
// generation of the grant's tokens, and are never used again.
//
// policy shard (u16), policy uid, the greatest epoch (no lease has it), 0 (u64) →
// PolicyHistoryRecord
//
// the same with a hash of the key (u64, never 0) in place of 0 → KeyRateRecord

struct GrantId {
  uint16_t policy_shard = 0;
  Uid policy;
  uint64_t epoch = 0;   // epoch of the policy shard's lease at the grant
  uint64_t number = 0;  // 1, 2, 3 … in that epoch

  friend auto operator<=>(const GrantId&, const GrantId&) = default;
};

std::string EncodeGrantKey(const GrantId& grant);
// nullopt if the key is not the key of a grant.
std::optional<GrantId> DecodeGrantKey(absl::string_view key);

std::string PolicyCountsKey(uint16_t policy_shard, const Uid& policy);
// nullopt if the key is not the key of counts.
std::optional<Uid> DecodePolicyCountsKey(absl::string_view key);

std::string PolicyHistoryKey(uint16_t policy_shard, const Uid& policy);
std::string KeyRateKey(uint16_t policy_shard, const Uid& policy, absl::string_view policy_key);
// The policy. nullopt if the key is not the key of a rate.
std::optional<Uid> DecodeKeyRateKey(absl::string_view key);

// All grants of a policy are in [GrantsBegin, GrantsEnd). Its counts are before them. Its last hour
// and the rates of its keys are behind them, before PrefixEnd(PolicyCountsKey).
std::string GrantsBegin(uint16_t policy_shard, const Uid& policy);
std::string GrantsEnd(uint16_t policy_shard, const Uid& policy);
// All keys of a policy shard have this prefix.
std::string GrantShardPrefix(uint16_t policy_shard);

// The `inflight` column family: claims and, beside each, the ends of its events, and what later
// owners of the shard have noted.
//
// queue shard (u16), epoch of the writer's lease (u64), number in that epoch (u64), 0 (u8) →
// ClaimRecord
//
// the same with 1 (u8) in place of 0, and then number of the end (u32) → ClaimEndRecord
//
// the same with 2 (u8) in place of 0 → ClaimTakeoverRecord
//
// How a cancellation and a claim of the same one-off event exclude each other: the event's row
// stays in `events` while it is claimed, so the row alone does not tell whether it may be
// cancelled. Therefore each group that puts a claim of one-off events does two things. It has the
// condition kPresent on each one-off row that it claims. And it puts ClaimMarkKey(shard) with an
// empty value, one small put for the whole claim. CancelEvent reads the shard's claims at a
// snapshot S, and refuses if one of them holds the row. Otherwise it deletes the row under two
// conditions: the row is present, and the mark is unchanged since S. The first of the two commits
// wins.

struct ClaimId {
  uint16_t shard = 0;
  uint64_t epoch = 0;
  uint64_t number = 0;

  friend bool operator==(const ClaimId&, const ClaimId&) = default;
};

struct InflightKey {
  enum class Kind : uint8_t { kClaim, kEnd, kTakeover };
  ClaimId claim;
  Kind kind = Kind::kClaim;
  uint32_t end_number = 0;  // only for an end

  bool is_claim() const { return kind == Kind::kClaim; }
  bool is_end() const { return kind == Kind::kEnd; }
};

// Two kinds of owners write claims into a queue shard, each under the epoch of its own lease: the
// owner of the queue shard and, for events that hold tokens, the owner of their policy shard. To
// keep their numbers apart, the second kind sets the highest bit, and then the policy shard.
uint64_t GrantedClaimNumber(uint16_t policy_shard, uint64_t counter);  // counter < 2^40
bool IsGranted(const ClaimId& claim);

std::string EncodeClaimKey(const ClaimId& claim);
std::string EncodeClaimEndKey(const ClaimId& claim, uint32_t end_number);
std::string EncodeClaimTakeoverKey(const ClaimId& claim);
std::optional<InflightKey> DecodeInflightKey(absl::string_view key);

// All keys of one claim: [ClaimPrefix, PrefixEnd(ClaimPrefix)).
std::string ClaimPrefix(const ClaimId& claim);
std::string InflightShardBegin(uint16_t shard);
std::string InflightShardEnd(uint16_t shard);

// A key in `meta`. Its value is the epoch (u64) of the last owner of the shard that has noted, in
// ClaimTakeoverRecords, which claims former owners have left. All claims without a note are its
// own.
std::string TakeoverMarkKey(uint16_t shard);

// A key in `meta`. Each group that puts a claim with a one-off event of the shard also puts this
// key.
std::string ClaimMarkKey(uint16_t shard);

// The column family `waiting`. It holds two unrelated things, told apart by a kind byte behind the
// policy shard. Both belong to the owner of the policy shard (services/token_manager), which reads
// them together.
//
// Kind 0, a report: policy shard (u16), 0 (u8), origin (u16), a (u64), b (u64), c (u32) →
// GrantReportRecord. A report says what became of events that hold tokens. Handlers, and doors that
// do not own the policy, write reports; the owner acts on them before it grants anything, and
// deletes them. Origin is the queue shard of the reporting handler, with a = epoch of its lease and
// b = a number in that epoch. Or it is kReportFromDoor, with random a and b. c tells apart reports
// with the same origin, a and b.
//
// Kind 1, a row: policy shard (u16), 1 (u8), policy uid, priority (u8), uid, due_time, occurrence
// (text), first (u64) → EventRecord with `throttle`. A row holds events [first + taken, first +
// count) of a run, which wait for tokens. Each run has one row, and each retry has one. Within a
// policy the rows of one schedule and priority are adjacent: fairness is kept among schedules.
// (`parked` has a uid and then this same key, and the same value.)
//
// A one-off event has its group (EventRecord.wait_group) in place of the schedule's uid, and its
// own uid in place of the occurrence.

namespace storage::v1 {
class EventRecord;
class ThrottleRecord;
}  // namespace storage::v1

struct WaitingKey {
  uint16_t policy_shard = 0;
  Uid policy;  // see WaitingUid
  uint8_t priority = 5;
  Uid uid;  // uid of the schedule, or group of one-off events
  // When the first of its events may go: launch time, or the end of a retry's backoff, or when its
  // window opens, or when its place there comes. A row may have an earlier time: then the owner of
  // the policy shard gives it another key.
  absl::Time due_time;
  std::string occurrence;
  uint64_t first = 0;

  friend bool operator==(const WaitingKey&, const WaitingKey&) = default;
};

std::string EncodeWaitingKey(const WaitingKey& key);
// nullopt if the key is a report or malformed.
std::optional<WaitingKey> DecodeWaitingKey(absl::string_view key);

// The priority and uid in a key, which name its group. nullopt: it is a report, or too short.
std::optional<std::pair<uint8_t, Uid>> WaitingGroupIn(absl::string_view key);

// WaitingPolicyPrefix: the prefix of all rows of a policy. WaitingGroupPrefix: the prefix of all
// its rows of one schedule and priority.
std::string WaitingPolicyPrefix(uint16_t policy_shard, const Uid& policy);
std::string WaitingGroupPrefix(uint16_t policy_shard, const Uid& policy, uint8_t priority,
                               const Uid& uid);
// The prefix of all rows, and the prefix of all reports, of a policy shard.
std::string WaitingRowsPrefix(uint16_t policy_shard);
std::string ReportsPrefix(uint16_t policy_shard);
// The prefix of all keys of a policy shard: reports come before rows.
std::string WaitingShardPrefix(uint16_t policy_shard);

struct ReportKey {
  uint16_t policy_shard = 0;
  uint16_t origin = 0;
  uint64_t a = 0;
  uint64_t b = 0;
  uint32_t c = 0;
};
inline constexpr uint16_t kReportFromDoor = 0xffff;
std::string EncodeReportKey(const ReportKey& key);
bool IsReportKey(absl::string_view key);

// The key of the row in which events of a run, or a one-off event, wait. It follows from `row`,
// whose throttle must be set. `uid`: of the schedule or the one-off event.
WaitingKey WaitingKeyOf(const storage::v1::EventRecord& row, const Uid& uid,
                        absl::string_view occurrence, uint64_t first, absl::Time due_time,
                        uint32_t policy_shards);

// One-off events under a policy.

// True for the rows of such an event, and for grants and claims of it.
bool WaitsAsOneOff(const storage::v1::EventRecord& row);
// The group in which the events wait that go to the target with this key (TargetKeyOf in
// common/records) and have these limits: what holds them up must not hold up others.
Uid WaitGroupOf(absl::string_view target_key, const storage::v1::ThrottleRecord& throttle);
// WaitingKey.occurrence of a one-off event.
std::string OneOffOccurrence(const Uid& uid);
// The schedule and the occurrence of the row's events; of a one-off event its uid and none.
struct WaitingOwner {
  Uid uid;
  std::string occurrence;
};
WaitingOwner WaitingOwnerOf(const WaitingKey& key);
// The key of the row in `events`, from the row in `waiting`.
std::string LimitedEventKey(const Uid& uid, const storage::v1::EventRecord& waiting);
// The put of the row in which the one-off event waits, from its row in `events`.
kv::Mutation WaitingRowOf(const storage::v1::EventRecord& row, uint16_t queue_shard, const Uid& uid,
                          absl::Time due_time, uint32_t policy_shards);

}  // namespace escapement

#endif  // COMMON_STORAGE_WAITING_TABLE_H_
