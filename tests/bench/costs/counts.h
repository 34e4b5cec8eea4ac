// Counts: what a process has allocated and copied, thread by thread, in a file that another process
// reads. counter.cc, which is loaded into the process, writes it; CostMeter reads it.

#ifndef TESTS_BENCH_COSTS_COUNTS_H_
#define TESTS_BENCH_COSTS_COUNTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace escapement::bench {

// The environment variable that names the folder of the files; each file is named by its process
// id. Services refuse unknown variables that begin with ESCAPEMENT_.
inline constexpr char kCountsFolder[] = "COUNTER_SO_FOLDER";

// The counts of one thread, which alone writes them.
struct alignas(64) ThreadCounts {
  std::atomic<int32_t> thread;  // its id; 0: not used yet
  std::atomic<uint64_t> allocations;
  std::atomic<uint64_t> allocated_bytes;  // as they were asked for
  std::atomic<uint64_t> copies;           // calls of memcpy, memmove and mempcpy
  std::atomic<uint64_t> copied_bytes;
};

struct Counts {
  // Threads since the start of the process. The last place is shared by those above the bound, so
  // it may lose counts.
  static constexpr size_t kThreadsMax = 4096;
  std::atomic<uint32_t> threads;  // places that were given away; may exceed kThreadsMax
  ThreadCounts of_thread[kThreadsMax];
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_COSTS_COUNTS_H_
