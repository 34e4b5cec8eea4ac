#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/sim/sim_world.h"
#include "gtest/gtest.h"

namespace escapement::sim {
namespace event_queue_test {

EventQueue::Event EventOfLine(uint64_t line) {
  EventQueue::Event event;
  event.line = line;
  return event;
}

TEST(EventQueue, GivesEventsInTheOrderOfTheirPlaces) {
  EventQueue queue;
  queue.Add({.nanos = 2, .tie = 0, .order = 1}, EventOfLine(4));
  queue.Add({.nanos = 1, .tie = 7, .order = 2}, EventOfLine(3));
  queue.Add({.nanos = 1, .tie = 5, .order = 4}, EventOfLine(2));
  queue.Add({.nanos = 1, .tie = 5, .order = 3}, EventOfLine(1));
  for (uint64_t line = 1; line <= 4; ++line) EXPECT_EQ(queue.TakeFirst().line, line);
  EXPECT_TRUE(queue.empty());
}

TEST(EventQueue, IdIsNeverUsedForTwoEvents) {
  EventQueue queue;
  const EventQueue::Id first = queue.Add({.nanos = 1, .order = 1}, EventOfLine(1));
  EXPECT_EQ(queue.TakeFirst().line, 1u);
  const EventQueue::Id second = queue.Add({.nanos = 1, .order = 2}, EventOfLine(2));
  EXPECT_NE(first, second);
  EXPECT_FALSE(queue.Take(first).has_value());
  EXPECT_FALSE(queue.Take(0).has_value());
  EXPECT_EQ(queue.Take(second)->line, 2u);
  EXPECT_FALSE(queue.Take(second).has_value());
}

TEST(EventQueue, TakesMatchingEventsInOrderOfTheCalls) {
  EventQueue queue;
  for (uint64_t i = 1; i <= 100; ++i) {
    queue.Add({.nanos = static_cast<int64_t>(i * 37 % 101), .order = i}, EventOfLine(i));
  }
  const std::vector<EventQueue::Event> odd =
      queue.TakeIf([](const EventQueue::Event& event) { return event.line % 2 == 1; });
  ASSERT_EQ(odd.size(), 50u);
  for (size_t i = 0; i < odd.size(); ++i) EXPECT_EQ(odd[i].line, 2 * i + 1);
  int64_t last = -1;
  while (!queue.empty()) {
    EXPECT_GT(queue.first_place().nanos, last);
    last = queue.first_place().nanos;
    EXPECT_EQ(queue.TakeFirst().line % 2, 0u);
  }
}

// Compares with a map that is sorted by places.
TEST(EventQueue, BehavesLikeASortedMap) {
  std::mt19937_64 random(1);
  const auto below = [&](uint64_t n) { return random() % n; };
  EventQueue queue;
  std::map<EventQueue::Place, std::pair<EventQueue::Id, uint64_t /*line*/>> model;
  uint64_t order = 0;
  const auto place = [&] {
    return EventQueue::Place{
        .nanos = static_cast<int64_t>(below(50)), .tie = below(4), .order = ++order};
  };
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t what = below(model.size() > 200 ? 8 : 12);
    if (what >= 6 || model.empty()) {
      const EventQueue::Place at = place();
      model[at] = {queue.Add(at, EventOfLine(at.order)), at.order};
    } else if (what < 3) {
      EXPECT_EQ(queue.first().line, model.begin()->second.second);
      EXPECT_EQ(queue.TakeFirst().line, model.begin()->second.second);
      model.erase(model.begin());
    } else if (what < 5) {
      auto any = model.lower_bound(place());
      if (any == model.end()) any = model.begin();
      EXPECT_EQ(queue.Take(any->second.first)->line, any->second.second);
      model.erase(any);
    } else {
      const EventQueue::Place to = place();
      queue.MoveFirst(to);
      auto moved = model.extract(model.begin());
      moved.key() = to;
      model.insert(std::move(moved));
    }
    ASSERT_EQ(queue.empty(), model.empty());
    if (!model.empty()) {
      ASSERT_EQ(queue.first_place().order, model.begin()->first.order);
    }
  }
}

}  // namespace event_queue_test
}  // namespace escapement::sim
