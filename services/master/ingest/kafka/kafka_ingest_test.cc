// Events from a mock Kafka cluster: what becomes an event, what goes to the error topic, and which
// offsets are committed.

#include "services/master/ingest/kafka/kafka_ingest.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/kafka/ingest_test.h"

namespace escapement::master {
namespace kafka_ingest_test {

using ::escapement::fixtures::KafkaRecord;
using ::testing::HasSubstr;

class KafkaIngestTest : public IngestTest {};

TEST_F(KafkaIngestTest, MessagesBecomeEventsOfTheirTenants) {
  cluster_.MakeTopic("orders", 1);
  v1::Event event;
  event.set_event_id("binary");
  event.set_payload(std::string("\0\xff", 2));
  cluster_.Produce("orders", {.value = EventJson("json")});
  cluster_.Produce("orders", {.value = event.SerializeAsString(),
                              .headers = {{"content-type", "application/protobuf"},
                                          {"escapement-tenant", "team-b"}}});
  cluster_.Produce("orders", {.value = "{}"});
  Member& member = Start(OptionsOf({"orders=team-a|team-b"}));
  ASSERT_TRUE(events_.AwaitCount(3));
  AwaitCommitted("orders", 0, 3);
  const FakeEvents::Events events = events_.events();
  EXPECT_EQ(events.count("tenants/team-a/events/json"), 1u);
  ASSERT_EQ(events.count("tenants/team-b/events/binary"), 1u);
  EXPECT_EQ(events.at("tenants/team-b/events/binary").payload(), std::string("\0\xff", 2));
  EXPECT_THAT(events.begin()->first, HasSubstr("tenants/team-a/events/"));
  int made = 0;
  for (const auto& [name, unused] : events)
    made += absl::StrContains(name, "tenants/team-a/events/kafka-0-2-") ? 1 : 0;
  EXPECT_EQ(made, 1) << "the id names partition and offset";
  Stop(member);
  EXPECT_EQ(member.metrics.messages.Value(), 3);
  EXPECT_EQ(member.metrics.events.Value(), 3);
  EXPECT_EQ(member.metrics.in_flight.Value(), 0);
}

TEST_F(KafkaIngestTest, MessageThatIsReadAgainMakesNoSecondEvent) {
  cluster_.MakeTopic("orders", 2);
  cluster_.Produce("orders", {.partition = -1, .value = "{}"}, 200);
  Member& first = Start(OptionsOf({"orders"}));
  ASSERT_TRUE(events_.AwaitCount(200));
  AwaitCommitted("orders", 0, 100);
  AwaitCommitted("orders", 1, 100);
  Stop(first);
  // Another group begins with the oldest message.
  KafkaIngestOptions again = OptionsOf({"orders"});
  again.group = "others";
  Member& second = Start(again);
  cluster_.AwaitCommitted("others", "orders", 0, 100);
  cluster_.AwaitCommitted("others", "orders", 1, 100);
  Stop(second);
  EXPECT_EQ(events_.events().size(), 200u);
  EXPECT_EQ(second.metrics.duplicates.Value(), 200);
  EXPECT_EQ(second.metrics.events.Value(), 0);
}

TEST_F(KafkaIngestTest, MessageWithTheIdOfACancelledEventHasAnErrorRecord) {
  cluster_.MakeTopic("orders", 1);
  cluster_.Produce("orders", {.value = R"({"eventId":"x"})"}, 1);
  cluster_.Produce("orders", {.value = "{}"}, 1);
  Member& first = Start(OptionsOf({"orders"}));
  ASSERT_TRUE(events_.AwaitCount(2));
  AwaitCommitted("orders", 0, 2);
  Stop(first);
  events_.CancelAll();
  // Another group reads both again: only the one with an id of its own may be another event.
  KafkaIngestOptions again = OptionsOf({"orders"});
  again.group = "others";
  Member& second = Start(again);
  const auto records = cluster_.AwaitRecords(kErrors, 1);
  EXPECT_EQ(records.at(0).Header("escapement-error-code"), "ALREADY_EXISTS");
  cluster_.AwaitCommitted("others", "orders", 0, 2);
  Stop(second);
  EXPECT_EQ(second.metrics.errors.Value(), 1);
}

TEST_F(KafkaIngestTest, MessagesOfOneIdAreAppliedInTheirOrder) {
  // Batches are refused for a while, or in parts: what follows must not overtake them.
  int calls = 0;
  events_.RefuseBy([&calls](const v1::IngestRequest& request) {
    if (++calls % 2 == 0 || calls > 40) return absl::OkStatus();
    if (calls % 4 == 1) return absl::UnavailableError("later");
    return request.events_size() > 1 ? absl::InvalidArgumentError("too many") : absl::OkStatus();
  });
  cluster_.MakeTopic("orders", 1);
  constexpr int kVersions = 60;
  for (int i = 1; i <= kVersions; ++i) {
    for (const char* id : {"a", "b"}) {
      cluster_.Produce("orders", {.key = id,
                                  .value = absl::StrCat(
                                      R"({"priority":)", i % 10, R"(,"dueTime":)",
                                      R"("2050-01-01T00:00:00Z","contentType":"x/)", i, R"("})"),
                                  .headers = {{"escapement-mode", "UPSERT"}}});
    }
    if (i % 3 == 0) cluster_.Produce("orders", {.key = "b", .value = std::nullopt});
  }
  KafkaIngestOptions options = OptionsOf({"orders"});
  options.batch_max = 20;
  options.backoff_max = absl::Milliseconds(5);
  Member& member = Start(options);
  AwaitCommitted("orders", 0, 2 * kVersions + kVersions / 3);
  Stop(member);
  const FakeEvents::Events events = events_.events();
  ASSERT_EQ(events.size(), 1u) << "b was cancelled last";
  EXPECT_EQ(events.begin()->second.overrides().content_type(), absl::StrCat("x/", kVersions));
  EXPECT_EQ(member.metrics.errors.Value(), 0);
}

TEST_F(KafkaIngestTest, CancelOfNothingHasAnErrorRecord) {
  cluster_.MakeTopic("orders", 1);
  cluster_.Produce("orders", {.key = "never", .value = std::nullopt});
  Member& member = Start(OptionsOf({"orders"}));
  const auto records = cluster_.AwaitRecords(kErrors, 1);
  EXPECT_EQ(records.at(0).Header("escapement-error-code"), "NOT_FOUND");
  AwaitCommitted("orders", 0, 1);
  Stop(member);
}

TEST_F(KafkaIngestTest, HopelessMessagesGoToTheErrorTopic) {
  events_.RefuseBy([](const v1::IngestRequest& request) {
    FieldViolations violations;
    for (int i = 0; i < request.events_size(); ++i) {
      if (request.events(i).overrides().target().has_http())
        violations.Add(absl::StrCat("events[", i, "].overrides.target.http.uri"), "is wrong");
    }
    return violations.ToStatus();
  });
  cluster_.MakeTopic("orders", 1);
  cluster_.Produce("orders", {.value = EventJson("good-1")});
  cluster_.Produce("orders", {.key = "k", .value = "{\"colour\"", .headers = {{"own", "header"}}});
  cluster_.Produce("orders", {.value = EventJson("x"), .headers = {{"escapement-tenant", "none"}}});
  cluster_.Produce("orders", {.value = R"({"target":{"http":{"uri":"?"}}})"});
  cluster_.Produce("orders", {.value = std::nullopt});
  cluster_.Produce("orders", {.value = EventJson("good-2")});
  Member& member = Start(OptionsOf({"orders"}));
  const std::vector<KafkaRecord> errors = cluster_.AwaitRecords(kErrors, 4);
  AwaitCommitted("orders", 0, 6);
  Stop(member);
  EXPECT_EQ(events_.events().size(), 2u);
  EXPECT_EQ(member.metrics.errors.Value(), 4);
  ASSERT_EQ(errors.size(), 4u);
  std::map<std::string, KafkaRecord> by_offset;
  for (const KafkaRecord& record : errors) {
    EXPECT_EQ(record.Header("escapement-error-topic"), "orders");
    EXPECT_EQ(record.Header("escapement-error-partition"), "0");
    EXPECT_EQ(record.Header("escapement-error-group"), kGroup);
    by_offset[record.Header("escapement-error-offset")] = record;
  }
  const KafkaRecord& malformed = by_offset["1"];
  EXPECT_EQ(malformed.key, "k");
  EXPECT_EQ(malformed.value, "{\"colour\"");
  EXPECT_EQ(malformed.Header("own"), "header");
  EXPECT_EQ(malformed.Header("escapement-error-code"), "INVALID_ARGUMENT");
  EXPECT_THAT(malformed.Header("escapement-error"), HasSubstr("value: "));
  EXPECT_EQ(by_offset["2"].Header("escapement-error-code"), "PERMISSION_DENIED");
  EXPECT_EQ(by_offset["3"].Header("escapement-error"), "target.http.uri: is wrong");
  EXPECT_EQ(by_offset["4"].value, std::nullopt);
}

TEST_F(KafkaIngestTest, RefusalOfATenantGoesToTheErrorTopic) {
  events_.RefuseBy([](const v1::IngestRequest& request) -> absl::Status {
    return request.parent() == "tenants/gone" ? NotFound("tenants/gone") : absl::OkStatus();
  });
  cluster_.MakeTopic("orders", 1);
  cluster_.Produce("orders", {.value = "{}", .headers = {{"escapement-tenant", "gone"}}}, 5);
  cluster_.Produce("orders", {.value = "{}", .headers = {{"escapement-tenant", "here"}}}, 5);
  Member& member = Start(OptionsOf({"orders=*"}));
  EXPECT_EQ(cluster_.AwaitRecords(kErrors, 5).at(0).Header("escapement-error-code"), "NOT_FOUND");
  AwaitCommitted("orders", 0, 10);
  Stop(member);
  EXPECT_EQ(events_.events().size(), 5u);
}

TEST_F(KafkaIngestTest, PayloadAboveTheQuotaDoesNotStopTheOthers) {
  events_.RefuseBy([](const v1::IngestRequest& request) -> absl::Status {
    for (const v1::IngestEvent& event : request.events()) {
      if (event.payload().size() > 2)
        return QuotaExceeded(request.parent(), "max_payload_bytes", "is 2", absl::Hours(1));
    }
    return absl::OkStatus();
  });
  cluster_.MakeTopic("orders", 1);
  cluster_.Produce("orders", {.value = R"({"payload":"YQ=="})"}, 20);
  cluster_.Produce("orders", {.value = R"({"payload":"YWFhYWFh"})"});
  cluster_.Produce("orders", {.value = R"({"payload":"YQ=="})"}, 20);
  Member& member = Start(OptionsOf({"orders"}));
  AwaitCommitted("orders", 0, 41);
  Stop(member);
  EXPECT_EQ(events_.events().size(), 40u);
  EXPECT_EQ(cluster_.Read(kErrors).at(0).Header("escapement-error-offset"), "20");
}

TEST_F(KafkaIngestTest, OffsetIsCommittedOnlyUpToTheFirstMessageWithoutAnswer) {
  cluster_.MakeTopic("orders", 1);
  const auto produce = [this](const char* tenant, size_t count) {
    cluster_.Produce("orders", {.value = "{}", .headers = {{"escapement-tenant", tenant}}}, count);
  };
  produce("slow", 3);
  Member& first = Start(OptionsOf({"orders=*"}));
  AwaitCommitted("orders", 0, 3);
  events_.HoldAnswers("tenants/slow");
  produce("slow", 1);
  produce("quick", 5);
  ASSERT_TRUE(Await([&] { return first.metrics.events.Value() == 8; }));
  Stop(first);  // commits what it may
  EXPECT_EQ(cluster_.Committed(kGroup, "orders", 0), 3);
  events_.ReleaseAnswers();
  Member& second = Start(OptionsOf({"orders=*"}));
  AwaitCommitted("orders", 0, 9);
  Stop(second);
  EXPECT_EQ(events_.events().size(), 9u);
  EXPECT_EQ(second.metrics.duplicates.Value(), 6);
}

TEST_F(KafkaIngestTest, StopWaitsForAnswersAndCommitsThem) {
  cluster_.MakeTopic("orders", 1);
  cluster_.Produce("orders", {.value = "{}"}, 50);
  events_.HoldAnswers();
  Member& member = Start(OptionsOf({"orders"}));
  ASSERT_TRUE(events_.AwaitCount(1));
  absl::Notification stopped;
  member.ingest->Stop([&] { stopped.Notify(); });
  EXPECT_FALSE(stopped.HasBeenNotified());
  events_.ReleaseAnswers();
  stopped.WaitForNotification();
  EXPECT_EQ(static_cast<size_t>(cluster_.Committed(kGroup, "orders", 0)), events_.events().size());
  EXPECT_GT(events_.events().size(), 0u);
}

}  // namespace kafka_ingest_test
}  // namespace escapement::master
