// ExplainEvent and ExplainSchedule read rows as the services leave them. tests/explain
// proves with living services that the gates are the right ones.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/lease/lease_table.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/waiting_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/explain/explain_service.h"
#include "services/master/testing/master_world.h"
#include "services/master/testing/run_world.h"

namespace escapement::master {
namespace explain_test {

using kv::ColumnFamily;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Strings = std::vector<std::string>;

absl::StatusOr<v1::EventExplanation> Explain(MasterWorld& fixture, const std::string& name) {
  v1::ExplainEventRequest request;
  request.set_name(name);
  return fixture.Call(&ExplainService::ExplainEvent, request);
}

// A living owner of the lease.
void Own(MasterWorld& fixture, const std::string& kind, uint32_t index) {
  std::string lease = lease::EncodeLeaseValue(1, "owner");
  const std::string end =
      kv::EncodeU64(static_cast<uint64_t>(ToMicros(fixture.Now() + absl::Hours(100))));
  lease.replace(lease::kLeaseStampOffset, end.size(), end);
  fixture.Put(ColumnFamily::kLeases, lease::LeaseKey(kind, index), lease);
}

Strings KindsOf(const v1::EventExplanation& answer) {
  Strings kinds;
  for (const v1::Gate& gate : answer.gates()) kinds.push_back(v1::Gate::Kind_Name(gate.kind()));
  return kinds;
}

// "QUEUE 2s"
Strings PhasesOf(const v1::EventExplanation& answer) {
  Strings phases;
  for (const v1::Phase& phase : answer.phases()) {
    phases.push_back(absl::StrCat(
        v1::Phase::Kind_Name(phase.kind()), " ",
        absl::FormatDuration(ToDuration(phase.duration()).value_or(absl::ZeroDuration()))));
  }
  return phases;
}

TEST(ExplainEvent, EventOfALargeRunIsFoundByItsIndex) {
  RunWorld bench(10);
  const absl::Time due = absl::FromUnixSeconds(absl::ToUnixSeconds(bench.start) + 100);
  const std::string run = absl::StrCat(kParent, "/runs/", bench.Emit(due, 10));
  const uint16_t shard = ShardOfIndex(10, 7, bench.fixture.layout.queue_shards);
  const auto waits = Explain(bench.fixture, run + "/events/7");
  ASSERT_TRUE(waits.ok()) << waits.status();
  EXPECT_EQ(waits->status(), v1::Event::SCHEDULED);
  EXPECT_THAT(KindsOf(*waits), ElementsAre("NOT_DUE", "NO_OWNER"));
  EXPECT_EQ(waits->gates(1).subject(), absl::StrCat("queue shard ", shard));
  EXPECT_THAT(waits->summary(), HasSubstr("1 more gate is shut"));
  EXPECT_EQ(FromMicros(TimestampMicros(waits->gates(0).open_time()).value_or(0)), due);
  Own(bench.fixture, "queue_shard", shard);
  EXPECT_THAT(KindsOf(*Explain(bench.fixture, run + "/events/7")), ElementsAre("NOT_DUE"));
  EXPECT_TRUE(absl::IsNotFound(Explain(bench.fixture, run + "/events/10").status()));
  EXPECT_TRUE(
      absl::IsNotFound(Explain(bench.fixture, absl::StrCat(kParent, "/runs/",
                                                           RunWorld::Id(bench.start), "/events/0"))
                           .status()));
}

TEST(ExplainEvent, EventThatIsNotToBeSentHasNoGates) {
  RunWorld bench(1);
  const absl::Time due = absl::FromUnixSeconds(absl::ToUnixSeconds(bench.start) + 100);
  const std::string event = absl::StrCat(kParent, "/runs/", bench.Emit(due, 1), "/events/0");
  // The schedule has no such occurrence: an update has removed it.
  v1::UpdateScheduleRequest update;
  update.mutable_schedule()->set_name(kParent);
  update.mutable_schedule()->set_cron("0 0 2 1 *");
  ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::UpdateSchedule, update).ok());
  EXPECT_THAT(Explain(bench.fixture, event)->summary(), HasSubstr("superseded"));
  v1::DeleteScheduleRequest request;
  request.set_name(kParent);
  ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::DeleteSchedule, request).ok());
  const auto waits = Explain(bench.fixture, event);
  ASSERT_TRUE(waits.ok()) << waits.status();
  EXPECT_THAT(KindsOf(*waits), IsEmpty());
  EXPECT_THAT(waits->summary(), HasSubstr("It ends without being sent: deleted."));
}

