// One-off events: creation, ingest, look-up and cancel over a store in memory.

#include "services/master/events/event_service.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/waiting_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace event_service_test {

using kv::ColumnFamily;

v1::GetEventRequest GetRequest(const std::string& name) {
  v1::GetEventRequest request;
  request.set_name(name);
  return request;
}

v1::CancelEventRequest CancelRequest(const std::string& name, const std::string& request_id = "") {
  v1::CancelEventRequest request;
  request.set_name(name);
  request.set_request_id(request_id);
  return request;
}

std::string FirstField(const absl::Status& status) {
  const auto violations = FieldViolationsOf(status);
  return violations.empty() ? status.ToString() : violations[0].first;
}

TEST(EventService, ACreatedEventIsOneRowAndOneInternedDefinition) {
  MasterWorld fixture;
  const absl::Time due = fixture.Now() + absl::Hours(1);
  const auto event = fixture.Call(&EventApi::CreateEvent, ValidEvent(due));
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(event->name(), "tenants/default/events/" + event->event_id());
  const auto events = fixture.Events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].first, *ParseServerMadeEventId(event->event_id()));
  EXPECT_EQ(events[0].first.lane, 5);
  EXPECT_EQ(events[0].first.due_time, due);
  EXPECT_EQ(events[0].second.event_id(), "");  // the key tells it
  EXPECT_EQ(events[0].second.payload(), "payload");
  EXPECT_EQ(fixture.Rows(ColumnFamily::kDefinitions).size(), 1u);
  EXPECT_TRUE(fixture.Rows(ColumnFamily::kEventNames).empty());

  const auto got = fixture.Call(&EventApi::GetEvent, GetRequest(event->name()));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->state(), v1::PENDING);
  EXPECT_EQ(got->payload(), "payload");
  EXPECT_EQ(got->target().grpc().uri(), "dns:///localhost:50051");
  EXPECT_EQ(got->delivery_timeout().seconds(), 10);

  // The same delivery again needs no second definition.
  ASSERT_TRUE(fixture.Call(&EventApi::CreateEvent, ValidEvent(due)).ok());
  EXPECT_EQ(fixture.Rows(ColumnFamily::kDefinitions).size(), 1u);
  EXPECT_EQ(fixture.Events().size(), 2u);
}

TEST(EventService, AnEventThatIsLateAlreadyIsDueNow) {
  MasterWorld fixture;
  const absl::Time due = fixture.Now() - absl::Hours(48);
  ASSERT_TRUE(fixture.Call(&EventApi::CreateEvent, ValidEvent(due, "late")).ok());
  const auto events = fixture.Events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_GT(events[0].first.due_time, fixture.Now() - absl::Seconds(1));
  EXPECT_LE(events[0].first.due_time, fixture.Now());
  EXPECT_EQ(events[0].second.nominal_time_micros(), ToMicros(due));
}

TEST(EventService, IdOfACancelledEventIsRefusedWithThatReason) {
  MasterWorld fixture;
  const absl::Time due = fixture.Now() + absl::Hours(1);
  for (const char* id : {"gone", "pending"})
    ASSERT_TRUE(fixture.Call(&EventApi::CreateEvent, ValidEvent(due, id)).ok());
  ASSERT_TRUE(
      fixture.Call(&EventApi::CancelEvent, CancelRequest("tenants/default/events/gone")).ok());
  for (const bool dry : {false, true}) {
    v1::CreateEventRequest again = ValidEvent(due, "gone");
    again.set_validate_only(dry);
    const auto refused = fixture.Call(&EventApi::CreateEvent, again);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(ErrorReason(refused.status()), "EVENT_CANCELLED");
    again.set_event_id("pending");
    EXPECT_EQ(ErrorReason(fixture.Call(&EventApi::CreateEvent, again).status()), "RESOURCE_EXISTS");
  }
  v1::IngestRequest batch = ValidBatch(due, 4);
  batch.mutable_events(1)->set_event_id("pending");
  batch.mutable_events(2)->set_event_id("new");
  batch.mutable_events(3)->set_event_id("gone");
  const auto answer = fixture.Ingest(batch);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->created_count(), 2);
  EXPECT_THAT(answer->existing_positions(), ::testing::ElementsAre(1, 3));
  EXPECT_THAT(answer->cancelled_positions(), ::testing::ElementsAre(3));
}

