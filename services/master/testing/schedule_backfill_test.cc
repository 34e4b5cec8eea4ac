// BackfillSchedule: what has not fired fires, once.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/event_table.h"
#include "common/storage/occurrence_rows.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"
#include "services/master/testing/master_world.h"
#include "services/master/testing/schedule_world.h"

namespace escapement::master {
namespace schedule_backfill_test {

using kv::ColumnFamily;

// Each second; made at `start`.
struct BackfillWorld : ScheduleWorld {
  BackfillWorld() : ScheduleWorld(1, 1) {}

  v1::BackfillScheduleRequest Request(int begin, int end) const {
    auto request = Named<v1::BackfillScheduleRequest>();
    SetTimestamp(ToMicros(At(begin)), *request.mutable_start_time());
    SetTimestamp(ToMicros(At(end)), *request.mutable_end_time());
    return request;
  }
  // "fired/present" and, where there is more, "→" the second to go on at.
  std::string Fill(const v1::BackfillScheduleRequest& request) {
    const auto answer = fixture.Call(&ScheduleApi::BackfillSchedule, request);
    if (!answer.ok()) return answer.status().ToString();
    std::string text = absl::StrCat(answer->fired_count(), "/", answer->present_count());
    if (answer->has_next_start_time()) {
      const int64_t next = *TimestampMicros(answer->next_start_time());
      absl::StrAppend(&text, "→", (next - ToMicros(start)) / 1'000'000);
    }
    return text;
  }
  std::string Fill(int begin, int end) { return Fill(Request(begin, end)); }

  storage::v1::DefinitionRecord OnlyDefinition() {
    storage::v1::DefinitionRecord definition;
    EXPECT_TRUE(
        definition.ParseFromString(fixture.Rows(ColumnFamily::kDefinitions).begin()->second));
    return definition;
  }
  // The first versions become others; the last one is as it was.
  void Precede(storage::v1::DefinitionRecord present,
               const std::vector<storage::v1::DefinitionRecord>& formers) {
    const Uid uid = Uid::FromBytes(present.uid());
    for (size_t i = 0; i < formers.size(); ++i)
      fixture.Put(ColumnFamily::kDefinitions, DefinitionKey(uid, i + 1),
                  formers[i].SerializeAsString());
    const uint64_t version = formers.size() + 1;
    present.set_version(version);
    fixture.Put(ColumnFamily::kDefinitions, DefinitionKey(uid, version),
                present.SerializeAsString());
    storage::v1::StateRecord state;
    const auto [key, value] = *fixture.Rows(ColumnFamily::kStates).begin();
    EXPECT_TRUE(state.ParseFromString(value));
    state.set_version(version);
    fixture.Put(ColumnFamily::kStates, key, state.SerializeAsString());
  }

