#include "services/master/ingest/kafka/offset_tracker.h"

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace escapement::master {
namespace offset_tracker_test {

TEST(OffsetTrackerTest, CommitsUpToTheFirstMessageWithoutAnswer) {
  OffsetTracker tracker;
  for (const int64_t offset : {5, 6, 9}) tracker.Add(offset);
  EXPECT_EQ(tracker.TakeCommittable(), std::nullopt);
  tracker.Finish(9);
  EXPECT_EQ(tracker.TakeCommittable(), 5) << "the first message is without an answer";
  tracker.Finish(5);
  EXPECT_EQ(tracker.TakeCommittable(), 6);
  EXPECT_EQ(tracker.TakeCommittable(), std::nullopt);
  tracker.Finish(6);
  EXPECT_EQ(tracker.TakeCommittable(), 10);
  EXPECT_EQ(tracker.size(), 0u);
  tracker.Add(20);
  tracker.Finish(20);
  EXPECT_EQ(tracker.TakeCommittable(), 21);
}

// All orders of some answers, with gaps between the offsets.
TEST(OffsetTrackerTest, NeverPassesAMessageWithoutAnswer) {
  uint64_t random = 1;
  for (int round = 0; round < 200; ++round) {
    OffsetTracker tracker;
    std::set<int64_t> open;
    int64_t offset = 0;
    int64_t committed = -1;
    for (int step = 0; step < 100; ++step) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      const uint64_t chance = random >> 33;
      if (open.empty() || chance % 2 == 0) {
        offset += 1 + static_cast<int64_t>(chance % 3);
        tracker.Add(offset);
        open.insert(offset);
      } else {
        auto chosen = open.begin();
        std::advance(chosen, (chance >> 3) % open.size());
        tracker.Finish(*chosen);
        open.erase(chosen);
      }
      if (const auto next = tracker.TakeCommittable(); next.has_value()) {
        EXPECT_GE(*next, committed);
        committed = *next;
        EXPECT_EQ(*next, open.empty() ? offset + 1 : *open.begin());
      }
    }
  }
}

}  // namespace offset_tracker_test
}  // namespace escapement::master
