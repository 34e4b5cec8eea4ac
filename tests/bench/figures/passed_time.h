// PassTime: the store's clock after hours in which nothing ran, without waiting for them.

#ifndef TESTS_BENCH_FIGURES_PASSED_TIME_H_
#define TESTS_BENCH_FIGURES_PASSED_TIME_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace escapement::bench {

// Opens the store of that folder, which nobody else has open, on a machine whose clocks are so much
// further, and closes it again: the time of whoever opens it next goes on from there. (The
// machine's wall clock is behind it then. The store follows that after 10 s, at half pace, if
// `time` is at most 10 minutes or the kernel says that the clock is synchronised.)
absl::Status PassTime(const std::string& data_folder, absl::Duration time);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_FIGURES_PASSED_TIME_H_
