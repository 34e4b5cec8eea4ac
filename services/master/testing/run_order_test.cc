// The order and the filter of ListRuns.

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/cron/timetable.h"
#include "common/status/errors.h"
#include "common/storage/event_table.h"
#include "common/storage/waiting_table.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"
#include "services/master/testing/run_world.h"

namespace escapement::master {
namespace run_order_test {

using Strings = std::vector<std::string>;

struct Listed {
  Strings occurrences;
  int pages = 0;
};

Listed List(RunWorld& bench, const std::string& order_by, const std::string& filter,
            int page_size) {
  v1::ListRunsRequest request;
  request.set_parent(kParent);
  request.set_order_by(order_by);
  request.set_filter(filter);
  request.set_page_size(page_size);
  Listed listed;
  do {
    const auto page = bench.fixture.Call(&RunApi::ListRuns, request);
    EXPECT_TRUE(page.ok()) << page.status();
    if (!page.ok()) break;
    EXPECT_LE(page->runs_size(), page_size);
    for (const v1::Run& run : page->runs())
      listed.occurrences.push_back(run.name().substr(sizeof(kParent) + 5));
    request.set_page_token(page->next_page_token());
  } while (++listed.pages < 1000 && !request.page_token().empty());
  EXPECT_LT(listed.pages, 1000);
  return listed;
}

// A run of one that has succeeded, under a name of its own.
std::string EndNamed(RunWorld& bench, const std::string& id, absl::Time nominal) {
  bench.End(bench.ShardOf(id), id, nominal, 0, 1, 1, storage::v1::OUTCOME_KIND_SUCCEEDED);
  return id;
}

std::string Calendar(absl::Time time, const std::string& zone_name) {
  absl::TimeZone zone;
  EXPECT_TRUE(absl::LoadTimeZone(zone_name, &zone));
  return cron::FormatCalendarOccurrence(absl::ToCivilSecond(time, zone), 0, zone_name);
}

Strings Reversed(Strings list) {
  std::reverse(list.begin(), list.end());
  return list;
}

TEST(RunOrder, NewestFirstIsTheReverseForEveryPageSize) {
  RunWorld bench(1);
  Strings wanted;
  for (const absl::Duration after :
       {absl::Seconds(1), absl::Seconds(2), absl::Minutes(5), absl::Hours(23), absl::Hours(49),
        absl::Hours(24 * 12), absl::Hours(24 * 12) + absl::Seconds(1)})
    wanted.push_back(bench.EndSingle(bench.start + after));
  wanted.push_back(bench.Emit(bench.start + absl::Hours(24 * 12) + absl::Seconds(2), 3));
  bench.fixture.runtime.AdvanceBy(absl::Hours(24 * 13));
  for (const int page_size : {1, 2, 3, 8, 100}) {
    EXPECT_EQ(List(bench, "", "", page_size).occurrences, wanted) << page_size;
    EXPECT_EQ(List(bench, "nominal_time asc", "", page_size).occurrences, wanted) << page_size;
    EXPECT_EQ(List(bench, " nominal_time  desc ", "", page_size).occurrences, Reversed(wanted))
        << page_size;
  }
}

// Names of a zone are its civil times, those of triggered runs are UTC: neither order is that of
// time once both are there, or once the zone was changed.
TEST(RunOrder, ItIsThatOfTimeWhateverTheRunsAreNamedAfter) {
  RunWorld bench(1, [](v1::Schedule& schedule) { schedule.set_time_zone("Asia/Kolkata"); });
  v1::UpdateScheduleRequest update;
  update.mutable_schedule()->set_name(kParent);
  update.mutable_schedule()->set_time_zone("America/Los_Angeles");
  update.mutable_update_mask()->add_paths("time_zone");
  ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::UpdateSchedule, update).ok());
  Strings wanted;
  for (int i = 0; i < 40; ++i) {
    const absl::Time time = bench.start + absl::Minutes(1 + 37 * i);
    const std::string id = i % 4 == 0   ? cron::FormatInstantOccurrence(time)
                           : i % 3 == 0 ? Calendar(time, "Asia/Kolkata")
                                        : Calendar(time, "America/Los_Angeles");
    wanted.push_back(EndNamed(bench, id, time));
  }
  bench.fixture.runtime.AdvanceBy(absl::Hours(48));
  for (const int page_size : {1, 7, 100}) {
    EXPECT_EQ(List(bench, "nominal_time", "", page_size).occurrences, wanted) << page_size;
    EXPECT_EQ(List(bench, "nominal_time desc", "", page_size).occurrences, Reversed(wanted))
        << page_size;
  }
}

