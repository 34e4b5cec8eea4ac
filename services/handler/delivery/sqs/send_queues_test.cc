#include "services/handler/delivery/sqs/send_queues.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/collecting_sink.h"
#include "tests/fixtures/sqs_entries.h"

namespace escapement::handler {
namespace send_queues_test {

using fixtures::MakeSqsAttempts;
using fixtures::SqsAttemptOptions;
constexpr MonotonicMicros kSecond = 1'000'000;
using ::testing::ElementsAre;
using Batch = SqsSendQueues::Batch;
using End = SqsSendQueues::End;
using Queue = SqsSendQueues::Queue;
using Waiting = SqsSendQueues::Waiting;

class SqsSendQueuesTest : public ::testing::Test {
 protected:
  SqsAttemptOptions To(const std::string& queue, const std::string& credentials = "a:b") const {
    return {.queue_url = absl::StrCat("https://sqs/1/", queue), .credentials = credentials};
  }

  Queue* Add(const SqsAttemptOptions& options, uint64_t first, uint64_t count) {
    return queues_.Add(MakeSqsAttempts(options, first, count), sink_, now_);
  }

  Batch Take(Queue* queue) {
    expired_.clear();
    return queues_.Take(queue, now_, &expired_);
  }

  static std::vector<uint64_t> Tags(const std::vector<Waiting>& attempts) {
    std::vector<uint64_t> tags;
    for (const Waiting& waiting : attempts) tags.push_back(waiting.attempt.tag);
    return tags;
  }
  static std::vector<uint64_t> Tags(const Batch& batch) { return Tags(batch.attempts); }

