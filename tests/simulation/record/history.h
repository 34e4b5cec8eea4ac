// The notes of an observer outside the services about one run, in values that checkers judge.
//
// Instants are true time (the simulated world's) unless a comment says otherwise.

#ifndef TESTS_SIMULATION_RECORD_HISTORY_H_
#define TESTS_SIMULATION_RECORD_HISTORY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "escapement/storage/v1/records.pb.h"
#include "tests/simulation/record/commit.h"

namespace escapement::simulation {

// A user's definition of a schedule.
struct Definition {
  std::string cron;
  std::string zone;
  int64_t count = 1;
  // Length of the window over which a run is spread evenly; zero: not spread.
  absl::Duration paced = absl::ZeroDuration();
  // One of these replaces `cron`: an interval, or instants in ascending order.
  absl::Duration every = absl::ZeroDuration();
  absl::Time anchor = {};
  std::vector<absl::Time> times = {};
  std::vector<std::string> exclusions = {};
  absl::Time start = absl::InfinitePast();
  absl::Time end = absl::InfiniteFuture();
  int64_t max_runs = 0;  // 0: no limit
  absl::Duration jitter = absl::ZeroDuration();
  enum class Misfire { kFireAll, kFireLatest, kSkip };
  Misfire misfire = Misfire::kFireAll;
  absl::Duration threshold = absl::Seconds(60);
  size_t max_catch_up = 100;
  enum class Overlap { kAllow, kSkip, kBufferOne, kCancelPrevious };
  Overlap overlap = Overlap::kAllow;
};

// A call that changed a schedule and finally got the answer OK.
struct ScheduleChange {
  enum class Kind { kCreate, kUpdate, kPause, kResume, kDelete };
  Kind kind = Kind::kCreate;
  absl::Time called;      // when it was first sent
  absl::Time answered;    // when the user got the answer; it took effect in between
  Definition definition;  // only for kCreate and kUpdate
};

// A run started by TriggerSchedule.
struct TriggeredRun {
  std::string occurrence;
  int64_t count = 1;
  absl::Time called;
};

// A range whose occurrences BackfillSchedule was to fire; finally answered OK.
struct Backfill {
  absl::Time begin, end;
  absl::Time called, answered;
  // The call has processed the range up to here.
  absl::Time done_to;
  int64_t fired = 0;
};

// A run that the user asked to cancel. The answer was OK, or that it was too late.
struct CancelledRun {
  std::string occurrence;
  absl::Time called;
  bool cancelled = false;  // the answer was OK
};

// From this moment on the store's wall clock was ahead of true time by `ahead`.
struct ClockSet {
  absl::Time time;
  absl::Duration ahead;
  bool synchronised = false;  // its kernel calls it synchronised
  bool everywhere = false;    // all other machines show the same
};

// One incarnation of a schedule.
struct ScheduleLife {
  std::string id;
  std::string uid;  // 32 hex digits
  // In order. Each was called after the call before it had been answered.
  std::vector<ScheduleChange> changes;
  std::vector<TriggeredRun> triggered;
  std::vector<Backfill> backfills = {};
  std::vector<CancelledRun> cancels = {};
  std::string target = {};  // authority; the same for all definitions
  bool may_drop = false;    // any definition may drop events at the end of a window
};

struct OneOff {
  std::string event_id;  // as the consumer receives it
  // The due time and body of the revision that is delivered, the last one that was acknowledged; or
  // those of the few that it may be. No body: not known.
  absl::Time due;
  std::set<uint64_t> bodies = {};
  uint64_t revision = 0;
  uint64_t generation = 0;
  absl::Time called;
  bool created = false;        // false: the user never learnt the result
  bool cancel_called = false;  // a try of CancelEvent may take effect after a later try was refused
  bool cancelled = false;      // CancelEvent was answered OK
  absl::Time cancel_answered = absl::InfiniteFuture();
};

// The result of an attempt, as its handler learnt it.
enum class SendResult { kNone, kAccepted, kFailed, kRejected, kUnknown };

// One attempt that reached the consumer.
struct Receipt {
  absl::Time time;
  std::string event_id;
  std::string uid;         // empty for one-off events
  std::string occurrence;  // empty for one-off events
  uint64_t index = 0;
  uint64_t run_count = 1;
  uint32_t attempt = 1;
  uint64_t version = 0;
  absl::Time nominal;
  absl::Time launch;
  uint64_t body_hash = 0;
  std::string sender;  // process and incarnation
  absl::Time sent;
  absl::Duration timeout = absl::InfiniteDuration();  // timeout of the attempt
  std::string token;  // empty: it holds no token that must be given back
  bool throttled = false;
  SendResult result = SendResult::kNone;            // the result that the sender learnt, if any
  absl::Time result_time = absl::InfiniteFuture();  // when the sender learnt it
  absl::Duration asked = absl::ZeroDuration();      // how long the consumer asked to be left alone
  std::string kind = {};  // the target's: "http", "grpc", "sqs", "kafka", "email" or "ping"
  uint64_t batch = 0;     // arrivals with the same number shared a request; 0: it came alone
  bool late = false;      // the consumer's answer came when the sender had given the attempt up
};

// An event that kills each handler that sends it.
struct PoisonSeen {
  std::string event_id;
  std::string uid = {};    // empty for a one-off event
  std::string occurrence;  // empty for a one-off event
  uint64_t index = 0;
  bool throttled = false;
  std::vector<absl::Time> sent = {};
};

// A row of Done, as the store holds it at the end of the run.
struct DoneRow {
  std::string uid;       // empty for a one-off event
  std::string event_id;  // only for a one-off event
  std::string occurrence;
  uint64_t first = 0;
  uint64_t count = 1;
  uint16_t shard = 0;
  Outcome outcome = Outcome::kNone;
  std::string reason;
  absl::Time nominal;
  uint64_t version = 0;
  // The whole occurrence was skipped. The row stands for `occurrences` of them, from `nominal` to
  // `last`.
  bool run_skipped = false;
  uint64_t occurrences = 1;
  absl::Time last = {};
  uint32_t attempts = 0;
};

// A commit that was answered as durable to a service.
struct Acknowledged {
  std::string process;
  uint64_t session = 0;
  uint64_t number = 0;
  uint64_t seq = 0;
  bool applied = false;  // whether any of its groups applied
  uint64_t verdicts = 0;
  absl::Time called;  // when it was first sent
  absl::Time answered;
  int tries = 1;
  absl::Time last_called;  // when the answered try was sent, or a later one
};

// A read that was answered.
struct ReadSeen {
  std::string process;
  absl::Time called;
  absl::Time answered;
  uint64_t seq = 0;  // the read showed the state after this commit
};

// A row of the log that several stores share, once the log's engine has made it durable.
struct LoggedRow {
  enum class Kind : uint8_t { kLeader, kBatch, kProof, kHandover };
  absl::Time time;
  uint64_t seq = 0;
  uint64_t epoch = 0;
  Kind kind = Kind::kBatch;
};

// `process` sent a commit that ends events of this claim, and got no answer (in time, or ever).
struct UnknownEnd {
  std::string process;
  absl::Time time;
  ClaimId claim;
};

// An OK answer that a user got under a request_id.
struct Answer {
  std::string request_id;
  absl::Time time;
  uint64_t response_hash = 0;
};

// The consumer's result of the work on an event.
enum class WorkWord { kNone, kSucceeded, kFailed, kFailedFinally };

// One event at the consumer that may count as out: from its arrival until the consumer answers
// (ON_DELIVERY) or gives its token back (ON_RELEASE).
struct Work {
  size_t receipt = 0;  // in History::receipts
  bool on_release = false;
  absl::Time begun;
  absl::Time ended = absl::InfiniteFuture();  // when the consumer first said that it had ended
  WorkWord word = WorkWord::kNone;            // the result that the consumer reported
  bool took_effect = false;                   // an answer confirmed that this result counts
};

// An occurrence in an account.
struct AccountedRun {
  std::string schedule;  // id
  std::string occurrence;
  absl::Time nominal;
  std::string result;  // name of the value of escapement.v1.Occurrence.Result
  std::string reason;
  // Later, if the run was got: the name of its Run.State, or "none".
  std::string got = {};
  bool got_failed = false;  // events of it have failed or expired
};

// A run in a list.
struct ListedRun {
  std::string schedule;  // id
  std::string occurrence;
  std::string state;    // name of the value of escapement.v1.Run.State
  bool failed = false;  // events of it have failed or expired
};

// The account of all schedules, over all its pages.
struct AccountSeen {
  absl::Time called, answered;
  absl::Time begin, end;  // range of nominal times
  std::vector<AccountedRun> runs = {};
  int64_t counted = 0;  // the sum of its counts
  bool last = false;    // the runs were listed and got after it
  absl::Time compared;  // when that was done; only if `last`
  std::vector<ListedRun> listed = {};
};

struct History {
  uint64_t seed = 0;
  bool fault_free = false;
  // The only faults are emitters that are down at times and the consumer's habits. Checkers then
  // also judge how late events are.
  bool only_downtimes = false;
  bool calendar = false;     // commits say what becomes of occurrences (Commit::times)
  bool clock_leaps = false;  // the store's clock may differ from true time
  uint64_t cell = 0;         // the store's: the first epoch of its leases is cell × 2^56 + 1
  absl::Time begin;
  absl::Time end;  // end of the run; occurrences due later are not expected
  std::vector<ScheduleLife> schedules;
  std::string hanging = {};  // the id of a schedule whose attempts the consumer never answers
  std::vector<OneOff> one_offs;
  std::vector<Receipt> receipts;  // in order of time
  std::optional<PoisonSeen> poison = std::nullopt;
  // Instances of services that were killed or stopped, and when.
  std::map<std::string, absl::Time> died = {};
  std::vector<Work> works;  // on throttled events, in order of time
  // From here on there are no faults, and leases show no trace of one.
  absl::Time calm = absl::InfiniteFuture();
  std::vector<DoneRow> done;
  std::vector<Commit> commits;                   // in order of seq
  std::vector<absl::Time> clock_confirmed = {};  // when an operator confirmed the wall clock
  std::vector<ClockSet> clock_set = {};
  std::vector<std::string> leftover;            // rows of queues that should be empty at the end
  std::vector<Acknowledged> acknowledged = {};  // in order of `answered`
  std::vector<ReadSeen> reads = {};             // in order of `answered`
  std::vector<UnknownEnd> unknown_ends = {};    // in order of time
  // Only if several stores share a log: its rows, in order, and what is wrong with the stores'
  // copies at the end.
  std::vector<LoggedRow> log = {};
  std::vector<std::string> copies = {};
  std::vector<Answer> answers = {};        // OK answers, in order of time
  std::vector<AccountSeen> accounts = {};  // in order of time
};

// A breach that a checker found.
struct Violation {
  // The broken rule: lost, early, doubled, stale_epoch, cap, token_end, idle, sink, clock, times,
  // overlap and others.
  std::string rule;
  std::string what;
};

// Helpers with which tests of checkers make their histories.
//
// Pure.

inline const absl::Time kBegin = absl::FromUnixSeconds(1'772'323'200);  // 2026-03-01T00:00:00Z

inline absl::Time At(double seconds) { return kBegin + absl::Seconds(seconds); }

// The id of an interval's occurrence at that second.
inline std::string Id(int second) {
  return absl::FormatTime("%Y%m%dT%H%M%E6SZ", At(second), absl::UTCTimeZone());
}

// One violation a line.
inline std::string Texts(const std::vector<Violation>& violations) {
  std::string text;
  for (const Violation& violation : violations) text += violation.what + "\n";
  return text;
}

// Converts outcomes of the store's records to those of a history.

inline Outcome OutcomeOf(storage::v1::OutcomeKind kind) {
  switch (kind) {
    case storage::v1::OUTCOME_KIND_SUCCEEDED:
      return Outcome::kSucceeded;
    case storage::v1::OUTCOME_KIND_FAILED:
      return Outcome::kFailed;
    case storage::v1::OUTCOME_KIND_EXPIRED:
      return Outcome::kExpired;
    case storage::v1::OUTCOME_KIND_CANCELLED:
      return Outcome::kCancelled;
    case storage::v1::OUTCOME_KIND_SKIPPED:
      return Outcome::kSkipped;
    default:
      return Outcome::kNone;
  }
}

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_RECORD_HISTORY_H_