  Strings Runs() {
    v1::ListRunsRequest request;
    request.set_parent(kName);
    Strings runs;
    do {
      const auto page = fixture.Call(&RunApi::ListRuns, request);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) break;
      for (const v1::Run& run : page->runs()) {
        runs.push_back(
            absl::StrCat((*TimestampMicros(run.nominal_time()) - ToMicros(start)) / 1'000'000));
      }
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    return runs;
  }
};

TEST(ScheduleBackfill, OccurrencesBeforeTheScheduleWasMadeFireOnceAndAreListed) {
  BackfillWorld bench;
  bench.change = [](v1::Schedule& s) { s.set_max_runs(1); };
  bench.MakeSchedule("* * * * * *");
  const int day = 86400;
  EXPECT_EQ(bench.Fill(-2 * day, -2 * day + 3), "3/0");
  const auto events = bench.fixture.Events();
  ASSERT_EQ(events.size(), 3u);
  for (const auto& [key, record] : events) {
    EXPECT_TRUE(record.triggered());
    EXPECT_TRUE(record.run_kept());
    EXPECT_EQ(key.lane, kLaneCatchUp);
  }
  EXPECT_EQ(bench.fixture.Rows(ColumnFamily::kRuns).size(), 3u);
  EXPECT_EQ(bench.Runs(), (Strings{"-172800", "-172799", "-172798"}));
  const std::string before = bench.fixture.Dump();
  EXPECT_EQ(bench.Fill(-2 * day, -2 * day + 3), "0/3");
  EXPECT_EQ(bench.fixture.Dump(), before);
}

TEST(ScheduleBackfill, ARangeIsTakenInParts) {
  BackfillWorld bench;
  bench.MakeSchedule("* * * * * *");
  auto request = bench.Request(-60, -53);
  request.set_max_occurrences(3);
  EXPECT_EQ(bench.Fill(request), "3/0→-57");
  *request.mutable_start_time() = bench.Request(-57, 0).start_time();
  EXPECT_EQ(bench.Fill(request), "3/0→-54");
  *request.mutable_start_time() = bench.Request(-54, 0).start_time();
  EXPECT_EQ(bench.Fill(request), "1/0");
  EXPECT_EQ(bench.fixture.Events().size(), 7u);
  EXPECT_EQ(bench.Fill(-300, -60), "100/0→-200");
}

TEST(ScheduleBackfill, ARequestIdIsAnsweredOnce) {
  BackfillWorld bench;
  bench.MakeSchedule("* * * * * *");
  auto request = bench.Request(-60, -55);
  request.set_request_id("b");
  EXPECT_EQ(bench.Fill(request), "5/0");
  EXPECT_EQ(bench.Fill(request), "5/0");
  EXPECT_EQ(bench.fixture.Events().size(), 5u);
  request.set_max_occurrences(1);
  EXPECT_EQ(ErrorReason(bench.fixture.Call(&ScheduleApi::BackfillSchedule, request).status()),
            "REQUEST_ID_REUSED");
}

TEST(ScheduleBackfill, FiredOrEmittedOccurrenceStays) {
  // The possible states of one occurrence's event.
  const std::vector<std::function<void(MasterWorld*, EventKey, storage::v1::EventRecord)>> ways = {
      [](MasterWorld* fixture, EventKey key, const auto& row) {  // still queued
        fixture->Put(ColumnFamily::kEvents, EncodeEventKey(key), row.SerializeAsString());
      },
      [](MasterWorld* fixture, EventKey key, const auto& row) {  // parked
        fixture->Put(ColumnFamily::kParked, ParkedKey(key.uid, EncodeEventKey(key)),
                     row.SerializeAsString());
      },
      [](MasterWorld* fixture, EventKey key, const auto& row) {  // claimed
        storage::v1::ClaimRecord claim;
        claim.add_entries()->set_event_key(EncodeEventKey(key));
        fixture->Put(ColumnFamily::kInflight, EncodeClaimKey({key.shard, 1, 1}),
                     claim.SerializeAsString());
      },
      [](MasterWorld* fixture, EventKey key, const auto& row) {  // to be tried again
        key.lane = kLaneRetry;
        key.due_time += absl::Hours(1);
        fixture->Put(ColumnFamily::kEvents, EncodeEventKey(key), row.SerializeAsString());
      },
      [](MasterWorld* fixture, const EventKey& key, const auto& row) {  // ended
        storage::v1::DoneRecord done;
        done.set_outcome(storage::v1::OUTCOME_KIND_SUCCEEDED);
        done.set_attempts(1);
        fixture->Put(ColumnFamily::kDone,
                     EncodeDoneKey({.shard = key.shard,
                                    .day = DoneDay(key.due_time),
                                    .uid = key.uid,
                                    .occurrence = key.occurrence,
                                    .first = 0}),
                     done.SerializeAsString());
      },
      [](MasterWorld* fixture, const EventKey& key, const auto& row) {  // it has a run
        fixture->Put(ColumnFamily::kRuns, EncodeRunKey({key.uid, key.occurrence}),
                     storage::v1::RunRecord().SerializeAsString());
      }};
  for (size_t i = 0; i < ways.size(); ++i) {
    BackfillWorld bench;
    bench.MakeSchedule("* * * * * *");
    bench.Plan(4, 4);
    bench.fixture.runtime.AdvanceBy(absl::Seconds(5));
    const storage::v1::DefinitionRecord definition = bench.OnlyDefinition();
    // The emitter's rows for the occurrence at 2.
    kv::Group group;
    EmittedOccurrence occurrence;
    occurrence.nominal_time = occurrence.launch_time = bench.At(2);
    occurrence.id = absl::FormatTime("%Y%m%dT%H%M%S-0-UTC", bench.At(2), absl::UTCTimeZone());
    AddOccurrenceRows(SourceOf(definition), occurrence, bench.fixture.layout, bench.At(2),
                      group.mutations);
    ASSERT_EQ(group.mutations.size(), 1u);
    storage::v1::EventRecord row;
    ASSERT_TRUE(row.ParseFromString(group.mutations[0].value));
    ways[i](&bench.fixture, *DecodeEventKey(group.mutations[0].key), row);
    EXPECT_EQ(bench.Fill(1, 4), "2/1") << i;
  }
}

TEST(ScheduleBackfill, OccurrenceWaitingWhereAFormerVersionPutItStays) {
  const std::vector<std::function<void(storage::v1::DefinitionRecord&)>> formers = {
      [](auto& former) { former.mutable_timing()->set_jitter_micros(700'000); },
      [](auto& former) { former.set_priority(2); },
      [](auto& former) { former.mutable_throttle()->set_policy_id("former"); }};
  for (size_t i = 0; i < formers.size(); ++i) {
    SCOPED_TRACE(i);
    BackfillWorld bench;
    bench.MakeSchedule("* * * * * *");
    bench.Plan(4, 4);
    bench.fixture.runtime.AdvanceBy(absl::Seconds(5));
    const storage::v1::DefinitionRecord definition = bench.OnlyDefinition();
    // Version 1 has made the occurrence at 2.
    storage::v1::DefinitionRecord former = definition;
    formers[i](former);
    EmittedOccurrence occurrence;
    occurrence.id = absl::FormatTime("%Y%m%dT%H%M%S-0-UTC", bench.At(2), absl::UTCTimeZone());
    occurrence.nominal_time = bench.At(2);
    occurrence.launch_time = LaunchTimeOf(SourceOf(former), occurrence.id, bench.At(2));
    kv::Group group;
    AddOccurrenceRows(SourceOf(former), occurrence, bench.fixture.layout, bench.At(2),
                      group.mutations);
    ASSERT_EQ(group.mutations.size(), 1u);
    bench.fixture.Put(group.mutations[0].cf, group.mutations[0].key, group.mutations[0].value);
    bench.Precede(definition, {former});
    EXPECT_EQ(bench.Fill(1, 4), "2/1");
  }
}

// Version 1 was throttled and had jitter, version 2 is neither: what had fallen due then was moved
// to the queue of the second as it was due by the first.
TEST(ScheduleBackfill, OccurrenceMovedBetweenTheirPlacesStays) {
  BackfillWorld bench;
  bench.MakeSchedule("* * * * * *");
  bench.Plan(4, 4);
  bench.fixture.runtime.AdvanceBy(absl::Seconds(5));
  const storage::v1::DefinitionRecord present = bench.OnlyDefinition();
  storage::v1::DefinitionRecord former = present;
  former.mutable_timing()->set_jitter_micros(700'000);
  former.mutable_throttle()->set_policy_id("former");
  former.set_priority(2);
  const std::string id = absl::FormatTime("%Y%m%dT%H%M%S-0-UTC", bench.At(2), absl::UTCTimeZone());
  const absl::Time due = LaunchTimeOf(SourceOf(former), id, bench.At(2));
  ASSERT_NE(due, bench.At(2));
  storage::v1::EventRecord row;
  row.set_tenant(present.tenant());
  row.set_count(1);
  row.set_run_count(1);
  std::vector<kv::Mutation> moved;
  AddMovedRow(SourceOf(present), row, id, /*first=*/0, due, bench.fixture.layout, due, moved);
  ASSERT_EQ(moved.size(), 1u);
  bench.fixture.Put(moved[0].cf, moved[0].key, moved[0].value);
  bench.Precede(present, {former});
  EXPECT_EQ(bench.Fill(1, 4), "2/1");
}

// There are too many places for one read of the store.
TEST(ScheduleBackfill, AsManyOccurrencesAsAllowedWhateverTheFormerVersionsWere) {
  BackfillWorld bench;
  bench.MakeSchedule("* * * * * *");
  const storage::v1::DefinitionRecord present = bench.OnlyDefinition();
  std::vector<storage::v1::DefinitionRecord> formers;
  for (int i = 0; i < 4; ++i) {
    storage::v1::DefinitionRecord& former = formers.emplace_back(present);
    former.mutable_throttle()->set_policy_id("former");
    former.mutable_timing()->set_jitter_micros(700'000 + i);
  }
  bench.Precede(present, formers);
  auto request = bench.Request(-1000, 0);
  request.set_max_occurrences(1000);
  EXPECT_EQ(bench.Fill(request), "1000/0");
}

TEST(ScheduleBackfill, OccurrenceTheEmitterStillOwesIsLeftToIt) {
  BackfillWorld bench;
  bench.MakeSchedule("* * * * * *");
  bench.fixture.runtime.AdvanceBy(absl::Seconds(10));  // the emitter is at 1
  EXPECT_EQ(bench.Fill(-3, 9), "4/0");                 // -3 to 0
}

TEST(ScheduleBackfill, ASkippedOccurrenceGivesWayAndWhatIsLeftOfASummaryMovesOn) {
  BackfillWorld bench;
  bench.change = [](v1::Schedule& s) { SetMisfire(v1::MisfirePolicy::SKIP, 2, 2, s); };
  bench.MakeSchedule("* * * * * *");
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  bench.Plan(8, 8);
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(8'500));
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()).ok());
  const auto skipped = [&] { return SkippedSince(bench.fixture, bench.start); };
  ASSERT_EQ(skipped(), (Strings{"1*6 paused", "7 paused", "8 paused"}));
  bench.fixture.runtime.AdvanceBy(absl::Seconds(2));
  bench.Plan(11, 11);
  auto request = bench.Request(1, 9);
  request.set_max_occurrences(2);
  EXPECT_EQ(bench.Fill(request), "2/0→3");
  EXPECT_EQ(skipped(), (Strings{"3*4 paused", "7 paused", "8 paused"}));
  // One in the middle has a run already: the record is not put where its own end would be.
  EXPECT_EQ(bench.Fill(4, 5), "1/0");
  EXPECT_EQ(bench.Fill(3, 4), "1/0");
  EXPECT_EQ(skipped(), (Strings{"5*2 paused", "7 paused", "8 paused"}));
  EXPECT_EQ(bench.Fill(1, 9), "4/4");
  EXPECT_EQ(skipped(), Strings{});
}

// The others that the record counts are not occurrences of the present version.
TEST(ScheduleBackfill, RestOfAFormerVersionsSummaryMovesToItsOwnOccurrences) {
  BackfillWorld bench;
  bench.change = [](v1::Schedule& s) { SetMisfire(v1::MisfirePolicy::SKIP, 2, 2, s); };
  bench.MakeSchedule("* * * * * *");
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  bench.Plan(10, 10);
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(10'500));
  // The first and the sixth.
  const int64_t second = absl::ToUnixSeconds(bench.start) % 60;
  const std::string cron = absl::StrCat((second + 1) % 60, ",", (second + 6) % 60, " * * * * *");
  ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::UpdateSchedule, CronUpdate(cron)).ok());
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()).ok());
  const auto skipped = [&] { return SkippedSince(bench.fixture, bench.start); };
  ASSERT_EQ(skipped(), (Strings{"1*8 paused", "9 paused", "10 paused"}));
  bench.Plan(11, 11);
  // One in the middle goes first, then the first: the others are counted on from the second, and
  // the sixth with them until what counts on passes it.
  EXPECT_EQ(bench.Fill(6, 7), "1/0");
  EXPECT_EQ(skipped(), (Strings{"1*8 paused", "9 paused", "10 paused"}));
  EXPECT_EQ(bench.Fill(1, 10), "1/1");
  EXPECT_EQ(skipped(), (Strings{"2*7 paused", "9 paused", "10 paused"}));
  const std::string all = absl::StrCat((second + 2) % 60, "-", (second + 8) % 60, " * * * * *");
  ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::UpdateSchedule, CronUpdate(all)).ok());
  EXPECT_EQ(bench.Fill(2, 6), "4/0");
  EXPECT_EQ(skipped(), (Strings{"7*2 paused", "9 paused", "10 paused"}));
}