TEST(RunOrder, ATriggeredRunIsTheNewest) {
  RunWorld bench(2, [](v1::Schedule& schedule) { schedule.set_time_zone("Asia/Kolkata"); });
  bench.fixture.runtime.AdvanceBy(absl::Hours(1));
  EndNamed(bench, Calendar(bench.start + absl::Minutes(30), "Asia/Kolkata"),
           bench.start + absl::Minutes(30));
  v1::TriggerScheduleRequest trigger;
  trigger.set_name(kParent);
  const auto run = bench.fixture.Call(&ScheduleApi::TriggerSchedule, trigger);
  ASSERT_TRUE(run.ok()) << run.status();
  const Listed listed = List(bench, "nominal_time desc", "", 1);
  ASSERT_EQ(listed.occurrences.size(), 2u);
  EXPECT_EQ(absl::StrCat(kParent, "/runs/", listed.occurrences[0]), run->name());
}

// More runs in a window than a page takes, and one of them with more Done records than a scan.
TEST(RunOrder, DenseRunsAreListedOnceEach) {
  RunWorld bench(1);
  Strings wanted;
  for (int i = 0; i < 2500; ++i)
    wanted.push_back(bench.EndSingle(bench.start + absl::Seconds(1 + i)));
  const absl::Time launch = bench.start + absl::Seconds(2501);
  wanted.push_back(bench.Emit(launch, 2300));
  for (uint64_t i = 0; i < 2300; ++i)
    bench.End(0, wanted.back(), launch, i, 1, 2300, storage::v1::OUTCOME_KIND_SUCCEEDED);
  wanted.push_back(bench.EndSingle(launch + absl::Seconds(1)));
  bench.fixture.runtime.AdvanceBy(absl::Hours(1));
  for (const int page_size : {100, 1000}) {
    EXPECT_EQ(List(bench, "", "", page_size).occurrences, wanted);
    EXPECT_EQ(List(bench, "nominal_time desc", "", page_size).occurrences, Reversed(wanted));
  }
}

TEST(RunOrder, FilterTakesStateAndTime) {
  RunWorld bench(1);
  Strings succeeded;
  Strings cancelled;
  for (int i = 0; i < 60; ++i) {
    const absl::Time time = bench.start + absl::Minutes(1 + i);
    if (i % 10 == 3) {
      const std::string id = RunWorld::Id(time);
      bench.End(bench.ShardOf(id), id, time, 0, 1, 1, storage::v1::OUTCOME_KIND_CANCELLED);
      cancelled.push_back(id);
    } else {
      succeeded.push_back(bench.EndSingle(time));
    }
  }
  const std::string active = bench.Emit(bench.start + absl::Hours(2), 4);
  bench.fixture.runtime.AdvanceBy(absl::Hours(3));
  for (const int page_size : {1, 4, 100}) {
    EXPECT_EQ(List(bench, "", "state=CANCELLED", page_size).occurrences, cancelled);
    EXPECT_EQ(List(bench, "nominal_time desc", "state = CANCELLED", page_size).occurrences,
              Reversed(cancelled));
    EXPECT_EQ(List(bench, "", "state=COMPLETED", page_size).occurrences, succeeded);
    EXPECT_EQ(List(bench, "", "state=ACTIVE OR state=SKIPPED", page_size).occurrences,
              Strings{active});
    const std::string from = absl::FormatTime(bench.start + absl::Minutes(20), absl::UTCTimeZone());
    const std::string to = absl::FormatTime(bench.start + absl::Minutes(40), absl::UTCTimeZone());
    const std::string between =
        absl::StrCat("nominal_time >= \"", from, "\" AND nominal_time < \"", to, "\"");
    EXPECT_EQ(List(bench, "", absl::StrCat(between, " AND state=CANCELLED"), page_size).occurrences,
              (Strings{cancelled[2], cancelled[3]}));
    EXPECT_EQ(List(bench, "nominal_time desc", between, page_size).occurrences.size(), 20u);
    EXPECT_EQ(
        List(bench, "", "NOT complete_time >= \"2000-01-01T00:00:00Z\"", page_size).occurrences,
        Strings{active});
  }
  EXPECT_EQ(List(bench, "", "nominal_time < \"2000-01-01T00:00:00Z\"", 10).occurrences, Strings());
}

