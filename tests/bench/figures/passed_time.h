// PassTime: moves a store's clock over hours in which nothing ran, without waiting for them.

#ifndef TESTS_BENCH_FIGURES_PASSED_TIME_H_
#define TESTS_BENCH_FIGURES_PASSED_TIME_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace escapement::bench {

// Opens the store of that folder as if the machine's clocks were `time` ahead, and closes it again.
// The next store there goes on from that time. No other process may have the folder open. The
// machine's wall clock is then behind the store's time. The store follows it after 10 s, at half
// pace, if `time` is at most 10 minutes or the kernel calls the clock synchronised.
absl::Status PassTime(const std::string& data_folder, absl::Duration time);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_FIGURES_PASSED_TIME_H_
