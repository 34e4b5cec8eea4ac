#include "common/sim/sim_world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "common/base/stable_hash.h"

namespace escapement::sim {
namespace {

// More than this at one instant is a loop that would never let time go on.
constexpr uint64_t kEventsAtInstantMax = 20'000'000;

}  // namespace

SimWorld::SimWorld(uint64_t seed, Options options)
    : seed_(seed), options_(options), trace_hash_(seed) {}

SimWorld::~SimWorld() {
  // Closures may post while they are destroyed: what they post is destroyed as well.
  while (!queue_.empty()) {
    absl::btree_map<Place, Event> dropped;
    dropped.swap(queue_);
    places_.clear();
    for (auto& [place, event] : dropped) event.closure = nullptr;
  }
}

SimWorld::Place SimWorld::PlaceFor(absl::Duration when, uint64_t line) {
  const uint64_t tie = SimRandom::Mix(
      seed_ ^ SimRandom::Mix(line ^ static_cast<uint64_t>(absl::ToInt64Nanoseconds(when))));
  return {when, tie, ++last_order_};
}

SimWorld::EventId SimWorld::At(absl::Duration when, std::shared_ptr<ProcessState> process,
                               uint64_t line, absl::string_view label, Closure closure) {
  const EventId id = ++last_event_;
  // An instant that no clock reaches: kept only so that it can be forgotten.
  const absl::Duration instant = std::clamp(when, elapsed_, absl::Hours(24) * 365 * 200);
  const Place place = PlaceFor(instant, line);
  queue_.emplace(place, Event{id, std::move(process), line, label, std::move(closure)});
  places_.emplace(id, place);
  return id;
}

SimWorld::EventId SimWorld::After(absl::Duration delay, absl::string_view label, Closure closure) {
  return At(elapsed_ + delay, nullptr, 0, label, std::move(closure));
}

bool SimWorld::Forget(EventId event) {
  auto place = places_.find(event);
  if (place == places_.end()) return false;
  auto it = queue_.find(place->second);
  Closure dropped = std::move(it->second.closure);
  queue_.erase(it);
  places_.erase(place);
  return true;
}

void SimWorld::ForgetIf(absl::FunctionRef<bool(const ProcessState*, uint64_t line)> which) {
  std::vector<std::pair<EventId, Closure>> dropped;
  for (auto it = queue_.begin(); it != queue_.end();) {
    if (!which(it->second.process.get(), it->second.line)) {
      ++it;
      continue;
    }
    places_.erase(it->second.id);
    dropped.emplace_back(it->second.id, std::move(it->second.closure));
    it = queue_.erase(it);
  }
  std::sort(dropped.begin(), dropped.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [id, closure] : dropped) closure = nullptr;
}

// Moves an event of a paused process to the end of the pause, behind those of its executor that
// were moved before it.
bool SimWorld::DelayIfPaused(absl::btree_map<Place, Event>::iterator it) {
  const ProcessState* process = it->second.process.get();
  if (process == nullptr || process->dead || process->paused_until <= std::get<0>(it->first))
    return false;
  Event event = std::move(it->second);
  queue_.erase(it);
  const Place place = PlaceFor(process->paused_until, event.line);
  places_[event.id] = place;
  queue_.emplace(place, std::move(event));
  return true;
}

bool SimWorld::Step(absl::Duration limit) {
  while (!queue_.empty()) {
    auto it = queue_.begin();
    const absl::Duration when = std::get<0>(it->first);
    if (when > limit) return false;
    if (DelayIfPaused(it)) continue;
    Event event = std::move(it->second);
    queue_.erase(it);
    places_.erase(event.id);
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
  auto it = processes_.find(std::string(name));
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
