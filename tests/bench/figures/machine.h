// The machine on which a benchmark runs, and how much of it others used during the run.
//
// Threads: one at a time.

#ifndef TESTS_BENCH_FIGURES_MACHINE_H_
#define TESTS_BENCH_FIGURES_MACHINE_H_

#include <string>

#include "absl/time/time.h"

namespace escapement::bench {

struct Machine {
  int cores = 0;
  std::string model;
  double memory_gib = 0;
  std::string kernel;
  std::string rocksdb;
  std::string grpc;
};
Machine ThisMachine();

// Measures from its construction on.
class Quietness {
 public:
  Quietness();
  // Processor time of others, as part of the machine's whole. It counts time that was used (or
  // stolen by the host), except by this process and by its children that have ended. The kernel's
  // work for this process counts as others' time, so a few hundredths mean nothing.
  double OthersShare() const;
  absl::Duration elapsed() const;

 private:
  absl::Time begin_;
  double busy_ = 0;
  double own_ = 0;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_FIGURES_MACHINE_H_