TEST(EventService, EventWithoutADueTimeIsDueNow) {
  MasterWorld fixture;
  v1::CreateEventRequest request = ValidEvent(fixture.Now(), "now");
  request.mutable_event()->clear_due_time();
  const auto event = fixture.Call(&EventApi::CreateEvent, request);
  ASSERT_TRUE(event.ok()) << event.status();
  const absl::Time due = FromMicros(*TimestampMicros(event->due_time()));
  EXPECT_GT(due, fixture.Now() - absl::Seconds(1));
  EXPECT_LE(due, fixture.Now());
  ASSERT_EQ(fixture.Events().size(), 1u);
  EXPECT_EQ(fixture.Events()[0].first.due_time, due);
}

TEST(EventService, AnswerOfACreationIsWhatGetShows) {
  MasterWorld fixture;
  v1::CreateEventRequest request = ValidEvent(fixture.Now() + absl::Hours(1));
  request.mutable_event()->mutable_max_lateness()->set_seconds(3600);
  const auto made = fixture.Call(&EventApi::CreateEvent, request);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->max_lateness().seconds(), 3600);
  const auto got = fixture.Call(&EventApi::GetEvent, GetRequest(made->name()));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(made->status(), v1::Event::SCHEDULED);
  EXPECT_EQ(made->DebugString(), got->DebugString());
}

TEST(EventService, AClientChosenIdIsTakenOnce) {
  MasterWorld fixture;
  const absl::Time due = fixture.Now() + absl::Hours(1);
  ASSERT_TRUE(fixture.Call(&EventApi::CreateEvent, ValidEvent(due, "mine")).ok());
  const std::string before = fixture.Dump();
  const auto again = fixture.Call(&EventApi::CreateEvent, ValidEvent(due + absl::Hours(1), "mine"));
  EXPECT_EQ(again.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ErrorMetadataValue(again.status(), "resource"), "tenants/default/events/mine");
  EXPECT_EQ(fixture.Dump(), before);
  const auto got = fixture.Call(&EventApi::GetEvent, GetRequest("tenants/default/events/mine"));
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->due_time().seconds(), absl::ToUnixSeconds(due));
}

TEST(EventService, ABatchIsCreatedWholeOrNotAtAll) {
  MasterWorld fixture;
  const absl::Time due = fixture.Now() + absl::Hours(1);
  ASSERT_TRUE(fixture.Call(&EventApi::CreateEvent, ValidEvent(due, "b")).ok());
  const std::string before = fixture.Dump();
  v1::BatchCreateEventsRequest batch;
  batch.set_parent("tenants/default");
  for (const char* id : {"a", "b", "c"}) *batch.add_requests() = ValidEvent(due, id);
  const auto refused = fixture.Call(&EventApi::BatchCreateEvents, batch);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ErrorMetadataValue(refused.status(), "resource"), "tenants/default/events/b");
  EXPECT_EQ(fixture.Dump(), before);
  batch.mutable_requests(1)->set_event_id("");
  const auto created = fixture.Call(&EventApi::BatchCreateEvents, batch);
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ(created->events_size(), 3);
  EXPECT_EQ(created->events(2).name(), "tenants/default/events/c");
  EXPECT_TRUE(created->events(0).payload().empty());
  EXPECT_EQ(fixture.Events().size(), 4u);
}

