// What a process uses, as the kernel counts it.

#ifndef TESTS_BENCH_FIGURES_PROCESS_STATS_H_
#define TESTS_BENCH_FIGURES_PROCESS_STATS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace escapement::bench {

// The value of "name:" in a file of /proc, in its own unit; 0 if there is none.
uint64_t ProcValue(const std::string& path, absl::string_view name);

// 0 if there is no such process.
uint64_t ResidentBytesOf(pid_t pid);
// User and system time of all its threads since its start; 0 if there is no such process.
double CpuSecondsOf(pid_t pid);

inline constexpr double kQuietShare = 0.1;  // of a core
inline constexpr absl::Duration kQuietMax = absl::Minutes(1);
// Returns when what `cpu_seconds` tells has grown by less than `share` in a second: what is left to
// do (compaction…) is done, and not in the way of what is measured next. DEADLINE_EXCEEDED: it went
// on for `timeout`.
absl::Status AwaitIdle(absl::FunctionRef<double()> cpu_seconds, double share = kQuietShare,
                       absl::Duration timeout = kQuietMax);

// Bytes of all files below the folder.
uint64_t FolderBytes(const std::string& folder);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_FIGURES_PROCESS_STATS_H_
