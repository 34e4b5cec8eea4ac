// What a durable commit did, in values that checkers judge: commit_log reads them from the store's
// own records.

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
  absl::Time end = absl::InfinitePast();  // in the store's time; of a released one: when it was
};

// A write that only the owner of a lease may make.
struct OwnedWrite {
  std::string what;
  std::string lease;
  std::optional<uint64_t> epoch;  // that the written key itself names
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

// The writes by which throttled events go their way. Policies, uids: 32 hex digits.
struct PolicyWrite {
  std::string policy;
  bool deleted = false;
  uint64_t max_concurrent = 0;  // 0: no limit
  double max_per_second = 0;    // 0: no limit
  uint64_t burst = 1;
  bool paused = false;
  absl::Duration hold = absl::ZeroDuration();
  bool hold_on_expiry = false;
};

// What a policy has on record of itself.
struct CountsWrite {
  std::string policy;
  bool deleted = false;
  uint64_t held = 0;
};

struct ScheduleStateWrite {
  std::string uid;
  bool enabled = false;  // FINISHED counts as enabled: what it has emitted goes on
  // If the schedule is paused: since when. Runs that were triggered later go on.
  absl::Time paused_at = absl::InfiniteFuture();
};

// A generation of tokens.
struct GrantName {
  std::string policy;
  uint64_t epoch = 0;
  uint64_t number = 0;
  friend auto operator<=>(const GrantName&, const GrantName&) = default;
};

// When holders were accepted and until when they may hold, as a grant's record has it; both in the
// store's time.
struct HoldTimes {
  Indices events;
  absl::Time delivered = absl::InfinitePast();  // …: not known to have been
  absl::Time expires = absl::InfinitePast();
};

struct GrantWrite {
  GrantName name;
  bool deleted = false;
  std::string uid = {};
  std::string occurrence = {};
  std::vector<Indices> holders = {};
  absl::Time grant_time = absl::InfinitePast();
  absl::Time return_due = absl::InfinitePast();  // of the row of what is given back
  absl::Time send_before = absl::InfinitePast();
  absl::Duration timeout = absl::ZeroDuration();  // of an attempt
  std::vector<HoldTimes> hold_times = {};         // of all holders
};

// A row by which events of a run wait (in `waiting`, or in `parked` or `events` where those of a
// throttled run may come to).
struct RowWrite {
  enum class Table { kWaiting, kParked, kEvents };
  Table table = Table::kWaiting;
  std::string key;
  bool deleted = false;
  std::string policy = {};  // of kWaiting
  std::string uid = {};
  std::string occurrence = {};
  Indices events = {};  // what was taken is not among them
  absl::Time due = absl::InfinitePast();
  std::string last_error = {};
  // Of a window: when event i may go and when it closes for those that do not finish late.
  absl::Time window_begin = absl::InfinitePast();
  absl::Duration window = absl::ZeroDuration();
  uint64_t pace_first = 0;
  uint64_t pace_count = 0;  // 0: not paced
  absl::Time closes = absl::InfiniteFuture();
  absl::Time trigger_time = absl::InfinitePast();  // of a run that was triggered or backfilled
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
  std::string kind = {};   // of GrantReportRecord
  Indices events = {};
  absl::Time time = absl::InfinitePast();  // of which it tells, in the store's time; …: not told
};

using ThrottleWrite = std::variant<PolicyWrite, ScheduleStateWrite, GrantWrite, RowWrite,
                                   ClaimWrite, EndWrite, ReportWrite, CountsWrite>;

// The writes that say what becomes of occurrences (noted if History::calendar).
struct EmissionWrite {  // a row or launch record of it
  std::string uid;
  std::string occurrence;
  uint64_t version = 0;
  absl::Time nominal;
  absl::Time launch;
  bool triggered = false;
  bool record = false;  // a launch record
};

struct MarkWrite {  // a run is active, or has ended
  std::string uid;
  std::string occurrence;
  bool deleted = false;
};

struct LaunchWrite {  // a run's record, in place of its launch record
  std::string uid;
  std::string occurrence;
  uint64_t version = 0;
  absl::Time nominal;
  uint64_t count = 1;  // events of it
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
};

using TimesWrite = std::variant<EmissionWrite, MarkWrite, LaunchWrite, CancelWrite, OutcomeWrite>;

// The writes that tell what is about to be sent, what waits for it, and who asked for what. Of
// one-off events the uid is empty, and the occurrence is the event's id.
struct ClaimedEvents {
  std::string uid;
  std::string occurrence;
  Indices events;
  uint32_t attempts = 0;                           // that had begun before
  uint64_t version = 0;                            // of the definition that is sent
  absl::Time trigger_time = absl::InfinitePast();  // of a run that was triggered or backfilled
};

struct ClaimId {
  uint16_t shard = 0;
  uint64_t epoch = 0;
  uint64_t number = 0;
  friend auto operator<=>(const ClaimId&, const ClaimId&) = default;
};

struct ClaimPut {
  ClaimId claim;
  bool granted = false;     // its events hold tokens
  bool taken_over = false;  // by the next owner of what an earlier claim left
  absl::Duration timeout;   // of the slowest attempt
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
  absl::Time paused_at = absl::InfiniteFuture();  // of kPaused
  std::vector<std::string> cancelled_runs = {};   // occurrences
};

// The schedule's triggers are kept there.
struct ChildWrite {
  std::string uid;
  uint16_t partition = 0;
  bool deleted = false;
  std::string key = {};
  std::string expression = {};  // under which it is to be found; of instants: empty
};

// The expression is looked at by emitters.
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

// Of one-off events; those of runs are OutcomeWrites.
struct OneOffEnd {
  std::string event_id;
  Outcome outcome = Outcome::kNone;
  std::string reason;
};

using QueueWrite = std::variant<ClaimPut, ClaimGone, QueuePut, QueueGone, StateWrite, ChildWrite,
                                RequestWrite, OneOffEnd, InUseWrite>;

// A durable commit.
struct Commit {
  uint64_t seq = 0;
  absl::Time store_time;
  std::vector<FenceSeen> fence;
  std::vector<LeaseWrite> leases;
  std::vector<OwnedWrite> owned;
  std::vector<CheckpointWrite> checkpoints;
  std::vector<DoneWrite> done;
  absl::Time time = {};                      // when it became durable
  std::vector<ThrottleWrite> throttle = {};  // in the order of the commit
  std::optional<bool> clock_hold = {};       // the store's clock is held, or no more
  std::vector<TimesWrite> times = {};        // in the order of the commit
  std::vector<QueueWrite> queue = {};        // in the order of the commit
  // Whose it is, and which of its groups applied, as a hash (HashOfVerdicts in store_observer.h).
  uint64_t session = 0;
  uint64_t number = 0;
  uint64_t verdicts = 0;
};

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_RECORD_COMMIT_H_
