#include "tests/budget/mark.h"

// The empty asm stops the compiler from removing calls.
__attribute__((noinline)) void escapement_budget_mark() { asm volatile("" ::: "memory"); }
