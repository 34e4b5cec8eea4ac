// Workload: the commits of a seed. They use everything that the store does to its disk. Rows have a
// few bytes or tens of kilobytes. Range deletes are small (single deletes) or large (range
// tombstones). There are deletes, fences, stamps, and conditions that hold or fail.
//
// Threads: one at a time.

#ifndef TESTS_CRASH_WORKLOAD_H_
#define TESTS_CRASH_WORKLOAD_H_

#include <cstdint>
#include <random>
#include <string>

#include "common/kv/kv_store.h"
#include "tests/crash/store_history.h"

namespace escapement::crash {

class Workload {
 public:
  explicit Workload(uint64_t seed) : random_(seed) {}

  uint64_t Below(uint64_t bound) { return bound == 0 ? 0 : random_() % bound; }
  // `state` is the state before the commit.
  kv::CommitRequest Commit(const State& state, uint64_t session, uint64_t number);

 private:
  kv::ColumnFamily RowFamily();
  std::string RowKey();
  std::string Bytes(size_t size);
  std::string DayPrefix();    // a day of a shard in kDone
  std::string ClaimPrefix();  // a shard and epoch in kInflight
  void AddGroup(const State& state, kv::Group* group);
  void AddCondition(const State& state, kv::Group* group);
  void AddRows(kv::Group* group);
  void AddManyRows(kv::Group* group);
  void AddRangeDelete(const State& state, kv::Group* group);

  std::mt19937_64 random_;
};

}  // namespace escapement::crash

#endif  // TESTS_CRASH_WORKLOAD_H_
