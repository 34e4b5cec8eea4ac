#include "services/handler/delivery/kafka/outstanding.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::handler {
namespace outstanding_test {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class OutstandingTest : public ::testing::Test {
 protected:
  void AddAt(size_t i, MonotonicMicros deadline) {
    attempts_[i].attempt.tag = i;
    attempts_[i].deadline = deadline;
    deadlines_.Add(&attempts_[i]);
  }
  std::vector<uint64_t> Expire(MonotonicMicros now) {
    std::vector<uint64_t> expired;
    deadlines_.Expire(now, [&](KafkaAttempt* attempt) { expired.push_back(attempt->attempt.tag); });
    return expired;
  }

  KafkaDeadlines deadlines_;
  KafkaAttempt attempts_[8];
};

TEST_F(OutstandingTest, AttemptsExpireAfterTheirDeadlinesAndSoon) {
  AddAt(1, 10'000);
  AddAt(2, 10'001);
  AddAt(3, 50'000);
  EXPECT_THAT(Expire(9'999), IsEmpty());
  EXPECT_GE(deadlines_.next(), 10'000);
  EXPECT_LE(deadlines_.next(), 10'001 + KafkaDeadlines::kStep);
  EXPECT_THAT(Expire(10'001 + KafkaDeadlines::kStep), UnorderedElementsAre(1, 2));
  EXPECT_THAT(Expire(50'000 + KafkaDeadlines::kStep), UnorderedElementsAre(3));
  EXPECT_EQ(deadlines_.next(), kNeverMicros);
}

TEST_F(OutstandingTest, RemovedAttemptDoesNotExpire) {
  for (size_t i = 0; i < 5; ++i) AddAt(i, 10'000);
  for (const size_t i : {0, 2, 4}) deadlines_.Remove(&attempts_[i]);
  AddAt(2, 90'000);
  EXPECT_THAT(Expire(20'000), UnorderedElementsAre(1, 3));
  EXPECT_THAT(Expire(100'000), UnorderedElementsAre(2));
}

TEST_F(OutstandingTest, StepIsUsedAgainAfterItHasExpired) {
  AddAt(1, 10'000);
  EXPECT_THAT(Expire(20'000), UnorderedElementsAre(1));
  AddAt(2, 10'001);
  EXPECT_THAT(Expire(20'000), UnorderedElementsAre(2));
}

}  // namespace outstanding_test
}  // namespace escapement::handler
