// Overlap policies when emitters die at any moment: of SKIP and BUFFER_ONE never two runs at once,
// and of every occurrence one fate.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/sim/sim_random.h"
#include "common/storage/run_table.h"
#include "services/emitter/testing/launch_world.h"

namespace escapement::emitter {
namespace launch_fault_test {

using kv::ColumnFamily;
using storage::v1::RUN_OVERLAP_KIND_BUFFER_ONE;
using storage::v1::RUN_OVERLAP_KIND_CANCEL_PREVIOUS;
using storage::v1::RUN_OVERLAP_KIND_SKIP;

constexpr char kTriggered[] = "by hand";

class LaunchFaultTest : public LaunchWorld, public ::testing::WithParamInterface<int> {
 protected:
  LaunchFaultTest() {
    on_durable_ = [this](const kv::CommitRequest&) { CheckOneRun(); };
  }

  // Triggered runs do not count: they hold back others and are not held back.
  void CheckOneRun() {
    for (const auto& [uid, schedule] : schedules_) {
      if (schedule.definition.run_overlap() == RUN_OVERLAP_KIND_CANCEL_PREVIOUS) continue;
      std::set<std::string> active = Active(uid);
      active.erase(kTriggered);
      ASSERT_LE(active.size(), 1u) << *active.begin() << " and " << *active.rbegin();
    }
  }

  // Launched, skipped or waiting: each occurrence of [from, to) once.
  void ExpectOneFate(absl::Time from, absl::Time to) {
    for (const auto& [uid, schedule] : schedules_) {
      const auto launched = LaunchedRuns(uid);
      const auto skipped = Skipped(uid);
      const std::set<std::string> waiting = Waiting(uid);
      const cron::Timetable timetable = TimetableOf(schedule.definition).value();
      for (const cron::Occurrence& o : timetable.Enumerate(from, to, 100'000)) {
        const std::string id = timetable.IdOf(o);
        const size_t fates = launched.count(id) + skipped.count(id) + waiting.count(id);
        EXPECT_EQ(fates, 1u) << id << " under policy " << schedule.definition.run_overlap();
        if (launched.contains(id)) {
          EXPECT_GE(launched.at(id).at, o.instant);
        }
        if (skipped.contains(id)) {
          EXPECT_EQ(skipped.at(id), "overlap");
        }
      }
      EXPECT_LE(waiting.size(), 1u + 7u) << "one that waits, and those emitted ahead";
    }
  }
};

TEST_P(LaunchFaultTest, EmittersThatDieAtAnyMomentLaunchEachOnceAndNeverTwoAtATime) {
  sim::SimRandom random(static_cast<uint64_t>(GetParam()), "launches");
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random.Below(static_cast<uint64_t>(n)));
  };
  for (const auto policy :
       {RUN_OVERLAP_KIND_SKIP, RUN_OVERLAP_KIND_BUFFER_ONE, RUN_OVERLAP_KIND_CANCEL_PREVIOUS}) {
    for (const char* cron : {"*/2 * * * * *", "*/3 * * * * *", "* * * * * *"}) {
      AddOverlapping(cron, policy);
      AddOverlapping(cron, policy, 5);
    }
  }
  const std::vector<Uid> uids = [&] {
    std::vector<Uid> all;
    for (const auto& [uid, schedule] : schedules_) all.push_back(uid);
    return all;
  }();
  const absl::Duration run_length = absl::Milliseconds(200 + below(6000));
  for (int round = 0; round < 8; ++round) {
    const std::string name = round % 2 == 0 ? "a" : "b";
    StartEmitter(name);
    AdvanceWithRuns(absl::Milliseconds(1500 + below(12'000)), run_length);
    const Uid uid = uids[static_cast<size_t>(below(static_cast<int64_t>(uids.size())))];
    if (!Disk(ColumnFamily::kRuns).contains(EncodeRunKey({uid, kTriggered})))
      AddTriggeredRun(uid, kTriggered);
    AdvanceWithRuns(absl::Milliseconds(below(1500)), run_length);
    // At some moment between two commits, or with one of them on its way.
    if (below(2) == 0) {
      bool seen = false;
      hooked_->before_rows = [&](std::function<void()> send) {
        if (!seen && below(2) == 0) send();
        seen = true;
      };
      world_.RunUntil([&] { return seen; }, absl::Seconds(3));
      hooked_->before_rows = nullptr;
    }
    KillEmitter(name);
    AdvanceWithRuns(absl::Milliseconds(below(3000)), run_length);
  }
  StartEmitter("c");
  AdvanceWithRuns(absl::Seconds(30), run_length);
  ExpectOneFate(start_ + absl::Seconds(1), Now() - absl::Seconds(1));
}

INSTANTIATE_TEST_SUITE_P(Seeds, LaunchFaultTest, ::testing::Range(1, 13));

}  // namespace launch_fault_test
}  // namespace escapement::emitter