TEST(ScheduleBackfill, RunsOfAThrottledScheduleWaitAndTheirWindowBeginsNow) {
  BackfillWorld bench;
  bench.change = [](v1::Schedule& s) { s.mutable_window()->mutable_duration()->set_seconds(60); };
  bench.MakeThrottled("* * * * * *", /*n=*/1000, "p");
  EXPECT_EQ(bench.Fill(-3600, -3598), "2/0");
  const auto waiting = Waiting(bench.fixture);
  ASSERT_EQ(waiting.size(), 2u);
  EXPECT_EQ(waiting[0].second.count(), 1000u);
  EXPECT_TRUE(waiting[0].second.triggered());
  EXPECT_EQ(waiting[0].first.due_time, bench.At(-3600));
  EXPECT_GE(waiting[0].second.throttle().window_begin_micros(), ToMicros(bench.start));
  EXPECT_EQ(bench.Fill(-3600, -3598), "0/2");
}

TEST(ScheduleBackfill, TwoAtOnceFireEachOccurrenceOnce) {
  int shared = 0;
  for (int steps = 1; steps < 40; ++steps) {
    BackfillWorld bench;
    bench.MakeSchedule("* * * * * *");
    std::vector<int64_t> fired, present;
    const auto answer = [&](absl::StatusOr<v1::BackfillScheduleResponse> response) {
      ASSERT_TRUE(response.ok()) << response.status();
      fired.push_back(response->fired_count());
      present.push_back(response->present_count());
    };
    bench.fixture.master->schedules().BackfillSchedule(bench.Request(-60, -55), answer);
    for (int i = 0; i < steps && bench.fixture.runtime.world().Step(); ++i) {
    }
    bench.fixture.master->schedules().BackfillSchedule(bench.Request(-58, -50), answer);
    ASSERT_TRUE(
        bench.fixture.runtime.RunUntil([&] { return fired.size() == 2; }, absl::Minutes(1)));
    EXPECT_EQ(fired[0] + fired[1], 10);
    EXPECT_EQ(present[0] + present[1], 3);
    EXPECT_EQ(bench.fixture.Events().size(), 10u);
    shared += present[0] > 0;
  }
  EXPECT_LT(shared, 39);
}