TEST(ExplainEvent, EachEventOfARangeShowsItsOwnAttempt) {
  RunWorld bench(8);
  const absl::Time launch = absl::FromUnixSeconds(absl::ToUnixSeconds(bench.start) + 10);
  const std::string id = bench.Emit(launch, 8);
  const uint16_t shard = ShardOfIndex(8, 1, bench.fixture.layout.queue_shards);
  storage::v1::DoneRecord done;
  done.set_tenant("default");
  done.set_count(2);
  done.set_run_count(8);
  done.set_outcome(storage::v1::OUTCOME_KIND_SUCCEEDED);
  done.set_attempts(1);
  done.set_nominal_time_micros(ToMicros(launch));
  done.set_launch_time_micros(ToMicros(launch));
  done.set_dispatch_time_micros(ToMicros(launch + absl::Seconds(1)));
  done.set_complete_time_micros(ToMicros(launch + absl::Seconds(9)));
  for (const int seconds : {0, 3}) {
    done.add_begin_offset_micros(seconds * 1'000'000);
    done.add_duration_micros(500'000);
  }
  bench.fixture.Put(
      ColumnFamily::kDone,
      EncodeDoneKey(
          {.shard = shard, .day = DoneDay(launch), .uid = bench.uid, .occurrence = id, .first = 0}),
      done.SerializeAsString());
  const auto event = [&](int index) {
    return Explain(bench.fixture, absl::StrCat(kParent, "/runs/", id, "/events/", index));
  };
  EXPECT_THAT(PhasesOf(*event(0)), ElementsAre("QUEUE 1s", "TARGET 500ms"));
  EXPECT_THAT(PhasesOf(*event(1)), ElementsAre("QUEUE 4s", "TARGET 500ms"));
  EXPECT_THAT(event(1)->summary(), HasSubstr("SUCCEEDED"));
  EXPECT_THAT(event(1)->summary(), HasSubstr("The longest part: 4 s until its first attempt."));
  EXPECT_THAT(KindsOf(*event(1)), IsEmpty());
}

TEST(ExplainEvent, EndedEventShowsOnlyTimesThatAreRecorded) {
  MasterWorld fixture;
  const absl::Time due = fixture.Now() - absl::Seconds(5);  // it was created late
  const auto made = fixture.Call(&EventApi::CreateEvent, ValidEvent(due, "e"));
  ASSERT_TRUE(made.ok()) << made.status();
  const auto [key, row] = fixture.Events().at(0);
  const absl::Time launch = FromMicros(row.launch_time_micros());
  const auto at = [&](int seconds) { return ToMicros(launch + absl::Seconds(seconds)); };
  storage::v1::DoneRecord done = DoneRecordOf(row);
  done.set_count(1);
  done.set_outcome(storage::v1::OUTCOME_KIND_SUCCEEDED);
  done.set_attempts(3);
  for (uint32_t number : {1u, 2u}) {
    storage::v1::AttemptRecord& tried = *done.add_tried();
    tried.set_number(number);
    tried.set_begin_micros(at(number == 1 ? 2 : 12));
    tried.set_duration_micros(1'000'000);
    tried.set_kind(storage::v1::AttemptRecord::FAILED);
  }
  done.set_dispatch_time_micros(at(30));
  done.set_last_duration_micros(4'000'000);
  done.set_complete_time_micros(at(100));
  const std::string done_key =
      EncodeDoneKey({.shard = key.shard, .day = DoneDay(launch), .uid = key.uid, .occurrence = {}});
  fixture.Delete(ColumnFamily::kEvents, EncodeEventKey(key));
  fixture.Put(ColumnFamily::kDone, done_key, done.SerializeAsString());
  const auto ended = Explain(fixture, made->name());
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->status(), v1::Event::COMPLETED);
  const Strings phases = PhasesOf(*ended);
  ASSERT_THAT(phases, SizeIs(5));
  EXPECT_THAT(phases[0], HasSubstr("EMISSION 5"));
  EXPECT_EQ(Strings(phases.begin() + 1, phases.end()),
            (Strings{"QUEUE 2s", "RETRIES 28s", "TARGET 4s", "CONSUMER 1m6s"}));

  EXPECT_EQ(ended->phases(2).detail(), "28 s for 2 failed attempts and the waits after them.");
  done.set_redrives(1);
  fixture.Put(ColumnFamily::kDone, done_key, done.SerializeAsString());
  EXPECT_EQ(Explain(fixture, made->name())->phases(2).detail(),
            "28 s for 2 failed attempts and the waits after them; the event was redriven.");

  // The first attempts are not kept, nor is the time of the last one.
  done.mutable_tried()->DeleteSubrange(0, 1);
  done.clear_dispatch_time_micros();
  done.clear_last_duration_micros();
  fixture.Put(ColumnFamily::kDone, done_key, done.SerializeAsString());
  EXPECT_THAT(PhasesOf(*Explain(fixture, made->name())), SizeIs(1));
}

