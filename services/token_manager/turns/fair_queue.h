// FairQueue: whose turn it is among the events that wait under one policy.

#ifndef SERVICES_TOKEN_MANAGER_TURNS_FAIR_QUEUE_H_
#define SERVICES_TOKEN_MANAGER_TURNS_FAIR_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/ageing.h"
#include "common/base/uid.h"

namespace escapement::token_manager {

class WaitingRow;

// An even window: event i may go from begin + (i − first) × duration / count (rounded up to a
// microsecond), at the latest at its end.
struct Pacing {
  absl::Time begin;
  absl::Duration duration;
  uint64_t first = 0;
  uint64_t count = 0;  // 0: not paced, everything may go at any time

  absl::Time At(uint64_t index) const;
  // The end of the indices that may go at `now`: all below it, none from it on.
  uint64_t EndAt(absl::Time now) const;
};

using GroupKey = std::pair<uint8_t, Uid>;  // priority, schedule

// Events of one row of `waiting` that have not been granted, and when each may go.
struct QueuedSlice {
  std::string key;  // the row's key; unique in the queue
  GroupKey group;
  absl::Time due;               // not before
  uint64_t first = 0, end = 0;  // events [first, end) are not granted
  Pacing pacing = {};
  std::string policy_key = {};  // under kByKey the slice takes this key's turns
  WaitingRow* row = nullptr;    // the queue does not look at it
};

// When its first event may go: the later of its due time and its place in the window.
absl::Time EligibleAt(const QueuedSlice& slice);

enum class Fairness : uint8_t { kBySchedule, kFifo, kByKey };

// FairQueue: finds the next of the events that wait under one policy (docs/design/throttling.md,
// "Whose turn").
//
// The rows of a schedule and priority are a *group*. An event is eligible from EligibleAt on.
// Groups with an eligible event are ordered by effective priority: priority − ⌊waiting time / 10
// s⌋, at least 0. All groups of one priority age together: the waiting time is that of the event of
// this priority that has been eligible longest. (If each group aged alone, a group with a million
// old events would go before all others of its priority until those reach class 0.)
//
// Within such a class, kBySchedule: groups take turns of max(1, free tokens / groups) events. A
// group that becomes eligible stands last. kByKey: the same, but keys take turns, and the groups of
// a key take those of the key. kFifo: the group with the event that became eligible first goes
// first.
//
// Within a group, rows are ordered by when their first event became (or becomes) eligible, then by
// key. Other ties are broken by (priority, uid).
//
// In a round of grants (BeginRound) Next and Advance alternate. If the commit fails, Add puts its
// events back.
//
// Time in the queue is the latest `now` it was given: it does not go back. Every call costs O(log
// n) amortized, where n is the number of rows (Next also visits each priority). A group that is
// passed over costs nothing until Reconsider or Wake. Pure; same calls, same answers.
class FairQueue {
 public:
  // Replaces the slice with the same key; an empty one only removes it.
  void Add(QueuedSlice slice);
  void Remove(absl::string_view key);  // if it is there
  // The first `taken` of its events are granted: they count for the group's turn.
  void Advance(absl::string_view key, uint64_t taken);
  // nullptr: there is none. Until the next change.
  const QueuedSlice* Find(absl::string_view key) const;

  struct Turn {
    const QueuedSlice* slice;  // until the next change
    uint64_t count;            // grant at most this many, from slice->first on; at least 1
  };
  // From now on turns are shares of the tokens that Next is given.
  void BeginRound() { quanta_.clear(); }
  // Whose turn it is; nullopt: nobody's who is eligible (or tokens = 0). The same answer until
  // Advance. `passed_over` says why the group, whose first event is in `first`, cannot be granted
  // anything now, such as its target's key, or "" if it can; it may be asked again at each call. A
  // group that is passed over stands aside, however long, until Reconsider of that reason.
  std::optional<Turn> Next(absl::Time now, Fairness fairness, uint64_t tokens,
                           absl::FunctionRef<std::string(const QueuedSlice& first)> passed_over);
  // The groups that stand aside for this reason take part again, as if just eligible (their ageing
  // goes on).
  void Reconsider(absl::string_view reason);
  void ReconsiderAll();
  // The same for at most `max` of the groups, those that have waited longest (by their effective
  // priority). Until `more` is false, a group that stands aside again is not woken again.
  struct Woken {
    size_t groups = 0;
    bool more = false;
  };
  Woken Wake(absl::string_view reason, size_t max);

  // The next instant after `now` at which a group without eligible events gets one: how long to
  // sleep if tokens are left. InfiniteFuture: none does.
  absl::Time NextEligible(absl::Time now);

  bool empty() const { return slices_.empty(); }
  size_t rows() const { return slices_.size(); }
  size_t groups() const { return groups_.size(); }
  size_t groups_aside() const { return groups_aside_; }
  uint64_t events() const { return events_; }  // not granted
  // Events that may go at `now`. Visits every row.
  uint64_t EligibleEvents(absl::Time now) const;
  // When the event that has been eligible longest became so (or the first will). InfiniteFuture:
  // there is none.
  absl::Time oldest_due() const {
    return heads_.empty() ? absl::InfiniteFuture() : (*heads_.begin())->head_at;
  }