TEST(RunOrder, BadOrderAndFilterAreRefusedByFieldAndTokensHoldForTheirList) {
  RunWorld bench(1);
  for (int i = 0; i < 3; ++i) bench.EndSingle(bench.start + absl::Minutes(1 + i));
  bench.fixture.runtime.AdvanceBy(absl::Hours(1));
  v1::ListRunsRequest request;
  request.set_parent(kParent);
  request.set_order_by("state");
  request.set_filter("state=");
  const auto violations =
      FieldViolationsOf(bench.fixture.Call(&RunApi::ListRuns, request).status());
  ASSERT_EQ(violations.size(), 2u);
  EXPECT_EQ(violations[0].first, "order_by");
  EXPECT_EQ(violations[1].first, "filter");

  request.clear_order_by();
  request.clear_filter();
  request.set_page_size(1);
  request.set_page_token(bench.fixture.Call(&RunApi::ListRuns, request)->next_page_token());
  EXPECT_TRUE(bench.fixture.Call(&RunApi::ListRuns, request).ok());
  request.set_order_by("nominal_time desc");
  EXPECT_EQ(bench.fixture.Call(&RunApi::ListRuns, request).status().code(),
            absl::StatusCode::kInvalidArgument);
  request.clear_order_by();
  request.set_filter("state=ACTIVE");
  EXPECT_EQ(bench.fixture.Call(&RunApi::ListRuns, request).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// Puts the event of a run of one where it may be: in a lane of the queue, parked, claimed, waiting
// for another attempt, or ended. Place 0: there is none.
constexpr int kPlaces = 7;

void Place(RunWorld& bench, absl::Time time, int place) {
  using kv::ColumnFamily;
  const std::string id = RunWorld::Id(time);
  storage::v1::EventRecord row;
  row.set_tenant("default");
  row.set_version(1);
  row.set_count(1);
  row.set_run_count(1);
  row.set_nominal_time_micros(ToMicros(time));
  row.set_launch_time_micros(ToMicros(time));
  EventKey key = {.shard = bench.ShardOf(id),
                  .lane = 5,
                  .due_time = time,
                  .uid = bench.uid,
                  .occurrence = id,
                  .first = 0};
  storage::v1::ClaimRecord claim;
  switch (place) {
    case 1:
      key.lane = kLaneCatchUp;
      [[fallthrough]];
    case 2:
      return bench.fixture.Put(ColumnFamily::kEvents, EncodeEventKey(key), row.SerializeAsString());
    case 3:
      return bench.fixture.Put(ColumnFamily::kParked, ParkedKey(bench.uid, EncodeEventKey(key)),
                               row.SerializeAsString());
    case 4:
      claim.add_entries()->set_event_key(EncodeEventKey(key));
      *claim.mutable_entries(0)->mutable_event() = row;
      return bench.fixture.Put(
          ColumnFamily::kInflight,
          EncodeClaimKey({key.shard, 1, static_cast<uint64_t>(absl::ToUnixSeconds(time))}),
          claim.SerializeAsString());
    case 5:
      row.set_attempts(3);
      key.lane = kLaneRetry;
      key.due_time = time + absl::Hours(5);
      return bench.fixture.Put(ColumnFamily::kEvents, EncodeEventKey(key), row.SerializeAsString());
    case 6:
      bench.EndSingle(time);
      return;
  }
}

TEST(RunOrder, ListHasEachRunThatGetFinds) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    std::mt19937_64 random(seed);
    RunWorld bench(1, [](v1::Schedule& schedule) { schedule.set_cron("* * * * *"); });
    const absl::Time first = absl::FromUnixSeconds(absl::ToUnixSeconds(bench.start) / 60 * 60 + 60);
    const int minutes = seed % 2 == 0 ? 100 : 4500;  // more than one chunk
    const int each = static_cast<int>(random() % 3) + (minutes > 100 ? 60 : 1);
    for (int i = 0; i < minutes; i += each)
      Place(bench, first + absl::Minutes(i), static_cast<int>(random() % kPlaces));
    bench.fixture.runtime.AdvanceBy(absl::Minutes(minutes + 5));
    Strings wanted;
    for (int i = 0; i < minutes; i += each) {
      const std::string id = RunWorld::Id(first + absl::Minutes(i));
      if (bench.Get(id).ok()) wanted.push_back(id);
    }
    for (const int page_size : {1, 7, 100}) {
      EXPECT_EQ(List(bench, "", "", page_size).occurrences, wanted) << seed;
      EXPECT_EQ(List(bench, "nominal_time desc", "", page_size).occurrences, Reversed(wanted))
          << seed;
    }
  }
}

}  // namespace run_order_test
}  // namespace escapement::master