TEST(ExplainEvent, EventThatFailedOnceHasOneFailedAttempt) {
  MasterWorld fixture;
  const auto made = fixture.Call(&EventApi::CreateEvent, ValidEvent(fixture.Now(), "e"));
  ASSERT_TRUE(made.ok()) << made.status();
  const auto [key, row] = fixture.Events().at(0);
  const absl::Time launch = FromMicros(row.launch_time_micros());
  storage::v1::DoneRecord done = DoneRecordOf(row);
  done.set_count(1);
  done.set_outcome(storage::v1::OUTCOME_KIND_SUCCEEDED);
  done.set_attempts(2);
  storage::v1::AttemptRecord& tried = *done.add_tried();
  tried.set_number(1);
  tried.set_begin_micros(ToMicros(launch + absl::Seconds(1)));
  tried.set_duration_micros(1'000'000);
  tried.set_kind(storage::v1::AttemptRecord::FAILED);
  done.set_dispatch_time_micros(ToMicros(launch + absl::Seconds(21)));
  done.set_last_duration_micros(1'000'000);
  done.set_complete_time_micros(ToMicros(launch + absl::Seconds(22)));
  fixture.Delete(ColumnFamily::kEvents, EncodeEventKey(key));
  fixture.Put(
      ColumnFamily::kDone,
      EncodeDoneKey({.shard = key.shard, .day = DoneDay(launch), .uid = key.uid, .occurrence = {}}),
      done.SerializeAsString());
  const auto ended = Explain(fixture, made->name());
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_THAT(ended->summary(), HasSubstr("20 s for 1 failed attempt and the wait after it."));
}

TEST(ExplainEvent, ClaimedEventIsWithItsHandler) {
  MasterWorld fixture;
  const auto made = fixture.Call(&EventApi::CreateEvent, ValidEvent(fixture.Now(), "e"));
  ASSERT_TRUE(made.ok()) << made.status();
  const EventKey key = fixture.Events().at(0).first;
  fixture.Commit({ClaimOf(key)});
  EXPECT_THAT(KindsOf(*Explain(fixture, made->name())), ElementsAre("NO_OWNER"));
  Own(fixture, "queue_shard", key.shard);
  const auto sent = Explain(fixture, made->name());
  ASSERT_THAT(KindsOf(*sent), ElementsAre("BEING_SENT"));
  EXPECT_EQ(sent->gates(0).reason(), "owner");
  EXPECT_EQ(sent->status(), v1::Event::IN_PROGRESS);
}

