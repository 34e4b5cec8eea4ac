// Runs and their events, from rows as the emitter and the handler leave them.

#include "services/master/runs/run_service.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status/errors.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/waiting_table.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"
#include "services/master/testing/run_world.h"

namespace escapement::master {
namespace run_service_test {

using kv::ColumnFamily;
using Strings = std::vector<std::string>;

TEST(RunService, RunsOfOneAreListedInOrderAcrossShardsAndDays) {
  RunWorld bench(1);
  Strings wanted;
  for (int hour = 1; hour < 60; hour += 7)
    wanted.push_back(bench.EndSingle(bench.start + absl::Hours(hour)));
  bench.fixture.runtime.AdvanceBy(absl::Hours(70));
  EXPECT_EQ(bench.List(100), wanted);
  int pages = 0;
  EXPECT_EQ(bench.List(2, &pages), wanted);
  EXPECT_GE(pages, 5);
}

TEST(RunService, RunsOfManyHideTheirDoneRecordsAndShowTheirCounts) {
  RunWorld bench(8);
  const absl::Time first = bench.start + absl::Minutes(1);
  const absl::Time second = bench.start + absl::Minutes(2);
  const std::string id = bench.Emit(first, 8);
  const std::string single = bench.EndSingle(first + absl::Seconds(30));
  const std::string later = bench.Emit(second, 8);
  for (uint16_t shard = 0; shard < 4; ++shard) {
    for (uint64_t i = 0; i < 2; ++i) {
      bench.End(shard, id, first, shard * 2 + i, 1, 8, storage::v1::OUTCOME_KIND_SUCCEEDED);
    }
    storage::v1::RunPartRecord part;
    part.set_succeeded(1);
    part.set_failed(1);
    bench.fixture.Put(ColumnFamily::kRunParts, RunPartKey({bench.uid, id}, shard),
                      part.SerializeAsString());
  }
  EXPECT_EQ(bench.List(100), (Strings{id, single, later}));
  EXPECT_EQ(bench.List(1), (Strings{id, single, later}));
  const auto run = bench.Get(id);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->event_count(), 8);
  EXPECT_EQ(run->succeeded_count(), 4);
  EXPECT_EQ(run->failed_count(), 4);
  EXPECT_EQ(run->state(), v1::Run::ACTIVE);
}

TEST(RunService, RunIsActiveFromTheMomentItIsDue) {
  for (const uint64_t n : {1u, 8u}) {
    RunWorld bench(static_cast<int>(n),
                   [](v1::Schedule& schedule) { schedule.set_cron("* * * * * *"); });
    const absl::Time due = absl::FromUnixSeconds(absl::ToUnixSeconds(bench.start) + 5);
    const std::string id = bench.Emit(due, n);
    v1::ListRunsRequest list;
    list.set_parent(kParent);
    const auto states = [&] {
      const auto runs = bench.fixture.Call(&RunApi::ListRuns, list);
      EXPECT_EQ(runs->runs_size(), 1);
      if (runs->runs_size() != 1)
        return std::pair(v1::Run::STATE_UNSPECIFIED, v1::Run::STATE_UNSPECIFIED);
      return std::pair(bench.Get(id)->state(), runs->runs(0).state());
    };
    EXPECT_EQ(states(), std::pair(v1::Run::UPCOMING, v1::Run::UPCOMING)) << n;
    EXPECT_EQ(bench.Get(id)->status(), v1::Event::SCHEDULED) << n;
    list.set_filter("state = UPCOMING");
    EXPECT_EQ(bench.fixture.Call(&RunApi::ListRuns, list)->runs_size(), 1) << n;
    list.set_filter("");
    bench.fixture.runtime.AdvanceBy(absl::Seconds(6));
    EXPECT_EQ(states(), std::pair(v1::Run::ACTIVE, v1::Run::ACTIVE)) << n;
  }
}

TEST(RunService, RunThatWaitsForItsLaunchIsListed) {
  RunWorld bench(8, [](v1::Schedule& schedule) {
    schedule.set_cron("* * * * * *");
    schedule.set_overlap_policy(v1::Schedule::BUFFER_ONE);
  });
  const absl::Time due = absl::FromUnixSeconds(absl::ToUnixSeconds(bench.start) + 5);
  const std::string id = bench.Emit(due, 8);
  ASSERT_TRUE(bench.fixture.Events().empty());
  v1::ListRunsRequest list;
  list.set_parent(kParent);
  list.set_order_by("nominal_time desc");
  const auto check = [&](v1::Run::State state) {
    const auto runs = bench.fixture.Call(&RunApi::ListRuns, list);
    ASSERT_TRUE(runs.ok()) << runs.status();
    ASSERT_EQ(runs->runs_size(), 1);
    const auto got = bench.Get(id);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(runs->runs(0).DebugString(), got->DebugString());
    EXPECT_EQ(got->state(), state);
    EXPECT_EQ(got->event_count(), 8);
    EXPECT_TRUE(got->awaits_launch());
    EXPECT_EQ(got->version(), 1);
    EXPECT_EQ(got->nominal_time().seconds(), absl::ToUnixSeconds(due));
  };
  check(v1::Run::UPCOMING);
  bench.fixture.runtime.AdvanceBy(absl::Seconds(6));
  check(v1::Run::ACTIVE);
  // Behind a run that goes on for long.
  bench.fixture.runtime.AdvanceBy(absl::Hours(3));
  check(v1::Run::ACTIVE);
  v1::ListRunEventsRequest events;
  events.set_parent(absl::StrCat(kParent, "/runs/", id));
  EXPECT_EQ(bench.fixture.Call(&RunApi::ListRunEvents, events)->events_size(), 0);
  v1::CancelRunRequest cancel;
  cancel.set_name(absl::StrCat(kParent, "/runs/", id));
  EXPECT_TRUE(absl::IsNotFound(bench.fixture.Call(&RunApi::CancelRun, cancel).status()));
}

TEST(RunService, ARunOfOneIsFoundWhereverItsEventIs) {
  RunWorld bench(1);
  const absl::Time due = absl::FromUnixSeconds(absl::ToUnixSeconds(bench.start) + 5);
  const std::string id = bench.Emit(due, 1);
  ASSERT_TRUE(bench.Get(id).ok());
  EXPECT_EQ(bench.Get(id)->state(), v1::Run::UPCOMING);
  auto [key, row] = bench.fixture.Events()[0];
  const std::string row_key = EncodeEventKey(key);
  // Parked.
  bench.fixture.Delete(ColumnFamily::kEvents, row_key);
  EXPECT_TRUE(absl::IsNotFound(bench.Get(id).status()));
  bench.fixture.Put(ColumnFamily::kParked, ParkedKey(bench.uid, row_key), row.SerializeAsString());
  EXPECT_EQ(bench.Get(id)->state(), v1::Run::UPCOMING);
  bench.fixture.Delete(ColumnFamily::kParked, ParkedKey(bench.uid, row_key));
  // Claimed.
  storage::v1::ClaimRecord claim;
  claim.add_entries()->set_event_key(row_key);
  *claim.mutable_entries(0)->mutable_event() = row;
  bench.fixture.Put(ColumnFamily::kInflight, EncodeClaimKey({key.shard, 1, 1}),
                    claim.SerializeAsString());
  EXPECT_EQ(bench.Get(id)->state(), v1::Run::ACTIVE);
  bench.fixture.Delete(ColumnFamily::kInflight, EncodeClaimKey({key.shard, 1, 1}));
  // Waiting for another attempt.
  EventKey retry = key;
  retry.lane = kLaneRetry;
  retry.due_time += absl::Minutes(3);
  row.set_attempts(2);
  bench.fixture.Put(ColumnFamily::kEvents, EncodeEventKey(retry), row.SerializeAsString());
  EXPECT_EQ(bench.Get(id)->retry_count(), 2);
  v1::ListRunEventsRequest events;
  events.set_parent(absl::StrCat(kParent, "/runs/", id));
  EXPECT_EQ(bench.fixture.Call(&RunApi::ListRunEvents, events)->events(0).state(), v1::PENDING);
  bench.fixture.Delete(ColumnFamily::kEvents, EncodeEventKey(retry));
  // Ended.
  bench.End(key.shard, id, due, 0, 1, 1, storage::v1::OUTCOME_KIND_FAILED);
  EXPECT_EQ(bench.Get(id)->state(), v1::Run::COMPLETED);
  EXPECT_EQ(bench.Get(id)->failed_count(), 1);
  const auto listed = bench.fixture.Call(&RunApi::ListRunEvents, events);
  ASSERT_TRUE(listed.ok());
  ASSERT_EQ(listed->events_size(), 1);
  EXPECT_EQ(listed->events(0).name(), absl::StrCat(kParent, "/runs/", id, "/events/0"));
  EXPECT_EQ(listed->events(0).event_id(), RunIdentity("default", bench.uid, id).EventId(0));
  events.set_filter("outcome=SUCCEEDED");
  EXPECT_EQ(bench.fixture.Call(&RunApi::ListRunEvents, events)->events_size(), 0);
}

// The schedule's own occurrences are years away, so no active run is looked for.
TEST(RunService, ATriggeredRunOfOneIsListedWhileItIsActive) {
  RunWorld bench(1);
  v1::TriggerScheduleRequest trigger;
  trigger.set_name(kParent);
  const auto run = bench.fixture.Call(&ScheduleApi::TriggerSchedule, trigger);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(absl::StrCat(kParent, "/runs/", bench.List(100).at(0)), run->name());
  // Its event waits for another attempt.
  auto [key, row] = bench.fixture.Events()[0];
  bench.fixture.Delete(ColumnFamily::kEvents, EncodeEventKey(key));
  key.lane = kLaneRetry;
  row.set_attempts(1);
  bench.fixture.Put(ColumnFamily::kEvents, EncodeEventKey(key), row.SerializeAsString());
  EXPECT_EQ(bench.List(100).size(), 1u);
}

TEST(RunService, EventsOfARunAreListedByIndexThroughRangesRetriesAndShards) {
  RunWorld bench(1);
  const absl::Time due = bench.start + absl::Minutes(1);
  const std::string id = bench.Emit(due, 40);  // 10 a shard
  bench.End(0, id, due, 0, 7, 40, storage::v1::OUTCOME_KIND_SUCCEEDED);
  bench.End(0, id, due, 8, 2, 40, storage::v1::OUTCOME_KIND_FAILED);
  bench.End(2, id, due, 20, 10, 40, storage::v1::OUTCOME_KIND_SUCCEEDED);
  bench.End(3, id, due, 35, 1, 40, storage::v1::OUTCOME_KIND_FAILED);
  // 7 waits for another attempt.
  EventKey retry{.shard = 0,
                 .lane = kLaneRetry,
                 .due_time = due,
                 .uid = bench.uid,
                 .occurrence = id,
                 .first = 7};
  storage::v1::EventRecord row;
  row.set_count(1);
  row.set_run_count(40);
  row.set_attempts(1);
  bench.fixture.Put(ColumnFamily::kEvents, EncodeEventKey(retry), row.SerializeAsString());

  const auto list = [&](int page_size, const std::string& filter) {
    v1::ListRunEventsRequest request;
    request.set_parent(absl::StrCat(kParent, "/runs/", id));
    request.set_page_size(page_size);
    request.set_filter(filter);
    std::vector<int> indices;
    do {
      const auto page = bench.fixture.Call(&RunApi::ListRunEvents, request);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) break;
      EXPECT_LE(page->events_size(), page_size);
      for (const v1::Event& event : page->events()) {
        indices.push_back(std::stoi(event.name().substr(event.name().rfind('/') + 1)));
        EXPECT_EQ(event.event_id(), RunIdentity("default", bench.uid, id).EventId(indices.back()));
        EXPECT_EQ(event.state(), indices.back() == 7 ? v1::PENDING : v1::ENDED);
      }
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    return indices;
  };
  const std::vector<int> all = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 20,
                                21, 22, 23, 24, 25, 26, 27, 28, 29, 35};
  for (const int page_size : {1, 3, 7, 100}) EXPECT_EQ(list(page_size, ""), all) << page_size;
  EXPECT_EQ(list(2, "outcome=FAILED"), (std::vector<int>{8, 9, 35}));
  EXPECT_EQ(list(100, "outcome=SKIPPED"), std::vector<int>{});
}