 private:
  struct Group;
  struct Slice : QueuedSlice {
    absl::Time eligible_at;  // when its first event may go
    Group* group = nullptr;
  };
  struct SliceOrder {
    bool operator()(const Slice* a, const Slice* b) const;
  };
  // Groups that Wake has still to wake before those that stand aside since it began; then those
  // that rise to the first class first (ageing).
  struct AgeOrder {
    bool operator()(const Group* a, const Group* b) const;
  };
  struct HeadOrder {
    using is_transparent = void;
    bool operator()(const Group* a, const Group* b) const;
    bool operator()(absl::Time a, const Group* b) const { return a < b->head_at; }
    bool operator()(const Group* a, absl::Time b) const { return a->head_at < b; }
  };
  struct TurnOrder {
    bool operator()(const Group* a, const Group* b) const { return a->turn < b->turn; }
  };
  // The groups that stand aside for one reason: at least one.
  struct Aside {
    uint64_t opened = 0;  // how often Wake has begun to wake all that stood aside then
    absl::btree_set<Group*, AgeOrder> groups = {};
  };
  using Asides = std::map<std::string, Aside, std::less<>>;  // by reason
  // A key of the policy under kByKey, for as long as a group of it is in the queue.
  struct Key {
    uint64_t turn = 0;    // its place among the keys that take turns
    uint64_t credit = 0;  // events left of its present turn; 0: none
    size_t groups = 0;
    size_t ready = 0;  // groups
  };
  enum class Standing : uint8_t {
    kWaiting,  // nothing is eligible
    kReady,    // in the level of its priority
    kAside,    // passed over, whatever is eligible
  };
  struct Group {
    GroupKey id;
    Standing standing = Standing::kWaiting;
    uint64_t turn = 0;            // for kReady: its place among the groups that take turns
    uint64_t credit = 0;          // for kReady: events left of its present turn; 0: none
    absl::Time head_at = {};      // when its first event becomes (or became) eligible
    Asides::iterator aside = {};  // for kAside
    uint64_t aside_opened = 0;    // for kAside: Aside::opened when it was passed over
    std::pair<const std::string, Key>* key = nullptr;  // the key of its first slice; only by_key_
    absl::btree_set<Slice*, SliceOrder> slices = {};
  };
  // The ready groups of one priority. They grow older together.
  struct Level {
    // By the turns of their keys; all at 0 if keys do not take turns. None is empty.
    absl::btree_map<uint64_t, absl::btree_set<Group*, TurnOrder>> by_turn;
    absl::btree_set<Group*, HeadOrder> by_head;
  };
  struct First {
    Group* group = nullptr;
    uint8_t its_class = 0;
    size_t takers = 0;  // groups, or keys, of the class
    // kFifo: when the first event of the next group of the class became eligible.
    absl::Time next_head_at = absl::InfiniteFuture();
  };

  using Slices = absl::flat_hash_map<absl::string_view, std::unique_ptr<Slice>>;  // by Slice::key

  Group* TakeOut(Slices::iterator slice);
  void Refresh(absl::Time now);
  First FirstOfAll(Fairness fairness) const;
  void Lift(Group* group);
  void Settle(Group* group);
  bool KeepsPlace(const Group& group) const;
  void Enter(Group* group);
  void JoinLevel(Group* group);
  void LeaveLevel(Group* group);
  void Discard(Group* group);
  void SetAside(Group* group, std::string reason);
  void TurnByKey(bool by_key);
  void TakeKey(Group* group);
  void LeaveKey(Group* group);
  void MoveLast(Key& key);
  static uint64_t KeyTurn(const Group& group) { return group.key ? group.key->second.turn : 0; }
  static uint64_t& Credit(Group& group) {
    return group.key ? group.key->second.credit : group.credit;
  }

  // Every group is in `heads_`, a ready one also in its level, one that stands aside in its Aside.
  // Before what it is ordered by changes a group is lifted out of these; Settle puts it where it
  // belongs. An empty queue is as a new one.
  absl::Time now_ = absl::InfinitePast();
  uint64_t turns_ = 0;
  bool by_key_ = false;  // keys take turns
  Slices slices_;
  absl::node_hash_map<GroupKey, Group> groups_;
  absl::node_hash_map<std::string, Key> keys_;  // only by_key_
  absl::btree_set<Group*, HeadOrder> heads_;
  absl::btree_map<uint8_t, Level> levels_;     // by priority; some may be empty
  absl::btree_map<uint8_t, uint64_t> quanta_;  // for this round: class → events of a turn
  Asides aside_;
  size_t groups_aside_ = 0;
  uint64_t events_ = 0;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_TURNS_FAIR_QUEUE_H_
