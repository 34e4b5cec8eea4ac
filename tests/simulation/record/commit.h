// The effects of a durable commit, as values that checkers judge. commit_log reads them from the
// store's own records.

#ifndef TESTS_SIMULATION_RECORD_COMMIT_H_
#define TESTS_SIMULATION_RECORD_COMMIT_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"

namespace escapement::simulation {

enum class Outcome { kNone, kSucceeded, kFailed, kExpired, kCancelled, kSkipped };

// A lease as a commit wrote it.
struct LeaseWrite {
  std::string lease;  // kind "/" index
  uint64_t epoch = 0;
  std::string owner;                      // empty: released
  absl::Time end = absl::InfinitePast();  // in the store's time; if released: when that was
};

// A write that only the owner of a lease may make.
struct OwnedWrite {
  std::string what;
  std::string lease;
  std::optional<uint64_t> epoch;  // the epoch that the written key names
};

struct FenceSeen {
  std::string lease;
  uint64_t epoch = 0;
};

struct CheckpointWrite {
  std::string checkpoint;
  int64_t micros = 0;
};

struct DoneWrite {
  std::string key;
  std::string value_digest;  // outcome and reason
  bool deleted = false;
};

// Events [first, first + count) of a run.
struct Indices {
  uint64_t first = 0;
  uint64_t count = 0;
};

// The writes that move throttled events. Policies and uids are 32 hex digits.

// A limit of events: each holds `weight` tokens of the policy and of its key.
struct LimitOf {
  std::string policy;
  std::string key = {};
  uint64_t weight = 1;
  friend auto operator<=>(const LimitOf&, const LimitOf&) = default;
};

// Other limits of a policy (no key) or of one of its keys, until `ends`. Unset ones stay.
struct OverrideWrite {
  std::optional<std::string> key;
  std::optional<uint64_t> max_concurrent;
  bool rate = false;  // the rate changes, too
  absl::Time ends;
};

struct PolicyWrite {
  std::string policy;
  bool deleted = false;
  uint64_t max_concurrent = 0;  // 0: no limit
  double max_per_second = 0;    // 0: no limit
  uint64_t burst = 1;
  uint64_t per_key = 0;  // max_concurrent of each key; 0: no limit
  bool by_key = false;   // keys have limits
  double key_per_second = 0;
  uint64_t key_burst = 1;
  std::vector<OverrideWrite> overrides = {};
  bool paused = false;
  absl::Duration hold = absl::ZeroDuration();
  bool hold_on_expiry = false;
};

// A policy's own record of its counts.
struct CountsWrite {
  std::string policy;
  bool deleted = false;
  uint64_t held = 0;
};

struct ScheduleStateWrite {
  std::string uid;
  bool enabled = false;  // also true for FINISHED: emitted events still go out
  // When the schedule was paused, if it is. Runs that were triggered later still go out.
  absl::Time paused_at = absl::InfiniteFuture();
};

// The name of a grant: one generation of tokens.
struct GrantName {
  std::string policy;
  uint64_t epoch = 0;
  uint64_t number = 0;
  friend auto operator<=>(const GrantName&, const GrantName&) = default;
};

// The record that a grant keeps of holders: when they were accepted, and until when they may hold.
// Both are in the store's time.
struct HoldTimes {
  Indices events;
  absl::Time delivered = absl::InfinitePast();  // InfinitePast: not known to be accepted
  absl::Time expires = absl::InfinitePast();
};

struct GrantWrite {
  GrantName name;
  bool deleted = false;
  std::string uid = {};
  std::string occurrence = {};
  std::string policy_key = {};
  uint64_t weight = 1;
  std::vector<LimitOf> further = {};
  absl::Time retry_at = absl::InfinitePast();  // later: the event sleeps until then
  std::vector<Indices> holders = {};
  absl::Time grant_time = absl::InfinitePast();
  absl::Time return_due = absl::InfinitePast();  // due time of the row if events are given back
  absl::Time send_before = absl::InfinitePast();
  absl::Duration timeout = absl::ZeroDuration();  // timeout of an attempt
  std::vector<HoldTimes> hold_times = {};         // for all holders
};

// A row by which events of a run wait: in `waiting`, or in `parked` or `events` for a throttled
// run.
struct RowWrite {
  // kGrants: the event sleeps in a grant until its next attempt, and keeps its token.
  enum class Table { kWaiting, kParked, kEvents, kGrants };
  Table table = Table::kWaiting;
  std::string key;
  bool deleted = false;
  std::string policy = {};  // only for kWaiting
  std::string uid = {};
  std::string occurrence = {};
  Indices events = {};  // without events that were taken out of the row
  absl::Time due = absl::InfinitePast();
  std::string last_error = {};
  // For events with a window: when the window begins and when it closes. `closes` is InfiniteFuture
  // unless the rest is dropped or carried over.
  absl::Time window_begin = absl::InfinitePast();
  absl::Duration window = absl::ZeroDuration();
  uint64_t pace_first = 0;
  uint64_t pace_count = 0;  // 0: not paced
  absl::Time closes = absl::InfiniteFuture();
  // Only for a run that was triggered or backfilled.
  absl::Time trigger_time = absl::InfinitePast();
  std::string policy_key = {};
  uint64_t weight = 1;
  std::vector<LimitOf> further = {};
};

// A claim of events that hold tokens.
struct ClaimWrite {
  GrantName grant;
  std::vector<Indices> events;
};

struct EndWrite {
  std::string uid;
  std::string occurrence;
  Indices events;
  Outcome outcome = Outcome::kNone;
  std::string reason;
};

struct ReportWrite {
  GrantName grant;
  bool unreachable = false;
  bool delivered = false;  // accepted, or ended as succeeded
  std::string kind = {};   // name of the entry's kind in GrantReportRecord
  // The consumer asked for a pause until then, in the store's time; InfinitePast: it did not.
  absl::Time paused_until = absl::InfinitePast();
  Indices events = {};
  // When the reported thing happened, in the store's time; InfinitePast: not given.
  absl::Time time = absl::InfinitePast();
};

using ThrottleWrite = std::variant<PolicyWrite, ScheduleStateWrite, GrantWrite, RowWrite,
                                   ClaimWrite, EndWrite, ReportWrite, CountsWrite>;

// The writes that say what becomes of occurrences (only if History::calendar).
struct EmissionWrite {  // a row or launch record of an occurrence
  std::string uid;
  std::string occurrence;
  uint64_t version = 0;
  absl::Time nominal;
  absl::Time launch;
  bool triggered = false;
  bool record = false;  // a launch record
};

struct MarkWrite {  // a run is marked active, or its mark is deleted
  std::string uid;
  std::string occurrence;
  bool deleted = false;
};

struct LaunchWrite {  // the record of a run replaces its launch record
  std::string uid;
  std::string occurrence;
  uint64_t version = 0;
  absl::Time nominal;
  uint64_t count = 1;  // number of events
};

struct CancelWrite {  // runs with an earlier nominal time are cancelled
  std::string uid;
  absl::Time before;
};

struct OutcomeWrite {
  std::string uid;
  std::string occurrence;
  uint64_t first = 0;
  bool deleted = false;
  uint64_t count = 0;
  Outcome outcome = Outcome::kNone;
  std::string reason = {};
  uint64_t version = 0;
  absl::Time nominal = {};
  bool run_skipped = false;
  uint64_t occurrences = 1;
  absl::Time last = {};
  uint32_t attempts = 0;
};

using TimesWrite = std::variant<EmissionWrite, MarkWrite, LaunchWrite, CancelWrite, OutcomeWrite>;

// The writes that say which events are about to be sent, which rows wait, and whose request a
// commit serves. For one-off events the uid is empty, and the occurrence is the event's id.
struct ClaimedEvents {
  std::string uid;
  std::string occurrence;
  Indices events;
  uint32_t attempts = 0;  // attempts that had begun before
  uint64_t version = 0;   // version of the definition that is sent
  uint32_t lost_claims = 0;
  // Only for a run that was triggered or backfilled.
  absl::Time trigger_time = absl::InfinitePast();
};

struct ClaimId {
  uint16_t shard = 0;
  uint64_t epoch = 0;
  uint64_t number = 0;
  friend auto operator<=>(const ClaimId&, const ClaimId&) = default;
};

struct ClaimPut {
  ClaimId claim;
  bool granted = false;    // its events hold tokens
  absl::Duration timeout;  // timeout of the slowest attempt
  std::vector<ClaimedEvents> events;
};

struct ClaimGone {
  ClaimId claim;
};

// A row of `events`, `waiting` or `parked`.
struct QueuePut {
  RowWrite::Table table = RowWrite::Table::kEvents;
  uint64_t key = 0;  // hash of table and key
  std::string uid;
  std::string occurrence;
  Indices events;
  absl::Time due;
  uint32_t attempts = 0;
};

struct QueueGone {
  uint64_t key = 0;
};

struct StateWrite {
  enum class Kind { kGone, kEnabled, kFinished, kPaused, kDeleted };
  std::string uid;
  Kind kind = Kind::kGone;
  uint64_t version = 0;
  absl::Time paused_at = absl::InfiniteFuture();  // only for kPaused
  std::vector<std::string> cancelled_runs = {};   // occurrences
};

// A schedule's child in a partition, with its triggers.
struct ChildWrite {
  std::string uid;
  uint16_t partition = 0;
  bool deleted = false;
  std::string key = {};
  std::string expression = {};  // emitters find the child under it; empty for instants
};

// The mark that makes emitters read an expression's children.
struct InUseWrite {
  std::string expression;
  bool deleted = false;
};

struct RequestWrite {
  std::string request;  // tenant "/" request_id
  bool deleted = false;
  std::string method = {};
  uint64_t response_hash = 0;
};

// The end of a one-off event; ends of runs are OutcomeWrites.
struct OneOffEnd {
  std::string event_id;
  Outcome outcome = Outcome::kNone;
  std::string reason;
};

using QueueWrite = std::variant<ClaimPut, ClaimGone, QueuePut, QueueGone, StateWrite, ChildWrite,
                                RequestWrite, OneOffEnd, InUseWrite>;

// A durable commit.
// One part of a schedule's counts of all its runs.
struct ScheduleCountsWrite {
  std::string uid;
  uint16_t part = 0;
  uint64_t succeeded = 0;
  uint64_t failed = 0;
};

// One part of what a run's report counts.
struct RunReportWrite {
  std::string uid;
  std::string occurrence;
  uint16_t part = 0;
  uint64_t never_started = 0;
  uint64_t tokens = 0;
};

struct Commit {
  uint64_t seq = 0;
  absl::Time store_time;
  std::vector<FenceSeen> fence;
  std::vector<LeaseWrite> leases;
  std::vector<OwnedWrite> owned;
  std::vector<CheckpointWrite> checkpoints;
  std::vector<DoneWrite> done;
  absl::Time time = {};                      // true time at which it became durable
  std::vector<ThrottleWrite> throttle = {};  // in the order of the commit
  std::optional<bool> clock_hold = {};       // if set: the store's clock is held, or is released
  std::vector<TimesWrite> times = {};        // in the order of the commit
  std::vector<QueueWrite> queue = {};        // in the order of the commit
  std::vector<ScheduleCountsWrite> schedule_counts = {};  // in the order of the commit
  std::vector<RunReportWrite> run_reports = {};           // in the order of the commit
  // The commit's identity, and a hash over which of its groups applied (HashOfVerdicts in
  // store_observer.h).
  uint64_t session = 0;
  uint64_t number = 0;
  uint64_t verdicts = 0;
};

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_RECORD_COMMIT_H_
