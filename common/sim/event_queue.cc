#include "common/sim/event_queue.h"

#include <algorithm>
#include <utility>

namespace escapement::sim {
namespace {

constexpr size_t kChildren = 4;
constexpr uint32_t kGenerationMax = (uint32_t{1} << 31) - 1;

}  // namespace

EventQueue::Id EventQueue::Add(const Place& place, Event event) {
  uint32_t slot;
  if (free_.empty()) {
    slot = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  slots_[slot].event = std::move(event);
  heap_.emplace_back();
  SiftUp(heap_.size() - 1, {place, slot});
  return (Id{slots_[slot].generation} << 32) | slot;
}

void EventQueue::MoveFirst(const Place& place) { SiftDown(0, {place, heap_.front().slot}); }

std::optional<EventQueue::Event> EventQueue::Take(Id id) {
  const auto slot = static_cast<uint32_t>(id);
  if (slot >= slots_.size() || slots_[slot].generation != id >> 32) return std::nullopt;
  return TakeAt(slots_[slot].node);
}

std::vector<EventQueue::Event> EventQueue::TakeIf(absl::FunctionRef<bool(const Event&)> which) {
  std::vector<std::pair<uint64_t, Id>> ids;
  for (const Node& node : heap_) {
    const Slot& slot = slots_[node.slot];
    if (which(slot.event))
      ids.push_back({node.place.order, (Id{slot.generation} << 32) | node.slot});
  }
  std::sort(ids.begin(), ids.end());
  std::vector<Event> taken;
  taken.reserve(ids.size());
  for (const auto& [order, id] : ids) taken.push_back(*Take(id));
  return taken;
}

EventQueue::Event EventQueue::TakeAt(size_t node) {
  Slot& slot = slots_[heap_[node].slot];
  Event event = std::move(slot.event);
  slot.generation = slot.generation == kGenerationMax ? 1 : slot.generation + 1;
  free_.push_back(heap_[node].slot);
  const Node last = heap_.back();
  heap_.pop_back();
  if (node == heap_.size()) return event;
  if (node > 0 && last.place < heap_[(node - 1) / kChildren].place) {
    SiftUp(node, last);
  } else {
    SiftDown(node, last);
  }
  return event;
}

// Puts `what` at the node or above it, and overwrites the node's content.
void EventQueue::SiftUp(size_t node, const Node& what) {
  while (node > 0) {
    const size_t parent = (node - 1) / kChildren;
    if (!(what.place < heap_[parent].place)) break;
    Set(node, heap_[parent]);
    node = parent;
  }
  Set(node, what);
}

// Puts `what` at the node or below it, and overwrites the node's content.
void EventQueue::SiftDown(size_t node, const Node& what) {
  while (true) {
    const size_t begin = node * kChildren + 1;
    const size_t end = std::min(begin + kChildren, heap_.size());
    if (begin >= end) break;
    size_t least = begin;
    for (size_t child = begin + 1; child < end; ++child) {
      if (heap_[child].place < heap_[least].place) least = child;
    }
    if (!(heap_[least].place < what.place)) break;
    Set(node, heap_[least]);
    node = least;
  }
  Set(node, what);
}

}  // namespace escapement::sim
