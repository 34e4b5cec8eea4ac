// Overlay: the effects of a batch, on top of the state before it (BaseState). RecentWrites: which
// keys were touched lately. WriteSink: receives writes.

#ifndef COMMON_KV_ENGINE_OVERLAY_H_
#define COMMON_KV_ENGINE_OVERLAY_H_

#include <array>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"

namespace escapement::kv {

// The state beneath a batch. A read cannot fail: an implementation whose disk fails ends the
// process.
class BaseState {
 public:
  // Return false to stop.
  using Visitor = absl::FunctionRef<bool(absl::string_view key, absl::string_view value)>;

  virtual ~BaseState() = default;
  // Returns false if the key is absent; otherwise sets `value`.
  virtual bool Get(ColumnFamily cf, absl::string_view key, std::string& value) = 0;
  // Visits [begin, end) in ascending order; an empty end means the end of the column family.
  virtual void ForEach(ColumnFamily cf, absl::string_view begin, absl::string_view end,
                       Visitor visit) = 0;
};

// Receives writes in order, and copies their keys and values.
class WriteSink {
 public:
  virtual ~WriteSink() = default;
  virtual void Put(ColumnFamily cf, absl::string_view key, absl::string_view value) = 0;
  virtual void Delete(ColumnFamily cf, absl::string_view key) = 0;
  virtual void DeleteRange(ColumnFamily cf, absl::string_view begin, absl::string_view end) = 0;
};

// Overlay: the effects of the commits of one batch, on top of the state before the batch.
//
// The store decides all commits of one sync before it writes any of them, and each commit must see
// the effects of the earlier ones. The overlay lists effects as they come. RecentWrites answers
// most conditions without a read. So the first few reads of a column family search the list, and
// only then the overlay indexes the family.
//
// The state before the batch is the synced state, or the overlay of a batch that is not written
// yet.
//
// Threads: one at a time. Keys and values are views: their owner must keep them until Clear().
class Overlay final : public BaseState {
 public:
  // `base` must outlive the overlay. While the overlay has effects, `base` changes only in how it
  // is stored: what it answers stays the same.
  explicit Overlay(BaseState& base) : base_(&base) {}
  // Another object that answers the same as the present base; any base while there are no effects.
  void SetBase(BaseState& base) { base_ = &base; }

  void Put(ColumnFamily cf, absl::string_view key, absl::string_view value);
  void Delete(ColumnFamily cf, absl::string_view key);
  void DeleteRange(ColumnFamily cf, absl::string_view begin, absl::string_view end);
  void Clear();

  // Reads the value with all effects so far; returns false if the key is absent. `value` stays
  // valid until the next call.
  bool Get(ColumnFamily cf, absl::string_view key, absl::string_view& value);
  bool Get(ColumnFamily cf, absl::string_view key, std::string& value) override;
  void ForEach(ColumnFamily cf, absl::string_view begin, absl::string_view end,
               Visitor visit) override;
  // Visits the keys of [begin, end) in ascending order, until the visitor returns false.
  void ForEachKey(ColumnFamily cf, absl::string_view begin, absl::string_view end,
                  absl::FunctionRef<bool(absl::string_view)> visit);

 private:
  struct Effect {
    enum class Kind : uint8_t { kPut, kDelete, kDeleteRange } kind;
    absl::string_view key;
    absl::string_view value;  // the end key for a deleted range
  };
  struct Point {
    bool present;
    absl::string_view value;
  };
  struct Family {
    std::vector<Effect> effects;
    size_t indexed = 0;  // effects[0, indexed) are in `points` and `ranges`
    int searches = 0;    // reads that have searched `effects`
    absl::btree_map<absl::string_view, Point> points;
    // Deleted ranges. A point inside one of them was set after the range was deleted.
    std::vector<std::pair<absl::string_view, absl::string_view>> ranges;
  };
  enum class Found : uint8_t { kPresent, kAbsent, kInBase };
  // Sets `value` if the key is present.
  Found Find(ColumnFamily cf, absl::string_view key, absl::string_view& value);
  static Found Search(const Family& family, absl::string_view key, absl::string_view& value);
  Family& Indexed(ColumnFamily cf);
  static bool InRanges(const Family& family, absl::string_view key);

  BaseState* base_;
  std::array<Family, kColumnFamilyCount> families_;
  std::string scratch_;
};

// RecentWrites: tells from memory, in constant time, whether a key was touched lately.
//
// It is a fixed array of sequences for each column family, indexed by the hash of the key. Two keys
// may share a slot. So the answer may be "changed" without cause, but never "unchanged" without
// cause. The table does not know what happened before it was created: at `start_seq` everything
// counts as changed.
//
// Threads: none of its own; one thread at a time.
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

#endif  // COMMON_KV_ENGINE_OVERLAY_H_