TEST(RunService, ARunOfOneWithARecordIsShownOnceWithItsEventAndWhatItGave) {
  RunWorld bench(1, [](v1::Schedule& schedule) {
    schedule.mutable_on_complete()->mutable_http()->set_uri("http://h/done");
  });
  const absl::Time due = absl::FromUnixSeconds(absl::ToUnixSeconds(bench.start) + 5);
  const std::string id = bench.Emit(due, 1);
  bench.End(bench.ShardOf(id), id, due, 0, 1, 1, storage::v1::OUTCOME_KIND_SUCCEEDED);
  const auto done = bench.fixture.Rows(ColumnFamily::kDone).begin()->first;
  storage::v1::DoneRecord record;
  ASSERT_TRUE(record.ParseFromString(*bench.fixture.Get(ColumnFamily::kDone, done)));
  record.set_output("42 rows");
  bench.fixture.Put(ColumnFamily::kDone, done, record.SerializeAsString());
  storage::v1::RunPartRecord part;
  part.set_succeeded(1);
  part.set_retries(3);
  bench.fixture.Put(ColumnFamily::kRunParts, RunPartKey({bench.uid, id}, bench.ShardOf(id)),
                    part.SerializeAsString());
  EXPECT_EQ(bench.List(10), Strings{id});
  EXPECT_EQ(bench.Get(id)->retry_count(), 3);
  EXPECT_EQ(bench.Get(id)->state(), v1::Run::ACTIVE);  // until the emitter has noted its end
  v1::ListRunEventsRequest events;
  events.set_parent(absl::StrCat(kParent, "/runs/", id));
  const auto listed = bench.fixture.Call(&RunApi::ListRunEvents, events);
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->events_size(), 1);
  EXPECT_EQ(listed->events(0).state(), v1::ENDED);
  EXPECT_EQ(listed->events(0).output(), "42 rows");
}

TEST(RunService, BadRequestsAreRefusedByField) {
  RunWorld bench(1);
  v1::ListRunEventsRequest events;
  events.set_parent(absl::StrCat(kParent, "/runs/yesterday"));
  EXPECT_EQ(FieldViolationsOf(bench.fixture.Call(&RunApi::ListRunEvents, events).status())[0].first,
            "parent");
  events.set_parent(absl::StrCat(kParent, "/runs/20260101T000000-0-UTC"));
  events.set_filter("outcome=GREAT");
  events.set_page_size(-1);
  const auto violations =
      FieldViolationsOf(bench.fixture.Call(&RunApi::ListRunEvents, events).status());
  ASSERT_EQ(violations.size(), 2u);
  EXPECT_EQ(violations[0].first, "filter");
  EXPECT_EQ(violations[1].first, "page_size");
  EXPECT_TRUE(absl::IsNotFound(bench.Get("20260101T000000-0-UTC").status()));
  v1::ListRunsRequest runs;
  runs.set_parent("tenants/default/schedules/none");
  EXPECT_TRUE(absl::IsNotFound(bench.fixture.Call(&RunApi::ListRuns, runs).status()));
}

}  // namespace run_service_test
}  // namespace escapement::master
