#include "services/handler/delivery/kafka/kafka_transport.h"

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/net/address_rule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/collecting_sink.h"
#include "tests/fixtures/kafka/kafka_attempts.h"
#include "tests/fixtures/kafka/kafka_cluster.h"

namespace escapement::handler {
namespace kafka_transport_test {

using fixtures::AttemptOptions;
using fixtures::CollectingSink;
using fixtures::KafkaCluster;
using fixtures::KafkaRecord;
using fixtures::KafkaTargetOf;
using fixtures::MakeKafkaAttempts;
using ::testing::HasSubstr;
using ::testing::Pair;

KafkaTransport::Options LoopbackOptions() {
  return {.addresses = std::make_shared<AddressRule>(AddressRule::AllowingLoopback())};
}

class KafkaTransportTest : public ::testing::Test {
 protected:
  KafkaTransportTest() { cluster_.MakeTopic("orders", 4); }

  storage::v1::KafkaTargetRecord target() const {
    return KafkaTargetOf(cluster_.bootstraps(), "orders");
  }

  void SendAndAwait(std::vector<DeliveryAttempt> attempts) {
    sent_ += attempts.size();
    transport_.Send(std::move(attempts), sink_);
    ASSERT_TRUE(sink_->Await(sent_));
  }

  KafkaCluster cluster_{2};
  std::shared_ptr<CollectingSink> sink_ = std::make_shared<CollectingSink>();
  KafkaTransport transport_{LoopbackOptions()};
  size_t sent_ = 0;
};

TEST_F(KafkaTransportTest, RecordHasExactlyTheCloudEventsHeaders) {
  const absl::Time begin = absl::Now();
  std::vector<DeliveryAttempt> attempts =
      MakeKafkaAttempts(target(),
                        {.payload = "hello",
                         .content_type = "text/plain",
                         .launch_time = absl::FromUnixMicros(1'772'323'200'000'250),
                         .run_count = 9},
                        7, 1);
  attempts[0].attempt = 3;
  attempts[0].token = "secret-token";
  SendAndAwait(std::move(attempts));
  EXPECT_EQ(sink_->Only(7).status, DeliveryStatus::kAccepted) << sink_->Only(7).message;
  const std::vector<KafkaRecord> records = cluster_.Read("orders");
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].key, "event-7");
  EXPECT_EQ(records[0].value, "hello");
  EXPECT_GE(records[0].timestamp, absl::ToUnixMillis(begin));
  EXPECT_LE(records[0].timestamp, absl::ToUnixMillis(absl::Now()));
  EXPECT_THAT(
      records[0].headers,
      ::testing::UnorderedElementsAre(
          Pair("ce_specversion", "1.0"), Pair("ce_type", "escapement.trigger.v1"),
          Pair("ce_source", "/tenants/default/schedules/nightly"),
          Pair("ce_time", "2026-03-01T00:00:00.000250Z"), Pair("content-type", "text/plain"),
          Pair("escapement_launchtime", "2026-03-01T00:00:00.000250Z"),
          Pair("escapement_count", "9"), Pair("ce_id", "event-7"),
          Pair("ce_subject", "2026-03-01T00:00:00Z/7"), Pair("escapement_attempt", "3"),
          Pair("escapement_index", "7"), Pair("escapement_token", "secret-token")));
}

TEST_F(KafkaTransportTest, EmptyPayloadIsAnEmptyValueWithoutAType) {
  SendAndAwait(MakeKafkaAttempts(target(), {.payload = ""}, 1, 1));
  const std::vector<KafkaRecord> records = cluster_.Read("orders");
  ASSERT_EQ(records.size(), 1u);
  ASSERT_TRUE(records[0].value.has_value()) << "a null value deletes the key of a compacted topic";
  EXPECT_EQ(*records[0].value, "");
  EXPECT_EQ(records[0].Header("content-type"), "(none)");
  EXPECT_EQ(records[0].Header("escapement_token"), "(none)");
}

TEST_F(KafkaTransportTest, OneOffEventHasNoSubject) {
  SendAndAwait(MakeKafkaAttempts(target(), {.occurrence = ""}, 1, 1));
  const std::vector<KafkaRecord> records = cluster_.Read("orders");
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].Header("ce_subject"), "(none)");
  EXPECT_EQ(records[0].Header("ce_id"), "event-1");
}

TEST_F(KafkaTransportTest, RecordsWithTheTargetsKeyShareAPartition) {
  storage::v1::KafkaTargetRecord keyed = target();
  keyed.set_key("customer-5");
  SendAndAwait(MakeKafkaAttempts(keyed, {}, 1, 50));
  const std::vector<KafkaRecord> records = cluster_.Read("orders");
  ASSERT_EQ(records.size(), 50u);
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].key, "customer-5");
    // As Kafka's Java client computes it: (murmur2("customer-5") & 0x7fffffff) % 4.
    EXPECT_EQ(records[i].partition, 2);
    EXPECT_EQ(records[i].Header("ce_id"), absl::StrCat("event-", i + 1)) << "order";
  }
}

