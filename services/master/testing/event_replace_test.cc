// UpsertEvent and UpdateEvent: an event with a client-chosen id is replaced while it waits, and
// followed by another one when it has ended.

#include <optional>
#include <string>

#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/waiting_table.h"
#include "gtest/gtest.h"
#include "services/master/events/event_lookup.h"
#include "services/master/events/event_service.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace event_replace_test {

using kv::ColumnFamily;

constexpr char kName[] = "tenants/default/events/e";

class EventReplaceTest : public ::testing::Test {
 protected:
  v1::UpsertEventRequest Request(const std::string& payload,
                                 absl::Duration after = absl::Hours(1)) {
    v1::UpsertEventRequest request;
    *request.mutable_event() = ValidEvent(world_.Now() + after).event();
    request.mutable_event()->set_name(kName);
    request.mutable_event()->set_payload(payload);
    return request;
  }
  absl::StatusOr<v1::Event> Upsert(const v1::UpsertEventRequest& request) {
    return world_.Call(&EventApi::UpsertEvent, request);
  }
  v1::Event Upserted(const std::string& payload, absl::Duration after = absl::Hours(1)) {
    const auto event = Upsert(Request(payload, after));
    EXPECT_TRUE(event.ok()) << event.status();
    return event.ok() ? *event : v1::Event();
  }
  v1::UpdateEventRequest UpdateRequest() {
    v1::UpdateEventRequest request;
    request.mutable_event()->set_name(kName);
    return request;
  }
  absl::StatusOr<v1::Event> Update(const v1::UpdateEventRequest& request) {
    return world_.Call(&EventApi::UpdateEvent, request);
  }
  absl::StatusOr<v1::Event> Cancel(const std::string& etag = "") {
    v1::CancelEventRequest request;
    request.set_name(kName);
    request.set_etag(etag);
    return world_.Call(&EventApi::CancelEvent, request);
  }
  v1::Event Get() {
    v1::GetEventRequest request;
    request.set_name(kName);
    const auto event = world_.Call(&EventApi::GetEvent, request);
    EXPECT_TRUE(event.ok()) << event.status();
    return event.ok() ? *event : v1::Event();
  }
  EventKey RowKey() { return world_.Events().at(0).first; }
  // As the handler: the event has ended.
  void End(storage::v1::OutcomeKind outcome) {
    const auto [key, row] = world_.Events().at(0);
    storage::v1::DoneRecord done = DoneRecordOf(row);
    done.set_count(1);
    done.set_outcome(outcome);
    kv::Group group;
    group.mutations.push_back({.cf = ColumnFamily::kEvents,
                               .kind = kv::Mutation::Kind::kDelete,
                               .key = EncodeEventKey(key)});
    group.mutations.push_back(PutOutcome(key, done));
    world_.Commit({group});
  }

  MasterWorld world_;
};

TEST_F(EventReplaceTest, UpdateKeepsMaxLatenessUnlessItSetsIt) {
  v1::UpsertEventRequest upsert = Request("one");
  upsert.mutable_event()->mutable_max_lateness()->set_seconds(3600);
  ASSERT_TRUE(Upsert(upsert).ok());
  v1::UpdateEventRequest update = UpdateRequest();
  update.mutable_update_mask()->add_paths("payload");
  update.mutable_event()->set_payload("two");
  EXPECT_EQ(Update(update)->max_lateness().seconds(), 3600);
  update.mutable_update_mask()->set_paths(0, "max_lateness");
  update.mutable_event()->mutable_max_lateness()->set_seconds(60);
  EXPECT_EQ(Update(update)->max_lateness().seconds(), 60);
  EXPECT_EQ(Get().max_lateness().seconds(), 60);
  update.mutable_event()->clear_max_lateness();
  EXPECT_FALSE(Update(update)->has_max_lateness());
  EXPECT_EQ(world_.Events()[0].second.max_lateness_micros(), 0);
}

TEST_F(EventReplaceTest, UpsertCreatesAndThenReplaces) {
  const v1::Event created = Upserted("one");
  EXPECT_EQ(created.name(), kName);
  EXPECT_EQ(created.revision(), 0);
  EXPECT_FALSE(created.etag().empty());
  const v1::Event replaced = Upserted("two", absl::Hours(2));
  EXPECT_EQ(replaced.revision(), 1);
  EXPECT_EQ(replaced.generation(), 0);
  EXPECT_NE(replaced.etag(), created.etag());

  ASSERT_EQ(world_.Events().size(), 1u);
  EXPECT_EQ(world_.Events()[0].second.payload(), "two");
  EXPECT_EQ(RowKey().due_time, FromMicros(world_.Events()[0].second.nominal_time_micros()));
  EXPECT_EQ(world_.Rows(ColumnFamily::kEventNames).size(), 1u);
  EXPECT_TRUE(world_.Rows(ColumnFamily::kDone).empty());
  const v1::Event got = Get();
  EXPECT_EQ(got.payload(), "two");
  EXPECT_EQ(got.revision(), 1);
  EXPECT_EQ(got.etag(), replaced.etag());
}