// Events under policies p (per key) and q, of which the first `held` hold tokens.
struct Limited {
  MasterWorld fixture;

  Limited(int held, int waiting) {
    for (const char* id : {"p", "q"}) {
      v1::CreatePolicyRequest policy;
      policy.set_parent("tenants/default");
      policy.set_policy_id(id);
      policy.mutable_policy()->set_max_concurrent(6);
      if (*id == 'p') policy.mutable_policy()->mutable_per_key()->set_max_concurrent(2);
      EXPECT_TRUE(fixture.Call(&PolicyApi::CreatePolicy, policy).ok());
    }
    for (int i = 0; i < held + waiting; ++i) {
      v1::CreateEventRequest request = ValidEvent(fixture.Now(), absl::StrCat("e", i));
      for (const char* id : {"p", "q"}) {
        v1::Limit& limit = *request.mutable_event()->add_limits();
        limit.set_policy(id);
        if (*id == 'p') limit.set_policy_key(i % 2 == 0 ? "even" : "odd");
        limit.set_weight(*id == 'q' ? 2 : 1);
      }
      const auto made = fixture.Call(&EventApi::CreateEvent, request);
      EXPECT_TRUE(made.ok()) << made.status();
      if (i < held) Grant(static_cast<uint64_t>(i) + 1);
      fixture.runtime.AdvanceBy(absl::Seconds(1));
    }
    Own(fixture, "policy_shard", fixture.PolicyShardOfTenant());
    for (uint32_t shard = 0; shard < fixture.layout.queue_shards; ++shard)
      Own(fixture, "queue_shard", shard);
  }

  // The only waiting row becomes a grant, as the token manager makes it.
  void Grant(uint64_t number) {
    const auto rows = fixture.Rows(ColumnFamily::kWaiting);
    ASSERT_EQ(rows.size(), 1u);
    const std::string key = rows.begin()->first;
    storage::v1::GrantRecord grant;
    ASSERT_TRUE(grant.mutable_event()->ParseFromString(rows.begin()->second));
    const WaitingKey waiting = *DecodeWaitingKey(key);
    grant.set_uid(std::string(WaitingOwnerOf(waiting).uid.bytes()));
    grant.set_grant_time_micros(ToMicros(fixture.Now()));
    grant.add_holders()->set_count(1);
    grant.mutable_holders(0)->set_delivered_time_micros(ToMicros(fixture.Now()));
    fixture.Delete(ColumnFamily::kWaiting, key);
    fixture.Put(ColumnFamily::kGrants,
                EncodeGrantKey({.policy_shard = waiting.policy_shard,
                                .policy = waiting.policy,
                                .epoch = 1,
                                .number = number}),
                grant.SerializeAsString());
  }
};

TEST(ExplainEvent, EachLimitHasItsOwnGateWithHoldersAndThoseAhead) {
  Limited bench(/*held=*/3, /*waiting=*/4);  // e0, e2 are of "even", e1 of "odd"
  const auto waits = Explain(bench.fixture, "tenants/default/events/e6");
  ASSERT_TRUE(waits.ok()) << waits.status();
  ASSERT_THAT(KindsOf(*waits), ElementsAre("KEY_LIMIT", "POLICY_LIMIT"));
  const v1::Gate& key = waits->gates(0);
  EXPECT_EQ(key.subject(), "tenants/default/policies/p");
  EXPECT_EQ(key.policy_key(), "even");
  EXPECT_EQ(key.held(), 2);
  EXPECT_EQ(key.limit(), 2);
  EXPECT_EQ(key.ahead(), 3);
  EXPECT_EQ(key.ahead_of_key(), 1);  // e4
  ASSERT_EQ(key.holders_size(), 2);
  EXPECT_EQ(key.holders(0).event(), "tenants/default/events/e0");
  EXPECT_EQ(key.holders(1).event(), "tenants/default/events/e2");
  const v1::Gate& q = waits->gates(1);
  EXPECT_EQ(q.subject(), "tenants/default/policies/q");
  EXPECT_EQ(q.held(), 6);
  EXPECT_EQ(q.limit(), 6);
  EXPECT_EQ(q.holders_size(), 3);
  EXPECT_EQ(q.holders(0).weight(), 2);
  EXPECT_THAT(q.detail(), HasSubstr("it needs 2"));
  EXPECT_GE(ToDuration(q.holders(0).age()), absl::Seconds(6));
}

