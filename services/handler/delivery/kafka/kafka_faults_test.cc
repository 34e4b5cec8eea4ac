// Brokers that fail, refuse or do not answer.

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
#include "services/handler/delivery/kafka/kafka_transport.h"
#include "tests/fixtures/collecting_sink.h"
#include "tests/fixtures/kafka/kafka_attempts.h"
#include "tests/fixtures/kafka/kafka_cluster.h"

namespace escapement::handler {
namespace kafka_faults_test {

using fixtures::CollectingSink;
using fixtures::KafkaCluster;
using fixtures::KafkaRecord;
using fixtures::KafkaTargetOf;
using fixtures::MakeKafkaAttempts;
using ::testing::HasSubstr;

// Kafka's keys of requests, and its error codes.
constexpr char kProduce[] = "0";
constexpr char kInitProducerId[] = "22";
constexpr int kMessageTooLarge = 10;
constexpr int kTopicAuthorizationFailed = 29;
constexpr int kPolicyViolation = 44;
constexpr int kOutOfOrderSequence = 45;
constexpr int kInvalidRecord = 87;
constexpr int kUnknownTopic = 3;

class KafkaFaultsTest : public ::testing::Test {
 protected:
  KafkaFaultsTest() { cluster_.MakeTopic("orders", 2); }

  void Send(uint64_t first, uint64_t count, absl::Duration timeout = absl::Seconds(30),
            const std::string& payload = "{}", const std::string& topic = "orders") {
    sent_ += count;
    transport_.Send(MakeKafkaAttempts(KafkaTargetOf(cluster_.bootstraps(), topic),
                                      {.payload = payload, .timeout = timeout}, first, count),
                    sink_);
  }

  DeliveryResult SendOne(absl::Duration timeout = absl::Seconds(30),
                         const std::string& payload = "{}", const std::string& topic = "orders") {
    const uint64_t tag = sent_ + 1;
    Send(tag, 1, timeout, payload, topic);
    EXPECT_TRUE(sink_->Await(sent_));
    return sink_->Only(tag);
  }

  void FailNextProduce(int code) { cluster_.Do(absl::StrCat("errors ", kProduce, " ", code)); }

  // Expects that each event of the topic is there once.
  void ExpectEachOnce(size_t count) {
    const std::vector<KafkaRecord> records = cluster_.Read("orders");
    std::set<std::string> ids;
    for (const KafkaRecord& record : records) ids.insert(record.Header("ce_id"));
    EXPECT_EQ(records.size(), count);
    EXPECT_EQ(ids.size(), count);
  }

  KafkaCluster cluster_{2};
  std::shared_ptr<CollectingSink> sink_ = std::make_shared<CollectingSink>();
  KafkaTransport transport_{KafkaTransport::Options{
      .addresses = std::make_shared<AddressRule>(AddressRule::AllowingLoopback())}};
  size_t sent_ = 0;
};

TEST_F(KafkaFaultsTest, RetriableErrorsDoNotDuplicateRecords) {
  // No leader, timed out, too few replicas, the connection breaks.
  cluster_.Do(absl::StrCat("errors ", kProduce, " 6 7 19 20 -195 6"));
  // The coordinator is loading, or is not this broker.
  cluster_.Do(absl::StrCat("errors ", kInitProducerId, " 14 16"));
  Send(1, 2000);
  ASSERT_TRUE(sink_->Await(2000));
  for (const auto& [tag, results] : sink_->results()) {
    ASSERT_EQ(results.size(), 1u);
    ASSERT_EQ(results[0].status, DeliveryStatus::kAccepted) << results[0].message;
  }
  ExpectEachOnce(2000);
}

TEST_F(KafkaFaultsTest, LeaderChangeDoesNotDuplicateRecords) {
  Send(1, 500);
  cluster_.Do("leader orders 0 1");
  cluster_.Do("leader orders 1 1");
  Send(501, 500);
  cluster_.Do("leader orders 0 2");
  Send(1001, 500);
  ASSERT_TRUE(sink_->Await(1500));
  for (const auto& [tag, results] : sink_->results())
    ASSERT_EQ(results[0].status, DeliveryStatus::kAccepted) << results[0].message;
  ExpectEachOnce(1500);
}

TEST_F(KafkaFaultsTest, SilentBrokerIsUnknownAtTheTimeout) {
  EXPECT_EQ(SendOne().status, DeliveryStatus::kAccepted);
  cluster_.Do("rtt -1 60000");
  const absl::Time begin = absl::Now();
  const DeliveryResult result = SendOne(absl::Milliseconds(300));
  EXPECT_EQ(result.status, DeliveryStatus::kUnknown);
  EXPECT_THAT(result.message, HasSubstr("timed out"));
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(300));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(2));
}

