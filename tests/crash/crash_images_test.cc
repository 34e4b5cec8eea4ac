// Power losses at any operation of the store's disk: what is recovered is a prefix of the commits
// that holds every answered one.

#include "gtest/gtest.h"
#include "tests/crash/crash_campaign.h"

namespace escapement::crash {
namespace {

class CrashImages : public testing::TestWithParam<uint64_t> {};

TEST_P(CrashImages, HoldEveryAnsweredCommitAndNothingOfHalfOnes) {
  CampaignOptions options;
  options.seed = GetParam();
  const Tally tally = RunCampaign(options);
  RecordProperty("images", static_cast<int>(tally.images));
  EXPECT_EQ(tally.failures.size(), 0u) << tally.Report();
  EXPECT_EQ(tally.images, 102u);
  EXPECT_GT(tally.with_open_data, 40u) << tally.Report();
}

INSTANTIATE_TEST_SUITE_P(Seeds, CrashImages, testing::Range<uint64_t>(1, 7));

// A disk that says that it has synced and has not is beyond what any store survives: the judge of
// the images must see it.
TEST(CrashImagesTest, ADiskThatLiesAboutSyncsIsFoundOut) {
  CampaignOptions options;
  options.seed = 1;
  options.lives = 1;
  options.faults = [](DiskCall call, absl::string_view) {
    return call == DiskCall::kSync ? DiskFault::kLie : DiskFault::kNone;
  };
  const Tally tally = RunCampaign(options);
  EXPECT_GT(tally.wrong + tally.refused, 5u) << tally.Report();
}

TEST(CrashImagesTest, ADiskThatLiesAboutSyncsOfFoldersIsFoundOut) {
  CampaignOptions options;
  options.seed = 1;
  options.lives = 1;
  options.faults = [](DiskCall call, absl::string_view) {
    return call == DiskCall::kSyncFolder ? DiskFault::kLie : DiskFault::kNone;
  };
  const Tally tally = RunCampaign(options);
  EXPECT_GT(tally.wrong + tally.refused, 5u) << tally.Report();
}

}  // namespace
}  // namespace escapement::crash
