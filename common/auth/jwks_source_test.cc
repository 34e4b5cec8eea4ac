#include "common/auth/jwks_source.h"

#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/auth/testing/test_issuer.h"
#include "common/sim/sim_runtime.h"
#include "common/tls/testing/test_certificates.h"
#include "gtest/gtest.h"

namespace escapement::auth {
namespace jwks_source_test {

using ::escapement::testing::KeySet;
using ::escapement::testing::SigningKey;
using ::escapement::testing::WriteFile;

std::string SetWith(const std::string& kid) { return KeySet({SigningKey::Ec(kid)}); }

// The id of the first key; "none" without keys.
std::string FirstKid(JwksSource& source) {
  const auto keys = source.Current();
  return keys == nullptr || keys->keys().empty() ? "none" : keys->keys()[0].kid;
}

class JwksFile : public ::testing::Test {
 protected:
  JwksFile() { unlink(path_.c_str()); }

  sim::SimRuntime runtime_{1};
  const std::string path_ = absl::StrCat(::testing::TempDir(), "/jwks.json");
};

TEST_F(JwksFile, IsReadAgainASecondAfterAChange) {
  WriteFile(path_, SetWith("a"));
  const auto source = NewJwksFileSource(path_, runtime_.clock());
  EXPECT_EQ(FirstKid(*source), "a");
  WriteFile(path_, SetWith("b"));
  runtime_.AdvanceBy(absl::Milliseconds(999));
  EXPECT_EQ(FirstKid(*source), "a");
  runtime_.AdvanceBy(absl::Milliseconds(1));
  EXPECT_EQ(FirstKid(*source), "b");
}

TEST_F(JwksFile, ThatIsBrokenOrMissingLeavesTheFormerKeys) {
  WriteFile(path_, SetWith("a"));
  const auto source = NewJwksFileSource(path_, runtime_.clock());
  EXPECT_EQ(FirstKid(*source), "a");
  WriteFile(path_, "{");
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(FirstKid(*source), "a");
  unlink(path_.c_str());
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(FirstKid(*source), "a");
  WriteFile(path_, SetWith("b"));
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(FirstKid(*source), "b");
}

TEST_F(JwksFile, ThatBecomesEmptyWithdrawsAllKeys) {
  WriteFile(path_, SetWith("a"));
  const auto source = NewJwksFileSource(path_, runtime_.clock());
  EXPECT_EQ(FirstKid(*source), "a");
  WriteFile(path_, R"({"keys":[]})");
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(FirstKid(*source), "none");
}

TEST_F(JwksFile, MayAppearLater) {
  const auto source = NewJwksFileSource(path_, runtime_.clock());
  EXPECT_EQ(source->Current(), nullptr);
  WriteFile(path_, SetWith("a"));
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(FirstKid(*source), "a");
  EXPECT_FALSE(source->NoteUnknownKey());
}

class JwksUrl : public ::testing::Test {
 protected:
  JwksUrl() {
    source_ = NewJwksUrlSource(
        {.url = "https://issuer/keys"},
        [this](const IssuerRequest& request, const std::atomic<bool>&) {
          EXPECT_EQ(request.url, "https://issuer/keys");
          ++fetches_;
          return answer_;
        },
        runtime_);
  }

  sim::SimRuntime runtime_{1};
  absl::StatusOr<std::string> answer_ = SetWith("a");
  int fetches_ = 0;
  std::unique_ptr<JwksSource> source_;
};

TEST_F(JwksUrl, IsFetchedEachTenMinutes) {
  EXPECT_EQ(source_->Current(), nullptr);
  source_->Start();
  EXPECT_EQ(fetches_, 0);  // not on the caller's thread
  runtime_.RunUntilIdle();
  EXPECT_EQ(FirstKid(*source_), "a");
  answer_ = SetWith("b");
  runtime_.AdvanceBy(absl::Minutes(9));
  EXPECT_EQ(FirstKid(*source_), "a");
  runtime_.AdvanceBy(absl::Minutes(1));
  EXPECT_EQ(FirstKid(*source_), "b");
  runtime_.AdvanceBy(absl::Hours(1));
  EXPECT_EQ(fetches_, 8);
}

TEST_F(JwksUrl, IsFetchedForAnUnknownKeyOnceInTenSeconds) {
  source_->Start();
  runtime_.RunUntilIdle();
  EXPECT_FALSE(source_->NoteUnknownKey());  // fetched just now
  runtime_.AdvanceBy(absl::Seconds(10));
  answer_ = SetWith("b");
  EXPECT_TRUE(source_->NoteUnknownKey());
  EXPECT_TRUE(source_->NoteUnknownKey());  // still under way
  runtime_.RunUntilIdle();
  EXPECT_EQ(FirstKid(*source_), "b");
  for (int i = 0; i < 9; ++i) {
    runtime_.AdvanceBy(absl::Seconds(1));
    EXPECT_FALSE(source_->NoteUnknownKey());
  }
  EXPECT_EQ(fetches_, 2);
  // The next regular fetch counts from this one.
  runtime_.AdvanceBy(absl::Minutes(10) - absl::Seconds(10));
  EXPECT_EQ(fetches_, 2);
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(fetches_, 3);
}

TEST_F(JwksUrl, IsFetchedTenSecondsAfterAFailure) {
  answer_ = absl::UnavailableError("no route");
  source_->Start();
  runtime_.AdvanceBy(absl::Seconds(25));
  EXPECT_EQ(fetches_, 3);
  EXPECT_EQ(source_->Current(), nullptr);
  answer_ = SetWith("a");
  runtime_.AdvanceBy(absl::Seconds(5));
  EXPECT_EQ(FirstKid(*source_), "a");
}

TEST_F(JwksUrl, ThatFailsLeavesTheKeysForADay) {
  source_->Start();
  runtime_.RunUntilIdle();
  answer_ = "<html>maintenance</html>";
  runtime_.AdvanceBy(absl::Hours(24) - absl::Seconds(1));
  EXPECT_EQ(FirstKid(*source_), "a");
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(source_->Current(), nullptr);
  answer_ = SetWith("b");
  runtime_.AdvanceBy(absl::Seconds(10));
  EXPECT_EQ(FirstKid(*source_), "b");
}

}  // namespace jwks_source_test
}  // namespace escapement::auth