TEST_F(KafkaFaultsTest, ReportAfterTheTimeoutIsNoSecondResult) {
  cluster_.MakeTopic("single", 1);
  const auto send = [this](absl::Duration timeout) {
    return SendOne(timeout, "{}", "single").status;
  };
  // Both have the same class of timeout, and so the same producer.
  EXPECT_EQ(send(absl::Seconds(2)), DeliveryStatus::kAccepted);
  cluster_.Do("rtt -1 300");
  EXPECT_EQ(send(absl::Milliseconds(50)), DeliveryStatus::kUnknown);
  cluster_.Do("rtt -1 0");
  // Its answer comes behind the late one.
  EXPECT_EQ(send(absl::Seconds(2)), DeliveryStatus::kAccepted);
  EXPECT_EQ(sink_->count(), 3u);
  EXPECT_EQ(cluster_.Read("single").size(), 3u);
}

TEST_F(KafkaFaultsTest, DeadClusterGetsNothingAndSaysWhy) {
  cluster_.Do("down -1");
  const absl::Time begin = absl::Now();
  const DeliveryResult result = SendOne(absl::Seconds(5));
  EXPECT_EQ(result.status, DeliveryStatus::kFailed);
  EXPECT_THAT(result.message, HasSubstr("timed out"));
  EXPECT_THAT(result.message, HasSubstr("127.0.0.1"));
  EXPECT_LE(absl::Now() - begin, absl::Milliseconds(5500));
  // Nothing of it arrives later, because librdkafka has given it up.
  cluster_.Do("up -1");
  EXPECT_EQ(SendOne().status, DeliveryStatus::kAccepted);
  ExpectEachOnce(1);
}

TEST_F(KafkaFaultsTest, UnknownTopicFails) {
  cluster_.MakeTopic("gone", 1);
  cluster_.Do(absl::StrCat("topic_error gone ", kUnknownTopic));
  const absl::Time begin = absl::Now();
  const DeliveryResult result = SendOne(absl::Seconds(30), "{}", "gone");
  EXPECT_EQ(result.status, DeliveryStatus::kFailed);
  EXPECT_THAT(result.message, HasSubstr("nknown topic"));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
  EXPECT_EQ(SendOne().status, DeliveryStatus::kAccepted) << "other topics are not affected";
}

TEST_F(KafkaFaultsTest, MissingPermissionAndPolicyViolationFail) {
  FailNextProduce(kTopicAuthorizationFailed);
  const DeliveryResult denied = SendOne();
  EXPECT_EQ(denied.status, DeliveryStatus::kFailed);
  EXPECT_THAT(denied.message, HasSubstr("authorization failed"));
  cluster_.MakeTopic("ruled", 1);
  FailNextProduce(kPolicyViolation);
  const DeliveryResult violation = SendOne(absl::Seconds(30), "{}", "ruled");
  EXPECT_EQ(violation.status, DeliveryStatus::kFailed);
  EXPECT_THAT(violation.message, HasSubstr("Policy violation"));
  EXPECT_EQ(SendOne(absl::Seconds(30), "{}", "ruled").status, DeliveryStatus::kAccepted);
}

