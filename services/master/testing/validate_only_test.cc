// validate_only: a call decides and answers as without it, and writes nothing. Its request_id is
// not remembered.

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"
#include "services/master/testing/schedule_world.h"

namespace escapement::master {
namespace validate_only_test {

using kv::ColumnFamily;

class ValidateOnlyTest : public testing::Test {
 protected:
  // The answer, or the refusal, of a call without effect.
  template <typename Api, typename Request, typename Response>
  absl::StatusOr<Response> Dry(void (Api::*method)(Request, Done<Response>), Request request) {
    const std::string before = world_.Dump();
    request.set_validate_only(true);
    request.set_request_id(absl::StrCat("call-", ++calls_));
    auto answer = world_.Call(method, request);
    EXPECT_EQ(world_.Dump(), before);
    return answer;
  }
  // The call without effect, and then the same call with its effect, must both succeed. Returns
  // the two answers.
  template <typename Api, typename Request, typename Response>
  std::pair<Response, Response> DryThenReal(void (Api::*method)(Request, Done<Response>),
                                            Request request) {
    const auto dry = Dry(method, request);
    EXPECT_TRUE(dry.ok()) << dry.status();
    const std::string before = world_.Dump();
    request.set_request_id(absl::StrCat("call-", calls_));  // was not remembered
    const auto real = world_.Call(method, request);
    EXPECT_TRUE(real.ok()) << real.status();
    EXPECT_NE(world_.Dump(), before);
    return {dry.value_or(Response()), real.value_or(Response())};
  }
  // The call without effect and the call itself are refused alike.
  template <typename Api, typename Request, typename Response>
  void ExpectRefused(void (Api::*method)(Request, Done<Response>), const Request& request,
                     const std::string& reason) {
    const auto dry = Dry(method, request);
    EXPECT_EQ(ErrorReason(dry.status()), reason) << dry.status();
    const absl::Status real = world_.Call(method, request).status();
    EXPECT_EQ(ErrorReason(real), reason) << real;
    EXPECT_EQ(real.message(), dry.status().message());
  }

