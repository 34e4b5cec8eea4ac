// Runs some seeds against a real process. Then spoils answers on purpose; each spoilt answer must
// be found.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/api_fuzz/fuzz_run.h"
#include "tests/fixtures/process/child_process.h"

namespace escapement::api_fuzz {
namespace api_fuzz_test {

using ::testing::Contains;
using ::testing::HasSubstr;

class ApiFuzzTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = integration::NewFolder("api_fuzz");
    auto bed = Bed::Start(integration::BuiltFolder(), folder);
    ASSERT_TRUE(bed.ok()) << bed.status();
    bed_ = *std::move(bed);
  }

  std::vector<std::string> Findings(uint64_t seed, uint64_t calls) {
    FuzzRun run(bed_->api(), bed_->OptionsFor(seed, calls));
    return run.Run();
  }
  // The findings of runs whose answers all pass through `spoil`, for the first seed that has any.
  std::vector<std::string> SpoiltBy(WireApi::Spoil spoil) {
    bed_->api().set_spoil(std::move(spoil));
    std::vector<std::string> findings;
    for (uint64_t seed = 1; seed <= 20 && findings.empty(); ++seed) findings = Findings(seed, 400);
    return findings;
  }

  std::unique_ptr<Bed> bed_;
};

TEST_F(ApiFuzzTest, RandomCallsFindNothing) {
  for (uint64_t seed = 1; seed <= 9; ++seed) {
    const auto findings = Findings(seed, 1500);
    EXPECT_TRUE(findings.empty()) << absl::StrJoin(findings, "\n");
  }
  EXPECT_EQ(bed_->End(), "");
}

TEST_F(ApiFuzzTest, FindsAnErrorWithoutErrorInfo) {
  EXPECT_THAT(SpoiltBy([](const Method&, fixtures::RawAnswer& answer) {
                if (!answer.status.ok())
                  answer.status = {answer.status.error_code(), answer.status.error_message()};
              }),
              Contains(HasSubstr("no ErrorInfo")));
}

TEST_F(ApiFuzzTest, FindsAControlCharacterInAnError) {
  EXPECT_THAT(
      SpoiltBy([](const Method&, fixtures::RawAnswer& answer) {
        if (!answer.status.ok())
          answer.status = {answer.status.error_code(), "\x1b", answer.status.error_details()};
      }),
      Contains(HasSubstr("message is not plain")));
}

TEST_F(ApiFuzzTest, FindsAListThatDropsAPage) {
  EXPECT_THAT(SpoiltBy([](const Method& method, fixtures::RawAnswer& answer) {
                if (method.name() == "ListPolicies" && answer.status.ok()) answer.messages = {""};
              }),
              Contains(HasSubstr("is not listed")));
}

TEST_F(ApiFuzzTest, FindsALossOfWhatWasAcknowledged) {
  EXPECT_THAT(SpoiltBy([](const Method& method, fixtures::RawAnswer& answer) {
                if (method.name() == "GetPolicy" && answer.status.ok()) answer.messages = {""};
              }),
              Contains(HasSubstr("does not show what was acknowledged")));
}

TEST_F(ApiFuzzTest, FindsAStreamThatLeavesAMessageUnanswered) {
  EXPECT_THAT(SpoiltBy([](const Method& method, fixtures::RawAnswer& answer) {
                if (method.name() == "Ingest" && answer.status.ok()) answer.messages.pop_back();
              }),
              Contains(HasSubstr(" answers")));
}

}  // namespace api_fuzz_test
}  // namespace escapement::api_fuzz