  std::shared_ptr<DeliverySink> sink_ = std::make_shared<fixtures::CollectingSink>();
  MonotonicMicros now_ = 1;
  std::vector<Waiting> expired_;
  SqsSendQueues queues_{8, /*own_usable=*/false};
};

TEST_F(SqsSendQueuesTest, BoundGrowsWithTakenRequests) {
  Queue* const queue = Add(To("q"), 1, 1000);
  EXPECT_EQ(queues_.Claim(queue), 2);
  EXPECT_EQ(queues_.Claim(queue), 0);
  queues_.Release(Take(queue), End::kOther);
  EXPECT_EQ(queues_.Claim(queue), 1);
  queues_.Release(Take(queue), End::kTaken);
  EXPECT_EQ(queues_.Claim(queue), 3);
  queues_.Release(Take(queue), End::kTaken);
  EXPECT_EQ(queues_.Claim(queue), 5);
  queues_.Release(Take(queue), End::kTaken);
  EXPECT_EQ(queues_.Claim(queue), 1) << "8 at most";
  queues_.Release(Take(queue), End::kSilent);
  EXPECT_EQ(queues_.Claim(queue), 0) << "1 at most";
}

TEST_F(SqsSendQueuesTest, RequestsAreClaimedForWhatWaits) {
  Queue* const queue = Add(To("q"), 1, 1);
  EXPECT_EQ(queues_.Claim(queue), 1);
  Add(To("q"), 2, 9);
  EXPECT_EQ(queues_.Claim(queue), 0) << "they join the claimed request";
  Add(To("q"), 11, 1);
  EXPECT_EQ(queues_.Claim(queue), 1);
  EXPECT_EQ(Tags(Take(queue)).size(), 10u);
  EXPECT_THAT(Tags(Take(queue)), ElementsAre(11));
}

TEST_F(SqsSendQueuesTest, LanesOfOneDoorShareARequest) {
  SqsAttemptOptions fifo = To("q.fifo");
  fifo.message_group_id = "a";
  Queue* const queue = Add(fifo, 1, 2);
  fifo.message_group_id = "b";
  Add(fifo, 3, 2);
  fifo.credentials = "c:d";
  Add(fifo, 5, 1);
  EXPECT_EQ(queues_.Claim(queue), 1);
  EXPECT_THAT(Tags(Take(queue)), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(queues_.Claim(queue), 1);
  EXPECT_THAT(Tags(Take(queue)), ElementsAre(5));
}

TEST_F(SqsSendQueuesTest, FifoGroupIsInOneRequestAtATime) {
  SqsAttemptOptions fifo = To("q.fifo");
  fifo.message_group_id = "a";
  Queue* const queue = Add(fifo, 1, 12);
  EXPECT_EQ(queues_.Claim(queue), 2);
  Batch first = Take(queue);
  EXPECT_EQ(first.attempts.size(), 10u);
  Batch second = Take(queue);
  EXPECT_EQ(second.attempts.size(), 0u);
  queues_.Release(std::move(second), End::kOther);
  EXPECT_EQ(queues_.Claim(queue), 0);
  std::vector<Waiting> back;
  for (size_t i = 8; i < 10; ++i) back.push_back(std::move(first.attempts[i]));
  queues_.PutBack(std::move(back));
  EXPECT_EQ(queues_.Claim(queue), 0);
  queues_.Release(std::move(first), End::kTaken);
  EXPECT_EQ(queues_.Claim(queue), 1);
  EXPECT_THAT(Tags(Take(queue)), ElementsAre(9, 10, 11, 12));
}

TEST_F(SqsSendQueuesTest, AttemptsOfOtherTimeoutsAreSentApart) {
  SqsAttemptOptions options = To("q");
  Queue* const queue = Add(options, 1, 1);
  options.timeout = absl::Seconds(5);
  Add(options, 2, 1);
  EXPECT_EQ(queues_.Claim(queue), 1);
  EXPECT_THAT(Tags(Take(queue)), ElementsAre(1));
}

TEST_F(SqsSendQueuesTest, AttemptThatWasPutBackAloneIsSentAlone) {
  Queue* const queue = Add(To("q"), 1, 3);
  EXPECT_EQ(queues_.Claim(queue), 1);
  Batch batch = Take(queue);
  batch.attempts[1].alone = true;
  queues_.PutBack(std::move(batch.attempts));
  queues_.Release(std::move(batch), End::kTaken);
  std::vector<std::vector<uint64_t>> taken;
  while (queues_.Claim(queue) > 0) taken.push_back(Tags(Take(queue)));
  EXPECT_THAT(taken, ElementsAre(ElementsAre(1), ElementsAre(2), ElementsAre(3)));
}

TEST_F(SqsSendQueuesTest, AttemptsExpireAtHalfOfTheirTimeout) {
  EXPECT_EQ(queues_.expire_at(), kNeverMicros);
  Queue* const queue = Add(To("q"), 1, 2);
  Add(To("p"), 3, 1);
  EXPECT_EQ(queues_.expire_at(), now_ + 15 * kSecond);
  now_ += 10 * kSecond;
  Add(To("q"), 4, 1);
  EXPECT_EQ(queues_.Expire(now_).size(), 0u);
  now_ += 5 * kSecond;
  EXPECT_THAT(Tags(queues_.Expire(now_)), ::testing::UnorderedElementsAre(1, 2, 3));
  EXPECT_EQ(queues_.expire_at(), now_ + 10 * kSecond);
  EXPECT_EQ(queues_.Claim(queue), 1);
  now_ += 10 * kSecond;
  EXPECT_EQ(Take(queue).attempts.size(), 0u);
  EXPECT_THAT(Tags(expired_), ElementsAre(4));
}

TEST_F(SqsSendQueuesTest, OwnCredentialsAreAwaited) {
  Queue* const queue = Add(To("q", ""), 1, 1);
  Add(To("q"), 2, 1);
  EXPECT_EQ(queues_.Claim(queue), 1);
  Batch batch = Take(queue);
  EXPECT_THAT(Tags(batch), ElementsAre(2));
  queues_.Release(std::move(batch), End::kTaken);
  EXPECT_THAT(queues_.AllowOwn(), ElementsAre(queue));
  EXPECT_EQ(queues_.Claim(queue), 1);
  EXPECT_THAT(Tags(Take(queue)), ElementsAre(1));
}

TEST_F(SqsSendQueuesTest, TakeAllEmptiesThem) {
  Queue* const queue = Add(To("q"), 1, 12);
  Add(To("p", ""), 13, 1);
  EXPECT_EQ(queues_.Claim(queue), 2);
  const Batch batch = Take(queue);
  EXPECT_EQ(queues_.TakeAll().size(), 3u);
  EXPECT_EQ(queues_.TakeAll().size(), 0u);
}

}  // namespace send_queues_test
}  // namespace escapement::handler