TEST(ExplainEvent, OverrideThatStopsAPolicySaysWhenItEnds) {
  Limited bench(/*held=*/0, /*waiting=*/1);
  v1::OverridePolicyRequest request;
  request.set_name("tenants/default/policies/p");
  request.mutable_override()->set_max_concurrent(0);
  request.mutable_override()->set_reason("disk full");
  const absl::Time end = bench.fixture.Now() + absl::Hours(2);
  SetTimestamp(ToMicros(end), *request.mutable_override()->mutable_expire_time());
  ASSERT_TRUE(bench.fixture.Call(&PolicyApi::OverridePolicy, request).ok());
  const auto waits = Explain(bench.fixture, "tenants/default/events/e0");
  ASSERT_THAT(KindsOf(*waits), ElementsAre("POLICY_LIMIT"));
  EXPECT_TRUE(waits->gates(0).override());
  EXPECT_EQ(waits->gates(0).reason(), "disk full");
  EXPECT_EQ(FromMicros(TimestampMicros(waits->gates(0).open_time()).value_or(0)), end);
  bench.fixture.runtime.AdvanceBy(absl::Hours(2) + absl::Seconds(1));
  EXPECT_THAT(KindsOf(*Explain(bench.fixture, "tenants/default/events/e0")), IsEmpty());
}

TEST(ExplainEvent, HeldEventIsWithItsConsumerUntilAReportGivesItsTokenBack) {
  Limited bench(/*held=*/1, /*waiting=*/0);
  const auto held = Explain(bench.fixture, "tenants/default/events/e0");
  ASSERT_THAT(KindsOf(*held), ElementsAre("HELD_BY_CONSUMER"));
  const auto grant_key = bench.fixture.Rows(ColumnFamily::kGrants).begin()->first;
  const GrantId grant = *DecodeGrantKey(grant_key);
  storage::v1::GrantReportRecord report;
  storage::v1::GrantReportRecord::Entry& entry = *report.add_entries();
  entry.set_policy_uid(std::string(grant.policy.bytes()));
  entry.set_epoch(grant.epoch);
  entry.set_number(grant.number);
  entry.set_count(1);
  entry.set_kind(storage::v1::GrantReportRecord::COMPLETED);
  bench.fixture.Put(
      ColumnFamily::kWaiting,
      EncodeReportKey({.policy_shard = grant.policy_shard, .origin = kReportFromDoor}),
      report.SerializeAsString());
  EXPECT_THAT(KindsOf(*Explain(bench.fixture, "tenants/default/events/e0")), IsEmpty());
}

TEST(ExplainEvent, WrongNamesAreRefused) {
  MasterWorld fixture;
  for (const char* name : {"", "tenants/default/schedules/s", "tenants/default/events/a b",
                           "tenants/default/schedules/s/runs/x/events/0",
                           "tenants/default/schedules/s/runs/20260101T000000-0-UTC/events/00",
                           "tenants/default/schedules/s/runs/20260101T000000-0-UTC/events/-1",
                           "tenants/default/schedules/s/runs/20260101T000000-0-UTC"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Explain(fixture, name).status())) << name;
  }
  EXPECT_TRUE(absl::IsNotFound(Explain(fixture, "tenants/default/events/none").status()));
}

v1::ScheduleExplanation ExplainSchedule(MasterWorld& fixture) {
  v1::ExplainScheduleRequest request;
  request.set_name(kParent);
  const auto answer = fixture.Call(&ExplainService::ExplainSchedule, request);
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.value_or(v1::ScheduleExplanation());
}

