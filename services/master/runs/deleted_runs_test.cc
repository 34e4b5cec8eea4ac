// Runs of deleted schedules, and the counts of all runs of a schedule.

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/storage/run_table.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"
#include "services/master/testing/run_world.h"

namespace escapement::master {
namespace deleted_runs_test {

using kv::ColumnFamily;
using Strings = RunWorld::Strings;

void DeleteSchedule(RunWorld& bench) {
  v1::DeleteScheduleRequest request;
  request.set_name(kParent);
  ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::DeleteSchedule, request).ok());
  v1::GetScheduleRequest get;
  get.set_name(kParent);
  ASSERT_TRUE(absl::IsNotFound(bench.fixture.Call(&ScheduleApi::GetSchedule, get).status()));
}

TEST(DeletedRuns, AreReadInAllWaysAsBefore) {
  RunWorld bench(1);
  const std::string single = bench.EndSingle(bench.start + absl::Hours(1));
  const std::string large = bench.Emit(bench.start + absl::Hours(2), 8);
  bench.End(0, large, bench.start + absl::Hours(2), 0, 2, 8, storage::v1::OUTCOME_KIND_FAILED);
  bench.fixture.runtime.AdvanceBy(absl::Hours(3));
  DeleteSchedule(bench);
  EXPECT_EQ(bench.List(100), (Strings{single, large}));
  EXPECT_EQ(bench.Get(single)->succeeded_count(), 1);
  EXPECT_EQ(bench.Get(large)->event_count(), 8);
  v1::ListRunEventsRequest events;
  events.set_parent(absl::StrCat(kParent, "/runs/", large));
  events.set_filter("outcome=FAILED");
  EXPECT_EQ(bench.fixture.Call(&RunApi::ListRunEvents, events)->events_size(), 2);
  v1::CancelRunRequest cancel;
  cancel.set_name(absl::StrCat(kParent, "/runs/", large));
  EXPECT_TRUE(absl::IsNotFound(bench.fixture.Call(&RunApi::CancelRun, cancel).status()));
}

TEST(DeletedRuns, GiveWayToANewScheduleOfTheName) {
  RunWorld bench(1);
  const std::string old = bench.EndSingle(bench.start + absl::Hours(1));
  bench.fixture.runtime.AdvanceBy(absl::Hours(3));
  DeleteSchedule(bench);
  const auto made =
      bench.fixture.Call(&ScheduleApi::CreateSchedule, ValidSchedule("s", "0 0 1 1 *"));
  ASSERT_TRUE(made.ok()) << made.status();
  bench.uid = Uid::FromHex(made->uid());
  EXPECT_EQ(bench.List(100), Strings());
  const std::string later = bench.EndSingle(bench.fixture.Now() + absl::Hours(1));
  bench.fixture.runtime.AdvanceBy(absl::Hours(2));
  EXPECT_EQ(bench.List(100), Strings{later});
  // The schedule that was deleted last is meant.
  DeleteSchedule(bench);
  EXPECT_EQ(bench.List(100), Strings{later});
  EXPECT_TRUE(absl::IsNotFound(bench.Get(old).status()));
}

TEST(DeletedRuns, RunsOfOtherNamesAreNotFound) {
  RunWorld bench(1);
  DeleteSchedule(bench);
  v1::ListRunsRequest request;
  request.set_parent("tenants/default/schedules/t");
  EXPECT_TRUE(absl::IsNotFound(bench.fixture.Call(&RunApi::ListRuns, request).status()));
}

TEST(ScheduleCounts, AreTheSumOfAllParts) {
  RunWorld bench(1);
  const auto put = [&](uint16_t shard, uint64_t succeeded, uint64_t failed, absl::Time last,
                       storage::v1::OutcomeKind outcome) {
    storage::v1::RunPartRecord part;
    part.set_succeeded(succeeded);
    part.set_failed(failed);
    part.set_last_end_time_micros(ToMicros(last));
    part.set_last_outcome(outcome);
    bench.fixture.Put(ColumnFamily::kRunParts, ScheduleCountsKey(bench.uid, shard),
                      part.SerializeAsString());
  };
  const absl::Time last = absl::FromUnixSeconds(1'772'400'000);
  put(0, 5, 1, last - absl::Seconds(9), storage::v1::OUTCOME_KIND_SUCCEEDED);
  put(PolicyRunPart(1), 7, 2, last, storage::v1::OUTCOME_KIND_FAILED);
  // Counts of a run, which are not added.
  storage::v1::RunPartRecord run;
  run.set_succeeded(100);
  bench.fixture.Put(ColumnFamily::kRunParts, RunPartKey({bench.uid, "o"}, 0),
                    run.SerializeAsString());
  v1::GetScheduleRequest get;
  get.set_name(kParent);
  const auto schedule = bench.fixture.Call(&ScheduleApi::GetSchedule, get);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->succeeded_count(), 12);
  EXPECT_EQ(schedule->failed_count(), 3);
  EXPECT_EQ(schedule->last_time().seconds(), 1'772'400'000);
  EXPECT_EQ(schedule->last_outcome(), v1::FAILED);
  v1::ListSchedulesRequest list;
  list.set_parent("tenants/default");
  const auto page = bench.fixture.Call(&ScheduleApi::ListSchedules, list);
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->schedules_size(), 1);
  EXPECT_EQ(page->schedules(0).succeeded_count(), 12);
  EXPECT_EQ(page->schedules(0).last_outcome(), v1::FAILED);
}

TEST(ScheduleCounts, AreUnsetBeforeAnyEnd) {
  RunWorld bench(1);
  v1::GetScheduleRequest get;
  get.set_name(kParent);
  const auto schedule = bench.fixture.Call(&ScheduleApi::GetSchedule, get);
  EXPECT_FALSE(schedule->has_last_time());
  EXPECT_EQ(schedule->last_outcome(), v1::OUTCOME_UNSPECIFIED);
}

// More schedules than are counted at once.
TEST(ScheduleCounts, CountsOfALongListAreThoseOfTheirSchedules) {
  MasterWorld world;
  for (int i = 0; i < 150; ++i) {
    const auto made = world.Call(&ScheduleApi::CreateSchedule,
                                 ValidSchedule(absl::StrCat("s", 1000 + i), "0 0 1 1 *"));
    ASSERT_TRUE(made.ok()) << made.status();
    storage::v1::RunPartRecord part;
    part.set_succeeded(i);
    world.Put(ColumnFamily::kRunParts, ScheduleCountsKey(Uid::FromHex(made->uid()), 0),
              part.SerializeAsString());
  }
  v1::ListSchedulesRequest list;
  list.set_parent("tenants/default");
  list.set_page_size(1000);
  const auto page = world.Call(&ScheduleApi::ListSchedules, list);
  ASSERT_EQ(page->schedules_size(), 150);
  for (int i = 0; i < 150; ++i) EXPECT_EQ(page->schedules(i).succeeded_count(), i);
}

}  // namespace deleted_runs_test
}  // namespace escapement::master