TEST_F(KafkaTransportTest, TenThousandEventsArriveOnceEach) {
  constexpr uint64_t kCount = 10'000;
  for (uint64_t first = 1; first <= kCount; first += 500)
    transport_.Send(MakeKafkaAttempts(target(), {.payload = std::string(200, 'p')}, first, 500),
                    sink_);
  ASSERT_TRUE(sink_->Await(kCount));
  for (const auto& [tag, results] : sink_->results()) {
    ASSERT_EQ(results.size(), 1u);
    ASSERT_EQ(results[0].status, DeliveryStatus::kAccepted) << results[0].message;
  }
  const std::vector<KafkaRecord> records = cluster_.Read("orders");
  std::set<std::string> ids;
  std::set<int> partitions;
  for (const KafkaRecord& record : records) {
    ids.insert(record.Header("ce_id"));
    partitions.insert(record.partition);
    ASSERT_EQ(record.key, record.Header("ce_id"));
  }
  EXPECT_EQ(records.size(), kCount);
  EXPECT_EQ(ids.size(), kCount);
  EXPECT_EQ(partitions.size(), 4u);
}

TEST_F(KafkaTransportTest, TopicsOfOneClusterShareAProducer) {
  cluster_.MakeTopic("invoices", 1);
  KafkaTransport::Options options = LoopbackOptions();
  options.producers_max = 1;
  KafkaTransport transport(options);
  const auto attempts_to = [this](const std::string& topic, uint64_t tag) {
    return MakeKafkaAttempts(KafkaTargetOf(cluster_.bootstraps(), topic), {}, tag, 1);
  };
  // A second producer would be refused: the first one is not idle yet.
  cluster_.Do("rtt -1 300");
  transport.Send(attempts_to("orders", 1), sink_);
  transport.Send(attempts_to("invoices", 2), sink_);
  ASSERT_TRUE(sink_->Await(2));
  EXPECT_EQ(sink_->Only(1).status, DeliveryStatus::kAccepted) << sink_->Only(1).message;
  EXPECT_EQ(sink_->Only(2).status, DeliveryStatus::kAccepted) << sink_->Only(2).message;
}

TEST_F(KafkaTransportTest, IdleProducerMakesRoomAndBusyOneDoesNot) {
  KafkaCluster other;
  other.MakeTopic("orders", 1);
  const storage::v1::KafkaTargetRecord second = KafkaTargetOf(other.bootstraps(), "orders");
  KafkaTransport::Options options = LoopbackOptions();
  options.producers_max = 1;
  KafkaTransport transport(options);
  uint64_t tag = 0;
  for (const auto& kafka : {target(), second, target()}) {
    transport.Send(MakeKafkaAttempts(kafka, {}, ++tag, 1), sink_);
    ASSERT_TRUE(sink_->Await(tag));
    EXPECT_EQ(sink_->Only(tag).status, DeliveryStatus::kAccepted) << sink_->Only(tag).message;
  }
  other.Do("down -1");
  transport.Send(MakeKafkaAttempts(second, {}, 10, 1), sink_);
  transport.Send(MakeKafkaAttempts(target(), {}, 11, 1), sink_);
  ASSERT_TRUE(sink_->Await(4));
  EXPECT_EQ(sink_->Only(11).status, DeliveryStatus::kUnsent);
  EXPECT_THAT(sink_->Only(11).message, HasSubstr("too many Kafka clusters"));
}

TEST_F(KafkaTransportTest, DeadClusterDoesNotDelayAHealthyOne) {
  KafkaCluster dead;
  dead.Do("down -1");
  const storage::v1::KafkaTargetRecord down = KafkaTargetOf(dead.bootstraps(), "orders");
  transport_.Send(MakeKafkaAttempts(down, {.timeout = absl::Minutes(10)}, 100'001, 5000), sink_);
  const absl::Time begin = absl::Now();
  for (uint64_t tag = 1; tag <= 20; ++tag) {
    transport_.Send(MakeKafkaAttempts(target(), {}, tag, 1), sink_);
    ASSERT_TRUE(sink_->Await(tag));
    EXPECT_EQ(sink_->Only(tag).status, DeliveryStatus::kAccepted);
  }
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
}

TEST_F(KafkaTransportTest, DestructorAnswersOutstandingAttempts) {
  KafkaCluster dead;
  dead.Do("down -1");
  {
    KafkaTransport transport(LoopbackOptions());
    const storage::v1::KafkaTargetRecord down = KafkaTargetOf(dead.bootstraps(), "orders");
    transport.Send(MakeKafkaAttempts(down, {}, 1, 3), sink_);
    transport.Send(MakeKafkaAttempts(target(), {}, 4, 1), sink_);
    ASSERT_TRUE(sink_->Await(1));
    ASSERT_EQ(sink_->Only(4).status, DeliveryStatus::kAccepted);
    transport.Send(MakeKafkaAttempts(down, {}, 5, 3), sink_);
  }
  EXPECT_EQ(sink_->count(), 7u);
  for (const uint64_t tag : {1, 2, 3, 5, 6, 7}) {
    EXPECT_EQ(sink_->Only(tag).status, DeliveryStatus::kUnknown);
    EXPECT_THAT(sink_->Only(tag).message, HasSubstr("stopping"));
  }
}

TEST_F(KafkaTransportTest, TransportWithoutAttemptsEnds) {
  KafkaTransport transport(LoopbackOptions());
  transport.Send({}, sink_);
}

}  // namespace kafka_transport_test
}  // namespace escapement::handler
