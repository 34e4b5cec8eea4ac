// Runs and their events, from rows as the emitter and the handler leave them.

#include "services/master/run_service.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/micros.h"
#include "common/status/errors.h"
#include "common/storage/done_table.h"
#include "common/storage/event_id.h"
#include "common/storage/grant_table.h"
#include "common/storage/inflight_table.h"
#include "common/storage/occurrence_rows.h"
#include "common/storage/policy_table.h"
#include "common/storage/run_table.h"
#include "common/storage/waiting_table.h"
#include "gtest/gtest.h"
#include "services/master/master_fixture.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;
using Strings = std::vector<std::string>;

constexpr char kParent[] = "tenants/default/schedules/s";

struct Bench {
  MasterFixture fixture;
  Uid uid;
  absl::Time start;

  explicit Bench(int n, const std::function<void(v1::Schedule*)>& change = nullptr) {
    storage::v1::PolicyRecord policy;
    policy.set_max_concurrent(1);
    fixture.Put(ColumnFamily::kPolicies, PolicyKey("default", "p"), policy.SerializeAsString());
    v1::CreateScheduleRequest request = ValidSchedule("s", "0 0 1 1 *");
    request.mutable_schedule()->set_event_count(n);
    if (change) change(request.mutable_schedule());
    const auto made = fixture.Call(&ScheduleApi::CreateSchedule, request);
    EXPECT_TRUE(made.ok()) << made.status();
    uid = Uid::FromHex(made->uid());
    start = fixture.Now();
  }

  // Emits an occurrence of n events at `time`, as the emitter would; its id.
  std::string Emit(absl::Time time, uint64_t n) {
    EmittedOccurrence occurrence;
    occurrence.id = Id(time);
    occurrence.nominal_time = occurrence.launch_time = time;
    storage::v1::DefinitionRecord definition;
    EXPECT_TRUE(
        definition.ParseFromString(fixture.Rows(ColumnFamily::kDefinitions).begin()->second));
    OccurrenceSource source = SourceOf(definition);
    source.event_count = n;
    kv::Group group;
    AddOccurrenceRows(source, occurrence, fixture.layout, fixture.Now(), &group.mutations);
    fixture.Commit({group});
    return occurrence.id;
  }
  static std::string Id(absl::Time time) {
    return absl::FormatTime("%Y%m%dT%H%M%S-0-UTC", time, absl::UTCTimeZone());
  }

  // Ends events [first, first + count) of a run, as the handler of the shard would.
  void End(uint16_t shard, const std::string& occurrence, absl::Time launch, uint64_t first,
           uint64_t count, uint64_t n, storage::v1::OutcomeKind outcome) {
    storage::v1::DoneRecord done;
    done.set_tenant("default");
    done.set_count(count);
    done.set_run_count(n);
    done.set_outcome(outcome);
    done.set_attempts(1);
    done.set_version(1);
    done.set_nominal_time_micros(ToMicros(launch));
    done.set_launch_time_micros(ToMicros(launch));
    done.set_complete_time_micros(ToMicros(launch) + 1000);
    fixture.Put(ColumnFamily::kDone,
                EncodeDoneKey({.shard = shard,
                               .day = DoneDay(launch),
                               .uid = uid,
                               .occurrence = occurrence,
                               .first = first}),
                done.SerializeAsString());
  }
  std::string EndSingle(absl::Time launch) {
    const std::string id = Id(launch);
    End(ShardOf(id), id, launch, 0, 1, 1, storage::v1::OUTCOME_KIND_SUCCEEDED);
    return id;
  }
  uint16_t ShardOf(const std::string& occurrence) const {
    return ShardOfEventId(RunIdentity("default", uid, occurrence).EventId(0),
                          fixture.layout.queue_shards);
  }

