// SimWorld: virtual time and all events in it, decided by one seed. EventQueue: these events,
// ordered by their places.

#ifndef COMMON_SIM_SIM_WORLD_H_
#define COMMON_SIM_SIM_WORLD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/runtime/runtime.h"
#include "common/sim/sim_random.h"

namespace escapement::sim {

struct ProcessState;

// EventQueue: the events of a SimWorld, ordered by their places. Each event has an id, by which it
// can be removed before its turn.
//
// It is a heap of places with four children per node, which is shallow and moves little data. The
// events themselves stay in slots, and each slot knows its node. Add and Take cost O(log n), and
// mostly O(1) for events that are due soon.
//
// Threads: none of its own; one at a time.
class EventQueue {
 public:
  using Id = uint64_t;  // never 0 nor 1 << 63; never used for two events

  // Decides the order: no two events have all three in common.
  struct Place {
    int64_t nanos = 0;  // since the world began
    uint64_t tie = 0;
    uint64_t order = 0;  // order of the calls
    bool operator<(const Place& other) const {
      return std::tie(nanos, tie, order) < std::tie(other.nanos, other.tie, other.order);
    }
  };
  struct Event {
    std::shared_ptr<ProcessState> process;
    uint64_t line = 0;
    absl::string_view label;
    Closure closure;
  };

  EventQueue() = default;
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  Id Add(const Place& place, Event event);
  bool empty() const { return heap_.empty(); }
  // The place of the next event; the queue must not be empty.
  const Place& first_place() const { return heap_.front().place; }
  const Event& first() const { return slots_[heap_.front().slot].event; }
  Event TakeFirst() { return TakeAt(0); }
  // Moves the next event; it keeps its id.
  void MoveFirst(const Place& place);
  // nullopt if the event was taken before.
  std::optional<Event> Take(Id id);
  // Takes all events for which `which` is true, in the order of their places' `order`.
  std::vector<Event> TakeIf(absl::FunctionRef<bool(const Event&)> which);

 private:
  struct Node {
    Place place;
    uint32_t slot;
  };
  struct Slot {
    Event event;
    uint32_t node = 0;        // index in heap_ while the slot is in use
    uint32_t generation = 1;  // grows with each event that gets the slot
  };
  Event TakeAt(size_t node);
  void Set(size_t node, const Node& what) {
    heap_[node] = what;
    slots_[what.slot].node = static_cast<uint32_t>(node);
  }
  void SiftUp(size_t node, const Node& what);
  void SiftDown(size_t node, const Node& what);

  std::vector<Node> heap_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;  // free slots
};

// The world's state of a process (sim_process.h makes them).
struct ProcessState {
  std::string name;
  bool dead = false;
  absl::Duration paused_until = -absl::InfiniteDuration();  // by SimWorld::Elapsed()
};

// SimWorld: virtual time and all events in it, on one thread, decided by one seed.
//
// The world is a queue of events ordered by instant. If events of different executors have one
// instant, the seed decides their order; events of one executor keep theirs. Time stands still
// while an event runs, and then jumps to the next event. Two worlds with one seed and one program
// do exactly the same; their trace_hash() shows it.
//
// Threads: one; nothing here is locked. The world must outlive everything made from it.
class SimWorld {
 public:
  using EventId = EventQueue::Id;

  struct Options {
    absl::Time start_time = absl::FromUnixSeconds(1'772'323'200);  // 2026-03-01T00:00:00Z
    // A closure waits for its executor for a random time up to this.
    absl::Duration post_latency_max = absl::ZeroDuration();
  };

  explicit SimWorld(uint64_t seed) : SimWorld(seed, Options()) {}
  SimWorld(uint64_t seed, Options options);
  ~SimWorld();
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  uint64_t seed() const { return seed_; }
  absl::Duration Elapsed() const { return elapsed_; }                // since the world began
  absl::Time Now() const { return options_.start_time + elapsed_; }  // true time
  const Options& options() const { return options_; }

  // Queues `closure` for `process` at the first whole nanosecond at or after `when`. A null process
  // is the world itself, which is never paused or killed. Events of one `line` at one instant run
  // in the order of the calls. `label` shows in traces and must outlive the world (a literal, or
  // Interned).
  EventId At(absl::Duration when, std::shared_ptr<ProcessState> process, uint64_t line,
             absl::string_view label, Closure closure);
  // Like At, for the world itself: actors, faults and observers.
  EventId After(absl::Duration delay, absl::string_view label, Closure closure);
  // False if the event has already run or was forgotten.
  bool Forget(EventId event);
  // Forgets all events for which `which` is true, in the order in which they were queued.
  void ForgetIf(absl::FunctionRef<bool(const ProcessState*, uint64_t line)> which);
  uint64_t NewLine() { return ++last_line_; }
  // Returns the same text, valid as long as the world lives.
  absl::string_view Interned(const std::string& label) { return *labels_.insert(label).first; }

  // Runs the next event if it is due by `limit`; returns false if there is none.
  bool Step(absl::Duration limit = absl::InfiniteDuration());
  // Runs until nothing is left to run at the present instant.
  void RunUntilIdle();
  void AdvanceBy(absl::Duration duration);
  void RunUntil(absl::Time time) { AdvanceBy(time - Now()); }
  // Runs events until `done` is true. Returns false if that takes longer than `limit`, or if no
  // event is left.
  bool RunUntil(absl::FunctionRef<bool()> done, absl::Duration limit);

  // The living process with that name, or null.
  std::shared_ptr<ProcessState> Find(absl::string_view name) const;
  // Gives the name to `process`; its former bearer must be dead.
  void Register(std::shared_ptr<ProcessState> process);

  // Folds an observation into the trace.
  void Note(absl::string_view what);
  uint64_t trace_hash() const { return trace_hash_; }
  uint64_t events_run() const { return events_run_; }
  // Called before each event runs, and for each note.
  void set_tracer(
      std::function<void(absl::Time, absl::string_view process, absl::string_view what)> tracer) {
    tracer_ = std::move(tracer);
  }

 private:
  EventQueue::Place PlaceFor(absl::Duration when, uint64_t line);
  void Fold(uint64_t value) {
    trace_hash_ = SimRandom::Mix(trace_hash_ ^ value) + 0x9e3779b97f4a7c15;
  }
  bool DelayIfPaused();

  const uint64_t seed_;
  const Options options_;
  std::set<std::string> labels_;
  absl::Duration elapsed_;
  EventQueue queue_;
  absl::btree_map<std::string, std::shared_ptr<ProcessState>> processes_;
  uint64_t last_order_ = 0;
  uint64_t last_line_ = 0;
  uint64_t trace_hash_ = 0;
  uint64_t events_run_ = 0;
  uint64_t events_at_instant_ = 0;
  std::function<void(absl::Time, absl::string_view, absl::string_view)> tracer_;
};

}  // namespace escapement::sim

#endif  // COMMON_SIM_SIM_WORLD_H_
