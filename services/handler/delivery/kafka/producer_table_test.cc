#include "services/handler/delivery/kafka/producer_table.h"

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/net/address_rule.h"
#include "escapement/storage/v1/records.pb.h"
#include "gtest/gtest.h"
#include "services/handler/delivery/kafka/producer.h"
#include "tests/fixtures/collecting_sink.h"

namespace escapement::handler {
namespace producer_table_test {

using State = ProducerTable::State;

constexpr MonotonicMicros kSecond = 1'000'000;

// The producers never reach a broker.
class ProducerTableTest : public ::testing::Test {
 protected:
  ~ProducerTableTest() override {
    table_.AwaitOpening();
    table_.CloseAll();
  }

  ProducerTable::Entry* Open(const std::string& key, MonotonicMicros now) {
    storage::v1::KafkaTargetRecord target;
    target.set_brokers("127.0.0.1:1");
    ProducerTable::Entry* entry = table_.Open(key,
                                              {.properties = *KafkaProperties(target, {}),
                                               .password = "",
                                               .addresses = std::make_shared<AddressRule>(),
                                               .wake = [](uint64_t) {}},
                                              now, [this](uint64_t id, absl::Status status) {
                                                absl::MutexLock lock(&mutex_);
                                                EXPECT_TRUE(status.ok()) << status;
                                                ++opened_;
                                              });
    if (entry == nullptr) return nullptr;
    ++opening_;
    const auto done = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return opened_ == opening_; };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&done));
    entry->state = State::kOpen;
    return entry;
  }

  KafkaAttempt* Busy(ProducerTable::Entry* entry) {
    KafkaAttempt* attempt = entry->producer->NewAttempt();
    attempt->sink = std::make_shared<fixtures::CollectingSink>();
    return attempt;
  }

  static void End(KafkaAttempt* attempt) {
    attempt->answered = true;
    attempt->producer->Free(attempt);
  }

  absl::Mutex mutex_;
  int opened_ ABSL_GUARDED_BY(mutex_) = 0;
  int opening_ = 0;
  ProducerTable table_{
      {.producers_max = 2, .idle_timeout = absl::Seconds(60), .broken_for = absl::Seconds(5)}};
};

TEST_F(ProducerTableTest, IdleProducerIsClosedAfterTheTimeout) {
  KafkaAttempt* attempt = Busy(Open("busy", 0));
  Open("idle", 0);
  table_.CloseUnused(59 * kSecond);
  EXPECT_NE(table_.Find("idle"), nullptr);
  table_.CloseUnused(60 * kSecond);
  EXPECT_EQ(table_.Find("idle"), nullptr);
  EXPECT_NE(table_.Find("busy"), nullptr);
  End(attempt);
  table_.CloseUnused(60 * kSecond);
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(ProducerTableTest, LeastRecentlyUsedIdleProducerMakesRoom) {
  Open("old", 1);
  ProducerTable::Entry* newer = Open("newer", 2);
  EXPECT_NE(Open("third", 3), nullptr);
  EXPECT_EQ(table_.Find("old"), nullptr);
  KafkaAttempt* attempt = Busy(newer);
  EXPECT_NE(Open("fourth", 4), nullptr);
  EXPECT_EQ(table_.Find("third"), nullptr) << "the older one is busy";
  KafkaAttempt* other = Busy(table_.Find("fourth"));
  EXPECT_EQ(Open("fifth", 5), nullptr);
  End(attempt);
  EXPECT_NE(Open("fifth", 5), nullptr);
  End(other);
}

TEST_F(ProducerTableTest, BrokenKeyFailsUntilItsTimeIsOver) {
  table_.Break(Open("key", 0), absl::FailedPreconditionError("why"), 10 * kSecond);
  table_.CloseUnused(15 * kSecond - 1);
  ASSERT_NE(table_.Find("key"), nullptr);
  EXPECT_EQ(table_.Find("key")->why.message(), "why");
  table_.CloseUnused(15 * kSecond);
  EXPECT_EQ(table_.Find("key"), nullptr);
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(ProducerTableTest, RetiredProducerStaysUntilItsAttemptsEnd) {
  ProducerTable::Entry* entry = Open("key", 0);
  const uint64_t id = entry->producer->id();
  KafkaAttempt* attempt = Busy(entry);
  table_.Retire(entry);
  EXPECT_EQ(table_.Find("key"), nullptr);
  EXPECT_NE(Open("key", 1), nullptr) << "its successor";
  table_.CloseUnused(2);
  EXPECT_EQ(table_.FindId(id), entry);
  End(attempt);
  table_.CloseUnused(3);
  EXPECT_EQ(table_.FindId(id), nullptr);
  EXPECT_NE(table_.Find("key"), nullptr);
}

}  // namespace producer_table_test
}  // namespace escapement::handler
