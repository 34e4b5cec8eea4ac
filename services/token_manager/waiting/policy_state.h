// PolicyState: one policy for which events wait or hold tokens. Also the effect of a delivery
// window on a waiting row (ClosesAt, CarryOver).

#ifndef SERVICES_TOKEN_MANAGER_WAITING_POLICY_STATE_H_
#define SERVICES_TOKEN_MANAGER_WAITING_POLICY_STATE_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "common/base/rate_limit.h"
#include "common/base/uid.h"
#include "common/kv/kv_store.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/token_manager/base/options.h"
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

// Limits that are in force: those of a policy, or of one of its keys.
struct Limits {
  uint64_t max_concurrent = RateLimit::kUnlimited;
  double per_second = 0;  // 0: no limit
  uint64_t burst = 1;

  friend bool operator==(const Limits&, const Limits&) = default;
};

// KeyRates: the rates of the keys of one policy. A key takes memory, and a row in the store
// (KeyRateRecord), until a full burst of it may go again.
//
// Threads: one. Pure: the caller reads and writes the store.
class KeyRates {
 public:
  bool empty() const { return keys_.empty(); }
  // As it is in the store. Its limits are not known before the first SetLimits.
  void Load(const storage::v1::KeyRateRecord& record);
  // limits(key) for each key.
  void SetLimits(absl::FunctionRef<Limits(const std::string& key)> limits, absl::Time now);
  storage::v1::KeyRateRecord RecordOf(const std::string& key) const;
  // nullopt: a full burst may go. After Set the key's record is to be written.
  std::optional<RateLimit> Find(const std::string& key) const;
  void Set(const std::string& key, const std::optional<RateLimit>& rate);
  // When the first key is full again.
  absl::Time NextFull() const { return FirstOf(full_); }
  // Forgets keys that are full again by `now`, at most `max`. Their rows are to be deleted.
  std::vector<std::string> TakeFull(absl::Time now, size_t max);

 private:
  absl::flat_hash_map<std::string, RateLimit> keys_;
  Times<std::string> full_;  // all, by the time when they are full
};

// PolicyState: one policy, or one schedule without a policy: its record, its limits, the waiting
// rows and the holders.
//
// Threads: one. Pure: the caller reads and writes the store.
class PolicyState {
 public:
  PolicyState(const Uid& uid, uint16_t policy_shard, size_t group_rows_max, Totals* totals)
      : uid(uid),
        policy_shard(policy_shard),
        grants(kUndeliveredSlack, totals),
        waiting(group_rows_max, *totals),
        further_(totals->further) {}
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
  // The first row or holder that makes sense names the policy.
  void SetName(const std::string& of_tenant, const std::string& id);
  // Puts a record and its limits into force, unless it is older than the known one.
  void SetRecord(const std::optional<std::string>& bytes, kv::CommitSeq seq, absl::Time now);
  // As stored. The next sample of the last hour is taken at the next full minute.
  void SetCounts(const std::optional<std::string>& counts_bytes,
                 const std::optional<std::string>& history_bytes, absl::Time now);
  // Puts the limits of now into force: overrides end by themselves (the next one: override_ends).
  void SetLimits(absl::Time now);
  absl::Time override_ends() const { return override_ends_; }
  kv::Condition RecordUnchanged() const;
  bool grants_tokens() const {
    return known && (implicit() || (record.has_value() && !record->paused()));
  }
  // With its override.
  const Limits& limits() const { return limits_; }
  // Tokens that are held, also by events that wait under other policies.
  uint64_t held() const { return grants.held() + further_.HeldOf(uid); }
  // How many more tokens `max_concurrent` allows; RateLimit::kUnlimited without a limit.
  uint64_t FreeTokens() const;
  // Each key of the policy has limits of its own (per_key).
  bool by_key() const { return rules().has_per_key(); }
  // The same of one key, with its override. RateOf: a copy.
  const Limits& LimitsOf(const std::string& policy_key) const;
  RateLimit RateOf(const std::string& policy_key) const;
  uint64_t FreeTokensOf(const std::string& policy_key) const;
  // Events that wait for their next attempt keep their tokens.
  bool keeps_tokens() const {
    return rules().keep_token() &&
           (rules().max_concurrent() > 0 || rules().per_key().max_concurrent() > 0);
  }
  Fairness fairness() const;
  absl::Duration hold_timeout() const;
  bool hold_on_expiry() const { return rules().hold_on_expiry(); }

  // --- holders ---
  GrantSet grants;
  RateLimit rate;
  KeyRates key_rates;
  storage::v1::PolicyCountsRecord counts;
  MeasuredRate granted_rate;
  MeasuredRate released_rate;
  absl::Time released_last = absl::InfinitePast();  // a token came back, as far as is known
  std::string EncodeCounts(int64_t now_micros);

  // --- waiting events ---
  WaitingRows waiting;
  bool idle() const {
    return waiting.empty() && grants.empty() && key_rates.empty() && !further_.Concerns(uid);
  }

  // --- the last hour ---
  storage::v1::PolicyHistoryRecord history;
  absl::Time sample_next = absl::InfiniteFuture();  // at a full minute
  // Adds a sample. False: it is not time, or nothing waits or is held.
  bool TakeSample(absl::Time now);

  // --- places in the shard's lists ---
  bool ready = false;  // it is in the list of policies that may be granted tokens
  absl::Time planned = absl::InfiniteFuture();     // its place in the agenda
  absl::Time grant_next = absl::InfiniteFuture();  // when time alone allows a grant
  absl::Time NextTime() const;
  // Limits of the policy (nullopt) and of its keys that have no room until time gives them some.
  Times<std::optional<std::string>> closed;
  // While the policy grants nothing: when its groups are judged again, and the last judged group.
  absl::Time judge_next = absl::InfinitePast();
  GroupKey judged_to;
  std::set<Uid> fetching;  // schedules whose records are being read
  std::set<Uid> changed;   // schedules whose rows are to be judged, granted or not

 private:
  const storage::v1::PolicyRecord& rules() const {
    return record.has_value() ? *record : storage::v1::PolicyRecord::default_instance();
  }

  const FurtherHolds& further_;
  Limits limits_;
  Limits key_limits_;  // a key has these unless it has an override
  absl::flat_hash_map<std::string, Limits> key_overridden_;
  absl::Time override_ends_ = absl::InfiniteFuture();
};

// The effect of a delivery window on a waiting row (docs/design/throttling.md, "Windows"). Pure.

// How the row's events are spread over its window; count 0 if they are not spread.
Pacing PacingOf(const storage::v1::EventRecord& row);

// When the row's window begins; InfinitePast without one.
absl::Time OpensAt(const storage::v1::EventRecord& row);
// When the row's window closes, and the rest of the row ends as expired (Drops) or waits in the
// next window (CarryOver), or when a one-off event is missed. InfiniteFuture: neither.
absl::Time ClosesAt(const storage::v1::EventRecord& row);
bool Drops(const storage::v1::EventRecord& row);

// Carries the row, whose key has `first`, over to a later window: that of the schedule's first
// occurrence after the begin of the present window whose window is not closed at `now` (it may not
// have begun). The current `definition` gives its form; it has no occurrence from `finish` on
// (FinishOf its state). nullopt: there is no such occurrence, or no window any more; the row
// finishes late.
std::optional<storage::v1::EventRecord> CarryOver(const storage::v1::EventRecord& row,
                                                  uint64_t first,
                                                  const storage::v1::DefinitionRecord& definition,
                                                  absl::Time finish, absl::Time now);

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_WAITING_POLICY_STATE_H_
