// Random schedules under random deaths: every occurrence is accounted for exactly once.

#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/sim/sim_random.h"
#include "common/storage/children_table.h"
#include "services/emitter/testing/emitter_world.h"

namespace escapement::emitter {
namespace emitter_downtimes_test {

using storage::v1::DefinitionRecord;

const absl::Time kStart = absl::FromUnixSeconds(1'772'323'200);  // 2026-03-01T00:00:00Z

// Random schedules, emitters that die at random, downtimes of all lengths.
class RandomDowntimes : public EmitterWorld, public ::testing::WithParamInterface<int> {
 protected:
  uint64_t Draw(uint64_t below) { return (draws_ = sim::SimRandom::Mix(draws_ + 1)) % below; }

  void AddRandomSchedule() {
    static constexpr const char* kCrons[] = {"*/5 * * * * *",  "* * * * *",      "*/3 * * * *",
                                             "7,37 * * * * *", "30 */2 * * * *", "1-50/7 * * * *"};
    static constexpr const char* kZones[] = {"UTC", "Asia/Kathmandu", "America/St_Johns"};
    const auto policy =
        Misfire(static_cast<storage::v1::MisfireKind>(Draw(3)), 1 + Draw(2) * 19 + Draw(5),
                absl::Seconds(1 + Draw(2) * 50 + Draw(10)));
    const bool bounded = Draw(4) == 0;
    const absl::Time end = Now() + absl::Seconds(1 + Draw(7200));
    const auto adjust = [&](DefinitionRecord& definition) {
      policy(definition);
      if (bounded) definition.mutable_timing()->set_end_micros(ToMicros(end));
    };
    switch (Draw(3)) {
      case 0:
        AddSchedule(kCrons[Draw(6)], kZones[Draw(3)], 1 + Draw(2) * 4, adjust);
        break;
      case 1:
        AddInterval(absl::Milliseconds(1000 + Draw(100'000)),
                    Now() - absl::Milliseconds(Draw(1000)), adjust);
        break;
      default: {
        std::set<absl::Time> times;
        for (int i = 0; i < 50; ++i) times.insert(Now() + absl::Milliseconds(Draw(7'200'000)));
        AddList({times.begin(), times.end()}, adjust);
      }
    }
  }

  uint64_t draws_ = static_cast<uint64_t>(GetParam()) * 1000;
};

TEST_P(RandomDowntimes, EveryOccurrenceIsAccountedForOnce) {
  std::map<Uid, size_t> downtimes;
  int lives = 0;
  for (int i = 0; i < 12; ++i) AddRandomSchedule();
  for (int round = 0; round < 12; ++round) {
    if (round < 8) AddRandomSchedule();
    const std::string name = absl::StrCat("e", ++lives);
    StartEmitter(name);
    if (Draw(2) == 0) {
      // Dies with its k-th commit of rows, which arrives or not.
      size_t left = 1 + Draw(30);
      const bool arrives = Draw(2) == 0;
      hooked_->before_rows = [&](std::function<void()> send) {
        if (left > 0 && (--left > 0 || arrives)) send();
      };
      world_.RunUntil([&] { return left == 0; }, absl::Seconds(40));
      hooked_->before_rows = nullptr;
    } else {
      Advance(absl::Milliseconds(Draw(40'000)));
    }
    if (Draw(3) == 0 && !schedules_.empty()) {
      auto it = schedules_.begin();
      std::advance(it, Draw(schedules_.size()));
      TryUpdate(it->first);
    }
    KillEmitter(name);
    Advance(absl::Milliseconds(Draw(2) == 0 ? Draw(5000) : Draw(600'000)));
  }
  StartEmitter("last");
  Advance(absl::Seconds(40));
  ++lives;
  for (const auto& [uid, schedule] : schedules_) {
    ExpectAccounted(uid, kStart, Now() - absl::Seconds(1));
    // A skipped one was late by more than the threshold; of others, so many have fired as the
    // policy allows for each life of an emitter. Changes fire what they find.
    const cron::MisfirePolicy policy = MisfirePolicyOf(schedule.definition.misfire());
    for (const auto& [id, done] : Skips(uid)) {
      EXPECT_GT(FromMicros(done.complete_time_micros()) - FromMicros(done.nominal_time_micros()),
                policy.threshold);
    }
    if (schedule.definition.version() > 1) continue;
    size_t late = 0;
    for (const auto& [bytes, times] : puts_) {
      const EventKey key = DecodeEventKey(bytes).value();
      late += key.uid == uid && key.first == 0 &&
              times[0] - key.due_time > policy.threshold + absl::Seconds(2);
    }
    const size_t each = policy.action == cron::MisfireAction::kSkip         ? 0
                        : policy.action == cron::MisfireAction::kFireLatest ? 1
                                                                            : policy.max_catch_up;
    EXPECT_LE(late, each * static_cast<size_t>(lives)) << schedule.definition.ShortDebugString();
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomDowntimes, ::testing::Range(1, 21));

}  // namespace emitter_downtimes_test
}  // namespace escapement::emitter
