#include "common/kv/engine/recent_writes.h"

#include <new>

#include "common/base/hash.h"

namespace escapement::kv {
namespace {

// Range deletes are rare, because a delete of few keys becomes single deletes. 64 keeps the search
// short.
constexpr size_t kRangesMax = 64;

}  // namespace

RecentWrites::RecentWrites(int slots_log2, CommitSeq start_seq)
    : start_seq_(start_seq), mask_((size_t{1} << slots_log2) - 1) {
  for (Family& family : families_) {
    // calloc: pages of large arrays take no memory until they are touched.
    auto* slots = static_cast<CommitSeq*>(std::calloc(mask_ + 1, sizeof(CommitSeq)));
    if (slots == nullptr) throw std::bad_alloc();
    family.slots.reset(slots);
    family.forgotten = start_seq;
  }
}

size_t RecentWrites::SlotOf(absl::string_view key) const { return StableHash64(key) & mask_; }

void RecentWrites::Touch(ColumnFamily cf, absl::string_view key, CommitSeq seq) {
  families_[static_cast<size_t>(cf)].slots[SlotOf(key)] = seq;
}

void RecentWrites::TouchRange(ColumnFamily cf, absl::string_view begin, absl::string_view end,
                              CommitSeq seq) {
  Family& family = families_[static_cast<size_t>(cf)];
  if (family.ranges.size() == kRangesMax) {
    family.forgotten = family.ranges.front().seq;
    family.ranges.pop_front();
  }
  family.ranges.push_back({std::string(begin), std::string(end), seq});
}

bool RecentWrites::UnchangedSince(ColumnFamily cf, absl::string_view key, CommitSeq since) const {
  if (since < start_seq_) return false;
  const Family& family = families_[static_cast<size_t>(cf)];
  if (since < family.forgotten) return false;
  if (family.slots[SlotOf(key)] > since) return false;
  for (auto range = family.ranges.rbegin(); range != family.ranges.rend() && range->seq > since;
       ++range) {
    if (key >= range->begin && (range->end.empty() || key < range->end)) return false;
  }
  return true;
}

}  // namespace escapement::kv
