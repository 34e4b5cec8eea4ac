#include "common/rest/request_reader.h"
#include "common/status/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace escapement::rest {
namespace answer_writer_test {

using testing::Contains;
using testing::Pair;

TEST(ErrorAnswer, DecodesTheDetails) {
  const HttpResponse response = ErrorAnswer(InvalidField("schedule.cron", "is \"bad\""));
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.content_type, "application/json");
  const auto error = nlohmann::json::parse(response.body).at("error");
  EXPECT_EQ(error.at("code"), 400);
  EXPECT_EQ(error.at("status"), "INVALID_ARGUMENT");
  bool field_named = false;
  bool reason_named = false;
  for (const auto& detail : error.at("details")) {
    if (detail.at("@type") == "type.googleapis.com/google.rpc.BadRequest")
      field_named = detail.at("fieldViolations").at(0).at("field") == "schedule.cron";
    if (detail.at("@type") == "type.googleapis.com/google.rpc.ErrorInfo")
      reason_named = detail.at("reason") == "INVALID_FIELD";
  }
  EXPECT_TRUE(field_named) << response.body;
  EXPECT_TRUE(reason_named) << response.body;
}

// As gRPC makes it when a deadline has passed.
TEST(ErrorAnswer, ErrorWithoutAReasonGetsItsCode) {
  const HttpResponse response = ErrorAnswer(absl::DeadlineExceededError("Deadline Exceeded"));
  EXPECT_EQ(response.status, 504);
  const auto details = nlohmann::json::parse(response.body).at("error").at("details");
  ASSERT_EQ(details.size(), 1u) << response.body;
  EXPECT_EQ(details.at(0).at("@type"), "type.googleapis.com/google.rpc.ErrorInfo");
  EXPECT_EQ(details.at(0).at("reason"), "DEADLINE_EXCEEDED");
}

TEST(ErrorAnswer, RetryAfterIsRoundedUp) {
  const HttpResponse response =
      ErrorAnswer(ResourceExhausted("BUSY", "no room", absl::Milliseconds(1200)));
  EXPECT_EQ(response.status, 429);
  EXPECT_THAT(response.headers, Contains(Pair("Retry-After", "2")));
}

TEST(ErrorAnswer, StaleEtagIs412IfTheRequestHadIfMatch) {
  EXPECT_EQ(ErrorAnswer(EtagMismatch("tenants/a/schedules/b"), true).status, 412);
  EXPECT_EQ(ErrorAnswer(EtagMismatch("tenants/a/schedules/b"), false).status, 409);
  EXPECT_EQ(ErrorAnswer(Aborted("RACE", "lost"), true).status, 409);
}

TEST(ErrorAnswer, CodeIsTheHttpStatus) {
  const HttpResponse response = ErrorAnswerAs(413, absl::ResourceExhaustedError("too large"));
  EXPECT_EQ(response.status, 413);
  EXPECT_EQ(nlohmann::json::parse(response.body).at("error").at("code"), 413);
}

}  // namespace answer_writer_test
}  // namespace escapement::rest
