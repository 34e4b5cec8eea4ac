// FairQueue: finds the next of the events that wait under one policy. QueuedSlice: events of one
// row, and when each may go (Pacing).

#ifndef SERVICES_TOKEN_MANAGER_TURNS_FAIR_QUEUE_H_
#define SERVICES_TOKEN_MANAGER_TURNS_FAIR_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"

namespace escapement::token_manager {

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

// QueuedSlice: events of one row of `waiting` that have not been granted, and when each may go.
//
// A pure value.
struct QueuedSlice {
  std::string key;  // the row's key; unique in the queue
  uint8_t priority = 5;
  Uid group;                    // the schedule's uid; with the priority it names the group
  absl::Time due;               // not before
  uint64_t first = 0, end = 0;  // events [first, end) are not granted
  Pacing pacing = {};
  std::string policy_key = {};  // whose turn it takes under kByKey
  bool several = false;         // RowSource::several; the queue does not look at it
};

// When its first event may go: the later of its due time and its place in the window.
absl::Time EligibleAt(const QueuedSlice& slice);

// A waiter rises by one class of priority each time it has waited this long.
inline constexpr absl::Duration kAgeingStep = absl::Seconds(10);

enum class Fairness : uint8_t { kBySchedule, kFifo, kByKey };

// FairQueue: finds the next of the events that wait under one policy (docs/design/throttling.md,
// "Whose turn").
//
// The rows of a schedule and priority are a *group*. An event is eligible from the later of its
// row's due time and its place in an even window. Groups with an eligible event are ordered by
// effective priority: priority − ⌊waiting time / 10 s⌋, at least 0. All groups of one priority age
// together: the waiting time is that of the event of this priority that has been eligible longest.
// (If each group aged alone, a group with a million old events would go before all others of its
// priority until those reach class 0.)
//
// Within such a class, kBySchedule: groups take turns of max(1, free tokens / groups) events, and a
// group that becomes eligible stands last. kByKey: the same, but keys take turns, and the groups of
// a key those of the key. kFifo: the group with the event that became eligible first goes first.
// Within a group, rows are ordered by when their first event became (or becomes) eligible, then by
// key. Other ties are broken by (priority, uid).
//
// A round of grants:
//   queue.BeginRound();
//   while (auto turn = queue.Next(now, fairness, tokens, passed_over)) {
//     // grant n ≤ turn->count of its events
//     const std::string key = turn->slice->key;
//     queue.Advance(key, n);  tokens -= n;
//   }
// If the commit fails, Add puts its events back.
//
// Time in the queue is the latest `now` it was given: it does not go back. Every call costs O(log
// n) amortized, where n is the number of rows (Next also visits each priority). A group that is
// passed over costs nothing until Reconsider. Pure; same calls, same answers.
class FairQueue {
 public:
  FairQueue();
  ~FairQueue();
  FairQueue(FairQueue&&) noexcept;
  FairQueue& operator=(FairQueue&&) noexcept;

  // Replaces the slice with the same key; an empty one only removes it.
  void Add(QueuedSlice slice);
  // Returns false if there is no such slice.
  bool Remove(absl::string_view key);
  // The first `taken` of its events are granted: they count for the group's turn. The slice is
  // gone when it is empty.
  void Advance(absl::string_view key, uint64_t taken);
  // nullptr: there is none. Until the next change.
  const QueuedSlice* Find(absl::string_view key) const;

  struct Turn {
    const QueuedSlice* slice;  // until the next change
    uint64_t count;            // grant at most this many, from slice->first on; at least 1
  };
  // From now on turns are shares of the tokens that Next is given.
  void BeginRound();
  // Whose turn it is; nullopt: nobody's who is eligible (or tokens = 0). The same answer until
  // Advance. `passed_over` says why the group, whose first event is in `first`, cannot be granted
  // anything now, such as its target's key, or "" if it can; it may be asked again at each call. A
  // group that is passed over stands aside, however long, until Reconsider of that reason.
  std::optional<Turn> Next(absl::Time now, Fairness fairness, uint64_t tokens,
                           absl::FunctionRef<std::string(const QueuedSlice& first)> passed_over);
  // The groups that stand aside for this reason take part again, as if just eligible (their
  // ageing goes on). False: there are none.
  bool Reconsider(absl::string_view reason);
  void ReconsiderAll();
  // The same for at most `max` of the groups, those that have waited longest (by their effective
  // priority). Until `more` is false, groups that stand aside again meanwhile are not asked twice.
  struct Woken {
    size_t groups = 0;
    bool more = false;
  };
  Woken Wake(absl::string_view reason, size_t max);

  // The next instant after `now` at which a group without eligible events gets one: how long to
  // sleep if tokens are left. (Next returns groups that have an eligible event.)
  std::optional<absl::Time> NextEligible(absl::Time now);
  // The same, or a change of order by ageing, which lets nothing go that could not go before.
  std::optional<absl::Time> NextChange(absl::Time now);

  bool empty() const { return rows() == 0; }
  size_t rows() const;
  size_t groups() const;
  size_t groups_aside() const;
  uint64_t events() const;  // not granted
  // Those that may go at `now`. Visits every row.
  uint64_t EligibleEvents(absl::Time now) const;
  // When the event that has been eligible longest became so (or the first will).
  std::optional<absl::Time> oldest_due() const;

 private:
  class State;
  std::unique_ptr<State> state_;  // nullptr: empty
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_TURNS_FAIR_QUEUE_H_
