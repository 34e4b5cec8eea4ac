// After a power loss at any operation of the store's disk, a prefix of the commits is recovered
// that holds every answered commit.

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/crash/crash_campaign.h"
#include "tests/crash/crash_life.h"

namespace escapement::crash {
namespace crash_images_test {

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

// Checked on the record itself, since few images would happen to have one name without the other.
TEST(CrashImagesTest, CurrentNamesNoManifestWhoseOwnNameMayBeLost) {
  LifeOptions options;
  options.bursts = 5;
  const LifeResult life = RunLife({}, {}, options);
  ASSERT_EQ(life.problem, "");
  std::set<std::string> open;
  int renames = 0;
  for (const DiskOperation& operation : life.operations) {
    if (operation.kind == DiskOperation::Kind::kSyncFolder && operation.name == "db") open.clear();
    if (operation.kind == DiskOperation::Kind::kCreate &&
        absl::StrContains(operation.name, "MANIFEST")) {
      open.insert(operation.name);
    }
    if (operation.kind != DiskOperation::Kind::kRename || operation.to != "db/CURRENT") continue;
    ++renames;
    EXPECT_TRUE(open.empty()) << *open.begin();
  }
  EXPECT_GT(renames, 1);
}

// No store survives a disk that reports syncs it has not done. The judge of the images must notice.
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

}  // namespace crash_images_test
}  // namespace escapement::crash
