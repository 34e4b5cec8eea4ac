#include "services/master/runs/occurrence_account.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/cron/zone.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "common/tzdata/tzdata_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/runs/expected_occurrences.h"
#include "services/master/testing/master_world.h"
#include "services/master/testing/schedule_world.h"

namespace escapement::master {
namespace occurrence_account_test {

using kv::ColumnFamily;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kAllSchedules[] = "tenants/default/schedules/-";

v1::ListOccurrencesRequest Range(absl::Time begin, absl::Time end,
                                 const std::string& parent = kName) {
  v1::ListOccurrencesRequest request;
  request.set_parent(parent);
  SetTimestamp(ToMicros(begin), *request.mutable_start_time());
  SetTimestamp(ToMicros(end), *request.mutable_end_time());
  return request;
}

struct Accounted {
  std::vector<v1::Occurrence> occurrences;
  std::map<v1::Occurrence::Result, int64_t> counts;
  int64_t schedules = 0;
  int pages = 0;
};

// All pages.
Accounted AccountOf(MasterWorld& fixture, v1::ListOccurrencesRequest request) {
  Accounted all;
  do {
    const auto page = fixture.Call(&RunApi::ListOccurrences, request);
    EXPECT_TRUE(page.ok()) << page.status();
    if (!page.ok()) break;
    all.occurrences.insert(all.occurrences.end(), page->occurrences().begin(),
                           page->occurrences().end());
    for (const auto& count : page->counts()) all.counts[count.result()] += count.count();
    all.schedules += page->schedule_count();
    ++all.pages;
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty() && all.pages < 1000);
  return all;
}

// A schedule that fires every second, and hands that do what emitter, handler and token manager do.
struct AccountWorld : ScheduleWorld {
  using ScheduleWorld::ScheduleWorld;

  // "3 ON_TIME", "4 SKIPPED paused": seconds after the start.
  Strings Shown(const v1::ListOccurrencesRequest& request) {
    Strings shown;
    for (const v1::Occurrence& occurrence : AccountOf(fixture, request).occurrences) {
      const absl::Time time = FromMicros(*TimestampMicros(occurrence.nominal_time()));
      shown.push_back(absl::StrCat(absl::ToInt64Seconds(time - start), " ",
                                   v1::Occurrence::Result_Name(occurrence.result()),
                                   occurrence.reason().empty() ? "" : " ", occurrence.reason()));
    }
    return shown;
  }
  Strings Shown(int begin, int end) { return Shown(Range(At(begin), At(end))); }

  // The only result in [second, second + 1), or "".
  std::string ShownAt(int second) {
    const Strings shown = Shown(second, second + 1);
    EXPECT_LE(shown.size(), 1u);
    return shown.empty() ? "" : shown[0].substr(shown[0].find(' ') + 1);
  }

  std::pair<EventKey, storage::v1::EventRecord> RowAt(int second) const {
    for (const auto& row : fixture.Events()) {
      if (row.first.due_time == At(second)) return row;
    }
    ADD_FAILURE() << "no row at " << second;
    return {};
  }
  void Remove(const EventKey& key) { fixture.Delete(ColumnFamily::kEvents, EncodeEventKey(key)); }

