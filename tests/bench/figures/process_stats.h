// The resources that a process uses, as the kernel counts them.

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

// The value of "name:" in a file of /proc, in the file's unit; 0 if there is none.
uint64_t ProcValue(const std::string& path, absl::string_view name);

// 0 if there is no such process.
uint64_t ResidentBytesOf(pid_t pid);
// User and system time of all its threads since its start; 0 if there is no such process.
double CpuSecondsOf(pid_t pid);

inline constexpr double kQuietShare = 0.1;  // part of a core
inline constexpr absl::Duration kQuietMax = absl::Minutes(1);
// Returns when `cpu_seconds` has grown by less than `share` within a second. Then background work
// (compaction…) is done and does not disturb the next measurement. DEADLINE_EXCEEDED if that takes
// longer than `timeout`.
absl::Status AwaitIdle(absl::FunctionRef<double()> cpu_seconds, double share = kQuietShare,
                       absl::Duration timeout = kQuietMax);

// Bytes of all files below the folder.
uint64_t FolderBytes(const std::string& folder);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_FIGURES_PROCESS_STATS_H_