TEST(ScheduleBackfill, BadRequestsAreRefused) {
  BackfillWorld bench;
  bench.MakeSchedule("* * * * * *");
  const auto field = [&](const v1::BackfillScheduleRequest& request) {
    const auto violations =
        FieldViolationsOf(bench.fixture.Call(&ScheduleApi::BackfillSchedule, request).status());
    return violations.empty() ? std::string() : violations[0].first;
  };
  EXPECT_EQ(field(Named<v1::BackfillScheduleRequest>()), "start_time");
  EXPECT_EQ(field(bench.Request(-5, 60)), "end_time");
  EXPECT_EQ(field(bench.Request(-5, -5)), "end_time");
  auto many = bench.Request(-5, -4);
  many.set_max_occurrences(1001);
  EXPECT_EQ(field(many), "max_occurrences");
  auto other = bench.Request(-5, -4);
  other.set_name("tenants/default/schedules/none");
  EXPECT_TRUE(absl::IsNotFound(bench.fixture.Call(&ScheduleApi::BackfillSchedule, other).status()));
}

TEST(ScheduleBackfill, PausedScheduleFiresWhatIsBeforeThePauseAndStaysPaused) {
  BackfillWorld bench;
  bench.MakeSchedule("* * * * * *");
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(500));
  EXPECT_EQ(bench.Fill(-3, 0), "3/0");
  EXPECT_EQ(StateOf(bench.fixture).kind(), storage::v1::SCHEDULE_STATE_KIND_PAUSED);
  for (const auto& [key, row] : bench.fixture.Events())
    EXPECT_GT(row.trigger_time_micros(), StateOf(bench.fixture).pause_time_micros());
}

