// RecentWrites: which keys have been touched lately, answered from memory in constant time.
//
// A fixed array of sequences for each column family, indexed by the hash of the key. Two keys may
// share a slot, so an answer can be "changed" without cause, never "unchanged" without cause. What
// happened before the table was made is unknown: everything counts as changed at `start_seq`.
//
// Threads: none of its own; one thread at a time.

#ifndef COMMON_KV_ENGINE_RECENT_WRITES_H_
#define COMMON_KV_ENGINE_RECENT_WRITES_H_

#include <array>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "common/kv/column_family.h"
#include "common/kv/kv_store.h"

namespace escapement::kv {

class RecentWrites {
 public:
  // 2^slots_log2 slots of 8 bytes for each column family; memory is taken as slots are first
  // written.
  RecentWrites(int slots_log2, CommitSeq start_seq);

  void Touch(ColumnFamily cf, absl::string_view key, CommitSeq seq);
  // All keys of [begin, end); an empty end means all from begin on.
  void TouchRange(ColumnFamily cf, absl::string_view begin, absl::string_view end, CommitSeq seq);

  // What happened up to `seq`, the last that was given out, is unknown from now on.
  void Forget(CommitSeq seq) { start_seq_ = seq; }
  // True only if no commit after `since` has touched the key. `since` must be a sequence that has
  // been given out.
  bool UnchangedSince(ColumnFamily cf, absl::string_view key, CommitSeq since) const;

 private:
  struct Range {
    std::string begin;
    std::string end;
    CommitSeq seq;
  };
  struct FreeSlots {
    void operator()(CommitSeq* slots) const { std::free(slots); }
  };
  struct Family {
    std::unique_ptr<CommitSeq[], FreeSlots> slots;
    std::deque<Range> ranges;  // of the latest range deletes, oldest first
    CommitSeq forgotten = 0;   // the newest sequence that fell out of `ranges`
  };
  size_t SlotOf(absl::string_view key) const;

  CommitSeq start_seq_;
  const size_t mask_;
  std::array<Family, kColumnFamilyCount> families_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_ENGINE_RECENT_WRITES_H_
