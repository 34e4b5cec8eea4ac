// Runs of throttled schedules and their events, from rows as the emitter and the token manager
// leave them.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/storage/run_table.h"
#include "common/storage/waiting_table.h"
#include "gtest/gtest.h"
#include "services/master/runs/run_service.h"
#include "services/master/testing/master_world.h"
#include "services/master/testing/run_world.h"

namespace escapement::master {
namespace run_throttle_test {

using kv::ColumnFamily;
using Strings = std::vector<std::string>;

void Throttle(v1::Schedule& schedule) { schedule.set_policy("tenants/default/policies/p"); }

TEST(RunThrottle, AThrottledRunShowsWhatItsPartsCountAndWhenItWillHaveEnded) {
  RunWorld bench(100, &Throttle);
  const absl::Time due = bench.start + absl::Seconds(1);
  const std::string id = bench.Emit(due, 100);
  const auto put = [&](uint16_t shard, const storage::v1::RunPartRecord& part) {
    bench.fixture.Put(ColumnFamily::kRunParts, RunPartKey({bench.uid, id}, shard),
                      part.SerializeAsString());
  };
  storage::v1::RunPartRecord part;
  part.set_granted(50);
  part.set_delivered(40);
  part.set_running(10);
  part.set_first_grant_time_micros(ToMicros(due));
  put(PolicyRunPart(7), part);
  EXPECT_FALSE(bench.Get(id)->has_eta());  // nothing has ended
  part.set_succeeded(30);
  part.set_expired(5);
  part.set_last_end_time_micros(ToMicros(due + absl::Seconds(40)));
  put(PolicyRunPart(7), part);
  // Its policy has changed once, and a pause ended some.
  storage::v1::RunPartRecord former;
  former.set_granted(2);
  former.set_first_grant_time_micros(ToMicros(due + absl::Seconds(5)));
  put(PolicyRunPart(0), former);
  storage::v1::RunPartRecord skipped;
  skipped.set_skipped(5);
  skipped.set_last_end_time_micros(ToMicros(due + absl::Seconds(30)));
  put(kMasterRunPart, skipped);

  const auto check = [&](const v1::Run& run) {
    EXPECT_EQ(run.granted_count(), 52);
    EXPECT_EQ(run.delivered_count(), 40);
    EXPECT_EQ(run.running_count(), 10);
    EXPECT_EQ(run.succeeded_count(), 30);
    EXPECT_EQ(run.expired_count(), 5);
    EXPECT_EQ(run.skipped_count(), 5);
    // One a second; 60 are left after the last end.
    EXPECT_EQ(run.eta().seconds(), absl::ToUnixSeconds(due + absl::Seconds(100)));
  };
  check(*bench.Get(id));
  v1::ListRunsRequest list;
  list.set_parent(kParent);
  const auto listed = bench.fixture.Call(&RunApi::ListRuns, list);
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->runs_size(), 1);
  check(listed->runs(0));
  // The rest of a run that stalls is still to come.
  bench.fixture.runtime.AdvanceBy(absl::Seconds(1000));
  EXPECT_GE(bench.Get(id)->eta().seconds(), absl::ToUnixSeconds(bench.start + absl::Seconds(1059)));
  // Ended.
  const std::string key = EncodeRunKey({bench.uid, id});
  storage::v1::RunRecord record;
  ASSERT_TRUE(record.ParseFromString(*bench.fixture.Get(ColumnFamily::kRuns, key)));
  record.set_complete_time_micros(ToMicros(due + absl::Seconds(99)));
  bench.fixture.Put(ColumnFamily::kRuns, key, record.SerializeAsString());
  EXPECT_FALSE(bench.Get(id)->has_eta());
}

TEST(RunThrottle, RunShowsHowItKeepsToItsWindowAndItsReport) {
  RunWorld bench(100, [](v1::Schedule& schedule) {
    Throttle(schedule);
    schedule.mutable_window()->mutable_duration()->set_seconds(1000);
  });
  const absl::Time due = bench.start + absl::Seconds(1);
  const std::string id = bench.Emit(due, 100);
  storage::v1::RunPartRecord part;
  const auto put = [&](uint64_t succeeded) {
    part.set_succeeded(succeeded);
    bench.fixture.Put(ColumnFamily::kRunParts, RunPartKey({bench.uid, id}, PolicyRunPart(7)),
                      part.SerializeAsString());
  };
  part.set_first_grant_time_micros(ToMicros(due));
  part.set_tokens(120);
  NoteSlow(17, 2'500'000, part);
  NoteSlow(3, 500'000, part);
  put(40);
  storage::v1::RunPartRecord skipped;
  skipped.set_skipped(5);
  skipped.set_never_started(5);
  NoteSlow(60, 1'000'000, skipped);
  bench.fixture.Put(ColumnFamily::kRunParts, RunPartKey({bench.uid, id}, kMasterRunPart),
                    skipped.SerializeAsString());
  bench.fixture.runtime.AdvanceBy(absl::Seconds(400));
  const v1::RunWindow at_first = bench.Get(id)->window();
  EXPECT_EQ(at_first.state(), v1::RunWindow::ON_TRACK);
  EXPECT_EQ(at_first.open_time().seconds(), absl::ToUnixSeconds(due));
  EXPECT_EQ(at_first.close_time().seconds(), absl::ToUnixSeconds(due + absl::Seconds(1000)));
  EXPECT_NEAR(at_first.actual_rate(), 45 / 400.0, 0.001);
  EXPECT_NEAR(at_first.required_rate(), 55 / 600.0, 0.001);
  bench.fixture.runtime.AdvanceBy(absl::Seconds(100));
  EXPECT_EQ(bench.Get(id)->window().state(), v1::RunWindow::AT_RISK);
  bench.fixture.runtime.AdvanceBy(absl::Seconds(600));
  v1::ListRunsRequest list;
  list.set_parent(kParent);
  const auto listed = bench.fixture.Call(&RunApi::ListRuns, list);
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->runs_size(), 1);
  EXPECT_EQ(listed->runs(0).window().state(), v1::RunWindow::LATE);
  EXPECT_EQ(listed->runs(0).window().required_rate(), 0);
  EXPECT_FALSE(bench.Get(id)->has_report());

  put(95);
  const std::string key = EncodeRunKey({bench.uid, id});
  storage::v1::RunRecord record;
  ASSERT_TRUE(record.ParseFromString(*bench.fixture.Get(ColumnFamily::kRuns, key)));
  record.set_complete_time_micros(ToMicros(due + absl::Seconds(1100)));
  bench.fixture.Put(ColumnFamily::kRuns, key, record.SerializeAsString());
  const auto ended = bench.Get(id);
  EXPECT_EQ(ended->window().state(), v1::RunWindow::LATE);
  EXPECT_NEAR(ended->window().actual_rate(), 100 / 1100.0, 0.001);
  EXPECT_EQ(ended->report().never_started_count(), 5);
  EXPECT_EQ(ended->report().token_count(), 120);
  ASSERT_EQ(ended->report().slowest_size(), 3);
  EXPECT_EQ(ended->report().slowest(0).event(), absl::StrCat(ended->name(), "/events/17"));
  EXPECT_EQ(ended->report().slowest(0).duration().seconds(), 2);
  EXPECT_EQ(ended->report().slowest(1).event(), absl::StrCat(ended->name(), "/events/60"));
  EXPECT_EQ(ended->report().slowest(2).event(), absl::StrCat(ended->name(), "/events/3"));
  EXPECT_FALSE(bench.fixture.Call(&RunApi::ListRuns, list)->runs(0).has_report());
}

TEST(RunThrottle, AThrottledRunOfOneIsFoundWhereverItsEventIs) {
  RunWorld bench(1, &Throttle);
  const absl::Time due = absl::FromUnixSeconds(absl::ToUnixSeconds(bench.start) + 5);
  const std::string id = bench.Emit(due, 1);
  v1::ListRunEventsRequest events;
  events.set_parent(absl::StrCat(kParent, "/runs/", id));
  // Waiting.
  ASSERT_TRUE(bench.Get(id).ok());
  EXPECT_EQ(bench.Get(id)->state(), v1::Run::UPCOMING);
  EXPECT_EQ(bench.List(10), Strings{id});
  EXPECT_EQ(bench.fixture.Call(&RunApi::ListRunEvents, events)->events_size(), 0);
  // Even long after it was due, behind others.
  bench.fixture.runtime.AdvanceBy(absl::Hours(30));
  EXPECT_EQ(bench.List(10), Strings{id});
  auto [key, row] = bench.TakeWaiting();
  EXPECT_TRUE(absl::IsNotFound(bench.Get(id).status()));
  EXPECT_EQ(bench.List(10), Strings{});
  // Parked.
  const std::string parked = ParkedKey(bench.uid, EncodeWaitingKey(key));
  bench.fixture.Put(ColumnFamily::kParked, parked, row.SerializeAsString());
  EXPECT_EQ(bench.Get(id)->state(), v1::Run::ACTIVE);
  EXPECT_EQ(bench.List(10), Strings{id});
  bench.fixture.Delete(ColumnFamily::kParked, parked);
  // Holding a token; others of the policy hold theirs too.
  storage::v1::EventRecord other = row;
  other.set_nominal_time_micros(ToMicros(bench.start - absl::Hours(24 * 300)));
  bench.Grant("20200101T000000-0-UTC", other, 0, 1, 1);
  const std::string grant = bench.Grant(id, row, 0, 1, 2);
  ASSERT_TRUE(bench.Get(id).ok());
  EXPECT_EQ(bench.Get(id)->running_count(), 1);
  EXPECT_EQ(bench.Get(id)->granted_count(), 1);
  const auto running = bench.fixture.Call(&RunApi::ListRunEvents, events);
  ASSERT_EQ(running->events_size(), 1);
  EXPECT_EQ(running->events(0).state(), v1::RUNNING);
  bench.fixture.Delete(ColumnFamily::kGrants, grant);
  // Waiting for another attempt.
  key.due_time += absl::Minutes(3);
  row.set_attempts(2);
  bench.fixture.Put(ColumnFamily::kWaiting, EncodeWaitingKey(key), row.SerializeAsString());
  EXPECT_EQ(bench.Get(id)->retry_count(), 2);
  EXPECT_EQ(bench.Get(id)->running_count(), 0);
  EXPECT_EQ(bench.fixture.Call(&RunApi::ListRunEvents, events)->events(0).state(), v1::PENDING);
  bench.TakeWaiting();
  // Ended.
  bench.End(bench.ShardOf(id), id, due, 0, 1, 1, storage::v1::OUTCOME_KIND_EXPIRED);
  EXPECT_EQ(bench.Get(id)->state(), v1::Run::COMPLETED);
  EXPECT_EQ(bench.Get(id)->expired_count(), 1);
  EXPECT_EQ(bench.List(10), Strings{id});
}

// A row moves only when its owner judges it.
TEST(RunThrottle, RunIsFoundWhereAFormerVersionPutIt) {
  for (const std::string changed : {"policy", "priority", "jitter"}) {
    RunWorld bench(1, changed == "jitter" ? [](v1::Schedule&) {} : &Throttle);
    const absl::Time due = absl::FromUnixSeconds(absl::ToUnixSeconds(bench.start) + 5);
    const std::string id = bench.Emit(due, 1);
    bench.fixture.runtime.AdvanceBy(absl::Seconds(20));
    for (const int to : {7, 2, 7}) {
      v1::UpdateScheduleRequest update;
      update.mutable_schedule()->set_name(kParent);
      update.mutable_update_mask()->add_paths(changed);
      if (changed == "priority") update.mutable_schedule()->set_priority(to);
      if (changed == "jitter") update.mutable_schedule()->mutable_jitter()->set_seconds(to);
      const auto updated = bench.fixture.Call(&ScheduleApi::UpdateSchedule, update);
      ASSERT_TRUE(updated.ok()) << updated.status();
      if (changed == "policy") break;  // it has none now
    }
    const auto got = bench.Get(id);
    ASSERT_TRUE(got.ok()) << changed << got.status();
    EXPECT_EQ(got->state(), v1::Run::ACTIVE) << changed;
    // Only occurrences that some version gives are looked for in the queue.
    EXPECT_EQ(bench.List(10), changed == "jitter" ? Strings{} : Strings{id}) << changed;
    v1::ExplainEventRequest explain;
    explain.set_name(absl::StrCat(kParent, "/runs/", id, "/events/0"));
    const auto explained = bench.fixture.Call(&ExplainService::ExplainEvent, explain);
    ASSERT_TRUE(explained.ok()) << changed << explained.status();
    EXPECT_EQ(explained->status(), v1::Event::SCHEDULED) << changed;
    if (changed == "jitter") continue;
    // A retry, whose due time nobody can know.
    auto [key, row] = bench.TakeWaiting();
    key.due_time += absl::Minutes(3);
    row.set_attempts(2);
    bench.fixture.Put(ColumnFamily::kWaiting, EncodeWaitingKey(key), row.SerializeAsString());
    ASSERT_TRUE(bench.Get(id).ok()) << changed;
    EXPECT_EQ(bench.Get(id)->retry_count(), 2) << changed;
    bench.TakeWaiting();
    // It holds a token of the former policy.
    bench.Grant(id, row, 0, 1, 1);
    ASSERT_TRUE(bench.Get(id).ok()) << changed;
    EXPECT_EQ(bench.Get(id)->running_count(), 1) << changed;
    EXPECT_EQ(bench.List(10), Strings{id}) << changed;
  }
}

TEST(RunThrottle, ThrottledRunListsEndedHoldingAndRetryingEvents) {
  RunWorld bench(1, &Throttle);
  const absl::Time due = bench.start + absl::Minutes(1);
  const std::string id = bench.Emit(due, 40);  // 10 a shard
  auto [key, row] = bench.TakeWaiting();
  row.mutable_throttle()->set_taken(25);
  bench.fixture.Put(ColumnFamily::kWaiting, EncodeWaitingKey(key), row.SerializeAsString());
  bench.End(0, id, due, 0, 7, 40, storage::v1::OUTCOME_KIND_SUCCEEDED);
  bench.Grant(id, row, 7, 5, 1);    // over the border of two shards
  bench.Grant(id, row, 14, 10, 2);  // 16 and 17 have ended since it was read
  bench.Grant("20200101T000000-0-UTC", row, 30, 5, 3);
  bench.End(1, id, due, 16, 2, 40, storage::v1::OUTCOME_KIND_SUCCEEDED);
  bench.End(3, id, due, 35, 2, 40, storage::v1::OUTCOME_KIND_EXPIRED);
  storage::v1::EventRecord retry = row;
  retry.mutable_throttle()->clear_taken();
  retry.set_count(1);
  retry.set_attempts(1);
  key.first = 13;
  key.due_time += absl::Seconds(10);
  bench.fixture.Put(ColumnFamily::kWaiting, EncodeWaitingKey(key), retry.SerializeAsString());
  key.first = 24;
  bench.fixture.Put(ColumnFamily::kParked, ParkedKey(bench.uid, EncodeWaitingKey(key)),
                    retry.SerializeAsString());

  const auto list = [&](int page_size, const std::string& filter) {
    v1::ListRunEventsRequest request;
    request.set_parent(absl::StrCat(kParent, "/runs/", id));
    request.set_page_size(page_size);
    request.set_filter(filter);
    Strings seen;
    do {
      const auto page = bench.fixture.Call(&RunApi::ListRunEvents, request);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) break;
      EXPECT_LE(page->events_size(), page_size);
      for (const v1::Event& event : page->events()) {
        const std::string index = event.name().substr(event.name().rfind('/') + 1);
        seen.push_back(absl::StrCat(index, event.state() == v1::ENDED     ? ""
                                           : event.state() == v1::RUNNING ? "r"
                                                                          : "p"));
      }
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    return seen;
  };
  const Strings all = {"0",   "1",   "2",   "3",   "4",   "5",   "6",  "7r", "8r",
                       "9r",  "10r", "11r", "13p", "14r", "15r", "16", "17", "18r",
                       "19r", "20r", "21r", "22r", "23r", "24p", "35", "36"};
  for (const int page_size : {1, 3, 7, 100}) EXPECT_EQ(list(page_size, ""), all) << page_size;
  EXPECT_EQ(list(100, "outcome=EXPIRED"), (Strings{"35", "36"}));
}

}  // namespace run_throttle_test
}  // namespace escapement::master
