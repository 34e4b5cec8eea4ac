#include "services/handler/delivery/email/mail_queue.h"

#include <chrono>
#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace escapement::handler {
namespace mail_queue_test {

using std::chrono::milliseconds;

constexpr MailInstant kBegin = MailInstant() + std::chrono::hours(1);

QueuedMail Mail(const std::string& server, uint64_t tag,
                MailInstant start_by = MailInstant::max()) {
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
  queue.Add(Mail("a", 1, kBegin + milliseconds(30)));
  queue.Add(Mail("a", 2, kBegin + milliseconds(10)));
  queue.Add(Mail("b", 3, kBegin + milliseconds(20)));
  EXPECT_EQ(queue.earliest(), kBegin + milliseconds(10));
  EXPECT_TRUE(queue.TakeExpired(kBegin + milliseconds(9)).empty());
  const auto first = queue.TakeExpired(kBegin + milliseconds(10));
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].attempt.tag, 2u);
  EXPECT_EQ(queue.earliest(), kBegin + milliseconds(20));
  EXPECT_EQ(queue.TakeExpired(kBegin + milliseconds(25)).size(), 1u);
  EXPECT_EQ(Startable(queue), "1 ");
  queue.Done("a");
  EXPECT_TRUE(queue.TakeExpired(kBegin + milliseconds(99)).empty());
  EXPECT_EQ(queue.earliest(), MailInstant::max());
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