// A retry has left the place where its schedule had put it, and is parked from there.
TEST(ScheduleBackfill, RetryThatIsParkedIsNotFiredAgain) {
  BackfillWorld bench;
  bench.MakeSchedule("* * * * * *");
  bench.Plan(1, 1);
  EXPECT_EQ(bench.Fill(-1, 0), "1/0");
  auto [key, row] = bench.fixture.Events()[0];
  kv::Group group;
  group.mutations.push_back({.cf = ColumnFamily::kEvents,
                             .kind = kv::Mutation::Kind::kDelete,
                             .key = EncodeEventKey(key)});
  group.mutations.push_back({.cf = ColumnFamily::kRuns,
                             .kind = kv::Mutation::Kind::kDelete,
                             .key = EncodeRunKey({key.uid, key.occurrence})});
  key.lane = kLaneRetry;
  key.due_time += absl::Seconds(17);
  row.set_attempts(1);
  group.mutations.push_back({.cf = ColumnFamily::kParked,
                             .key = ParkedKey(key.uid, EncodeEventKey(key)),
                             .value = row.SerializeAsString()});
  bench.fixture.Commit({group});
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  EXPECT_EQ(bench.Fill(-1, 0), "0/1");
}

}  // namespace schedule_backfill_test
}  // namespace escapement::master
