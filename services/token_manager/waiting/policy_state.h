// PolicyState: one policy for which events wait or hold tokens. Also the effect of a delivery
// window on a waiting row (CloseAction, CarryOver).

#ifndef SERVICES_TOKEN_MANAGER_WAITING_POLICY_STATE_H_
#define SERVICES_TOKEN_MANAGER_WAITING_POLICY_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/rate_limit.h"
#include "common/base/uid.h"
#include "common/kv/kv_store.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/token_manager/holding/grant_set.h"
#include "services/token_manager/turns/fair_queue.h"
#include "services/token_manager/waiting/waiting_rows.h"

namespace escapement::token_manager {

// The hold timeout of events without a policy.
inline constexpr absl::Duration kImplicitHoldTimeout = absl::Seconds(3600);

// A rate per second, measured over about the last ten seconds.
class MeasuredRate {
 public:
  void Add(uint64_t n, int64_t now_micros);
  double At(int64_t now_micros) const;

 private:
  double sum_ = 0;  // decays by e in the measuring time
  int64_t at_micros_ = 0;
};

// PolicyState: one policy (or one schedule without a policy) for which events wait or hold tokens:
// its record, its limits, the waiting rows and the holders.
//
// Threads: one. Pure: the caller reads and writes the store.
class PolicyState {
 public:
  // Events may be granted `grant_lead` ahead of their time.
  PolicyState(const Uid& uid, uint16_t policy_shard, absl::Duration undelivered_slack,
              absl::Duration grant_lead, Totals* totals)
      : uid(uid),
        policy_shard(policy_shard),
        grants(undelivered_slack, totals),
        waiting(uid, policy_shard, grant_lead, *totals) {}
  PolicyState(const PolicyState&) = delete;
  PolicyState& operator=(const PolicyState&) = delete;

  const Uid uid;
  const uint16_t policy_shard;

  // --- the record ---
  std::string tenant;
  std::string policy_id;  // empty: no policy, no limits
  bool named = false;     // tenant and policy_id are known
  bool known = false;     // record and counts have been read
  bool reading = false;
  bool reading_is_old = false;  // a change may have happened since the reading began
  std::optional<storage::v1::PolicyRecord> record;
  std::string record_bytes;
  kv::CommitSeq record_seq = 0;

  bool implicit() const { return policy_id.empty(); }
  // Puts a record and its limits into force. A record older than the known one is ignored.
  void SetRecord(const std::optional<std::string>& bytes, kv::CommitSeq seq, absl::Time now);
  void SetCounts(const std::optional<std::string>& bytes);
  kv::Condition RecordUnchanged() const;
  bool grants_tokens() const {
    return known && (implicit() || (record.has_value() && !record->paused()));
  }
  // How many more tokens `max_concurrent` allows; RateLimit::kUnlimited without a limit.
  uint64_t FreeTokens() const;
  // Each key of the policy has limits of its own (per_key).
  bool by_key() const { return record.has_value() && record->has_per_key(); }
  // As FreeTokens, of one key.
  uint64_t FreeTokensOf(const std::string& policy_key) const;
  Fairness fairness() const {
    return record.has_value() && record->fifo() ? Fairness::kFifo : Fairness::kBySchedule;
  }
  absl::Duration hold_timeout() const;
  bool hold_on_expiry() const { return record.has_value() && record->hold_on_expiry(); }

  // --- holders ---
  GrantSet grants;
  RateLimit rate;
  storage::v1::PolicyCountsRecord counts;
  MeasuredRate granted_rate;
  MeasuredRate released_rate;
  std::string EncodeCounts(int64_t now_micros);

  // --- waiting events ---
  WaitingRows waiting;
  // As WaitingRows::Add and OnRead. The first row that makes sense names the policy.
  WaitingRows::Added AddRow(const std::string& key, const WaitingKey& decoded,
                            const std::string& value, kv::CommitSeq read_seq,
                            size_t group_rows_max);
  void OnRead(const GroupKey& group, const kv::ScanResult& rows, size_t group_rows_max);
  bool idle() const { return waiting.empty() && grants.empty(); }

  // --- places in the shard's lists ---
  bool ready = false;  // it is in the list of policies that may be granted tokens
  absl::Time planned = absl::InfiniteFuture();     // its place in the agenda
  absl::Time grant_next = absl::InfiniteFuture();  // when time alone allows a grant
  absl::Time NextTime() const;
  // While the policy grants nothing: when its groups are judged again, and the last judged group.
  absl::Time judge_next = absl::InfinitePast();
  GroupKey judged_to;
  std::set<Uid> fetching;  // schedules whose records are being read
  std::set<Uid> changed;   // schedules whose rows are to be judged, granted or not

 private:
  void SetName(const storage::v1::EventRecord& event);
};

// The effect of a delivery window on a waiting row (docs/design/throttling.md, "Windows").
//
// Pure.

// How the row's events are spread over its window; count 0 if they are not spread.
Pacing PacingOf(const storage::v1::EventRecord& row);

// When the row's window begins: the due time in the queue is the later of the row's own and this
// one (a row that was carried over keeps its key). InfinitePast without window.
absl::Time OpensAt(const storage::v1::EventRecord& row);
// InfiniteFuture without window.
absl::Time ClosesAt(const storage::v1::EventRecord& row);

enum class WindowClose : uint8_t {
  kOpen,        // or not begun, or there is none
  kFinishLate,  // the row goes on as it is
  kDrop,        // the rest of the row ends as expired
  kCarryOver,   // it waits in the next window, if there is one (CarryOver); else goes on as it is
};
WindowClose CloseAction(const storage::v1::EventRecord& row, absl::Time now);

// Carries the row, whose key has `first`, over to a later window: that of the schedule's first
// occurrence after the begin of the present window whose window is not closed at `now` (it may not
// have begun). If that window is even, the rest of the row is spread over it. The key stays.
// `definition` is the current one and gives the new window's form; it has no occurrence from
// `finish` on (FinishOf its state). nullopt: there is no such occurrence, or no window any more;
// the row finishes late.
std::optional<storage::v1::EventRecord> CarryOver(const storage::v1::EventRecord& row,
                                                  uint64_t first,
                                                  const storage::v1::DefinitionRecord& definition,
                                                  absl::Time finish, absl::Time now);

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_WAITING_POLICY_STATE_H_
