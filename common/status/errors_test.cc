#include "common/status/errors.h"

#include <string>

#include "common/base/printable_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement {
namespace errors_test {

using ::testing::ElementsAre;
using ::testing::EndsWith;
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

TEST(ErrorsTest, ManyViolationsAreSummarised) {
  FieldViolations violations;
  for (int i = 0; i < 5000; ++i)
    violations.Add("events[" + std::to_string(i) + "].payload", std::string(60, 'x'));
  const absl::Status status = violations.ToStatus();
  EXPECT_LE(status.message().size(), 800u);
  EXPECT_THAT(std::string(status.message()), EndsWith(" more"));
  size_t bytes = 0;
  for (const auto& [field, description] : FieldViolationsOf(status))
    bytes += field.size() + description.size();
  EXPECT_LE(bytes, 2048u);
  EXPECT_GT(bytes, 1024u);
}

TEST(ErrorsTest, LongTextsAreCutBetweenTwoCharacters) {
  std::string text = "x";
  for (int i = 0; i < 1000; ++i) text += "\xe2\x82\xac";
  FieldViolations violations;
  violations.Add(text, text);
  violations.Add("b", "c");
  const absl::Status status = violations.ToStatus();
  const auto shown = FieldViolationsOf(status);
  ASSERT_EQ(shown.size(), 2u);
  for (const std::string& cut :
       {shown[0].first, shown[0].second, ErrorMetadataValue(status, "field"), ErrorText(text)}) {
    EXPECT_FALSE(HasControlCharacters(cut)) << cut;  // so it is valid UTF-8
    EXPECT_THAT(cut, EndsWith("\xe2\x82\xac..."));
  }
  EXPECT_LE(shown[0].first.size(), 200u);
  EXPECT_LE(shown[0].second.size(), 600u);
  EXPECT_FALSE(HasControlCharacters(status.message()));
  EXPECT_THAT(std::string(status.message()), EndsWith("...; and 1 more"));
  EXPECT_LE(ErrorMetadataValue(NotFound(text), "resource").size(), 400u);
  EXPECT_EQ(ErrorText(ErrorText(text)), ErrorText(text));
}

TEST(ErrorsTest, NoTextHoldsControlCharacters) {
  const std::string hostile = "a\x1b[2J\xc2\x9b\x7f\n\xff";
  const std::string escaped = "a\\x1b[2J\\x9b\\x7f\\n\\xff";
  EXPECT_EQ(NotFound(hostile).message(), escaped + " does not exist");
  EXPECT_EQ(ErrorMetadataValue(NotFound(hostile), "resource"), escaped);
  EXPECT_EQ(Annotate(absl::InternalError(hostile), hostile).message(), escaped + ": " + escaped);
  const absl::Status status = InvalidField(hostile, hostile);
  EXPECT_THAT(FieldViolationsOf(status), ElementsAre(Pair(escaped, escaped)));
  EXPECT_EQ(status.message(), escaped + ": " + escaped);
  FieldViolations violations;
  violations.AddStatus(hostile, absl::InvalidArgumentError(hostile));
  EXPECT_THAT(FieldViolationsOf(violations.ToStatus()), ElementsAre(Pair(escaped, escaped)));
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

}  // namespace errors_test
}  // namespace escapement
