// Where the measured part of a path begins and ends: callgrind writes what it has counted so far
// when this function is entered (--dump-before), so the second of the files that it leaves is the
// part between the first call and the second. All threads of interest stand still at a mark.

#ifndef TESTS_BUDGET_MARK_H_
#define TESTS_BUDGET_MARK_H_

// By its plain name for the command line of callgrind.
extern "C" void escapement_budget_mark();

#endif  // TESTS_BUDGET_MARK_H_
