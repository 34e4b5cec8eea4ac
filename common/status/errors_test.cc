#include "common/status/errors.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(ErrorsTest, NamesTheFieldOfABadRequest) {
  const absl::Status status = InvalidField("schedule.cron", "has seven fields");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorReason(status), "INVALID_FIELD");
  EXPECT_THAT(FieldViolationsOf(status), ElementsAre(Pair("schedule.cron", "has seven fields")));
  EXPECT_THAT(std::string(status.message()), HasSubstr("schedule.cron: has seven fields"));
}

TEST(ErrorsTest, GathersViolationsAndPutsThemBelowAPrefix) {
  FieldViolations violations;
  EXPECT_TRUE(violations.ToStatus().ok());
  violations.AddStatus("schedule", absl::OkStatus());
  EXPECT_TRUE(violations.empty());
  violations.AddStatus("schedule", InvalidField("cron", "is empty"));
  violations.AddStatus("schedule.target", absl::InvalidArgumentError("is missing"));
  EXPECT_THAT(
      FieldViolationsOf(violations.ToStatus()),
      ElementsAre(Pair("schedule.cron", "is empty"), Pair("schedule.target", "is missing")));
}

TEST(ErrorsTest, StaysSmallEnoughForTrailingMetadata) {
  FieldViolations violations;
  for (int i = 0; i < 5000; ++i)
    violations.Add("events[" + std::to_string(i) + "].payload", std::string(60, 'x'));
  const absl::Status status = violations.ToStatus();
  EXPECT_LT(status.message().size(), 6000u);
  EXPECT_LE(FieldViolationsOf(status).size(), 100u);
  EXPECT_THAT(std::string(status.message()), HasSubstr(" more"));
}

TEST(ErrorsTest, CarriesResourceAndRetryDelay) {
  EXPECT_EQ(ErrorMetadataValue(NotFound("tenants/a/schedules/b"), "resource"),
            "tenants/a/schedules/b");
  EXPECT_EQ(EtagMismatch("x").code(), absl::StatusCode::kAborted);
  const absl::Status full = ResourceExhausted("QUEUE_FULL", "no room", absl::Milliseconds(1500));
  EXPECT_EQ(RetryDelayOf(full), absl::Milliseconds(1500));
  EXPECT_EQ(RetryDelayOf(absl::OkStatus()), std::nullopt);
  EXPECT_EQ(ErrorReason(absl::InternalError("x")), "");
}

TEST(ErrorsTest, AnnotatingKeepsTheDetails) {
  const absl::Status status = Annotate(InvalidField("a", "b"), "line 3");
  EXPECT_THAT(std::string(status.message()), HasSubstr("line 3: a: b"));
  EXPECT_EQ(ErrorReason(status), "INVALID_FIELD");
  EXPECT_THAT(FieldViolationsOf(Annotate(absl::OkStatus(), "x")), IsEmpty());
}

}  // namespace
}  // namespace escapement