TEST_F(EventReplaceTest, CallsWithAStaleEtagHaveNoEffect) {
  v1::UpsertEventRequest missing = Request("none");
  missing.mutable_event()->set_etag("00000000000000000000000000000000");
  EXPECT_EQ(Upsert(missing).status().code(), absl::StatusCode::kAborted);
  const std::string stale = Upserted("one").etag();
  const std::string current = Upserted("two").etag();
  const std::string before = world_.Dump();
  v1::UpsertEventRequest upsert = Request("three");
  upsert.mutable_event()->set_etag(stale);
  EXPECT_EQ(Upsert(upsert).status().code(), absl::StatusCode::kAborted);
  v1::UpdateEventRequest update = UpdateRequest();
  update.mutable_event()->set_priority(1);
  update.mutable_event()->set_etag(stale);
  EXPECT_EQ(Update(update).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Cancel(stale).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(world_.Dump(), before);
  update.mutable_event()->set_etag(current);
  const auto updated = Update(update);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_TRUE(Cancel(updated->etag()).ok());
}

TEST_F(EventReplaceTest, CancelledEventIsFollowedByTheNextGeneration) {
  Upserted("one");
  Upserted("two");
  ASSERT_TRUE(Cancel().ok());
  EXPECT_EQ(
      ErrorReason(world_.Call(&EventApi::CreateEvent, ValidEvent(world_.Now(), "e")).status()),
      "EVENT_CANCELLED");
  const v1::Event next = Upserted("three");
  EXPECT_EQ(next.generation(), 1);
  EXPECT_EQ(next.revision(), 0);
  EXPECT_EQ(Get().state(), v1::PENDING);
  EXPECT_EQ(Upserted("four").generation(), 1);
  EXPECT_EQ(world_.Events().size(), 1u);
  EXPECT_EQ(world_.Events()[0].second.generation(), 1u);
  EXPECT_EQ(world_.Rows(ColumnFamily::kDone).size(), 1u);
}

TEST_F(EventReplaceTest, EndedEventIsFollowedOnlyIfAskedFor) {
  Upserted("one");
  End(storage::v1::OUTCOME_KIND_SUCCEEDED);
  EXPECT_EQ(Get().outcome(), v1::SUCCEEDED);
  EXPECT_EQ(ErrorReason(Upsert(Request("two")).status()), "EVENT_ENDED");
  v1::UpdateEventRequest update = UpdateRequest();
  update.mutable_event()->set_priority(1);
  EXPECT_EQ(ErrorReason(Update(update).status()), "EVENT_ENDED");
  v1::UpsertEventRequest request = Request("two");
  request.set_replace_ended(true);
  const auto next = Upsert(request);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->generation(), 1);
  EXPECT_EQ(Get().payload(), "two");
  End(storage::v1::OUTCOME_KIND_FAILED);
  EXPECT_EQ(Get().generation(), 1);
  EXPECT_EQ(Get().outcome(), v1::FAILED);
}

TEST_F(EventReplaceTest, ClaimedOrAttemptedEventIsNotReplaced) {
  Upserted("one", absl::ZeroDuration());
  world_.Commit({ClaimOf(RowKey())});
  const std::string before = world_.Dump();
  v1::UpsertEventRequest request = Request("two");
  request.set_replace_ended(true);
  EXPECT_EQ(ErrorReason(Upsert(request).status()), "EVENT_RUNNING");
  EXPECT_EQ(world_.Dump(), before);
  // As the handler: the attempt failed, and the row moves to the retry lane.
  auto [key, row] = world_.Events()[0];
  kv::Group group;
  group.mutations.push_back({.cf = ColumnFamily::kEvents,
                             .kind = kv::Mutation::Kind::kDelete,
                             .key = EncodeEventKey(key)});
  group.mutations.push_back({.cf = ColumnFamily::kInflight,
                             .kind = kv::Mutation::Kind::kDelete,
                             .key = EncodeClaimKey({key.shard, 1, 1})});
  key.lane = kLaneRetry;
  key.due_time = world_.Now() + absl::Minutes(1);
  row.set_attempts(1);
  storage::v1::EventNameRecord name;
  name.set_event_key(EncodeEventKey(key));
  name.set_launch_time_micros(row.launch_time_micros());
  group.mutations.push_back(
      {.cf = ColumnFamily::kEvents, .key = EncodeEventKey(key), .value = row.SerializeAsString()});
  group.mutations.push_back({.cf = ColumnFamily::kEventNames,
                             .key = EventNameKey("default", "e"),
                             .value = name.SerializeAsString()});
  world_.Commit({group});
  EXPECT_EQ(ErrorReason(Upsert(request).status()), "EVENT_ATTEMPTED");
}

