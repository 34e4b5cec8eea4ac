// WaitingGroup: the rows of one schedule and priority in a FairQueue, and the orders in which the
// queue keeps groups and rows. Only the queue uses it.
//
// Thread rule, and who keeps what in order: see FairQueue.

#ifndef SERVICES_TOKEN_MANAGER_TURNS_WAITING_GROUP_H_
#define SERVICES_TOKEN_MANAGER_TURNS_WAITING_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "services/token_manager/turns/fair_queue.h"

namespace escapement::token_manager {

struct WaitingGroup;

struct WaitingSlice {
  QueuedSlice slice;
  absl::Time eligible_at;  // when its first event may go
  WaitingGroup* group = nullptr;
};

struct SliceOrder {
  bool operator()(const WaitingSlice* a, const WaitingSlice* b) const {
    if (a->eligible_at != b->eligible_at) return a->eligible_at < b->eligible_at;
    return a->slice.key < b->slice.key;
  }
};

enum class Standing : uint8_t {
  kWaiting,  // nothing is eligible
  kReady,    // in the level of its priority
  kAside,    // passed over, whatever is eligible
};

// A key of the policy under kByKey, for as long as a group of it is in the queue.
struct WaitingKey {
  std::string name;
  uint64_t turn = 0;    // its place among the keys that take turns
  uint64_t credit = 0;  // events left of its present turn; 0: none
  size_t groups = 0;
  size_t ready = 0;  // groups
};

struct WaitingGroup {
  Uid uid;
  uint8_t priority = 0;
  Standing standing = Standing::kWaiting;
  uint64_t turn = 0;    // for kReady: its place among the groups that take turns
  uint64_t credit = 0;  // for kReady: events left of its present turn; 0: none
  absl::Time head_at;   // when its first event becomes (or became) eligible
  const std::string* reason =
      nullptr;  // for kAside: the key in aside_ or opened_ (FairQueue) of its set there
  WaitingKey* key = nullptr;  // that of its first slice; null: keys do not take turns
  absl::btree_set<WaitingSlice*, SliceOrder> slices;
};

inline bool IdLess(const WaitingGroup* a, const WaitingGroup* b) {
  return a->priority != b->priority ? a->priority < b->priority : a->uid < b->uid;
}

// Those first that rise to the first class first (FairQueue: ageing).
struct AgeOrder {
  bool operator()(const WaitingGroup* a, const WaitingGroup* b) const {
    const absl::Time of_a = a->head_at + kAgeingStep * a->priority;
    const absl::Time of_b = b->head_at + kAgeingStep * b->priority;
    return of_a != of_b ? of_a < of_b : IdLess(a, b);
  }
};

struct HeadOrder {
  using is_transparent = void;
  bool operator()(const WaitingGroup* a, const WaitingGroup* b) const {
    return a->head_at != b->head_at ? a->head_at < b->head_at : IdLess(a, b);
  }
  bool operator()(absl::Time a, const WaitingGroup* b) const { return a < b->head_at; }
  bool operator()(const WaitingGroup* a, absl::Time b) const { return a->head_at < b; }
};

struct TurnOrder {
  bool operator()(const WaitingGroup* a, const WaitingGroup* b) const { return a->turn < b->turn; }
};

// The ready groups of one priority. They grow older together.
struct WaitingLevel {
  absl::btree_set<WaitingGroup*, TurnOrder> by_turn;
  absl::btree_set<WaitingGroup*, HeadOrder> by_head;
  // Under kByKey: the groups of each key, by the key's turn.
  absl::btree_map<uint64_t, absl::btree_set<WaitingGroup*, TurnOrder>> by_key;
};

struct SliceHash {
  using is_transparent = void;
  size_t operator()(absl::string_view key) const { return absl::HashOf(key); }
  size_t operator()(const std::unique_ptr<WaitingSlice>& slice) const {
    return absl::HashOf(absl::string_view(slice->slice.key));
  }
};

struct SliceEq {
  using is_transparent = void;
  static absl::string_view Key(absl::string_view key) { return key; }
  static absl::string_view Key(const std::unique_ptr<WaitingSlice>& slice) {
    return slice->slice.key;
  }
  template <typename A, typename B>
  bool operator()(const A& a, const B& b) const {
    return Key(a) == Key(b);
  }
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_TURNS_WAITING_GROUP_H_
