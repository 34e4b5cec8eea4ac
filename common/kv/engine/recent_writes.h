// RecentWrites: tells from memory, in constant time, whether a key was touched lately.
//
// It is a fixed array of sequences for each column family, indexed by the hash of the key. Two keys
// may share a slot. So the answer may be "changed" without cause, but never "unchanged" without
// cause. The table does not know what happened before it was created: at `start_seq` everything
// counts as changed.
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
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"

namespace escapement::kv {

class RecentWrites {
 public:
  // Each column family gets 2^slots_log2 slots of 8 bytes. A slot takes memory only after it is
  // first written.
  RecentWrites(int slots_log2, CommitSeq start_seq);

  void Touch(ColumnFamily cf, absl::string_view key, CommitSeq seq);
  // Touches all keys of [begin, end); an empty end means no end.
  void TouchRange(ColumnFamily cf, absl::string_view begin, absl::string_view end, CommitSeq seq);

  // Forgets everything up to `seq`, the last sequence that was given out: from now on all keys
  // count as changed at it.
  void Forget(CommitSeq seq) { start_seq_ = seq; }
  // Returns true only if no commit after `since` touched the key. `since` must be a sequence that
  // was given out.
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
    std::deque<Range> ranges;  // the latest range deletes, oldest first
    CommitSeq forgotten = 0;   // the newest sequence that was dropped from `ranges`
  };
  size_t SlotOf(absl::string_view key) const;

  CommitSeq start_seq_;
  const size_t mask_;
  std::array<Family, kColumnFamilyCount> families_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_ENGINE_RECENT_WRITES_H_
