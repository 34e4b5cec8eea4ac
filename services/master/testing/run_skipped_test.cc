// Runs of occurrences that were skipped as a whole, and those whose names or launch times are not
// those of plain cron schedules.

#include <string>
#include <vector>

#include "common/base/proto_time.h"
#include "common/cron/timetable.h"
#include "common/storage/event_table.h"
#include "common/storage/occurrence_rows.h"
#include "gtest/gtest.h"
#include "services/master/runs/run_service.h"
#include "services/master/testing/master_world.h"
#include "services/master/testing/run_world.h"

namespace escapement::master {
namespace run_skipped_test {

using kv::ColumnFamily;
using Strings = std::vector<std::string>;

OccurrenceSource SourceIn(const RunWorld& bench) {
  storage::v1::DefinitionRecord definition;
  EXPECT_TRUE(
      definition.ParseFromString(bench.fixture.Rows(ColumnFamily::kDefinitions).begin()->second));
  return SourceOf(definition);
}

std::string Skip(RunWorld* bench, const std::string& id, absl::Time time, uint64_t occurrences,
                 absl::Time last) {
  const OccurrenceSource source = SourceIn(*bench);
  EmittedOccurrence occurrence;
  occurrence.id = id;
  occurrence.nominal_time = time;
  occurrence.launch_time = LaunchTimeOf(source, id, time);
  kv::Group group;
  group.mutations.push_back(SkippedOccurrences(source, occurrence, occurrences, last, "misfire",
                                               bench->fixture.layout, time + absl::Hours(1)));
  bench->fixture.Commit({group});
  return id;
}

TEST(RunSkipped, ASkippedOccurrenceIsARunOfItsOwnWhateverItsEvents) {
  struct Case {
    int n;
    bool throttled;
  };
  for (const auto& [n, throttled] : std::vector<Case>{{1, false}, {8, false}, {8, true}}) {
    RunWorld bench(n, [&, throttled = throttled](v1::Schedule& schedule) {
      if (throttled) schedule.set_policy("tenants/default/policies/p");
    });
    const absl::Time first = bench.start + absl::Minutes(1);
    const absl::Time last = bench.start + absl::Minutes(40);
    const std::string summary = Skip(&bench, RunWorld::Id(first), first, 40, last);
    const absl::Time later = bench.start + absl::Minutes(41);
    const std::string one = Skip(&bench, RunWorld::Id(later), later, 1, later);
    bench.fixture.runtime.AdvanceBy(absl::Hours(2));
    EXPECT_EQ(bench.List(10), (Strings{summary, one}));
    EXPECT_EQ(bench.List(1), (Strings{summary, one}));
    const auto run = bench.Get(summary);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->state(), v1::Run::SKIPPED);
    EXPECT_EQ(run->skip_reason(), "misfire");
    EXPECT_EQ(run->event_count(), n);
    EXPECT_EQ(run->occurrence_count(), 40);
    EXPECT_EQ(run->skipped_count(), 40 * n);
    EXPECT_EQ(run->last_nominal_time().seconds(), absl::ToUnixSeconds(last));
    EXPECT_EQ(bench.Get(one)->occurrence_count(), 1);
    EXPECT_EQ(bench.Get(one)->skipped_count(), n);
    EXPECT_EQ(bench.Get(one)->last_nominal_time().seconds(), absl::ToUnixSeconds(later));

    v1::ListRunEventsRequest request;
    request.set_parent(absl::StrCat(kParent, "/runs/", one));
    request.set_page_size(3);
    int events = 0;
    do {
      const auto page = bench.fixture.Call(&RunApi::ListRunEvents, request);
      ASSERT_TRUE(page.ok()) << page.status();
      for (const v1::Event& event : page->events()) {
        EXPECT_EQ(event.name(), absl::StrCat(request.parent(), "/events/", events++));
        EXPECT_EQ(event.outcome(), v1::SKIPPED);
        EXPECT_EQ(event.reason(), "misfire");
      }
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    EXPECT_EQ(events, n);
    request.set_filter("outcome=FAILED");
    EXPECT_EQ(bench.fixture.Call(&RunApi::ListRunEvents, request)->events_size(), 0);
  }
}

TEST(RunSkipped, RunsThatAreNamedByTheirInstantAreListedAndFound) {
  RunWorld bench(1, [](v1::Schedule& schedule) {
    schedule.mutable_interval()->mutable_every()->set_seconds(36000);
  });
  Strings wanted;
  for (int hour = 2; hour < 60; hour += 10) {
    const absl::Time time = bench.start + absl::Hours(hour);
    const std::string id = cron::FormatInstantOccurrence(time);
    if (hour % 20 == 2) {
      Skip(&bench, id, time, 1, time);
    } else {
      bench.End(bench.ShardOf(id), id, FromMicros(ToMicros(time)), 0, 1, 1,
                storage::v1::OUTCOME_KIND_SUCCEEDED);
    }
    wanted.push_back(id);
  }
  bench.fixture.runtime.AdvanceBy(absl::Hours(70));
  EXPECT_EQ(bench.List(100), wanted);
  EXPECT_EQ(bench.List(2), wanted);
  EXPECT_EQ(bench.Get(wanted[0])->state(), v1::Run::SKIPPED);
  EXPECT_EQ(bench.Get(wanted[1])->state(), v1::Run::COMPLETED);
}

TEST(RunSkipped, ARunIsFoundWhereItsJitterHasBroughtIt) {
  for (const int n : {1, 8}) {
    RunWorld bench(n, [](v1::Schedule& schedule) {
      schedule.set_cron("59 59 23 * * *");
      schedule.mutable_jitter()->set_seconds(86400);
    });
    const OccurrenceSource source = SourceIn(bench);
    // Just before midnight: it is launched on the next day.
    const absl::Time midnight =
        absl::FromUnixSeconds(absl::ToUnixSeconds(bench.start) / 86400 * 86400);
    const absl::Time time = midnight + absl::Hours(24) - absl::Seconds(1);
    const std::string id = RunWorld::Id(time);
    const absl::Time launch = LaunchTimeOf(source, id, time);
    ASSERT_GT(DoneDay(launch), DoneDay(time));
    kv::Group group;
    EmittedOccurrence occurrence{.id = id, .nominal_time = time, .launch_time = launch};
    AddOccurrenceRows(source, occurrence, bench.fixture.layout, time, group.mutations);
    bench.fixture.Commit({group});
    ASSERT_TRUE(bench.Get(id).ok());
    EXPECT_EQ(bench.Get(id)->state(), v1::Run::UPCOMING);
    bench.fixture.runtime.AdvanceBy(launch + absl::Seconds(1) - bench.fixture.Now());
    EXPECT_EQ(bench.List(10), Strings{id});
    for (const auto& [key, row] : bench.fixture.Events()) {
      bench.fixture.Delete(ColumnFamily::kEvents, EncodeEventKey(key));
      bench.End(key.shard, id, launch, key.first, row.count(), static_cast<uint64_t>(n),
                storage::v1::OUTCOME_KIND_SUCCEEDED);
    }
    EXPECT_EQ(bench.List(10), Strings{id});
    EXPECT_EQ(bench.Get(id)->state(), n == 1 ? v1::Run::COMPLETED : v1::Run::ACTIVE);
    v1::ListRunEventsRequest request;
    request.set_parent(absl::StrCat(kParent, "/runs/", id));
    EXPECT_EQ(bench.fixture.Call(&RunApi::ListRunEvents, request)->events_size(), n);
  }
}

}  // namespace run_skipped_test
}  // namespace escapement::master