TEST(EventService, BadEventsAreRefusedByFieldAndNothingIsWritten) {
  MasterWorld fixture;
  const absl::Time due = fixture.Now() + absl::Hours(1);
  const std::string before = fixture.Dump();
  v1::CreateEventRequest event = ValidEvent(due);
  event.mutable_event()->mutable_due_time()->set_nanos(-1);
  EXPECT_EQ(FirstField(fixture.Call(&EventApi::CreateEvent, event).status()), "event.due_time");
  event = ValidEvent(due, "no spaces");
  EXPECT_EQ(FirstField(fixture.Call(&EventApi::CreateEvent, event).status()), "event_id");
  event = ValidEvent(due);
  event.mutable_event()->clear_target();
  EXPECT_EQ(FirstField(fixture.Call(&EventApi::CreateEvent, event).status()), "event.target");
  event = ValidEvent(due);
  event.clear_event();
  EXPECT_EQ(FirstField(fixture.Call(&EventApi::CreateEvent, event).status()), "event");
  event = ValidEvent(due);
  event.set_parent("tenants");
  EXPECT_EQ(FirstField(fixture.Call(&EventApi::CreateEvent, event).status()), "parent");
  event = ValidEvent(absl::FromUnixSeconds(7'258'118'400));
  EXPECT_EQ(FirstField(fixture.Call(&EventApi::CreateEvent, event).status()), "event.due_time");
  for (const int seconds : {0, -1, 366 * 24 * 3600 + 1}) {
    event = ValidEvent(due);
    event.mutable_event()->mutable_max_lateness()->set_seconds(seconds);
    EXPECT_EQ(FirstField(fixture.Call(&EventApi::CreateEvent, event).status()),
              "event.max_lateness");
  }
  v1::BatchCreateEventsRequest batch;
  batch.set_parent("tenants/default");
  EXPECT_EQ(FirstField(fixture.Call(&EventApi::BatchCreateEvents, batch).status()), "requests");
  *batch.add_requests() = ValidEvent(due);
  *batch.add_requests() = ValidEvent(due);
  batch.mutable_requests(1)->mutable_event()->set_payload(std::string(262'145, 'x'));
  EXPECT_EQ(FirstField(fixture.Call(&EventApi::BatchCreateEvents, batch).status()),
            "requests[1].event.payload");
  // An id that looks as if the server had made it would be looked for at another place.
  event = ValidEvent(due, ServerMadeEventId({.shard = 1,
                                             .lane = 5,
                                             .due_time = due,
                                             .uid = Uid::FromHalves(1, 2),
                                             .occurrence = ""}));
  EXPECT_EQ(FirstField(fixture.Call(&EventApi::CreateEvent, event).status()), "event_id");
  EXPECT_EQ(fixture.Dump(), before);
}

TEST(EventService, PayloadThatFitsIntoNoSqsMessageIsRefused) {
  MasterWorld fixture;
  const absl::Time due = fixture.Now() + absl::Hours(1);
  v1::Target sqs;
  sqs.mutable_sqs()->set_queue_url("https://sqs.eu-central-1.amazonaws.com/1/q");
  const auto fields_of = [&](const std::string& payload) {
    v1::CreateEventRequest event = ValidEvent(due);
    *event.mutable_event()->mutable_target() = sqs;
    event.mutable_event()->set_payload(payload);
    v1::IngestRequest batch = ValidBatch(due, 2);
    *batch.mutable_events(1)->mutable_overrides()->mutable_target() = sqs;
    batch.mutable_events(1)->set_payload(payload);
    return FirstField(fixture.Call(&EventApi::CreateEvent, event).status()) + " " +
           FirstField(fixture.Ingest(batch).status());
  };
  const std::string accepted = fields_of("small");
  EXPECT_EQ(fields_of(std::string(260'096, 'x')), accepted);
  EXPECT_EQ(fields_of(std::string(260'097, 'x')), "event.payload events[1].payload");
  // It is sent as base64.
  EXPECT_EQ(fields_of(std::string(195'072, '\0')), accepted);
  EXPECT_EQ(fields_of(std::string(195'073, '\0')), "event.payload events[1].payload");
}

TEST(EventService, TheSameRequestIdGivesTheSameAnswerAndOneEffect) {
  MasterWorld fixture;
  v1::CreateEventRequest request = ValidEvent(fixture.Now() + absl::Hours(1));
  request.set_request_id("r-1");
  const auto first = fixture.Call(&EventApi::CreateEvent, request);
  ASSERT_TRUE(first.ok());
  const std::string before = fixture.Dump();
  const auto second = fixture.Call(&EventApi::CreateEvent, request);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(first->SerializeAsString(), second->SerializeAsString());
  request.mutable_event()->set_payload("other");
  const auto other = fixture.Call(&EventApi::CreateEvent, request);
  EXPECT_EQ(ErrorReason(other.status()), "REQUEST_ID_REUSED");
  EXPECT_EQ(fixture.Dump(), before);
}

TEST(EventService, TwoEqualRequestsAtTheSameMomentHaveOneEffect) {
  MasterWorld fixture;
  v1::CreateEventRequest request = ValidEvent(fixture.Now() + absl::Hours(1));
  request.set_request_id("r");
  std::vector<std::string> names;
  for (int i = 0; i < 3; ++i) {
    fixture.master->events().CreateEvent(request, [&](absl::StatusOr<v1::Event> event) {
      ASSERT_TRUE(event.ok()) << event.status();
      names.push_back(event->name());
    });
  }
  ASSERT_TRUE(fixture.runtime.RunUntil([&] { return names.size() == 3; }, absl::Minutes(1)));
  EXPECT_EQ(names, std::vector<std::string>(3, names[0]));
  EXPECT_EQ(fixture.Events().size(), 1u);
}

TEST(EventService, IngestCountsNewAndExistingEventsAndReturnsServerMadeIds) {
  MasterWorld fixture;
  const absl::Time due = fixture.Now() + absl::Hours(1);
  v1::IngestRequest batch = ValidBatch(due, 4);
  batch.set_batch_number(7);
  batch.mutable_events(1)->set_event_id("x");
  batch.mutable_events(2)->set_event_id("x");  // twice in one batch
  const auto first = fixture.Ingest(batch, /*return_ids=*/true);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->batch_number(), 7u);
  EXPECT_EQ(first->created_count(), 3);
  EXPECT_EQ(first->existing_count(), 1);
  ASSERT_EQ(first->event_ids_size(), 2);
  const auto got = fixture.Call(&EventApi::GetEvent,
                                GetRequest("tenants/default/events/" + first->event_ids(1)));
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->payload(), "payload 3");

  batch.mutable_events(1)->set_payload("changed");
  const auto second = fixture.Ingest(batch);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->created_count(), 2);
  EXPECT_EQ(second->existing_count(), 2);
  EXPECT_EQ(second->event_ids_size(), 0);
  EXPECT_EQ(fixture.Call(&EventApi::GetEvent, GetRequest("tenants/default/events/x"))->payload(),
            "payload 1");
  EXPECT_EQ(fixture.Events().size(), 5u);
  EXPECT_EQ(fixture.Rows(ColumnFamily::kDefinitions).size(), 1u);
}

// Old deliveries are collected by period (event_table.h), so each period has its own.
TEST(EventService, IngestStoresADeliveryForEachPeriodOfDueTimes) {
  MasterWorld fixture;
  const absl::Time due = fixture.Now() + absl::Hours(1);
  v1::IngestRequest batch = ValidBatch(due, 6);
  for (int i = 0; i < 6; ++i) {
    const absl::Time later = due + i % 3 * absl::Hours(28 * 24);
    batch.mutable_events(i)->set_due_time_micros(ToMicros(later));
  }
  ASSERT_TRUE(fixture.Ingest(batch).ok());
  EXPECT_EQ(fixture.Rows(ColumnFamily::kDefinitions).size(), 3u);
  ASSERT_TRUE(fixture.Ingest(batch).ok());
  EXPECT_EQ(fixture.Rows(ColumnFamily::kDefinitions).size(), 3u);
  const auto events = fixture.Events();
  ASSERT_EQ(events.size(), 12u);
  for (const auto& [key, row] : events) {
    const Uid hash = Uid::FromBytes(row.definition_hash());
    EXPECT_EQ(DeliveryPeriodOf(hash), DeliveryPeriodOf(key.due_time));
    EXPECT_TRUE(fixture.Get(ColumnFamily::kDefinitions, InternKey(hash)).has_value());
  }
}

// These fields have places of their own, or are the server's.
TEST(EventService, IngestRefusesDefaultsAndOverridesThatHaveNoEffect) {
  MasterWorld fixture;
  v1::IngestRequest batch = ValidBatch(fixture.Now() + absl::Hours(1), 2);
  batch.mutable_defaults()->set_payload("p");
  batch.mutable_events(1)->mutable_overrides()->set_event_id("x");
  batch.mutable_events(1)->mutable_overrides()->set_name("tenants/default/events/x");
  std::set<std::string> fields;
  for (const auto& [field, _] : FieldViolationsOf(fixture.Ingest(batch).status()))
    fields.insert(field);
  EXPECT_EQ(fields, (std::set<std::string>{"defaults.payload", "events[1].overrides.event_id",
                                           "events[1].overrides.name"}));
}

TEST(EventService, IngestOverridesOnlyWhatDiffers) {
  MasterWorld fixture;
  v1::IngestRequest batch = ValidBatch(fixture.Now() + absl::Hours(1), 3);
  batch.mutable_defaults()->mutable_delivery_timeout()->set_seconds(3);
  batch.mutable_defaults()->mutable_max_lateness()->set_seconds(60);
  batch.mutable_events(1)->mutable_overrides()->set_priority(0);
  batch.mutable_events(1)->mutable_overrides()->mutable_target()->mutable_http()->set_uri(
      "http://h/");
  batch.mutable_events(2)->mutable_overrides()->mutable_max_lateness()->set_seconds(7);
  const auto answer = fixture.Ingest(batch, true);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const auto got = fixture.Call(&EventApi::GetEvent,
                                GetRequest("tenants/default/events/" + answer->event_ids(1)));
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->target().http().uri(), "http://h/");
  EXPECT_EQ(got->delivery_timeout().seconds(), 3);
  EXPECT_EQ(got->priority(), 0);
  for (const auto& [index, seconds] : {std::pair(0, 60), std::pair(1, 60), std::pair(2, 7)}) {
    const auto event = fixture.Call(
        &EventApi::GetEvent, GetRequest("tenants/default/events/" + answer->event_ids(index)));
    EXPECT_EQ(event->max_lateness().seconds(), seconds) << index;
  }
}

TEST(EventService, ABadIngestBatchIsRefusedWholeAndNamesTheEvent) {
  MasterWorld fixture;
  const absl::Time due = fixture.Now() + absl::Hours(1);
  const std::string before = fixture.Dump();
  v1::IngestRequest batch = ValidBatch(due, 3);
  batch.mutable_events(1)->set_payload(std::string(262'145, 'x'));
  EXPECT_EQ(FirstField(fixture.Ingest(batch).status()), "events[1].payload");
  batch = ValidBatch(due, 3);
  batch.mutable_defaults()->clear_target();
  EXPECT_EQ(FirstField(fixture.Ingest(batch).status()), "defaults.target");
  batch = ValidBatch(due, 0);
  EXPECT_EQ(FirstField(fixture.Ingest(batch).status()), "events");
  batch = ValidBatch(due, 5001);
  EXPECT_EQ(FirstField(fixture.Ingest(batch).status()), "events");
  batch = ValidBatch(due, 3);
  batch.mutable_events(2)->mutable_overrides()->set_priority(11);
  EXPECT_EQ(FirstField(fixture.Ingest(batch).status()), "events[2].overrides.priority");
  batch = ValidBatch(due, 3);
  batch.set_parent("");
  EXPECT_EQ(FirstField(fixture.Ingest(batch).status()), "parent");
  EXPECT_EQ(fixture.Dump(), before);
}

TEST(EventService, CancelEndsAWaitingEvent) {
  MasterWorld fixture;
  const auto event =
      fixture.Call(&EventApi::CreateEvent, ValidEvent(fixture.Now() + absl::Hours(1)));
  ASSERT_TRUE(event.ok());
  const auto cancelled = fixture.Call(&EventApi::CancelEvent, CancelRequest(event->name(), "c"));
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_EQ(cancelled->state(), v1::ENDED);
  EXPECT_EQ(cancelled->outcome(), v1::CANCELLED);
  EXPECT_TRUE(fixture.Events().empty());
  EXPECT_EQ(fixture.Rows(ColumnFamily::kDone).size(), 1u);
  EXPECT_EQ(fixture.Call(&EventApi::GetEvent, GetRequest(event->name()))->outcome(), v1::CANCELLED);
  // Repeated with its request_id it is the same answer; without it, too late.
  EXPECT_TRUE(fixture.Call(&EventApi::CancelEvent, CancelRequest(event->name(), "c")).ok());
  EXPECT_EQ(
      ErrorReason(fixture.Call(&EventApi::CancelEvent, CancelRequest(event->name())).status()),
      "EVENT_ENDED");
  EXPECT_TRUE(absl::IsNotFound(
      fixture.Call(&EventApi::CancelEvent, CancelRequest("tenants/default/events/none")).status()));
}

TEST(EventService, AClaimedEventIsRunningAndCannotBeCancelled) {
  MasterWorld fixture;
  ASSERT_TRUE(fixture.Call(&EventApi::CreateEvent, ValidEvent(fixture.Now(), "e")).ok());
  fixture.Commit({ClaimOf(fixture.Events()[0].first)});
  const std::string before = fixture.Dump();
  const auto cancelled =
      fixture.Call(&EventApi::CancelEvent, CancelRequest("tenants/default/events/e"));
  EXPECT_EQ(cancelled.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(cancelled.status()), "EVENT_RUNNING");
  EXPECT_EQ(fixture.Dump(), before);
  EXPECT_EQ(fixture.Call(&EventApi::GetEvent, GetRequest("tenants/default/events/e"))->state(),
            v1::RUNNING);
}

TEST(EventService, ClaimOrCancelAtTheSameMomentWins) {
  // The claim is committed at every step of the cancel; whatever the order, the event is not both
  // claimed and gone.
  int cancelled_count = 0;
  int running_count = 0;
  for (int steps = 0; steps < 60; ++steps) {
    MasterWorld fixture;
    ASSERT_TRUE(fixture.Call(&EventApi::CreateEvent, ValidEvent(fixture.Now(), "e")).ok());
    const EventKey key = fixture.Events()[0].first;
    std::optional<absl::StatusOr<v1::Event>> answer;
    fixture.master->events().CancelEvent(
        CancelRequest("tenants/default/events/e"),
        [&](absl::StatusOr<v1::Event> event) { answer = std::move(event); });
    for (int i = 0; i < steps && fixture.runtime.world().Step(); ++i) {
    }
    if (fixture.Events().empty()) {
      ++cancelled_count;
      continue;  // cancelled before the claim: a claim would fail on the row
    }
    bool claimed = false;
    {
      std::optional<bool> applied;
      fixture.TryCommit({ClaimOf(key)}, [&](bool all) { applied = all; });
      ASSERT_TRUE(fixture.runtime.RunUntil(
          [&] { return applied.has_value() && answer.has_value(); }, absl::Minutes(1)));
      claimed = *applied;
    }
    EXPECT_NE(claimed, answer->ok()) << steps;
    EXPECT_EQ(fixture.Events().empty(), answer->ok()) << steps;
    ++(answer->ok() ? cancelled_count : running_count);
  }
  EXPECT_GT(cancelled_count, 0);
  EXPECT_GT(running_count, 0);
}

TEST(EventService, ARetriedEventIsFoundByItsName) {
  MasterWorld fixture;
  const auto event = fixture.Call(&EventApi::CreateEvent, ValidEvent(fixture.Now()));
  ASSERT_TRUE(event.ok());
  auto [key, row] = fixture.Events()[0];
  const std::string old_key = EncodeEventKey(key);
  // As the handler after a failed attempt: the row moves to the retry lane, the name tells where.
  key.lane = kLaneRetry;
  key.due_time += absl::Hours(1);
  row.set_attempts(1);
  row.set_last_error("503");
  storage::v1::EventNameRecord name;
  name.set_event_key(EncodeEventKey(key));
  name.set_launch_time_micros(row.launch_time_micros());
  kv::Group group;
  group.mutations.push_back(
      {.cf = ColumnFamily::kEvents, .kind = kv::Mutation::Kind::kDelete, .key = old_key});
  group.mutations.push_back(
      {.cf = ColumnFamily::kEvents, .key = EncodeEventKey(key), .value = row.SerializeAsString()});
  group.mutations.push_back({.cf = ColumnFamily::kEventNames,
                             .key = EventNameKey("default", event->event_id()),
                             .value = name.SerializeAsString()});
  fixture.Commit({group});
  const auto got = fixture.Call(&EventApi::GetEvent, GetRequest(event->name()));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->state(), v1::PENDING);
  EXPECT_EQ(got->attempts(), 1);
  EXPECT_EQ(got->reason(), "503");
  ASSERT_TRUE(fixture.Call(&EventApi::CancelEvent, CancelRequest(event->name())).ok());
  EXPECT_TRUE(fixture.Rows(ColumnFamily::kEventNames).empty());
  EXPECT_EQ(fixture.Call(&EventApi::GetEvent, GetRequest(event->name()))->outcome(), v1::CANCELLED);
}

TEST(EventService, RememberedAnswersAreDroppedAfterADay) {
  MasterWorld fixture;
  v1::CreateEventRequest request = ValidEvent(fixture.Now() + absl::Hours(1));
  request.set_request_id("r");
  ASSERT_TRUE(fixture.Call(&EventApi::CreateEvent, request).ok());
  fixture.runtime.AdvanceBy(absl::Hours(23));
  EXPECT_EQ(fixture.Rows(ColumnFamily::kRequests).size(), 1u);
  fixture.runtime.AdvanceBy(absl::Hours(2));
  EXPECT_EQ(fixture.Rows(ColumnFamily::kRequests).size(), 0u);
}

// There may be more than a page of them.
TEST(EventService, HoweverManyAnswersWereRememberedTheyAreDropped) {
  MasterWorld fixture;
  storage::v1::RequestRecord record;
  record.set_time_micros(ToMicros(fixture.Now() - absl::Hours(25)));
  record.set_response(std::string(10'000, 'r'));
  for (int i = 0; i < 3000; ++i) {
    fixture.Put(ColumnFamily::kRequests, RequestKey("default", absl::StrCat("r", i)),
                record.SerializeAsString());
  }
  fixture.runtime.AdvanceBy(absl::Hours(3));
  EXPECT_EQ(fixture.Rows(ColumnFamily::kRequests).size(), 0u);
}

}  // namespace event_service_test
}  // namespace escapement::master
