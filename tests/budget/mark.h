// Marks where the measured part of a path begins and ends. Callgrind writes its counts when this
// function is entered (--dump-before), so the second file has the counts between the first and the
// second call. No other thread of interest may run at a mark.

#ifndef TESTS_BUDGET_MARK_H_
#define TESTS_BUDGET_MARK_H_

// extern "C" gives it a plain name for callgrind's command line.
extern "C" void escapement_budget_mark();

#endif  // TESTS_BUDGET_MARK_H_
