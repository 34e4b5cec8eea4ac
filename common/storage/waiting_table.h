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

#ifndef COMMON_STORAGE_WAITING_TABLE_H_
#define COMMON_STORAGE_WAITING_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/kv/kv_store.h"

namespace escapement {

namespace storage::v1 {
class EventRecord;
}

struct WaitingKey {
  uint16_t policy_shard = 0;
  Uid policy;  // see WaitingUid
  uint8_t priority = 5;
  Uid uid;              // uid of the schedule
  absl::Time due_time;  // launch time; for a retry, the end of its backoff
  std::string occurrence;
  uint64_t first = 0;

  friend bool operator==(const WaitingKey&, const WaitingKey&) = default;
};

std::string EncodeWaitingKey(const WaitingKey& key);
// nullopt if the key is a report or malformed.
std::optional<WaitingKey> DecodeWaitingKey(absl::string_view key);

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

// The key of the row in which events of a run wait. It follows from `row`, whose throttle must be
// set.
WaitingKey WaitingKeyOf(const storage::v1::EventRecord& row, const Uid& uid,
                        absl::string_view occurrence, uint64_t first, absl::Time due_time,
                        uint32_t policy_shards);

}  // namespace escapement

#endif  // COMMON_STORAGE_WAITING_TABLE_H_