  // The row of `waiting`, which goes.
  std::pair<WaitingKey, storage::v1::EventRecord> TakeWaiting() {
    const auto& rows = fixture.Rows(ColumnFamily::kWaiting);
    EXPECT_EQ(rows.size(), 1u);
    const std::string key = rows.begin()->first;
    storage::v1::EventRecord row;
    EXPECT_TRUE(row.ParseFromString(rows.begin()->second));
    fixture.Delete(ColumnFamily::kWaiting, key);
    return {*DecodeWaitingKey(key), row};
  }
  // Events that hold tokens of policy "p", as the token manager notes them; the key.
  std::string Grant(const std::string& occurrence, const storage::v1::EventRecord& row,
                    uint64_t first, uint64_t count, uint64_t number) {
    storage::v1::GrantRecord grant;
    *grant.mutable_event() = row;
    grant.set_uid(std::string(uid.bytes()));
    grant.set_occurrence(occurrence);
    grant.add_holders()->set_first(first);
    grant.mutable_holders(0)->set_count(count);
    const Uid policy = PolicyUid("default", "p");
    const std::string key =
        EncodeGrantKey({.policy_shard = PolicyShardOf(policy, fixture.layout.policy_shards),
                        .policy = policy,
                        .epoch = 1,
                        .number = number});
    fixture.Put(ColumnFamily::kGrants, key, grant.SerializeAsString());
    return key;
  }

  Strings List(int page_size, int* pages = nullptr) {
    v1::ListRunsRequest request;
    request.set_parent(kParent);
    request.set_page_size(page_size);
    Strings occurrences;
    do {
      const auto page = fixture.Call(&RunApi::ListRuns, request);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) break;
      EXPECT_LE(page->runs_size(), page_size);
      for (const v1::Run& run : page->runs())
        occurrences.push_back(run.name().substr(sizeof(kParent) + 5));
      request.set_page_token(page->next_page_token());
      if (pages != nullptr) ++*pages;
    } while (!request.page_token().empty());
    return occurrences;
  }
  absl::StatusOr<v1::Run> Get(const std::string& occurrence) {
    v1::GetRunRequest request;
    request.set_name(absl::StrCat(kParent, "/runs/", occurrence));
    return fixture.Call(&RunApi::GetRun, request);
  }
};

TEST(RunService, RunsOfOneAreListedFromTheirDoneRecordsInOrderAcrossShardsAndDays) {
  Bench bench(1);
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
  Bench bench(8);
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

TEST(RunService, ARunOfOneIsFoundWhereverItsEventIs) {
  Bench bench(1);
  const absl::Time due = absl::FromUnixSeconds(absl::ToUnixSeconds(bench.start) + 5);
  const std::string id = bench.Emit(due, 1);
  ASSERT_TRUE(bench.Get(id).ok());
  EXPECT_EQ(bench.Get(id)->state(), v1::Run::ACTIVE);
  auto [key, row] = bench.fixture.Events()[0];
  const std::string row_key = EncodeEventKey(key);
  // Parked.
  bench.fixture.Delete(ColumnFamily::kEvents, row_key);
  EXPECT_TRUE(absl::IsNotFound(bench.Get(id).status()));
  bench.fixture.Put(ColumnFamily::kParked, ParkedKey(bench.uid, row_key), row.SerializeAsString());
  EXPECT_EQ(bench.Get(id)->state(), v1::Run::ACTIVE);
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

TEST(RunService, EventsOfARunAreListedByIndexThroughRangesRetriesAndShards) {
  Bench bench(1);
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

void Throttle(v1::Schedule* schedule) { schedule->set_policy("tenants/default/policies/p"); }

TEST(RunService, AThrottledRunShowsWhatItsPartsCountAndWhenItWillHaveEnded) {
  Bench bench(100, &Throttle);
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
  // Of a run that stalls the rest is still to come.
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

TEST(RunService, AThrottledRunOfOneIsFoundWhereverItsEventIs) {
  Bench bench(1, &Throttle);
  const absl::Time due = absl::FromUnixSeconds(absl::ToUnixSeconds(bench.start) + 5);
  const std::string id = bench.Emit(due, 1);
  v1::ListRunEventsRequest events;
  events.set_parent(absl::StrCat(kParent, "/runs/", id));
  // Waiting.
  ASSERT_TRUE(bench.Get(id).ok());
  EXPECT_EQ(bench.Get(id)->state(), v1::Run::ACTIVE);
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
  bench.Grant("20200101T000000-0-UTC", row, 0, 1, 1);
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

TEST(RunService, EventsOfAThrottledRunAreThoseThatEndedHoldATokenOrWaitForAnotherAttempt) {
  Bench bench(1, &Throttle);
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

TEST(RunService, ARunOfOneWithARecordIsShownOnceWithItsEventAndWhatItGave) {
  Bench bench(1, [](v1::Schedule* schedule) {
    schedule->mutable_on_complete()->mutable_http()->set_uri("http://h/done");
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
  Bench bench(1);
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

}  // namespace
}  // namespace escapement::master
