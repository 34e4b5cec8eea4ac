#include "services/handler/delivery/email/mail_queue.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace escapement::handler {
namespace mail_queue_test {

constexpr MonotonicMicros kBegin = 3'600'000'000;
constexpr MonotonicMicros kMillisecond = 1000;

QueuedMail Mail(const std::string& server, uint64_t tag, MonotonicMicros start_by = kNeverMicros) {
  auto context = std::make_shared<DeliveryContext>();
  context->target_key = server;
  return {.attempt = {.tag = tag, .context = context, .event_id = "event"},
          .sink = nullptr,
          .start_by = start_by,
          .deadline = start_by};
}

// Tags of all attempts that may start now.
std::string Startable(MailQueue& queue) {
  std::string tags;
  while (const auto mail = queue.Next()) tags += std::to_string(mail->attempt.tag) + " ";
  return tags;
}

TEST(MailQueueTest, ServersTakeTurnsUpToTheirBounds) {
  MailQueue queue(2);
  for (uint64_t tag = 1; tag <= 4; ++tag) queue.Add(Mail("a", tag));
  for (uint64_t tag = 11; tag <= 13; ++tag) queue.Add(Mail("b", tag));
  EXPECT_EQ(Startable(queue), "1 11 2 12 ");
  EXPECT_EQ(queue.Active("a"), 2);
  queue.Done("a");
  EXPECT_EQ(Startable(queue), "3 ");
  queue.Done("b");
  queue.Done("b");
  EXPECT_EQ(Startable(queue), "13 ");
  EXPECT_EQ(queue.Active("b"), 1);
}

TEST(MailQueueTest, ExpiredAttemptsLeaveWhateverTheirPlace) {
  MailQueue queue(1);
  queue.Add(Mail("a", 1, kBegin + 30 * kMillisecond));
  queue.Add(Mail("a", 2, kBegin + 10 * kMillisecond));
  queue.Add(Mail("b", 3, kBegin + 20 * kMillisecond));
  EXPECT_EQ(queue.earliest(), kBegin + 10 * kMillisecond);
  EXPECT_TRUE(queue.TakeExpired(kBegin + 9 * kMillisecond).empty());
  const auto first = queue.TakeExpired(kBegin + 10 * kMillisecond);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].attempt.tag, 2u);
  EXPECT_EQ(queue.earliest(), kBegin + 20 * kMillisecond);
  EXPECT_EQ(queue.TakeExpired(kBegin + 25 * kMillisecond).size(), 1u);
  EXPECT_EQ(Startable(queue), "1 ");
  queue.Done("a");
  EXPECT_TRUE(queue.TakeExpired(kBegin + 99 * kMillisecond).empty());
  EXPECT_EQ(queue.earliest(), kNeverMicros);
}

TEST(MailQueueTest, ServerWhoseAttemptsExpiredServesAgain) {
  MailQueue queue(1);
  queue.Add(Mail("a", 1, kBegin));
  EXPECT_EQ(queue.TakeExpired(kBegin).size(), 1u);
  EXPECT_EQ(Startable(queue), "");
  queue.Add(Mail("a", 2));
  EXPECT_EQ(Startable(queue), "2 ");
}

TEST(MailQueueTest, TakeAllLeavesNothing) {
  MailQueue queue(1);
  for (uint64_t tag = 1; tag <= 3; ++tag) queue.Add(Mail("a", tag));
  EXPECT_EQ(Startable(queue), "1 ");
  EXPECT_EQ(queue.TakeAll().size(), 2u);
  EXPECT_EQ(Startable(queue), "");
}

}  // namespace mail_queue_test
}  // namespace escapement::handler
