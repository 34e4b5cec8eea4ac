#include "tests/budget/mark.h"

// An empty asm keeps calls to it from being left out.
__attribute__((noinline)) void escapement_budget_mark() { asm volatile("" ::: "memory"); }
