// One-off events at the bounds of the API: repeated ids, sizes, fractions of a microsecond.

#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/status/errors.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace event_bounds_test {

v1::BatchCreateEventsRequest EmptyBatch() {
  v1::BatchCreateEventsRequest batch;
  batch.set_parent("tenants/default");
  return batch;
}

void ExpectRefused(const absl::Status& status, const std::string& field) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  ASSERT_EQ(FieldViolationsOf(status).size(), 1u) << status;
  EXPECT_EQ(FieldViolationsOf(status)[0].first, field);
}

void AddLargeHeaders(v1::Target& target, int i) {
  target.mutable_http()->set_uri(absl::StrCat("http://h/", i));
  for (int h = 0; h < 32; ++h)
    (*target.mutable_http()->mutable_headers())[absl::StrCat("X-", h)] = std::string(4096, 'v');
}

TEST(EventBounds, ABatchWithOneIdTwiceIsRefusedAndTheSecondNamed) {
  MasterWorld fixture;
  const std::string before = fixture.Dump();
  const absl::Time due = fixture.Now() + absl::Seconds(1);
  for (const absl::Duration apart : {absl::ZeroDuration(), absl::Seconds(1)}) {
    v1::BatchCreateEventsRequest batch = EmptyBatch();
    *batch.add_requests() = ValidEvent(due, "one");
    *batch.add_requests() = ValidEvent(due, "other");
    *batch.add_requests() = ValidEvent(due);
    *batch.add_requests() = ValidEvent(due + apart, "one");
    *batch.add_requests() = ValidEvent(due);
    ExpectRefused(fixture.Call(&EventApi::BatchCreateEvents, batch).status(),
                  "requests[3].event_id");
  }
  EXPECT_EQ(fixture.Dump(), before);
}

TEST(EventBounds, AnIdThatAnIngestBatchRepeatsIsCreatedOnceAsItCameFirst) {
  MasterWorld fixture;
  v1::IngestRequest batch = ValidBatch(fixture.Now() + absl::Hours(1), 3);
  batch.mutable_events(0)->set_event_id("one");
  batch.mutable_events(2)->set_event_id("one");
  const auto answer = fixture.Ingest(batch);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->created_count(), 2);
  EXPECT_EQ(answer->existing_count(), 1);
  EXPECT_EQ(fixture.Events().size(), 2u);
  v1::GetEventRequest get;
  get.set_name("tenants/default/events/one");
  const auto event = fixture.Call(&EventApi::GetEvent, get);
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(event->payload(), "payload 0");
}

TEST(EventBounds, ADueTimeIsRoundedUpToAMicrosecondInEveryAnswer) {
  MasterWorld fixture;
  v1::CreateEventRequest request = ValidEvent(fixture.Now() + absl::Hours(1), "one");
  google::protobuf::Timestamp* due = request.mutable_event()->mutable_due_time();
  const int64_t seconds = due->seconds();
  for (const auto& [nanos, shown_nanos, shown_seconds] :
       {std::tuple(999'999'900, 0, seconds + 1), std::tuple(1, 1000, seconds),
        std::tuple(5000, 5000, seconds)}) {
    request.set_event_id(absl::StrCat("at-", nanos));
    due->set_nanos(nanos);
    const auto created = fixture.Call(&EventApi::CreateEvent, request);
    ASSERT_TRUE(created.ok()) << created.status();
    EXPECT_EQ(created->due_time().seconds(), shown_seconds);
    EXPECT_EQ(created->due_time().nanos(), shown_nanos);
    v1::GetEventRequest get;
    get.set_name(created->name());
    const auto got = fixture.Call(&EventApi::GetEvent, get);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->due_time().SerializeAsString(), created->due_time().SerializeAsString());
  }
}

TEST(EventBounds, ABatchAboveTheTotalIsRefusedByItsField) {
  MasterWorld fixture;
  const std::string before = fixture.Dump();
  v1::BatchCreateEventsRequest batch = EmptyBatch();
  v1::IngestRequest ingest = ValidBatch(fixture.Now(), 33);
  for (int i = 0; i < 33; ++i) {
    v1::CreateEventRequest event = ValidEvent(fixture.Now());
    event.mutable_event()->set_payload(std::string(kPayloadBytesMax, 'x'));
    *batch.add_requests() = event;
    ingest.mutable_events(i)->set_payload(event.event().payload());
  }
  ExpectRefused(fixture.Call(&EventApi::BatchCreateEvents, batch).status(), "requests");
  const auto refused = fixture.Ingest(ingest);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldViolationsOf(refused.status())[0].first, "events");
  EXPECT_EQ(fixture.Dump(), before);
  batch.mutable_requests()->DeleteSubrange(31, 2);
  EXPECT_TRUE(fixture.Call(&EventApi::BatchCreateEvents, batch).ok());
}

// The answer repeats the targets: nothing is stored that the client could not be told.
TEST(EventBounds, ABatchWhoseAnswerIsTooLargeIsRefusedBeforeItIsStored) {
  MasterWorld fixture;
  const std::string before = fixture.Dump();
  v1::BatchCreateEventsRequest batch = EmptyBatch();
  for (int i = 0; i < 40; ++i) {
    *batch.add_requests() = ValidEvent(fixture.Now());
    AddLargeHeaders(*batch.mutable_requests(i)->mutable_event()->mutable_target(), 0);
  }
  ASSERT_LT(batch.ByteSizeLong(), kBatchBytesMax);
  ExpectRefused(fixture.Call(&EventApi::BatchCreateEvents, batch).status(), "requests");
  EXPECT_EQ(fixture.Dump(), before);
  batch.mutable_requests()->DeleteSubrange(30, 10);
  const auto created = fixture.Call(&EventApi::BatchCreateEvents, batch);
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_LT(created->ByteSizeLong(), size_t{4} << 20);
}

// Small overrides of large defaults: each makes a delivery that is stored.
TEST(EventBounds, OverridesThatMakeTooManyLargeDeliveriesAreRefused) {
  MasterWorld fixture;
  const std::string before = fixture.Dump();
  v1::IngestRequest batch = ValidBatch(fixture.Now(), 500);
  AddLargeHeaders(*batch.mutable_defaults()->mutable_target(), 0);
  for (int i = 0; i < batch.events_size(); ++i)
    batch.mutable_events(i)->mutable_overrides()->set_content_type(absl::StrCat("text/", i));
  ExpectRefused(fixture.Ingest(batch).status(), "events");
  EXPECT_EQ(fixture.Dump(), before);
  batch.mutable_events()->DeleteSubrange(40, 460);
  EXPECT_TRUE(fixture.Ingest(batch).ok());
}

}  // namespace event_bounds_test
}  // namespace escapement::master
