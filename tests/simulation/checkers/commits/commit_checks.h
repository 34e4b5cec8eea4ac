// CancelRun, in commit order:
// - only runs that a user asked to cancel are cancelled, and only their events end for that reason;
// - after a run is cancelled, no event of it is claimed (exact: no time is compared). After an
//   attempt's longest time, no event of it is sent;
// - if the user's answer was that the run is cancelled, it is, or it has ended as cancelled for
//   another reason.
// check_lost judges that all its events end.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_COMMITS_COMMIT_CHECKS_H_
#define TESTS_SIMULATION_CHECKERS_COMMITS_COMMIT_CHECKS_H_

#include <vector>

#include "tests/simulation/checkers/model/expectations.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckCancelled(const History& history);

// `emitted_to` = t means that everything before t has been emitted or skipped, in commit order:
// - When a checkpoint moves on, each occurrence before it of an enabled schedule of the partition
//   has a row, a launch record or an outcome, or is within a summary. The naive expander says which
//   occurrences there are.
// - The same holds for a schedule that is made, changed or resumed, in the commit that does so, up
//   to the checkpoint of that moment.
// - The owner of a partition never emits or skips an occurrence for the first time if it lies
//   before the checkpoint in force.
// check_stale_epoch judges that checkpoints never go back.
//
// Pure.

// `expected`: computed from this history.
std::vector<Violation> CheckCheckpoint(const History& history, const Expectations& expected);
std::vector<Violation> CheckCheckpoint(const History& history);

// Emitters find every trigger. In commit order, the LaunchExpression of a child is in use from the
// commit that puts the child until the child is deleted.
//
// Pure.

std::vector<Violation> CheckChildren(const History& history);

// Claim before send: before an attempt is sent, a durable commit has claimed its event and counts
// one attempt fewer. A process sends an attempt only once for each claim, unless it has acquired
// the shard again in between. A process that acquires a shard adopts the claims of its former
// owner.
//
// Pure.

std::vector<Violation> CheckClaimed(const History& history);

// A schedule's counts of all its runs, judged from the store's own log: each commit adds to them
// the events that it ends as succeeded and as failed, no more and no less.
//
// Pure.

std::vector<Violation> CheckCounts(const History& history);

// Judges the counts in the reports of runs from the store's own log. A commit that changes the
// counts of a run adds exactly the events that it ends without an attempt, and exactly the tokens
// that it gives to events that had none. A redrive takes the end of an event back.
//
// Pure.

std::vector<Violation> CheckReports(const History& history);

// Done is final, in commit order: an event with an outcome is not claimed, has no row put and gets
// no other outcome. This holds for events of runs and for one-off events. If a run was skipped as a
// whole, it holds for all its events. Only a backfill takes a record back, and the commit that
// deletes the record shows it.
//
// The count of a summary may grow. check_lost judges the runs that a summary counts besides the one
// in its key.
//
// Pure.

std::vector<Violation> CheckFinal(const History& history);

// The log that several stores share has one leader at a time: epochs only grow, each term begins
// with its leader's row, and nothing follows on a handover in its term. At the end every copy is as
// the log says.

// Rules "log" and "copy".
std::vector<Violation> CheckLog(const History& history);

// Pause, delete and update, in commit order:
// - no event of a schedule is claimed while its state in force is paused or deleted;
// - a claim is made for the version that is in force;
// - once a pause or delete has been in force for an attempt's timeout, no event is sent until the
//   resume. Events claimed before may be sent within that time.
// The first two are exact: no time is compared.
//
// Pure.

std::vector<Violation> CheckPaused(const History& history);

// Reads are fresh: a read shows every commit that anybody had been told of before the read was
// called. So no store answers reads after another one has begun to lead.

// Rule "stale_read".
std::vector<Violation> CheckReads(const History& history);

// One writer for each epoch, judged from the store's own log, in commit order:
// - a lease's epoch never decreases, and grows by one with each new owner. A new owner begins only
//   after the lease was released or has run out, by the store's time;
// - no commit applies under an epoch that is not the current one;
// - writes that only the owner of a lease may make are under its fence, and claims have the current
//   epoch in their key;
// - checkpoints never go back, and an event that has ended does not end again.
//
// Pure.

std::vector<Violation> CheckStaleEpoch(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_COMMITS_COMMIT_CHECKS_H_
