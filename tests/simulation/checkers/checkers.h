// Every commit that was answered as durable is durable. Judged by the store's own log of durable
// commits:
// - commit sequences are dense and in order, and no commit becomes durable twice;
// - if an answer says that a group applied, the log has that commit under that sequence with those
//   verdicts, and had it when the answer came;
// - a commit that began after another one had been answered has a later sequence.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_CHECKERS_H_
#define TESTS_SIMULATION_CHECKERS_CHECKERS_H_

#include <vector>

#include "tests/simulation/checkers/model/expectations.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckAcknowledged(const History& history);

// The account of all schedules is complete and true, whenever it is asked for:
// - no occurrence is unaccounted for, and each has one result;
// - every occurrence that was expected when the account was made is in it, and no other;
// - what it says of occurrences that have ended is how they ended;
// - the runs that are listed and got after the last account say the same.
// Where store time is not true time, only the first of these is judged.
//
// Pure.

// `expected`: computed from this history.
std::vector<Violation> CheckAccount(const History& history, const Expectations& expected);
std::vector<Violation> CheckAccount(const History& history);

// All checkers over one history.
//
// Pure.

std::vector<Violation> CheckAll(const History& history);

// The outcome of an event without a token is what its consumer answered:
// - it ended as succeeded only if a sender learnt that an attempt was accepted;
// - it ended as failed only if it was refused, its attempts were used up, or its schedule does not
//   retry past the next occurrence, or three handlers were lost with it;
// - an event that kills its handlers is sent three times, and then ends so;
// - if a consumer asked to be left alone for a time, the next attempt is made after that time;
// - the next owner of a shard sends an event again only after the former owner's attempt has timed
//   out or was answered, or once the former owner's host has proven that owner to be dead.
//
// Pure.

std::vector<Violation> CheckAttempts(const History& history);

// The stamps of the store's clock never go back. They leap only if an operator confirmed the wall
// clock, or if the wall clock had been set at least five seconds before. That step is of minutes,
// or larger if the kernel called the clock synchronised and all other machines showed the same.
// While the clock is held, nothing is planned.
//
// Pure.

std::vector<Violation> CheckClock(const History& history);

// Duplicates happen only where they cannot be avoided. One of these must explain each further
// receipt of an event:
// - a retry: the sender learnt that the earlier attempt failed, or got no answer in time;
// - a takeover: the lease of the event's queue shard was acquired since the earlier receipt was
//   claimed. The end was not committed, or the attempt was sent after the lease was lost. For an
//   event with a token the lease of any queue shard counts;
// - for throttled events: the consumer reported failed work, or the hold time ran out.
// A run without faults has retries only.
//
// Identity: one id is one event, with one body for each version of its definition; and one event
// has one id.
//
// Pure.

// Why an event that had been received before arrived again.
enum class RepeatCause {
  kFailed,      // the earlier attempt had failed
  kNoAnswer,    // the earlier attempt had no answer in time
  kWorkFailed,  // the consumer reported that its work had failed
  kHoldExpired,
  // W1: the earlier attempt was sent, but its end was not committed when a new owner took the
  // shard.
  kEndNotCommitted,
  kLeaseLost,   // W2: an attempt arrived after its sender's lease was lost
  kEndUnknown,  // W3: a commit of the claim's ends was sent; its result is unknown
};

struct Repeat {
  size_t receipt = 0;  // index of the later receipt in History::receipts
  RepeatCause cause = RepeatCause::kFailed;
};

std::vector<Violation> CheckDoubled(const History& history);

// All repeats that are explained.
std::vector<Repeat> ExplainRepeats(const History& history);

// Never early: no receipt comes before the true time at which its event is due. The naive expander
// and users' calls say when that is.
//
// Pure.

// `expected`: computed from this history.
std::vector<Violation> CheckEarly(const History& history, const Expectations& expected);
std::vector<Violation> CheckEarly(const History& history);

// Nothing is lost. Each expected event ends in exactly one outcome. Nothing ends that nobody asked
// for. No queue holds a row for ever.
//
// Pure.

// `expected`: computed from this history.
std::vector<Violation> CheckLost(const History& history, const Expectations& expected);
std::vector<Violation> CheckLost(const History& history);

// Once faults are over, nothing that is due waits for more than 30 s without being claimed:
// - no row of `events` with an enabled schedule (for retries: after their backoff), and no one-off
//   event;
// - no claim stays open longer than its attempts may take plus those 30 s;
// - no occurrence of an enabled schedule is left without a row, launch record or outcome.
// check_idle judges rows that wait for a token. Launch records may wait for the run before.
//
// Pure.

// `expected`: computed from this history.
std::vector<Violation> CheckOverdue(const History& history, const Expectations& expected);
std::vector<Violation> CheckOverdue(const History& history);

// Runs of one schedule overlap only as its policy allows, in commit order. A run is active while it
// has its mark, and while events of it have not ended:
// - under SKIP and BUFFER_ONE no run is launched while another is active. Triggers and backfills
//   start runs even then, but without a launch record;
// - an occurrence is skipped (overlap) only while a run is active, or if a later run had taken its
//   place;
// - events end as cancelled (overlap) only if a later launch under CANCEL_PREVIOUS has taken the
//   place of their run. If emitters' downtimes are the only fault, no more events of that run are
//   sent.
//
// Pure.

std::vector<Violation> CheckOverlap(const History& history);

// Same request_id, same answer, one effect:
// - a request's answer is recorded once, in the commit that has the effect;
// - every OK answer that a user got under a request_id has such a record, and all of them are the
//   same, whichever master gave them.
//
// Pure.

std::vector<Violation> CheckRequests(const History& history);

// Each outcome of an occurrence has its reason:
// - misfire: it was recorded later than the threshold after the occurrence's time, and the policy
//   did not fire it;
// - paused: it fell due in a pause that ended, and the policy did not fire it;
// - deleted: its schedule was deleted;
// - superseded: its schedule was changed to a definition without this occurrence.
// A skipped occurrence does not end in another way, unless a backfill takes the record back. A
// launch time is never before the nominal time, nor after it by more than the jitter. If emitters'
// downtimes are the only fault, nothing is fired late against its policy.
//
// check_lost judges whether each occurrence has exactly one outcome, and what summaries count.
// check_overlap judges overlaps.
//
// Pure.

// `expected`: computed from this history.
std::vector<Violation> CheckTimes(const History& history, const Expectations& expected);
std::vector<Violation> CheckTimes(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_CHECKERS_H_
