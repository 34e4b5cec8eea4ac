// KvFuzzPlan: operations from a seed, for stores that are compared. There are few keys, so that
// operations meet. They use all kinds of conditions, mutations and scans, and some are malformed.
//
// Threads: one at a time.

#ifndef TESTS_CONFORMANCE_KV_FUZZ_PLAN_H_
#define TESTS_CONFORMANCE_KV_FUZZ_PLAN_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "common/kv/kv_store.h"

namespace escapement::kv {

class KvFuzzPlan {
 public:
  explicit KvFuzzPlan(uint64_t seed) : random_(seed) {}

  uint64_t Below(uint64_t bound) { return random_() % bound; }

  // Without session and number. `seq` and `now`: of the stores; the commit's own values are near
  // them.
  CommitRequest Commit(CommitSeq seq, absl::Time now);
  ScanRequest Scan();
  std::vector<Key> Keys();
  // Starts now, or a few commits back.
  WatchRequest Watch(CommitSeq seq);

 private:
  ColumnFamily Family();
  std::string KeyIn(ColumnFamily cf);
  // A prefix as children of a schedule have it, with an hour and minute.
  std::string ChildPrefix();
  // Reads ranges of kChildren; most of them hold all keys with a prefix.
  void ReadPrefixes(ScanRequest& scan);
  std::string Value(absl::Time now);
  CommitSeq Back(CommitSeq seq);
  Condition SomeCondition(CommitSeq seq, absl::Time now);
  Mutation SomeMutation(Group& group, absl::Time now);
  Mutation SomeRange(Group& group);
  Mutation SomeStamp(absl::Time now);
  // So many rows of one day in kDone that their range is deleted as a whole.
  Group ManyRows(absl::Time now);

  std::mt19937_64 random_;
};

}  // namespace escapement::kv

#endif  // TESTS_CONFORMANCE_KV_FUZZ_PLAN_H_
