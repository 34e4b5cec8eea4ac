// The ingestion from Kafka while the store, the brokers or the error topic fail.

#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/kafka/ingest_test.h"

namespace escapement::master {
namespace kafka_ingest_faults_test {

using ::escapement::fixtures::KafkaRecord;

// Kafka's numbers of requests.
constexpr int kProduce = 0;
constexpr int kFetch = 1;
constexpr int kOffsetCommit = 8;
constexpr int kHeartbeat = 12;

class KafkaIngestFaultsTest : public IngestTest {
 protected:
  // Each event of `prefix`0 … is there, and nothing else.
  void ExpectEachOnce(const std::string& prefix, int partitions, int count) {
    const FakeEvents::Events events = events_.events();
    EXPECT_EQ(events.size(), static_cast<size_t>(partitions * count));
    for (int p = 0; p < partitions; ++p) {
      for (int i = 0; i < count; ++i) {
        EXPECT_EQ(events.count(absl::StrCat("tenants/default/events/", prefix, p, "-", i)), 1u)
            << p << "-" << i;
      }
    }
  }
};

TEST_F(KafkaIngestFaultsTest, RefusalThatMayPassPausesItsPartitionOnly) {
  std::atomic<bool> open = false;
  events_.RefuseBy([&open](const v1::IngestRequest& request) -> absl::Status {
    if (open || request.parent() != "tenants/busy") return absl::OkStatus();
    return QuotaExceeded(request.parent(), "max_events_per_second", "is 1", absl::Hours(1));
  });
  cluster_.MakeTopic("orders", 2);
  const auto produce = [this](int partition, const char* tenant, int count) {
    cluster_.Produce(
        "orders",
        {.partition = partition, .value = "{}", .headers = {{"escapement-tenant", tenant}}},
        static_cast<size_t>(count));
  };
  produce(0, "busy", 10);
  produce(1, "idle", 10);
  Member& member = Start(OptionsOf({"orders=*"}));
  AwaitCommitted("orders", 1, 10);
  ASSERT_TRUE(events_.Await([](const auto&, int batches) { return batches >= 5; }));
  produce(1, "idle", 10);
  AwaitCommitted("orders", 1, 20);
  EXPECT_LE(cluster_.Committed(kGroup, "orders", 0), 0);
  EXPECT_EQ(events_.events().size(), 20u);
  produce(0, "busy", 10);
  open = true;
  AwaitCommitted("orders", 0, 20);
  Stop(member);
  EXPECT_EQ(events_.events().size(), 40u);
  EXPECT_EQ(member.metrics.duplicates.Value(), 0);
  EXPECT_GE(member.metrics.retries.Value(), 3);
}

TEST_F(KafkaIngestFaultsTest, MessagesThatWaitLeaveRoomForOtherPartitions) {
  std::atomic<bool> open = false;
  events_.RefuseBy([&open](const v1::IngestRequest& request) -> absl::Status {
    if (open || request.parent() != "tenants/busy") return absl::OkStatus();
    return absl::UnavailableError("not now");
  });
  constexpr int kBusy = 20;  // partitions
  cluster_.MakeTopic("orders", kBusy + 1);
  const auto produce = [this](int partition, const char* tenant, size_t count) {
    cluster_.Produce(
        "orders",
        {.partition = partition, .value = "{}", .headers = {{"escapement-tenant", tenant}}}, count);
  };
  for (int partition = 0; partition < kBusy; ++partition) produce(partition, "busy", 50);
  KafkaIngestOptions options = OptionsOf({"orders=*"});
  options.batch_max = 10;
  options.in_flight_max = 60;
  Member& member = Start(options);
  // All that waits does not fit in memory.
  ASSERT_TRUE(Await([&] { return member.metrics.retries.Value() >= 100; }));
  produce(kBusy, "idle", 500);
  AwaitCommitted("orders", kBusy, 500);
  EXPECT_EQ(events_.events().size(), 500u);
  EXPECT_LE(cluster_.Committed(kGroup, "orders", 0), 0);
  open = true;
  for (int partition = 0; partition < kBusy; ++partition) AwaitCommitted("orders", partition, 50);
  Stop(member);
  EXPECT_EQ(events_.events().size(), 500u + kBusy * 50u);
  EXPECT_EQ(member.metrics.in_flight.Value(), 0);
}

TEST_F(KafkaIngestFaultsTest, QuotaSmallerThanABatchTakesItInParts) {
  events_.RefuseBy([](const v1::IngestRequest& request) -> absl::Status {
    if (request.events_size() <= 3) return absl::OkStatus();
    return QuotaExceeded(request.parent(), "max_pending_events", "is 3", absl::ZeroDuration());
  });
  MakeTopic("orders", 1, "e", 1);
  cluster_.Produce("orders", {.value = "{}"}, 40);
  Member& member = Start(OptionsOf({"orders"}));
  AwaitCommitted("orders", 0, 41);
  Stop(member);
  EXPECT_EQ(events_.events().size(), 41u);
}

TEST_F(KafkaIngestFaultsTest, MessagesInMemoryAreBounded) {
  cluster_.MakeTopic("orders", 2);
  cluster_.Produce("orders", {.partition = -1, .value = "{}"}, 1000);
  events_.HoldAnswers();
  KafkaIngestOptions options = OptionsOf({"orders"});
  options.batch_max = 10;
  options.in_flight_max = 50;
  Member& member = Start(options);
  // The last of them may wait in a batch that is not full.
  ASSERT_TRUE(Await([&] { return member.metrics.in_flight.Value() == 50; }));
  // Without room for a while it pauses, and still serves the group: it keeps its partitions.
  cluster_.Produce("orders", {.partition = -1, .value = "{}"}, 1000);
  EXPECT_LE(events_.events().size(), 50u);
  EXPECT_EQ(member.metrics.in_flight.Value(), 50);
  events_.ReleaseAnswers();
  AwaitCommitted("orders", 0, 1000);
  AwaitCommitted("orders", 1, 1000);
  Stop(member);
  EXPECT_EQ(events_.events().size(), 2000u);
  EXPECT_LE(events_.largest_batch(), 10);
  EXPECT_EQ(member.metrics.duplicates.Value(), 0);
}

TEST_F(KafkaIngestFaultsTest, BytesInMemoryAreBounded) {
  cluster_.MakeTopic("orders", 1);
  const std::string large = absl::StrCat("{\"payload\":\"", std::string(40'000, 'A'), "\"}");
  cluster_.Produce("orders", {.value = large}, 100);
  events_.HoldAnswers();
  KafkaIngestOptions options = OptionsOf({"orders"});
  options.batch_bytes_max = 100'000;
  options.in_flight_bytes_max = 400'000;
  Member& member = Start(options);
  // Ten messages of 40 KB exceed the bound, and no more are read.
  ASSERT_TRUE(Await([&] { return member.metrics.in_flight.Value() == 10; }));
  EXPECT_LE(events_.events().size(), 10u);
  EXPECT_LE(member.metrics.in_flight_bytes.Value(), 450'000);
  events_.ReleaseAnswers();
  AwaitCommitted("orders", 0, 100);
  Stop(member);
  EXPECT_EQ(events_.events().size(), 100u);
  EXPECT_LE(events_.largest_batch(), 3);
}

TEST_F(KafkaIngestFaultsTest, BrokerFaultsLoseAndRepeatNothing) {
  MakeTopic("orders", 2, "e", 100);
  // No leader, broken connections; a coordinator that is loading or elsewhere; a rebalance.
  cluster_.Do(absl::StrCat("errors ", kFetch, " 6 -195 7 -195"));
  cluster_.Do(absl::StrCat("errors ", kOffsetCommit, " 14 16 -195 27"));
  cluster_.Do(absl::StrCat("errors ", kHeartbeat, " 16 27"));
  Member& member = Start(OptionsOf({"orders"}));
  ASSERT_TRUE(events_.AwaitCount(100));
  cluster_.Do("down 1");
  cluster_.Do("up 1");
  cluster_.Do("leader orders 0 2");
  cluster_.Do("leader orders 1 1");
  AwaitCommitted("orders", 0, 100);
  AwaitCommitted("orders", 1, 100);
  Stop(member);
  ExpectEachOnce("e", 2, 100);
}

TEST_F(KafkaIngestFaultsTest, OffsetWaitsForTheErrorTopic) {
  cluster_.MakeTopic("orders", 1);
  cluster_.Produce("orders", {.value = "no event"});
  cluster_.Produce("orders", {.value = EventJson("good")});
  // From now on only the error topic is written to: it is not allowed.
  std::string refusals = absl::StrCat("errors ", kProduce);
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&refusals, " 29");
  cluster_.Do(refusals);
  Member& member = Start(OptionsOf({"orders"}));
  ASSERT_TRUE(events_.AwaitCount(1));
  ASSERT_TRUE(Await([&] { return member.metrics.paused.Value() == 1; }));
  EXPECT_LE(cluster_.Committed(kGroup, "orders", 0), 0);
  EXPECT_EQ(member.metrics.errors.Value(), 0);
  cluster_.Do(absl::StrCat("clear ", kProduce));
  AwaitCommitted("orders", 0, 2);
  EXPECT_EQ(cluster_.Read(kErrors).size(), 1u);
  Stop(member);
  EXPECT_EQ(member.metrics.errors.Value(), 1);
}

TEST_F(KafkaIngestFaultsTest, RecordThatIsTooLargeIsSentWithoutItsValue) {
  cluster_.MakeTopic("orders", 1);
  cluster_.Produce("orders", {.key = "k", .value = "no event", .headers = {{"own", "header"}}});
  cluster_.Do(absl::StrCat("errors ", kProduce, " 10"));
  Start(OptionsOf({"orders"}));
  const KafkaRecord record = cluster_.AwaitRecords(kErrors, 1).at(0);
  EXPECT_EQ(record.value, std::nullopt);
  EXPECT_EQ(record.key, "k");
  EXPECT_EQ(record.Header("own"), "header");
  EXPECT_EQ(record.Header("escapement-error-truncated"), "true");
  AwaitCommitted("orders", 0, 1);
}

TEST_F(KafkaIngestFaultsTest, StopsInTimeWithoutBrokersAndAnswers) {
  MakeTopic("orders", 1, "e", 5);
  Member& member = Start(OptionsOf({"orders"}));
  AwaitCommitted("orders", 0, 5);
  events_.HoldAnswers();
  ProduceEvents("orders", 0, "late", 5);
  ASSERT_TRUE(events_.AwaitCount(6));
  cluster_.Do("down -1");
  const absl::Duration begin = runtime_.clock().Elapsed();
  absl::Notification stopped;
  member.ingest->Stop([&] { stopped.Notify(); });
  stopped.WaitForNotification();
  EXPECT_LT(runtime_.clock().Elapsed() - begin, absl::Seconds(8));
  member.ingest.reset();  // librdkafka waits for the session's timeout
  cluster_.Do("up -1");
  EXPECT_EQ(cluster_.Committed(kGroup, "orders", 0), 5);
}

TEST_F(KafkaIngestFaultsTest, RebalanceBetweenMastersMakesEachEventOnce) {
  MakeTopic("orders", 4, "e", 50);
  KafkaIngestOptions options = OptionsOf({"orders"});
  options.batch_max = 7;
  Member& first = Start(options);
  ASSERT_TRUE(events_.AwaitCount(1));
  Member& second = Start(options);
  for (int p = 0; p < 4; ++p) ProduceEvents("orders", p, absl::StrCat("late", p), 10);
  for (int p = 0; p < 4; ++p) AwaitCommitted("orders", p, 60);
  // Both have partitions: each reads what is written to its own.
  ASSERT_TRUE(events_.AwaitCount(240));
  Stop(first);
  for (int p = 0; p < 4; ++p) ProduceEvents("orders", p, absl::StrCat("last", p), 10);
  for (int p = 0; p < 4; ++p) AwaitCommitted("orders", p, 70);
  Stop(second);
  EXPECT_EQ(events_.events().size(), 280u);
  EXPECT_EQ(first.metrics.events.Value() + second.metrics.events.Value(), 280);
}

TEST_F(KafkaIngestFaultsTest, RevokedPartitionIsNotCommittedWithoutAnswers) {
  MakeTopic("orders", 2, "e", 20);
  events_.HoldAnswers();
  KafkaIngestOptions options = OptionsOf({"orders"});
  options.revoke_patience = absl::Milliseconds(100);
  Member& first = Start(options);
  ASSERT_TRUE(events_.AwaitCount(1));
  // A second member makes the first one give its partitions back, with all answers missing.
  Member& second = Start(options);
  ASSERT_TRUE(Await([&] { return second.metrics.messages.Value() > 0; }));
  EXPECT_LE(cluster_.Committed(kGroup, "orders", 0), 0);
  EXPECT_LE(cluster_.Committed(kGroup, "orders", 1), 0);
  events_.ReleaseAnswers();
  AwaitCommitted("orders", 0, 20);
  AwaitCommitted("orders", 1, 20);
  Stop(first);
  Stop(second);
  ExpectEachOnce("e", 2, 20);
  EXPECT_GT(first.metrics.duplicates.Value() + second.metrics.duplicates.Value(), 0);
}

}  // namespace kafka_ingest_faults_test
}  // namespace escapement::master
