#include "common/sim/sim_world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "common/base/hash.h"

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

namespace {

// More events than this at one instant are an endless loop.
constexpr uint64_t kEventsAtInstantMax = 20'000'000;

}  // namespace

SimWorld::SimWorld(uint64_t seed, Options options)
    : seed_(seed), options_(options), trace_hash_(seed) {}

SimWorld::~SimWorld() {
  // Closures may post while they are destroyed; those closures are destroyed as well.
  while (!queue_.empty()) ForgetIf([](const ProcessState*, uint64_t) { return true; });
}

EventQueue::Place SimWorld::PlaceFor(absl::Duration when, uint64_t line) {
  int64_t nanos = absl::ToInt64Nanoseconds(when);
  if (absl::Nanoseconds(nanos) < when) ++nanos;
  const uint64_t tie = SimRandom::Mix(seed_ ^ SimRandom::Mix(line ^ static_cast<uint64_t>(nanos)));
  return {.nanos = nanos, .tie = tie, .order = ++last_order_};
}

SimWorld::EventId SimWorld::At(absl::Duration when, std::shared_ptr<ProcessState> process,
                               uint64_t line, absl::string_view label, Closure closure) {
  // An instant that no clock reaches. It is kept only so that the event can be forgotten.
  const absl::Duration instant = std::clamp(when, elapsed_, absl::Hours(24) * 365 * 200);
  return queue_.Add(PlaceFor(instant, line), {std::move(process), line, label, std::move(closure)});
}

SimWorld::EventId SimWorld::After(absl::Duration delay, absl::string_view label, Closure closure) {
  return At(elapsed_ + delay, nullptr, 0, label, std::move(closure));
}

bool SimWorld::Forget(EventId event) { return queue_.Take(event).has_value(); }

void SimWorld::ForgetIf(absl::FunctionRef<bool(const ProcessState*, uint64_t line)> which) {
  std::vector<EventQueue::Event> dropped = queue_.TakeIf(
      [&](const EventQueue::Event& event) { return which(event.process.get(), event.line); });
  for (EventQueue::Event& event : dropped) event.closure = nullptr;
}

// If the next event's process is paused, moves the event to the end of the pause, behind events of
// the same executor that were moved before.
bool SimWorld::DelayIfPaused() {
  const EventQueue::Event& event = queue_.first();
  const ProcessState* process = event.process.get();
  if (process == nullptr || process->dead ||
      process->paused_until <= absl::Nanoseconds(queue_.first_place().nanos))
    return false;
  queue_.MoveFirst(PlaceFor(process->paused_until, event.line));
  return true;
}

bool SimWorld::Step(absl::Duration limit) {
  while (!queue_.empty()) {
    const absl::Duration when = absl::Nanoseconds(queue_.first_place().nanos);
    if (when > limit) return false;
    if (DelayIfPaused()) continue;
    EventQueue::Event event = queue_.TakeFirst();
    if (event.process != nullptr && event.process->dead) continue;
    events_at_instant_ = when > elapsed_ ? 0 : events_at_instant_ + 1;
    if (events_at_instant_ > kEventsAtInstantMax) {
      std::fprintf(stderr, "simulation: time stands still, last event: %s\n",
                   std::string(event.label).c_str());
      std::abort();
    }
    elapsed_ = std::max(elapsed_, when);
    ++events_run_;
    Fold(static_cast<uint64_t>(absl::ToInt64Nanoseconds(elapsed_)));
    Fold(StableHash64(event.label));
    if (event.process != nullptr) Fold(StableHash64(event.process->name));
    if (tracer_)
      tracer_(Now(), event.process == nullptr ? "" : absl::string_view(event.process->name),
              event.label);
    event.closure();
    return true;
  }
  return false;
}

void SimWorld::RunUntilIdle() {
  const absl::Duration now = elapsed_;
  while (Step(now)) {
  }
}

void SimWorld::AdvanceBy(absl::Duration duration) {
  const absl::Duration end = elapsed_ + std::max(duration, absl::ZeroDuration());
  while (Step(end)) {
  }
  elapsed_ = std::max(elapsed_, end);
  events_at_instant_ = 0;
}

bool SimWorld::RunUntil(absl::FunctionRef<bool()> done, absl::Duration limit) {
  const absl::Duration end = elapsed_ + limit;
  while (!done()) {
    if (!Step(end)) {
      elapsed_ = std::max(elapsed_, end);
      return done();
    }
  }
  return true;
}

std::shared_ptr<ProcessState> SimWorld::Find(absl::string_view name) const {
  auto it = processes_.find(name);
  return it == processes_.end() || it->second->dead ? nullptr : it->second;
}

void SimWorld::Register(std::shared_ptr<ProcessState> process) {
  std::shared_ptr<ProcessState>& slot = processes_[process->name];
  if (slot != nullptr && !slot->dead) {
    std::fprintf(stderr, "simulation: two live processes are called %s\n", process->name.c_str());
    std::abort();
  }
  slot = std::move(process);
}

void SimWorld::Note(absl::string_view what) {
  Fold(StableHash64(what));
  if (tracer_) tracer_(Now(), "", what);
}

}  // namespace escapement::sim
