// The machine on which a benchmark runs, and how much of it others used during the run.
//
// Threads: one at a time.

#ifndef TESTS_BENCH_FIGURES_MACHINE_H_
#define TESTS_BENCH_FIGURES_MACHINE_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
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

// The resources that a process uses, as the kernel counts them.

// The value of "name:" in a file of /proc, in the file's unit; 0 if there is none.
uint64_t ProcValue(const std::string& path, absl::string_view name);

// 0 if there is no such process.
uint64_t ResidentBytesOf(pid_t pid);
// The same, where memory that several processes share is divided among them (Pss).
uint64_t ProportionalBytesOf(pid_t pid);
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

#endif  // TESTS_BENCH_FIGURES_MACHINE_H_
