// What an observer outside the services wrote down about one run, in values that checkers judge.
//
// Instants are true time (that of the simulated world) unless they say otherwise.

#ifndef TESTS_SIMULATION_RECORD_HISTORY_H_
#define TESTS_SIMULATION_RECORD_HISTORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/simulation/record/commit.h"

namespace escapement::simulation {

// What a user asked a schedule to be.
struct Definition {
  std::string cron;
  std::string zone;
  int64_t count = 1;
  // Of an even window; else zero.
  absl::Duration paced = absl::ZeroDuration();
  // Instead of `cron`: an interval, or instants in ascending order.
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

// A call that changed a schedule, and was answered OK in the end.
struct ScheduleChange {
  enum class Kind { kCreate, kUpdate, kPause, kResume, kDelete };
  Kind kind = Kind::kCreate;
  absl::Time called;      // when it was first sent
  absl::Time answered;    // when the user knew; it took effect somewhere between
  Definition definition;  // of kCreate and kUpdate
};

// A run set off by TriggerSchedule.
struct TriggeredRun {
  std::string occurrence;
  int64_t count = 1;
  absl::Time called;
};

// A range whose occurrences were to be fired by BackfillSchedule, answered OK in the end.
struct Backfill {
  absl::Time begin, end;
  absl::Time called, answered;
  // Up to here the range has been looked at.
  absl::Time done_to;
  int64_t fired = 0;
};

// A run that the user wanted cancelled; answered OK in the end, or too late.
struct CancelledRun {
  std::string occurrence;
  absl::Time called;
  bool cancelled = false;  // it was answered OK
};

// The store's wall clock was set to be ahead of true time by so much.
struct ClockSet {
  absl::Time time;
  absl::Duration ahead;
  bool synchronised = false;  // its kernel says that it is
  bool everywhere = false;    // all other machines show the same
};

// One incarnation of a schedule.
struct ScheduleLife {
  std::string id;
  std::string uid;  // 32 hex digits
  // In order; each was called after the one before it had been answered.
  std::vector<ScheduleChange> changes;
  std::vector<TriggeredRun> triggered;
  std::vector<Backfill> backfills = {};
  std::vector<CancelledRun> cancels = {};
  std::string target = {};  // authority; the same for all definitions
  bool may_drop = false;    // a definition of it drops what its window leaves over
};

struct OneOff {
  std::string event_id;
  absl::Time due;
  absl::Time called;
  bool created = false;        // false: the user never learnt whether
  bool cancel_called = false;  // a try of CancelEvent may take effect after a later one was refused
  bool cancelled = false;      // CancelEvent was answered OK
  absl::Time cancel_answered = absl::InfiniteFuture();
};

// How a handler learnt what became of a sending.
enum class SendResult { kNone, kAccepted, kFailed, kRejected, kUnknown };

// One attempt that reached the consumer.
struct Receipt {
  absl::Time time;
  std::string event_id;
  std::string uid;         // of the schedule; empty for one-off events
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
  absl::Duration timeout = absl::InfiniteDuration();  // of the attempt
  std::string token;  // empty: it holds none that is to be given back
  bool throttled = false;
  SendResult result = SendResult::kNone;            // what the sender was told, if anything
  absl::Time result_time = absl::InfiniteFuture();  // when
  absl::Duration asked = absl::ZeroDuration();      // how long it wants to be left alone
};

// A row of Done as the store holds it in the end.
struct DoneRow {
  std::string uid;       // of a one-off event: empty
  std::string event_id;  // of a one-off event
  std::string occurrence;
  uint64_t first = 0;
  uint64_t count = 1;
  uint16_t shard = 0;
  Outcome outcome = Outcome::kNone;
  std::string reason;
  absl::Time nominal;
  uint64_t version = 0;
  // The whole occurrence, and `occurrences` of them from `nominal` to `last`.
  bool run_skipped = false;
  uint64_t occurrences = 1;
  absl::Time last = {};
  uint32_t attempts = 0;
};

// A commit that a service was told is durable.
struct Acknowledged {
  std::string process;
  uint64_t session = 0;
  uint64_t number = 0;
  uint64_t seq = 0;
  bool applied = false;  // any group of it
  uint64_t verdicts = 0;
  absl::Time called;  // its first try
  absl::Time answered;
  int tries = 1;
  absl::Time last_called;  // the try that was answered, or a later one
};

// A commit of ends of this claim was sent, and `process` was not told what became of it (in time,
// or ever).
struct UnknownEnd {
  std::string process;
  absl::Time time;
  ClaimId claim;
};

// What a user was told under a request_id.
struct Answer {
  std::string request_id;
  absl::Time time;
  uint64_t response_hash = 0;
};

// One event at the consumer that may be counted as out: from its arrival until the consumer answers
// (ON_DELIVERY) or gives its token back (ON_RELEASE).
enum class WorkWord { kNone, kSucceeded, kFailed, kFailedFinally };

struct Work {
  size_t receipt = 0;  // in History::receipts
  bool on_release = false;
  absl::Time begun;
  absl::Time ended = absl::InfiniteFuture();  // when the consumer first said so
  WorkWord word = WorkWord::kNone;            // what it said of the work
  bool took_effect = false;                   // it was answered that this counted
};

struct History {
  uint64_t seed = 0;
  bool fault_free = false;
  // Nothing but emitters that are down at times, and what consumers do: what is late is judged in
  // time.
  bool only_downtimes = false;
  bool calendar = false;     // commits tell what became of occurrences (Commit::times)
  bool clock_leaps = false;  // the store's clock parts from true time
  absl::Time begin;
  absl::Time end;  // of the run: what falls due later is not expected
  std::vector<ScheduleLife> schedules;
  std::vector<OneOff> one_offs;
  std::vector<Receipt> receipts;  // in order of time
  std::vector<Work> works;        // of throttled events, in order of time
  // From here on no fault is left, nor any trace of one in leases.
  absl::Time calm = absl::InfiniteFuture();
  std::vector<DoneRow> done;
  std::vector<Commit> commits;                   // in order of seq
  std::vector<absl::Time> clock_confirmed = {};  // when an operator confirmed the wall clock
  std::vector<ClockSet> clock_set = {};
  std::vector<std::string> leftover;            // rows of queues that should be empty at the end
  std::vector<Acknowledged> acknowledged = {};  // in order of `answered`
  std::vector<UnknownEnd> unknown_ends = {};    // in order of time
  std::vector<Answer> answers = {};             // in order of time; OK ones
};

// What a checker found: which rule was broken, and how.
struct Violation {
  std::string
      rule;  // lost, early, doubled, stale_epoch, cap, token_end, idle, sink, clock, times, overlap
  std::string what;
};

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_RECORD_HISTORY_H_
