// The machine that a benchmark runs on, and how much of it others used meanwhile.
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

// From its making on.
class Quietness {
 public:
  Quietness();
  // Processor time of others, as part of all of the machine's: what was used (or stolen by the
  // host) and not by this process and its children that have ended. The kernel's own work for us
  // counts as others': some hundredths are nothing to worry about.
  double OthersShare() const;
  absl::Duration elapsed() const;

 private:
  absl::Time begin_;
  double busy_ = 0;
  double own_ = 0;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_FIGURES_MACHINE_H_
