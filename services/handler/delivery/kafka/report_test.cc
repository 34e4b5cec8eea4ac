#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/handler/delivery/kafka/outstanding.h"

namespace escapement::handler {
namespace report_test {

using ::testing::HasSubstr;

DeliveryStatus StatusOf(const KafkaReport& report) { return ResultOfReport(report).status; }

TEST(ReportTest, DeliveredRecordIsAcceptedWithoutAMessage) {
  const DeliveryResult result = ResultOfReport({.trouble = "an error of the past"});
  EXPECT_EQ(result.status, DeliveryStatus::kAccepted);
  EXPECT_EQ(result.message, "");
}

TEST(ReportTest, TimeoutDependsOnWhatMayHaveBeenWritten) {
  const rd_kafka_resp_err_t late = RD_KAFKA_RESP_ERR__MSG_TIMED_OUT;
  EXPECT_EQ(StatusOf({.error = late, .possibly_persisted = true}), DeliveryStatus::kUnknown);
  EXPECT_EQ(StatusOf({.error = late}), DeliveryStatus::kFailed);
  EXPECT_TRUE(ResultOfReport({.error = late}).not_sent);
  EXPECT_FALSE(ResultOfReport({.error = late, .possibly_persisted = true}).not_sent);
  EXPECT_EQ(StatusOf({.error = late, .delivering = true}), DeliveryStatus::kUnsent);
  EXPECT_EQ(StatusOf({.error = late, .possibly_persisted = true, .delivering = true}),
            DeliveryStatus::kUnknown);
}

TEST(ReportTest, RefusalOfTheRecordIsRejectedOnlyIfItWasAlone) {
  for (const rd_kafka_resp_err_t error :
       {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, RD_KAFKA_RESP_ERR_INVALID_RECORD}) {
    EXPECT_EQ(StatusOf({.error = error, .alone = true}), DeliveryStatus::kRejected);
    EXPECT_EQ(StatusOf({.error = error}), DeliveryStatus::kFailed);
  }
}

TEST(ReportTest, OtherErrorsFail) {
  for (const rd_kafka_resp_err_t error :
       {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, RD_KAFKA_RESP_ERR_POLICY_VIOLATION,
        RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
        RD_KAFKA_RESP_ERR__AUTHENTICATION, RD_KAFKA_RESP_ERR__PURGE_QUEUE}) {
    EXPECT_EQ(StatusOf({.error = error, .alone = true}), DeliveryStatus::kFailed);
    EXPECT_NE(ResultOfReport({.error = error}).message, "");
    EXPECT_EQ(ResultOfReport({.error = error}).status_code, error);
  }
  EXPECT_EQ(StatusOf({.error = RD_KAFKA_RESP_ERR__PURGE_INFLIGHT, .possibly_persisted = true}),
            DeliveryStatus::kUnknown);
  EXPECT_EQ(StatusOf({.error = RD_KAFKA_RESP_ERR__QUEUE_FULL}), DeliveryStatus::kUnsent);
}

TEST(ReportTest, MessageHasTheTroubleAndIsBounded) {
  EXPECT_EQ(
      ResultOfReport({.error = RD_KAFKA_RESP_ERR__PURGE_QUEUE, .trouble = "no entry"}).message,
      "no entry");
  EXPECT_THAT(
      ResultOfReport({.error = RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, .trouble = "no entry"}).message,
      HasSubstr("timed out: no entry"));
  EXPECT_LE(
      ResultOfReport({.error = RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, .trouble = std::string(5000, 'x')})
          .message.size(),
      kDeliveryMessageBytesMax);
}

}  // namespace report_test
}  // namespace escapement::handler