TEST_F(EventReplaceTest, UpdateKeepsTheOtherFields) {
  EXPECT_TRUE(absl::IsNotFound(Update(UpdateRequest()).status()));
  v1::UpsertEventRequest request = Request("payload");
  request.mutable_event()->set_priority(3);
  request.mutable_event()->mutable_delivery_timeout()->set_seconds(7);
  ASSERT_TRUE(Upsert(request).ok());
  v1::UpdateEventRequest update = UpdateRequest();
  const absl::Time due = world_.Now() + absl::Hours(5);
  update.mutable_event()->mutable_due_time()->set_seconds(absl::ToUnixSeconds(due));
  const auto moved = Update(update);
  ASSERT_TRUE(moved.ok()) << moved.status();
  const v1::Event got = Get();
  EXPECT_EQ(got.due_time().seconds(), absl::ToUnixSeconds(due));
  EXPECT_EQ(got.payload(), "payload");
  EXPECT_EQ(got.priority(), 3);
  EXPECT_EQ(got.delivery_timeout().seconds(), 7);
  EXPECT_EQ(got.target().grpc().uri(), request.event().target().grpc().uri());
  EXPECT_EQ(got.revision(), 1);

  update = UpdateRequest();
  update.mutable_update_mask()->add_paths("nothing");
  EXPECT_EQ(FieldViolationsOf(Update(update).status()).at(0).first, "update_mask");
}

TEST_F(EventReplaceTest, EventComesUnderAPolicyAndLeavesIt) {
  v1::CreatePolicyRequest policy;
  policy.set_parent("tenants/default");
  policy.set_policy_id("gate");
  policy.mutable_policy()->set_max_concurrent(2);
  ASSERT_TRUE(world_.Call(&PolicyApi::CreatePolicy, policy).ok());
  Upserted("free");
  v1::UpdateEventRequest update = UpdateRequest();
  update.mutable_event()->set_policy("gate");
  for (int i = 0; i < 2; ++i) {  // the second time from one row in `waiting` to another
    const auto limited = Update(update);
    ASSERT_TRUE(limited.ok()) << limited.status();
    EXPECT_EQ(limited->completion(), v1::ON_RELEASE);
    EXPECT_EQ(world_.Rows(ColumnFamily::kWaiting).size(), 1u);
    EXPECT_EQ(world_.Events().size(), 1u);
    EXPECT_EQ(Get().policy(), "tenants/default/policies/gate");
  }
  update = UpdateRequest();
  update.mutable_update_mask()->add_paths("policy");
  const auto free = Update(update);
  ASSERT_TRUE(free.ok()) << free.status();
  EXPECT_TRUE(world_.Rows(ColumnFamily::kWaiting).empty());
  EXPECT_EQ(Get().policy(), "");
  EXPECT_EQ(Get().payload(), "free");
}

TEST_F(EventReplaceTest, RepeatedRequestHasOneEffect) {
  Upserted("one");
  v1::UpsertEventRequest request = Request("two");
  request.set_request_id("r");
  const auto first = Upsert(request);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = Upsert(request);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->etag(), first->etag());
  EXPECT_EQ(Get().revision(), 1);
}

TEST_F(EventReplaceTest, ValidateOnlyChangesNothing) {
  for (int i = 0; i < 2; ++i) {
    const std::string before = world_.Dump();
    v1::UpsertEventRequest request = Request("dry");
    request.set_validate_only(true);
    const auto answer = Upsert(request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->revision(), i);
    EXPECT_EQ(world_.Dump(), before);
    Upserted("real");
  }
}

TEST_F(EventReplaceTest, OnlyClientChosenIdsAreReplaced) {
  const auto made = world_.Call(&EventApi::CreateEvent, ValidEvent(world_.Now()));
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->etag(), "");
  v1::UpsertEventRequest request = Request("two");
  request.mutable_event()->set_name(made->name());
  EXPECT_EQ(FieldViolationsOf(Upsert(request).status()).at(0).first, "event.name");
}

// The claim is committed at every step of the call: the event is either replaced or claimed.
TEST(EventReplaceRaceTest, ClaimOrReplacementAtTheSameMomentWins) {
  int replaced = 0;
  int claims = 0;
  for (int steps = 0; steps < 60; ++steps) {
    MasterWorld world;
    ASSERT_TRUE(world.Call(&EventApi::CreateEvent, ValidEvent(world.Now(), "e")).ok());
    const EventKey key = world.Events()[0].first;
    v1::UpsertEventRequest request;
    *request.mutable_event() = ValidEvent(world.Now() + absl::Hours(1)).event();
    request.mutable_event()->set_name(kName);
    std::optional<absl::StatusOr<v1::Event>> answer;
    world.master->events().UpsertEvent(
        request, [&](absl::StatusOr<v1::Event> event) { answer = std::move(event); });
    for (int i = 0; i < steps && world.runtime.world().Step(); ++i) {
    }
    std::optional<bool> applied;
    world.TryCommit({ClaimOf(key)}, [&](bool all) { applied = all; });
    ASSERT_TRUE(world.runtime.RunUntil([&] { return applied.has_value() && answer.has_value(); },
                                       absl::Minutes(1)));
    EXPECT_NE(*applied, answer->ok()) << steps;
    ASSERT_EQ(world.Events().size(), 1u) << steps;
    EXPECT_EQ(world.Events()[0].first == key, *applied) << steps;
    ++(answer->ok() ? replaced : claims);
  }
  EXPECT_GT(replaced, 0);
  EXPECT_GT(claims, 0);
}

}  // namespace event_replace_test
}  // namespace escapement::master
