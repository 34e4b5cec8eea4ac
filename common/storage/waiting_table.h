// The column family `waiting`: events that wait for the right to be out, and reports on those that
// are.
//
// policy shard (u16), 0 (u8), origin (u16), a (u64), b (u64), c (u32) → GrantReportRecord: what the
// owner of the policy shard shall act upon, before it grants anything. Origin: the queue shard of
// the handler that reports (a = epoch of its lease, b = a number in it), or kReportFromDoor (a, b
// random): c is then free.
//
// policy shard (u16), 1 (u8), policy uid, priority (u8), uid, due_time, occurrence (text), first
// (u64) → EventRecord with `throttle`: events [first + taken, first + count) of a run. One row for
// each run, one for each retry. Within a policy the rows of one schedule and priority lie together:
// the schedules are the groups among which fairness is kept. (`parked` has the same key behind the
// uid, and the same value.)

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
  Uid policy;  // WaitingUid
  uint8_t priority = 5;
  Uid uid;              // of the schedule
  absl::Time due_time;  // launch time; of retries, when they may go
  std::string occurrence;
  uint64_t first = 0;

  friend bool operator==(const WaitingKey&, const WaitingKey&) = default;
};

std::string EncodeWaitingKey(const WaitingKey& key);
// nullopt if the key is no row (a report, or malformed).
std::optional<WaitingKey> DecodeWaitingKey(absl::string_view key);

// All rows of a policy / of one of its groups have this prefix.
std::string WaitingPolicyPrefix(uint16_t policy_shard, const Uid& policy);
std::string WaitingGroupPrefix(uint16_t policy_shard, const Uid& policy, uint8_t priority,
                               const Uid& uid);
// All rows, all reports of a policy shard.
std::string WaitingRowsPrefix(uint16_t policy_shard);
std::string ReportsPrefix(uint16_t policy_shard);
// All keys of a policy shard: reports come before rows.
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

// The row by which events of a run wait: `row` with its throttle set; where it waits follows from
// it.
WaitingKey WaitingKeyOf(const storage::v1::EventRecord& row, const Uid& uid,
                        absl::string_view occurrence, uint64_t first, absl::Time due_time,
                        uint32_t policy_shards);

}  // namespace escapement

#endif  // COMMON_STORAGE_WAITING_TABLE_H_
