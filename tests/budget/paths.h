// The hot paths that have a budget. Each sets up a world of its own. Then it does the work of
// `events` events between two marks (mark.h), always the same work in the same order. All paths
// except the store's run on virtual time. A path that does not finish ends the process.

#ifndef TESTS_BUDGET_PATHS_H_
#define TESTS_BUDGET_PATHS_H_

#include <cstdint>

namespace escapement::budget {

// RocksKvStore puts an event's row under a condition. Later it deletes the row under another
// condition and puts a Done record. A commit has 1,000 events, each in a group of its own, and
// commits follow one another.
void RunStorePath(uint64_t events);

// The master takes one-off events, 1,000 in a batch, and makes their ids.
void RunIngestPath(uint64_t events);

// The emitter writes one row for each of this many schedules that fire in one minute.
void RunEmissionPath(uint64_t events);

// The handler loads, claims, sends and ends one-off events that are all due.
void RunDeliveryPath(uint64_t events);

// The same for occurrences, each from a different schedule.
void RunOccurrencesPath(uint64_t events);

// The token manager grants, takes the reports of deliveries, and takes completions, 20 in a call.
// The runs of eight schedules share one policy with 500 events out. `events` is a multiple of
// eight.
void RunThrottlePath(uint64_t events);

// The same for rows with one event each, all of them due.
void RunThrottledRowsPath(uint64_t events);

// The same for one-off events under one policy, and under four.
void RunLimitedPath(uint64_t events);
void RunSeveralLimitsPath(uint64_t events);

}  // namespace escapement::budget

#endif  // TESTS_BUDGET_PATHS_H_
