// PassTime: moves a store's clock over hours in which nothing ran, without waiting for them.

#ifndef TESTS_BENCH_FIGURES_BENCH_RUN_H_
#define TESTS_BENCH_FIGURES_BENCH_RUN_H_

#include <functional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tests/bench/figures/figures.h"

namespace escapement::bench {

// Opens the store of that folder as if the machine's clocks were `time` ahead, and closes it again.
// The next store there goes on from that time. No other process may have the folder open. The
// machine's wall clock is then behind the store's time. The store follows it after 10 s, at half
// pace, if `time` is at most 10 minutes or the kernel calls the clock synchronised.
absl::Status PassTime(const std::string& data_folder, absl::Duration time);

// RunBench: the main function of every benchmark, with the flags that all have:
//
//   --bin=FOLDER      holds services/ and tests/ as built
//   --repetitions=N   medians over this many, interleaved (0: the benchmark's default)
//   --quick           small: the stages work, their figures are coarse
//   --only=WORDS      only stages whose name contains this
//   --json=FILE       also writes the figures there, with the machine and the versions
//   --commit=NAME     the commit that was built; it is written to that file
//
// Everything is in a temporary folder, which is removed at the end. Exits with 0, or with 1 if
// something could not be measured. A missed bound is reported, but does not make the program fail.

struct BenchSetting {
  std::string bin;
  std::string folder;  // exists, empty
  bool quick = false;
  int repetitions = 1;
  std::string only;
  bool Wanted(absl::string_view stage) const;
  // Measures the stage if it is wanted. A failure is noted, and the other stages go on.
  void Measure(absl::string_view stage, Figures& figures,
               absl::FunctionRef<absl::Status()> measure) const;
};

struct Bench {
  std::string name;
  std::string usage;
  int repetitions = 1;  // used if no flag sets it
  int quick_repetitions = 1;
  std::function<absl::Status(const BenchSetting& setting, Figures& figures)> run;
};

int RunBench(int argc, char** argv, const Bench& bench);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_FIGURES_BENCH_RUN_H_
