// EventQueue: the events of a SimWorld in the order of their places, each with an id by which it
// can be taken out before its turn.
//
// A heap of four children a node over places alone (as timers are in many event loops: it is
// shallow, and what it moves is small); the events stay where they are, each knows its node. Add
// and take O(log n), of what is due soon mostly O(1).
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
  using Id = uint64_t;  // never 0, nor 1 << 63; of one event only

  // What decides whose turn it is: no two events have all three in common.
  struct Place {
    int64_t nanos = 0;  // when, since the world began
    uint64_t tie = 0;
    uint64_t order = 0;  // of the calls
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
  // The next one; the queue must not be empty.
  const Place& first_place() const { return heap_.front().place; }
  const Event& first() const { return slots_[heap_.front().slot].event; }
  Event TakeFirst() { return TakeAt(0); }
  // The next one keeps its id.
  void MoveFirst(const Place& place);
  // nullopt: it was taken before.
  std::optional<Event> Take(Id id);
  // All those for which `which` is true, in the order of their places' `order`.
  std::vector<Event> TakeIf(absl::FunctionRef<bool(const Event&)> which);

 private:
  struct Node {
    Place place;
    uint32_t slot;
  };
  struct Slot {
    Event event;
    uint32_t node = 0;        // its index in heap_, while it is taken
    uint32_t generation = 1;  // of those that had the slot
  };
  Event TakeAt(size_t node);
  void Set(size_t node, const Node& what) {
    heap_[node] = what;
    slots_[what.slot].node = static_cast<uint32_t>(node);
  }
  void Up(size_t node, const Node& what);
  void Down(size_t node, const Node& what);

  std::vector<Node> heap_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;  // slots
};

}  // namespace escapement::sim

#endif  // COMMON_SIM_EVENT_QUEUE_H_