  ScheduleWorld bench_{10, 10};
  MasterWorld& world_ = bench_.fixture;
  int calls_ = 0;
};

template <typename Request>
Request NamedAs(const std::string& name) {
  Request request;
  request.set_name(name);
  return request;
}

TEST_F(ValidateOnlyTest, CreateEvent) {
  const absl::Time due = world_.Now() + absl::Hours(1);
  const auto [dry, real] = DryThenReal(&EventApi::CreateEvent, ValidEvent(due, "mine"));
  EXPECT_EQ(dry.DebugString(), real.DebugString());
  v1::CreateEventRequest taken = ValidEvent(due, "mine");
  ExpectRefused(&EventApi::CreateEvent, taken, "RESOURCE_EXISTS");
  EXPECT_TRUE(Dry(&EventApi::CreateEvent, ValidEvent(due)).ok());
  taken = ValidEvent(due);
  taken.mutable_event()->clear_target();
  EXPECT_EQ(Dry(&EventApi::CreateEvent, taken).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ValidateOnlyTest, BatchCreateEvents) {
  const absl::Time due = world_.Now() + absl::Hours(1);
  v1::BatchCreateEventsRequest batch;
  batch.set_parent("tenants/default");
  for (const char* id : {"a", "b"}) *batch.add_requests() = ValidEvent(due, id);
  const auto [dry, real] = DryThenReal(&EventApi::BatchCreateEvents, batch);
  EXPECT_EQ(dry.DebugString(), real.DebugString());
  ExpectRefused(&EventApi::BatchCreateEvents, batch, "RESOURCE_EXISTS");
  // A part of a batch cannot be without effect.
  batch.mutable_requests(1)->set_validate_only(true);
  const auto refused = world_.Call(&EventApi::BatchCreateEvents, batch);
  ASSERT_EQ(FieldViolationsOf(refused.status()).size(), 1u) << refused.status();
  EXPECT_EQ(FieldViolationsOf(refused.status())[0].first, "requests[1].validate_only");
}

TEST_F(ValidateOnlyTest, CancelEvent) {
  ASSERT_TRUE(
      world_.Call(&EventApi::CreateEvent, ValidEvent(world_.Now() + absl::Hours(1), "e")).ok());
  const auto request = NamedAs<v1::CancelEventRequest>("tenants/default/events/e");
  const auto [dry, real] = DryThenReal(&EventApi::CancelEvent, request);
  EXPECT_EQ(dry.outcome(), v1::CANCELLED);
  EXPECT_EQ(dry.outcome(), real.outcome());
  ExpectRefused(&EventApi::CancelEvent, request, "EVENT_ENDED");
}

TEST_F(ValidateOnlyTest, PauseResumeAndDeleteASchedule) {
  bench_.MakeSchedule("* * * * * *");
  ExpectRefused(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>(), "WRONG_STATE");
  auto pause = Named<v1::PauseScheduleRequest>();
  pause.set_reason("by hand");
  const auto paused = DryThenReal(&ScheduleApi::PauseSchedule, pause);
  EXPECT_EQ(paused.first.state(), v1::Schedule::PAUSED);
  EXPECT_EQ(paused.first.pause_reason(), "by hand");
  Park(world_, bench_.start);
  const auto resumed =
      DryThenReal(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>());
  EXPECT_EQ(resumed.first.state(), v1::Schedule::ENABLED);
  auto stale = Named<v1::DeleteScheduleRequest>();
  stale.set_etag("\"0-0\"");
  ExpectRefused(&ScheduleApi::DeleteSchedule, stale, "ETAG_MISMATCH");
  DryThenReal(&ScheduleApi::DeleteSchedule, Named<v1::DeleteScheduleRequest>());
  ExpectRefused(&ScheduleApi::DeleteSchedule, Named<v1::DeleteScheduleRequest>(),
                "RESOURCE_NOT_FOUND");
}

TEST_F(ValidateOnlyTest, ManyParkedRowsLeaveTheEndOfAResumeUnknown) {
  bench_.MakeSchedule("* * * * * *");
  ASSERT_TRUE(world_.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>()).ok());
  const auto [key, row] = world_.Events().at(0);
  kv::Group group;
  for (int i = 0; i <= 10'000; ++i) {
    EventKey parked = key;
    parked.due_time += absl::Microseconds(i);
    group.mutations.push_back({.cf = ColumnFamily::kParked,
                               .key = ParkedKey(key.uid, EncodeEventKey(parked)),
                               .value = row.SerializeAsString()});
  }
  world_.Commit({group});
  world_.runtime.AdvanceBy(absl::Minutes(1));
  const auto resumed = Dry(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>());
  EXPECT_EQ(ErrorReason(resumed.status()), "TOO_MANY_PARKED") << resumed.status();
  EXPECT_TRUE(Dry(&ScheduleApi::DeleteSchedule, Named<v1::DeleteScheduleRequest>()).ok());
}

TEST_F(ValidateOnlyTest, TriggerAndCancelARun) {
  bench_.MakeSchedule("0 0 3 1 1 *");
  auto trigger = Named<v1::TriggerScheduleRequest>();
  trigger.set_event_count(3);
  trigger.set_etag("\"0-0\"");
  ExpectRefused(&ScheduleApi::TriggerSchedule, trigger, "ETAG_MISMATCH");
  trigger.clear_etag();
  const auto [dry, run] = DryThenReal(&ScheduleApi::TriggerSchedule, trigger);
  EXPECT_EQ(dry.event_count(), 3);
  EXPECT_EQ(dry.state(), v1::Run::ACTIVE);
  const auto cancel = NamedAs<v1::CancelRunRequest>(run.name());
  EXPECT_EQ(DryThenReal(&RunApi::CancelRun, cancel).first.state(), v1::Run::ACTIVE);
  const auto none =
      NamedAs<v1::CancelRunRequest>(absl::StrCat(kName, "/runs/20200101T000000-0-UTC"));
  ExpectRefused(&RunApi::CancelRun, none, "RESOURCE_NOT_FOUND");
}

TEST_F(ValidateOnlyTest, Backfill) {
  bench_.MakeSchedule("0 0 3 * * *");
  auto backfill = Named<v1::BackfillScheduleRequest>();
  SetTimestamp(ToMicros(world_.Now() - absl::Hours(72)), *backfill.mutable_start_time());
  SetTimestamp(ToMicros(world_.Now() - absl::Hours(1)), *backfill.mutable_end_time());
  backfill.set_etag("\"0-0\"");
  ExpectRefused(&ScheduleApi::BackfillSchedule, backfill, "ETAG_MISMATCH");
  backfill.clear_etag();
  const auto [dry, real] = DryThenReal(&ScheduleApi::BackfillSchedule, backfill);
  EXPECT_GE(dry.fired_count(), 2);
  EXPECT_EQ(dry.DebugString(), real.DebugString());
}

TEST_F(ValidateOnlyTest, PauseResumeAndDeleteAPolicy) {
  const std::string name = PutPolicy(world_, "p");
  ExpectRefused(&PolicyApi::ResumePolicy, NamedAs<v1::ResumePolicyRequest>(name), "WRONG_STATE");
  EXPECT_EQ(
      DryThenReal(&PolicyApi::PausePolicy, NamedAs<v1::PausePolicyRequest>(name)).first.state(),
      v1::ThrottlePolicy::PAUSED);
  EXPECT_EQ(
      DryThenReal(&PolicyApi::ResumePolicy, NamedAs<v1::ResumePolicyRequest>(name)).first.state(),
      v1::ThrottlePolicy::ENABLED);

  // The commit's own conditions would find these.
  const auto remove = NamedAs<v1::DeletePolicyRequest>(name);
  const Uid uid = PolicyUid("default", "p");
  const std::string user = PolicyUserKey(uid, Uid::FromHalves(1, 2));
  WaitingKey key;
  key.policy_shard = PolicyShardOf(uid, world_.layout.policy_shards);
  key.policy = uid;
  const std::string waiting = EncodeWaitingKey(key);
  world_.Put(ColumnFamily::kWaiting, waiting, "");
  ExpectRefused(&PolicyApi::DeletePolicy, remove, "POLICY_HAS_WAITING_EVENTS");
  world_.Put(ColumnFamily::kPolicies, user, "");
  ExpectRefused(&PolicyApi::DeletePolicy, remove, "POLICY_HAS_SCHEDULES");
  world_.Delete(ColumnFamily::kPolicies, user);
  world_.Delete(ColumnFamily::kWaiting, waiting);
  DryThenReal(&PolicyApi::DeletePolicy, remove);
}

}  // namespace validate_only_test
}  // namespace escapement::master