TEST(ExplainSchedule, ShowsItsEntriesInTheIndexAndItsPartition) {
  MasterWorld fixture;
  v1::CreateScheduleRequest request = ValidSchedule("s", "30 5 3,6 12 *");
  request.mutable_schedule()->set_time_zone("Asia/Kolkata");
  ASSERT_TRUE(fixture.Call(&ScheduleApi::CreateSchedule, request).ok());
  v1::ScheduleExplanation answer = ExplainSchedule(fixture);
  ASSERT_EQ(answer.gates_size(), 1);
  EXPECT_EQ(answer.gates(0).kind(), v1::Gate::NO_OWNER);
  EXPECT_THAT(answer.summary(), HasSubstr("No emitter holds partition"));
  Own(fixture, "partition", static_cast<uint32_t>(answer.partition()));
  answer = ExplainSchedule(fixture);
  EXPECT_EQ(answer.gates_size(), 0) << answer.DebugString();
  EXPECT_EQ(answer.emitter(), "owner");
  EXPECT_EQ(answer.time_zone(), "Asia/Kolkata");
  EXPECT_TRUE(answer.has_emitted_to_time());
  ASSERT_EQ(answer.children_size(), 2);
  EXPECT_EQ(answer.children(0).launch_expression(), "MM:12-3");
  EXPECT_EQ(answer.children(0).class_(), "MONTH_DAY");
  EXPECT_EQ(answer.children(0).hour(), "5");

  v1::PauseScheduleRequest pause;
  pause.set_name(kParent);
  ASSERT_TRUE(fixture.Call(&ScheduleApi::PauseSchedule, pause).ok());
  answer = ExplainSchedule(fixture);
  EXPECT_EQ(answer.children_size(), 0);  // the index has none of a paused schedule
  ASSERT_EQ(answer.gates_size(), 1);
  EXPECT_EQ(answer.gates(0).kind(), v1::Gate::SCHEDULE_PAUSED);
  EXPECT_TRUE(answer.gates(0).has_since_time());
  EXPECT_EQ(answer.gates(0).paused_by(), "anonymous");
  EXPECT_TRUE(answer.has_next_time());
}

TEST(ExplainSchedule, ScheduleWithoutFurtherOccurrencesSaysSo) {
  MasterWorld fixture;
  v1::CreateScheduleRequest request = ValidSchedule("s");
  SetTimestamp(ToMicros(fixture.Now() + absl::Seconds(10)),
               *request.mutable_schedule()->add_times());
  request.mutable_schedule()->clear_cron();
  ASSERT_TRUE(fixture.Call(&ScheduleApi::CreateSchedule, request).ok());
  fixture.runtime.AdvanceBy(absl::Seconds(11));
  const v1::ScheduleExplanation answer = ExplainSchedule(fixture);
  ASSERT_EQ(answer.gates_size(), 1);
  EXPECT_EQ(answer.gates(0).kind(), v1::Gate::FINISHED);
  EXPECT_FALSE(answer.has_next_time());
  EXPECT_THAT(answer.summary(), HasSubstr("no further occurrence"));
}

TEST(ExplainSchedule, ActiveRunStandsInTheWayOfTheNextOne) {
  RunWorld bench(1,
                 [](v1::Schedule& schedule) { schedule.set_overlap_policy(v1::Schedule::SKIP); });
  v1::TriggerScheduleRequest trigger;
  trigger.set_name(kParent);
  const auto run = bench.fixture.Call(&ScheduleApi::TriggerSchedule, trigger);
  ASSERT_TRUE(run.ok()) << run.status();
  const v1::ScheduleExplanation answer = ExplainSchedule(bench.fixture);
  ASSERT_EQ(answer.gates_size(), 2) << answer.DebugString();
  EXPECT_EQ(answer.gates(1).kind(), v1::Gate::OVERLAP);
  EXPECT_EQ(answer.gates(1).subject(), run->name());
  EXPECT_THAT(answer.gates(1).detail(), HasSubstr("skipped"));
}

}  // namespace explain_test
}  // namespace escapement::master
