#include "services/handler/delivery/sqs/answer.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace escapement::handler {
namespace answer_test {

SqsAnswer Refusal(long status, const std::string& type) {
  return {.status = status, .body = absl::StrCat("{\"__type\":\"", type, "\"}")};
}

SqsAnswer FailedEntry(const std::string& rest) {
  return {.status = 200, .body = absl::StrCat("{\"Failed\":[{\"Id\":\"0\"", rest, "}]}")};
}

TEST(SqsAnswerTest, IdsAreMatched) {
  const auto results = ResultsOfAnswer(
      {.status = 200, .body = R"({"Failed":[{"Id":"2","Code":"C","SenderFault":true}],
                   "Successful":[{"Id":"1"},{"Id":"7"},{"Id":"-1"},{"Id":"x"},{"Id":3},"4",null]})"},
      4);
  ASSERT_EQ(results.size(), 4u);
  EXPECT_EQ(results[0].status, DeliveryStatus::kUnknown);
  EXPECT_EQ(results[1].status, DeliveryStatus::kAccepted);
  EXPECT_EQ(results[2].status, DeliveryStatus::kRejected);
  EXPECT_EQ(results[2].message, "C");
  EXPECT_EQ(results[2].status_code, 200);
  EXPECT_EQ(results[3].status, DeliveryStatus::kUnknown);
}

TEST(SqsAnswerTest, CutAnswerIsUnknown) {
  const auto results =
      ResultsOfAnswer({.status = 200, .body = R"({"Successful":[{"Id":"0"}]})", .cut = true}, 1);
  EXPECT_EQ(results[0].status, DeliveryStatus::kUnknown);
}

TEST(SqsAnswerTest, FaultOfUnknownFormIsNotTheSenders) {
  for (const char* rest : {"", ",\"SenderFault\":1", ",\"SenderFault\":\"yes\"", ",\"Code\":5"})
    EXPECT_EQ(ResultsOfAnswer(FailedEntry(rest), 1)[0].status, DeliveryStatus::kFailed) << rest;
}

TEST(SqsAnswerTest, FaultMayBeAWord) {
  EXPECT_EQ(ResultsOfAnswer(FailedEntry(",\"SenderFault\":\"true\""), 1)[0].status,
            DeliveryStatus::kRejected);
}

TEST(SqsAnswerTest, ContentsAreBlamedOnlyByTheirCodes) {
  for (const char* type :
       {"com.amazonaws.sqs#BatchRequestTooLong", "InvalidMessageContents",
        "AWS.SimpleQueueService.BatchRequestTooLong", "InvalidParameterValueException"}) {
    EXPECT_TRUE(BlamesContents(Refusal(400, type))) << type;
    EXPECT_EQ(ResultsOfAnswer(Refusal(400, type), 1)[0].status, DeliveryStatus::kRejected);
    EXPECT_EQ(ResultsOfAnswer(Refusal(400, type), 2)[0].status, DeliveryStatus::kFailed);
    EXPECT_FALSE(BlamesContents(Refusal(500, type)));
  }
  EXPECT_FALSE(BlamesContents(Refusal(400, "QueueDoesNotExist")));
  EXPECT_FALSE(BlamesContents({.status = 400, .body = "{"}));
}

TEST(SqsAnswerTest, MessagesAreCutAndCleaned) {
  const std::string text(5000, 'x');
  const auto results =
      ResultsOfAnswer(FailedEntry(absl::StrCat(",\"Code\":\"", text,
                                               "\",\"Message\":\"\\u001b\\u0000", text, "\"")),
                      1);
  EXPECT_LE(results[0].message.size(), kDeliveryMessageBytesMax);
  EXPECT_EQ(results[0].message.find('\x1b'), std::string::npos);
  EXPECT_EQ(results[0].message.find('\0'), std::string::npos);
  const DeliveryResult failed = ResultsOfAnswer({.status = 500, .body = text}, 1)[0];
  EXPECT_LE(failed.message.size(), 300u);
  EXPECT_EQ(failed.status_code, 500);
  EXPECT_EQ(failed.answer.size(), kDeliveryAnswerBytesMax);
}

TEST(SqsAnswerTest, RetryAfterIsBounded) {
  SqsAnswer answer = {.status = 503, .body = "", .retry_after = absl::Hours(1000)};
  EXPECT_EQ(ResultsOfAnswer(answer, 1)[0].retry_after, kRetryAfterMax);
  answer.retry_after = -absl::Seconds(1);
  EXPECT_EQ(ResultsOfAnswer(answer, 1)[0].retry_after, absl::ZeroDuration());
}

}  // namespace answer_test
}  // namespace escapement::handler
