// EventQueue: the events of a SimWorld, ordered by their places. Each event has an id, by which it
// can be removed before its turn.
//
// It is a heap of places with four children per node, which is shallow and moves little data. The
// events themselves stay in slots, and each slot knows its node. Add and Take cost O(log n), and
// mostly O(1) for events that are due soon.
//
// Threads: none of its own; one at a time.

#ifndef COMMON_SIM_EVENT_QUEUE_H_
#define COMMON_SIM_EVENT_QUEUE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "common/runtime/runtime.h"

namespace escapement::sim {

struct ProcessState;

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

}  // namespace escapement::sim

#endif  // COMMON_SIM_EVENT_QUEUE_H_