TEST_F(KafkaFaultsTest, TopicIsUsedAgainSoonAfterPermissionIsGiven) {
  KafkaTransport transport(
      {.addresses = std::make_shared<AddressRule>(AddressRule::AllowingLoopback()),
       .metadata_refresh = absl::Milliseconds(300)});
  FailNextProduce(kTopicAuthorizationFailed);
  const absl::Time begin = absl::Now();
  const storage::v1::KafkaTargetRecord target = KafkaTargetOf(cluster_.bootstraps(), "orders");
  DeliveryStatus last = DeliveryStatus::kFailed;
  uint64_t tag = 0;
  while (last == DeliveryStatus::kFailed && absl::Now() - begin < absl::Seconds(20)) {
    transport.Send(MakeKafkaAttempts(target, {}, ++tag, 1), sink_);
    ASSERT_TRUE(sink_->Await(tag));
    last = sink_->Only(tag).status;
  }
  EXPECT_GT(tag, 1u);
  EXPECT_EQ(last, DeliveryStatus::kAccepted);
}

TEST_F(KafkaFaultsTest, RefusedRecordIsRejected) {
  FailNextProduce(kMessageTooLarge);
  EXPECT_EQ(SendOne().status, DeliveryStatus::kRejected);
  FailNextProduce(kInvalidRecord);
  EXPECT_EQ(SendOne().status, DeliveryStatus::kRejected);
  EXPECT_EQ(SendOne().status, DeliveryStatus::kAccepted);
}

TEST_F(KafkaFaultsTest, RefusedBatchOnlyFails) {
  EXPECT_EQ(SendOne().status, DeliveryStatus::kAccepted);
  cluster_.MakeTopic("single", 1);
  EXPECT_EQ(SendOne(absl::Seconds(30), "{}", "single").status, DeliveryStatus::kAccepted);
  FailNextProduce(kMessageTooLarge);
  Send(101, 10, absl::Seconds(30), "{}", "single");
  ASSERT_TRUE(sink_->Await(12));
  size_t failed = 0;
  for (uint64_t tag = 101; tag <= 110; ++tag) {
    EXPECT_NE(sink_->Only(tag).status, DeliveryStatus::kRejected);
    if (sink_->Only(tag).status == DeliveryStatus::kFailed) ++failed;
  }
  EXPECT_GT(failed, 0u);
}

TEST_F(KafkaFaultsTest, RecordThatIsTooLargeIsRejectedAtOnce) {
  const DeliveryResult result = SendOne(absl::Seconds(30), std::string(1'100'000, 'x'));
  EXPECT_EQ(result.status, DeliveryStatus::kRejected);
  EXPECT_THAT(result.message, HasSubstr("too large"));
  EXPECT_EQ(SendOne(absl::Seconds(30), std::string(900'000, 'x')).status,
            DeliveryStatus::kAccepted);
}

TEST_F(KafkaFaultsTest, FatalErrorReplacesTheProducer) {
  EXPECT_EQ(SendOne().status, DeliveryStatus::kAccepted);
  FailNextProduce(kOutOfOrderSequence);
  const DeliveryResult result = SendOne();
  EXPECT_NE(result.status, DeliveryStatus::kAccepted);
  EXPECT_THAT(result.message, HasSubstr("sequence"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(SendOne().status, DeliveryStatus::kAccepted);
  EXPECT_EQ(sink_->count(), 5u);
}

TEST_F(KafkaFaultsTest, FullQueueIsUnsent) {
  cluster_.Do("down -1");
  for (uint64_t first = 1; first <= 21'000; first += 1000) Send(first, 1000, absl::Seconds(20));
  // The others wait for the cluster.
  ASSERT_TRUE(sink_->Await(1000));
  size_t unsent = 0;
  for (const auto& [tag, results] : sink_->results()) {
    if (results[0].status == DeliveryStatus::kUnsent) ++unsent;
  }
  EXPECT_EQ(unsent, 1000u);
}

}  // namespace kafka_faults_test
}  // namespace escapement::handler
