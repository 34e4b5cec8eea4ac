// The hot paths that have a budget. Each sets up a world of its own, then does the work of `events`
// events between two marks (mark.h): always the same work in the same order, on virtual time but
// for the store's. A path that does not come to its end ends the process.

#ifndef TESTS_BUDGET_PATHS_H_
#define TESTS_BUDGET_PATHS_H_

#include <cstdint>

namespace escapement::budget {

// An event's row comes into RocksKvStore under a condition, and goes under another with a Done
// record: 1,000 events a commit, each group decided for itself, one commit at a time.
void RunStorePath(uint64_t events);

// The master's ingest of one-off events, 1,000 a batch, ids made by the server.
void RunIngestPath(uint64_t events);

// The emitter makes one row each of so many schedules that fire in one minute.
void RunEmissionPath(uint64_t events);

// The handler loads, claims, sends and ends one-off events, of which all are due.
void RunDeliveryPath(uint64_t events);

// The same of occurrences, each of another schedule.
void RunOccurrencesPath(uint64_t events);

// The token manager grants, hears of the delivery, and takes the completion, 20 a call, of the runs
// of eight schedules under one policy with 500 out; `events` is a multiple of eight.
void RunThrottlePath(uint64_t events);

// The same of rows with one event each, of which all are due.
void RunThrottledRowsPath(uint64_t events);

}  // namespace escapement::budget

#endif  // TESTS_BUDGET_PATHS_H_