  // The only event of the row ends; its first attempt began `late` after its launch time.
  void End(int second, storage::v1::OutcomeKind outcome, absl::Duration late = {},
           const std::string& reason = "", uint32_t attempts = 1) {
    const auto [key, row] = RowAt(second);
    storage::v1::DoneRecord done = DoneRecordOf(row);
    done.set_count(1);
    done.set_outcome(outcome);
    done.set_reason(reason);
    done.set_attempts(attempts);
    if (attempts > 0) done.set_dispatch_time_micros(ToMicros(At(second) + late));
    done.set_complete_time_micros(ToMicros(At(second) + late + absl::Milliseconds(1)));
    fixture.Put(ColumnFamily::kDone,
                EncodeDoneKey({.shard = key.shard,
                               .day = DoneDay(key.due_time),
                               .uid = key.uid,
                               .occurrence = key.occurrence,
                               .first = 0}),
                done.SerializeAsString());
    Remove(key);
  }
  void AdvanceTo(double seconds) {
    const absl::Duration by = start + absl::Seconds(seconds) - fixture.Now();
    if (by > absl::ZeroDuration()) fixture.runtime.AdvanceBy(by);
  }
  template <typename Request>
  void Change(void (ScheduleApi::*method)(Request, Done<v1::Schedule>), const Request& request) {
    const auto changed = fixture.Call(method, request);
    ASSERT_TRUE(changed.ok()) << changed.status();
  }
  void Pause() { Change(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()); }
  void Resume() { Change(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()); }
};

TEST(OccurrenceAccount, EveryOccurrenceHasOneResult) {
  AccountWorld world(9, 9);
  world.MakeSchedule("* * * * * *");
  world.End(1, storage::v1::OUTCOME_KIND_SUCCEEDED);
  world.End(2, storage::v1::OUTCOME_KIND_SUCCEEDED, absl::Seconds(61));
  world.End(3, storage::v1::OUTCOME_KIND_FAILED, {}, "HTTP 500");
  world.End(4, storage::v1::OUTCOME_KIND_SKIPPED, {}, "superseded", /*attempts=*/0);
  world.Remove(world.RowAt(6).first);  // lost
  world.AdvanceTo(12);
  EXPECT_THAT(
      world.Shown(0, 14),
      ElementsAre("1 ON_TIME", "2 LATE", "3 FAILED HTTP 500", "4 SKIPPED superseded",
                  "5 PENDING it waits, or is being sent", "6 UNACCOUNTED",
                  "7 PENDING it waits, or is being sent", "8 PENDING it waits, or is being sent",
                  HasSubstr("9 PENDING not emitted yet"), HasSubstr("10 PENDING not emitted yet"),
                  HasSubstr("11 PENDING not emitted yet"), "12 PENDING not due",
                  "13 PENDING not due"));
  Accounted all = AccountOf(world.fixture, Range(world.At(0), world.At(14)));
  EXPECT_EQ(all.counts[v1::Occurrence::PENDING], 8);
  EXPECT_EQ(all.counts[v1::Occurrence::UNACCOUNTED], 1);
  EXPECT_EQ(all.schedules, 1);
  EXPECT_EQ(all.occurrences[1].lateness().seconds(), 61);
  EXPECT_EQ(all.occurrences[4].lateness().seconds(), 7);
}

TEST(OccurrenceAccount, EmitterThatLosesAnOccurrenceIsNoticed) {
  AccountWorld world(3, 3);
  world.MakeSchedule("* * * * * *");
  world.AdvanceTo(6);
  EXPECT_THAT(world.ShownAt(4), HasSubstr("PENDING not emitted yet"));
  world.Plan(6, 6);  // it has passed 3, 4 and 5 without a row
  EXPECT_THAT(world.Shown(2, 6), ElementsAre("2 PENDING it waits, or is being sent",
                                             "3 UNACCOUNTED", "4 UNACCOUNTED", "5 UNACCOUNTED"));
}

// The first attempt counts, not the last one.
TEST(OccurrenceAccount, RetriesMakeNothingLate) {
  AccountWorld world(3, 3);
  world.MakeSchedule("* * * * * *");
  auto [key, row] = world.RowAt(1);
  row.set_attempts(2);
  storage::v1::AttemptRecord* first = row.add_tried();
  first->set_number(1);
  first->set_begin_micros(ToMicros(world.At(1)));
  world.fixture.Put(ColumnFamily::kEvents, EncodeEventKey(key), row.SerializeAsString());
  world.End(1, storage::v1::OUTCOME_KIND_SUCCEEDED, absl::Minutes(30), "", /*attempts=*/2);
  world.AdvanceTo(3600);
  EXPECT_EQ(world.ShownAt(1), "ON_TIME");
}

TEST(OccurrenceAccount, RowsAreFoundWhereverTheyAre) {
  AccountWorld world(7, 7);
  world.MakeSchedule("* * * * * *");
  const auto [claimed, claimed_row] = world.RowAt(1);
  storage::v1::ClaimRecord claim;
  claim.add_entries()->set_event_key(EncodeEventKey(claimed));
  *claim.mutable_entries(0)->mutable_event() = claimed_row;
  world.fixture.Put(ColumnFamily::kInflight,
                    EncodeClaimKey({.shard = claimed.shard, .epoch = 1, .number = 7}),
                    claim.SerializeAsString());
  world.Remove(claimed);
  const auto [retried, retried_row] = world.RowAt(2);
  EventKey retry = retried;
  retry.lane = kLaneRetry;
  retry.due_time = world.At(500);
  world.fixture.Put(ColumnFamily::kEvents, EncodeEventKey(retry), retried_row.SerializeAsString());
  world.Remove(retried);
  const auto [parked, parked_row] = world.RowAt(3);
  world.fixture.Put(ColumnFamily::kParked, ParkedKey(parked.uid, EncodeEventKey(parked)),
                    parked_row.SerializeAsString());
  world.Remove(parked);
  const auto [late, late_row] = world.RowAt(4);
  EventKey catch_up = late;
  catch_up.lane = kLaneCatchUp;
  world.fixture.Put(ColumnFamily::kEvents, EncodeEventKey(catch_up), late_row.SerializeAsString());
  world.Remove(late);
  world.AdvanceTo(6);
  for (int second = 1; second <= 5; ++second)
    EXPECT_EQ(world.ShownAt(second), "PENDING it waits, or is being sent") << second;
}

TEST(OccurrenceAccount, ThrottledEventsAreFoundWhileTheyWaitAndWhileTheyAreOut) {
  AccountWorld world(4, 4);
  world.MakeThrottled("* * * * * *", 1, "p");
  world.AdvanceTo(4);
  EXPECT_THAT(world.Shown(1, 3), ElementsAre("1 PENDING it waits, or is being sent",
                                             "2 PENDING it waits, or is being sent"));
  const auto [key, row] = Waiting(world.fixture)[0];
  world.fixture.Delete(ColumnFamily::kWaiting, EncodeWaitingKey(key));
  EXPECT_EQ(world.ShownAt(1), "UNACCOUNTED");
  storage::v1::GrantRecord grant;
  *grant.mutable_event() = row;
  grant.set_uid(std::string(key.uid.bytes()));
  grant.set_occurrence(key.occurrence);
  grant.add_holders()->set_count(1);
  world.fixture.Put(
      ColumnFamily::kGrants,
      EncodeGrantKey(
          {.policy_shard = key.policy_shard, .policy = key.policy, .epoch = 1, .number = 1}),
      grant.SerializeAsString());
  EXPECT_EQ(world.ShownAt(1), "PENDING it waits, or is being sent");
}

TEST(OccurrenceAccount, LaunchThatWaitsIsPending) {
  AccountWorld world(4, 4);
  world.change = [](v1::Schedule& schedule) {
    schedule.set_overlap_policy(v1::Schedule::BUFFER_ONE);
  };
  world.MakeSchedule("* * * * * *");
  world.AdvanceTo(10);
  EXPECT_EQ(world.ShownAt(2), "PENDING it waits, or is being sent");
}

TEST(OccurrenceAccount, OccurrencesOfAPauseWaitForTheResume) {
  AccountWorld world(4, 4);
  world.change = [](v1::Schedule& s) { SetMisfire(v1::MisfirePolicy::SKIP, 2, 3, s); };
  world.MakeSchedule("* * * * * *");
  world.AdvanceTo(1.5);
  world.End(1, storage::v1::OUTCOME_KIND_SUCCEEDED);
  world.Pause();
  Park(world.fixture, world.At(2));
  world.AdvanceTo(10.5);
  world.Plan(10, 10);
  EXPECT_THAT(world.Shown(1, 6),
              ElementsAre("1 ON_TIME", "2 PENDING the schedule is paused",
                          "3 PENDING the schedule is paused", "4 PENDING the schedule is paused",
                          "5 PENDING the schedule is paused"));
  world.Resume();
  world.AdvanceTo(10.9);
  EXPECT_THAT(
      world.Shown(1, 12),
      ElementsAre("1 ON_TIME", "2 SKIPPED paused", "3 SKIPPED paused", "4 SKIPPED paused",
                  "5 SKIPPED paused", "6 SKIPPED paused", "7 SKIPPED paused", "8 SKIPPED paused",
                  "9 SKIPPED paused", "10 SKIPPED paused", "11 PENDING not due"));
  // A range in the middle of the summary.
  EXPECT_EQ(world.ShownAt(6), "SKIPPED paused");
}

TEST(OccurrenceAccount, SummaryIsFoundManyDaysAfterItsBegin) {
  AccountWorld world(5, 5);
  world.change = [](v1::Schedule& s) {
    SetMisfire(v1::MisfirePolicy::SKIP, 2, 1, s);
    s.set_time_zone("Asia/Kolkata");
  };
  world.MakeSchedule("0 0 * * * *");
  world.Pause();
  constexpr int kDays = 20;
  world.AdvanceTo(kDays * 86'400);
  world.Plan(kDays * 86'400, kDays * 86'400 + 5);
  world.Resume();
  Accounted all = AccountOf(
      world.fixture, Range(world.At(kDays * 86'400 - 36'000), world.At(kDays * 86'400 - 18'000)));
  EXPECT_EQ(all.counts[v1::Occurrence::SKIPPED], 5);
  EXPECT_EQ(all.counts.size(), 1u);
}

TEST(OccurrenceAccount, EachVersionHasTheOccurrencesOfItsTimeInForce) {
  AccountWorld world(20, 20);
  world.MakeSchedule("* * * * * *");
  world.AdvanceTo(5.5);
  world.Change(&ScheduleApi::UpdateSchedule, CronUpdate("*/5 * * * * *"));
  world.AdvanceTo(12.5);
  world.Change(&ScheduleApi::UpdateSchedule, CronUpdate("7,8,13,14,16 * * * * *"));
  world.AdvanceTo(15.5);
  Strings seconds;
  const int64_t minute = absl::ToUnixSeconds(world.start) % 60;
  for (const std::string& shown : world.Shown(0, 20)) {
    EXPECT_THAT(shown, HasSubstr("PENDING"));
    seconds.push_back(shown.substr(0, shown.find(' ')));
  }
  Strings expected = {"1", "2", "3", "4", "5"};
  for (int second = 6; second < 20; ++second) {
    const int64_t of_minute = (minute + second) % 60;
    const bool listed = second < 13 ? of_minute % 5 == 0
                                    : of_minute == 7 || of_minute == 8 || of_minute == 13 ||
                                          of_minute == 14 || of_minute == 16;
    if (listed) expected.push_back(absl::StrCat(second));
  }
  EXPECT_EQ(seconds, expected);
}

TEST(OccurrenceAccount, NothingIsExpectedBeyondMaxRuns) {
  AccountWorld world(3, 3);
  world.change = [](v1::Schedule& s) { s.set_max_runs(2); };
  world.MakeSchedule("* * * * * *");
  world.AdvanceTo(9);
  world.Plan(9, 9);
  EXPECT_THAT(world.Shown(0, 20), ElementsAre("1 PENDING it waits, or is being sent",
                                              "2 PENDING it waits, or is being sent"));
  // It was replaced while it was enabled, so its end is known.
  world.Change(&ScheduleApi::UpdateSchedule, CronUpdate("0 0 1 1 *"));
  EXPECT_EQ(world.Shown(0, 20).size(), 2u);
}

TEST(OccurrenceAccount, FormerVersionThatMayBeBeyondMaxRunsIsAccountedByItsTraces) {
  AccountWorld world(3, 3);
  world.change = [](v1::Schedule& s) { s.set_max_runs(4); };
  world.MakeSchedule("* * * * * *");
  world.AdvanceTo(1.5);
  world.Pause();
  world.AdvanceTo(3.5);
  v1::UpdateScheduleRequest update = CronUpdate("0 0 0 1 1 *");
  world.Change(&ScheduleApi::UpdateSchedule, update);
  world.AdvanceTo(9.5);
  const Strings before = world.Shown(0, 9);
  ASSERT_FALSE(before.empty());
  for (const std::string& shown : before) EXPECT_THAT(shown, testing::Not(HasSubstr("UNACC")));
  world.Remove(world.RowAt(2).first);
  EXPECT_EQ(world.ShownAt(2), "");
}

struct RunOfMany : AccountWorld {
  RunOfMany() : AccountWorld(2, 2) {
    MakeSchedule("* * * * * *", /*n=*/8);
    row = RowAt(1);
  }
  void Close(const std::function<void(storage::v1::RunPartRecord&)>& count, int second) {
    storage::v1::RunPartRecord part;
    count(part);
    fixture.Put(ColumnFamily::kRunParts, RunPartKey({row.first.uid, row.first.occurrence}, 0),
                part.SerializeAsString());
    const std::string key = EncodeRunKey({row.first.uid, row.first.occurrence});
    storage::v1::RunRecord run;
    ASSERT_TRUE(run.ParseFromString(*fixture.Get(ColumnFamily::kRuns, key)));
    run.set_complete_time_micros(ToMicros(At(second)));
    fixture.Put(ColumnFamily::kRuns, key, run.SerializeAsString());
  }
  void RemoveRows() {
    for (const auto& [key, record] : fixture.Events()) Remove(key);
  }
  std::pair<EventKey, storage::v1::EventRecord> row;
};

TEST(OccurrenceAccount, RunOfManyEventsEndsByItsCounts) {
  RunOfMany world;
  world.RemoveRows();
  world.AdvanceTo(300);
  world.Close([](auto& part) { part.set_succeeded(8); }, 30);
  EXPECT_EQ(world.ShownAt(1), "ON_TIME");
  world.Close([](auto& part) { part.set_succeeded(6), part.set_failed(2); }, 30);
  EXPECT_EQ(world.ShownAt(1), "FAILED 2 failed, 0 expired, 0 cancelled of 8 events");
  world.Close([](auto& part) { part.set_skipped(8), part.set_skip_reason("overlap"); }, 30);
  EXPECT_EQ(world.ShownAt(1), "SKIPPED overlap");
}

TEST(OccurrenceAccount, RunThatEndsLateIsLateIfAnEventWasSentLate) {
  for (const int sent : {20, 100}) {
    RunOfMany world;
    world.RemoveRows();
    storage::v1::DoneRecord done = DoneRecordOf(world.row.second);
    done.set_count(2);
    done.set_outcome(storage::v1::OUTCOME_KIND_SUCCEEDED);
    done.set_attempts(1);
    done.set_dispatch_time_micros(ToMicros(world.At(1)));
    done.add_begin_offset_micros(0);
    done.add_begin_offset_micros(absl::ToInt64Microseconds(absl::Seconds(sent)));
    world.fixture.Put(ColumnFamily::kDone,
                      EncodeDoneKey({.shard = 1,
                                     .day = DoneDay(world.At(1)),
                                     .uid = world.row.first.uid,
                                     .occurrence = world.row.first.occurrence,
                                     .first = 2}),
                      done.SerializeAsString());
    world.AdvanceTo(300);
    world.Close([](auto& part) { part.set_succeeded(8); }, 200);
    EXPECT_EQ(world.ShownAt(1), sent < 60 ? "ON_TIME" : "LATE");
  }
}

TEST(OccurrenceAccount, RunWhoseRowsAreGoneIsUnaccounted) {
  RunOfMany world;
  world.AdvanceTo(100);
  EXPECT_EQ(world.ShownAt(1), "PENDING it waits, or is being sent");
  const auto rows = world.fixture.Events();
  for (size_t i = 1; i < rows.size(); ++i) world.Remove(rows[i].first);
  EXPECT_EQ(world.ShownAt(1), "PENDING it waits, or is being sent");
  world.Remove(rows[0].first);
  EXPECT_EQ(world.ShownAt(1), "UNACCOUNTED 0 of 8 events have ended, the others are not found");
}

TEST(OccurrenceAccount, PagesOfAllSchedulesAddUpToTheWholeAccount) {
  AccountWorld world(20, 20);
  for (const std::string id : {"a", "b", "c", "d"}) {
    v1::CreateScheduleRequest request =
        ValidSchedule(id, id == "c" ? "0 0 0 1 1 *" : "* * * * * *");
    ASSERT_TRUE(world.fixture.Call(&ScheduleApi::CreateSchedule, request).ok());
  }
  v1::DeleteScheduleRequest remove;
  remove.set_name("tenants/default/schedules/d");
  ASSERT_TRUE(world.fixture.Call(&ScheduleApi::DeleteSchedule, remove).ok());
  world.AdvanceTo(8);
  v1::ListOccurrencesRequest request = Range(world.At(0), world.At(6), kAllSchedules);
  Strings names;
  for (const int size : {1, 2, 3, 7, 100}) {
    request.set_page_size(size);
    Accounted all = AccountOf(world.fixture, request);
    EXPECT_EQ(all.schedules, 3) << size;
    EXPECT_EQ(all.counts[v1::Occurrence::PENDING], 10) << size;
    Strings listed;
    for (const v1::Occurrence& occurrence : all.occurrences) listed.push_back(occurrence.run());
    EXPECT_TRUE(std::is_sorted(listed.begin(), listed.end()));
    if (names.empty()) names = listed;
    EXPECT_EQ(listed, names) << size;
  }
  EXPECT_EQ(names.size(), 10u);
}

TEST(OccurrenceAccount, FilterShowsSomeAndCountsAll) {
  AccountWorld world(9, 9);
  world.MakeSchedule("* * * * * *");
  world.Remove(world.RowAt(3).first);
  world.Remove(world.RowAt(5).first);
  world.AdvanceTo(8);
  v1::ListOccurrencesRequest request = Range(world.At(0), world.At(8));
  request.set_filter("result = UNACCOUNTED OR result = LATE");
  for (const int size : {1, 100}) {
    request.set_page_size(size);
    EXPECT_THAT(world.Shown(request), ElementsAre("3 UNACCOUNTED", "5 UNACCOUNTED"));
    Accounted all = AccountOf(world.fixture, request);
    EXPECT_EQ(all.counts[v1::Occurrence::PENDING], 5);
    EXPECT_EQ(all.counts[v1::Occurrence::UNACCOUNTED], 2);
  }
}

// Retention drops the outcomes of a day together.
TEST(OccurrenceAccount, OccurrenceWhoseOutcomeHasBeenDroppedIsLeftOut) {
  AccountWorld world(5, 5);
  world.MakeSchedule("* * * * * *");
  const EventKey lost = world.RowAt(2).first;
  world.Remove(lost);
  world.AdvanceTo(10 * 86'400);
  EXPECT_EQ(world.ShownAt(2), "");
  storage::v1::DoneRecord other;
  other.set_tenant("default");
  world.fixture.Put(ColumnFamily::kDone,
                    EncodeDoneKey({.shard = lost.shard,
                                   .day = DoneDay(lost.due_time),
                                   .uid = Uid::FromHalves(1, 2),
                                   .occurrence = "o",
                                   .first = 0}),
                    other.SerializeAsString());
  EXPECT_EQ(world.ShownAt(2), "UNACCOUNTED");
}

// By the former rules the occurrence may have been at another time, or not at all.
TEST(OccurrenceAccount, OccurrenceFromBeforeAChangeOfRulesIsLeftOut) {
  AccountWorld world(5, 5);
  world.change = [](v1::Schedule& schedule) { schedule.set_time_zone("Asia/Kolkata"); };
  world.MakeSchedule("* * * * * *");
  world.Remove(world.RowAt(2).first);
  world.AdvanceTo(6);
  EXPECT_EQ(world.ShownAt(2), "UNACCOUNTED");
  for (const char* zone : {"Europe/Berlin", "Asia/Kolkata"}) {
    tzdata::Switch change;
    const cron::Zone former = *cron::Zone::Load(zone);
    change.before[zone] =
        tzdata::RulesOf(former, world.start - absl::Hours(24), world.start + absl::Hours(24));
    const std::string bytes = tzdata::EncodeSwitch(change);
    const std::string time =
        KeyWriter().U64(static_cast<uint64_t>(absl::ToUnixMicros(world.At(4)))).Take();
    world.fixture.Put(ColumnFamily::kMeta, std::string(tzdata::kSwitchKey),
                      time + bytes.substr(time.size()));
    EXPECT_EQ(world.ShownAt(2), zone == std::string("Asia/Kolkata") ? "" : "UNACCOUNTED");
  }
}

TEST(OccurrenceAccount, RefusesWhatItCannotAnswer) {
  AccountWorld world(5, 5);
  world.MakeSchedule("* * * * * *");
  const auto code = [&](const v1::ListOccurrencesRequest& request) {
    return world.fixture.Call(&RunApi::ListOccurrences, request).status().code();
  };
  const absl::Time now = world.fixture.Now();
  EXPECT_EQ(code(Range(now, now)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Range(now - absl::Hours(24 * 32), now)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Range(now - absl::Hours(24 * 63), now - absl::Hours(24 * 40))),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Range(now - absl::Hours(1), now, "tenants/default/schedules/none")),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(code(Range(now - absl::Hours(1), now, "tenants/default")),
            absl::StatusCode::kInvalidArgument);
  v1::ListOccurrencesRequest filtered = Range(now - absl::Hours(1), now);
  filtered.set_filter("reason = x");
  EXPECT_EQ(code(filtered), absl::StatusCode::kInvalidArgument);
  v1::ListOccurrencesRequest forged = Range(now - absl::Hours(1), now);
  forged.set_page_token("forged");
  EXPECT_EQ(code(forged), absl::StatusCode::kInvalidArgument);
}

TEST(OccurrenceAccount, DefaultRangeIsTheLastDay) {
  AccountWorld world(5, 5);
  world.MakeSchedule("0 0 * * * *");
  world.AdvanceTo(30 * 3600);
  world.Plan(30 * 3600, 30 * 3600);
  v1::ListOccurrencesRequest request;
  request.set_parent(kName);
  EXPECT_EQ(AccountOf(world.fixture, request).counts[v1::Occurrence::UNACCOUNTED], 24);
}

}  // namespace occurrence_account_test
}  // namespace escapement::master
