// CostMeter measures what a piece of work costs given processes: processor time, context switches,
// system calls, wakes, allocations and copies, by kind of thread.
//
// The kernel gives processor time and context switches (/proc). perf gives system calls, which
// needs the kernel's tracepoints and the right to read them. counter.cc gives allocations and
// copies of processes that have it loaded. Costs says which columns could not be measured. Nothing
// is estimated.
//
// Threads: the main thread only (it starts perf).

#ifndef TESTS_BENCH_COSTS_COST_METER_H_
#define TESTS_BENCH_COSTS_COST_METER_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/fixtures/process/child_process.h"

namespace escapement::bench {

struct ThreadCosts {
  double cpu_seconds = 0;      // user and system
  double voluntary = 0;        // context switches of threads that waited for something
  double involuntary = 0;      // context switches of threads that lost their processor
  double syscalls = 0;         // system calls, those of futexes included
  double wakes = 0;            // the system calls among them that wake threads from a futex
  double allocations = 0;      // calls of malloc, operator new and the like
  double allocated_bytes = 0;  // as they were asked for
  double copies = 0;           // calls of memcpy, memmove and mempcpy
  double copied_bytes = 0;

  ThreadCosts& operator+=(const ThreadCosts& other);
  ThreadCosts& operator-=(const ThreadCosts& other);
};

// A process and a kind of thread: the thread's name without numbers at its end.
using ThreadKind = std::pair<std::string, std::string>;

struct Costs {
  std::map<ThreadKind, ThreadCosts> by_thread;
  // Why columns could not be measured, which are then 0; empty if they were.
  std::string syscalls_missing = {};  // syscalls and wakes
  std::string counts_missing = {};    // allocations and copies

  ThreadCosts Total() const;
  ThreadCosts OfProcess(const std::string& process) const;
};

class CostMeter {
 public:
  struct Process {
    std::string name;
    pid_t pid;
  };

  // `folder`: exists; for perf's output. `counts_folder` has the files of counter.cc; empty: it is
  // not loaded.
  CostMeter(std::vector<Process> processes, std::string folder, std::string counts_folder);
  ~CostMeter();

  // Begins a measurement. The processes run until its end.
  absl::Status Start();
  // Ends it. Costs of threads that have ended since Start() are in the kind "(ended)": all of their
  // processor time, allocations and copies, none of their context switches.
  absl::StatusOr<Costs> Stop();

 private:
  // The kind and the costs of each thread since its start, by process and id.
  struct Reading {
    std::map<std::pair<std::string, pid_t>, std::pair<std::string, ThreadCosts>> threads;
    std::map<std::string, double> cpu_seconds;  // by process, threads that have ended included
  };
  Reading Read() const;
  // Adds the counts of perf. Sets syscalls_missing if there are none.
  void AddSyscalls(const Reading& reading, Costs& costs) const;

  const std::vector<Process> processes_;
  const std::string folder_;
  const std::string counts_folder_;
  std::unique_ptr<integration::ChildProcess> perf_;  // null: it could not be started
  Reading before_;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_COSTS_COST_METER_H_
