// The disk reports errors while the store runs. The store refuses or ends its process; if the disk
// is full for a while, it waits and goes on. Answered commits are there when it is opened again,
// after an end of the process and after a power loss. In such a loss the data of a failed sync are
// gone.

#include <atomic>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/crash/crash_life.h"

namespace escapement::crash {
namespace io_errors_test {

// The store must do this after the error.
enum class After { kAny, kEnds, kGoesOn };

constexpr int kForEver = 1'000'000;

struct Plan {
  const char* name;
  const char* path;  // part of the path
  DiskCall call;
  DiskFault fault;
  int times;  // so many calls fail, one after the other
  After after;
  int within;  // the first failing call is among the first so many
};

const Plan kPlans[] = {
    {"WalWrite", ".log", DiskCall::kWrite, DiskFault::kIoError, 1, After::kEnds, 40},
    {"WalShortWrite", ".log", DiskCall::kWrite, DiskFault::kShortWrite, 1, After::kEnds, 40},
    {"WalNoSpace", ".log", DiskCall::kWrite, DiskFault::kNoSpace, 3, After::kGoesOn, 40},
    {"WalFillsUp", ".log", DiskCall::kWrite, DiskFault::kFillsUp, 3, After::kGoesOn, 40},
    {"WalSyncNoSpace", ".log", DiskCall::kSync, DiskFault::kNoSpace, 1, After::kEnds, 30},
    {"WalSyncOnce", ".log", DiskCall::kSync, DiskFault::kIoError, 1, After::kEnds, 30},
    {"WalSync", ".log", DiskCall::kSync, DiskFault::kIoError, kForEver, After::kEnds, 30},
    {"WalCreate", ".log", DiskCall::kCreate, DiskFault::kIoError, 1, After::kAny, 6},
    {"ManifestWrite", "MANIFEST", DiskCall::kWrite, DiskFault::kIoError, 1, After::kAny, 12},
    {"ManifestShortWrite", "MANIFEST", DiskCall::kWrite, DiskFault::kShortWrite, 1, After::kAny,
     12},
    {"ManifestSync", "MANIFEST", DiskCall::kSync, DiskFault::kIoError, 1, After::kAny, 6},
    {"ManifestNoSpace", "MANIFEST", DiskCall::kWrite, DiskFault::kNoSpace, 3, After::kGoesOn, 12},
    {"TableWrite", ".sst", DiskCall::kWrite, DiskFault::kIoError, 1, After::kAny, 6},
    {"TableShortWrite", ".sst", DiskCall::kWrite, DiskFault::kShortWrite, 1, After::kAny, 6},
    {"TableSync", ".sst", DiskCall::kSync, DiskFault::kIoError, 1, After::kAny, 6},
    {"TableNoSpace", ".sst", DiskCall::kWrite, DiskFault::kNoSpace, 3, After::kGoesOn, 6},
    {"TableFillsUp", ".sst", DiskCall::kWrite, DiskFault::kFillsUp, 3, After::kGoesOn, 20},
    {"TableCreate", ".sst", DiskCall::kCreate, DiskFault::kNoSpace, 1, After::kAny, 6},
    {"TableRead", ".sst", DiskCall::kRead, DiskFault::kIoError, 1, After::kAny, 40},
    {"TableReads", ".sst", DiskCall::kRead, DiskFault::kIoError, kForEver, After::kAny, 40},
    {"WalRead", ".log", DiskCall::kRead, DiskFault::kIoError, 1, After::kAny, 4},
    {"ManifestRead", "MANIFEST", DiskCall::kRead, DiskFault::kIoError, 1, After::kAny, 2},
    {"FolderSync", "db", DiskCall::kSyncFolder, DiskFault::kIoError, kForEver, After::kAny, 3},
    {"CurrentRename", "CURRENT", DiskCall::kRename, DiskFault::kIoError, 1, After::kAny, 1},
    {"Unlink", "", DiskCall::kUnlink, DiskFault::kIoError, 1, After::kAny, 10},
    {"WitnessWrite", "witness", DiskCall::kWrite, DiskFault::kShortWrite, 1, After::kEnds, 4},
    {"WitnessFillsUp", "witness", DiskCall::kWrite, DiskFault::kFillsUp, 3, After::kGoesOn, 4},
    {"WitnessSync", "witness", DiskCall::kSync, DiskFault::kIoError, 1, After::kEnds, 4},
    {"AllNoSpace", "", DiskCall::kWrite, DiskFault::kNoSpace, 3, After::kGoesOn, 80},
};

class IoErrors : public testing::TestWithParam<Plan> {
 protected:
  struct Count {
    std::atomic<int> calls{0};
    std::atomic<bool> failed{false};
  };

  static void SetUpTestSuite() {
    LifeOptions quiet;
    quiet.bursts = 25;
    first_ = new LifeResult(RunLife({}, {}, quiet));
    ASSERT_EQ(first_->problem, "");
  }

  static DiskFaults Faults(const Plan& plan, int at, const std::shared_ptr<Count>& count) {
    return [plan, at, count](DiskCall call, absl::string_view path) {
      if (call != plan.call || !absl::StrContains(path, plan.path)) return DiskFault::kNone;
      const int number = ++count->calls;
      if (number < at || number >= at + plan.times) return DiskFault::kNone;
      count->failed = true;
      return plan.fault;
    };
  }

  // Checks the disk after the process has ended, and after a power loss at that moment.
  static void ExpectRightImages(const LifeResult& life, uint64_t seed) {
    CrashImage whole;
    whole.at = life.operations.size();
    whole.answers = life.before.answers;
    for (const DiskOperation& operation : life.operations) {
      if (operation.kind == DiskOperation::Kind::kAnswers) whole.answers = operation.count;
    }
    const ImageVerdict kept = JudgeContent(FinalContent(life.operations, life.base),
                                           KnownAt(life, whole), /*reopen=*/true);
    EXPECT_EQ(kept.problem, "") << "the process has ended; " << life.fatal;
    for (uint64_t i = 0; i < 2; ++i) {
      // Only the last operations matter, so the image is of the whole record.
      const CrashImage image =
          DrawFinalImage(life.operations, life.base, life.before.answers, seed * 10 + i);
      const ImageVerdict lost = JudgeContent(image.content, KnownAt(life, image), i == 0);
      if (image.garbage_in_manifest && absl::IsDataLoss(lost.opened)) continue;
      EXPECT_EQ(lost.problem, "") << "the power was lost; " << NameOf(image.names) << ", "
                                  << NameOf(image.tails) << "; " << life.fatal;
    }
  }

  static const LifeResult* first_;
};

const LifeResult* IoErrors::first_ = nullptr;

TEST_P(IoErrors, EndTheStoreOrAreRefusedOrWaitAndLoseNothing) {
  const Plan& plan = GetParam();
  const DiskContent closed = FinalContent(first_->operations, first_->base);
  int hit = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    auto count = std::make_shared<Count>();
    LifeOptions options;
    options.seed = 100 + seed;
    options.bursts = 60;
    const int at = 1 + static_cast<int>(seed * 7919 % static_cast<uint64_t>(plan.within));
    options.faults = Faults(plan, at, count);
    const LifeResult life = RunLife(closed, first_->after, options);
    hit += count->failed ? 1 : 0;
    if (plan.after == After::kEnds && count->failed) {
      EXPECT_TRUE(!life.fatal.ok() || !life.opened.ok()) << "it went on";
    }
    if (plan.after == After::kGoesOn) {
      EXPECT_TRUE(life.fatal.ok()) << life.fatal;
      // A start on a full disk is refused.
      EXPECT_TRUE(life.opened.ok() || absl::IsResourceExhausted(life.opened)) << life.opened;
    }
    // The store served nothing wrong; it may have answered a read with the error.
    if (!absl::StartsWith(life.problem, kUnreadable)) {
      EXPECT_EQ(life.problem, "");
    }
    ExpectRightImages(life, seed);
  }
  EXPECT_GT(hit, 0) << "nothing has failed";
}

INSTANTIATE_TEST_SUITE_P(Plans, IoErrors, testing::ValuesIn(kPlans),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace io_errors_test
}  // namespace escapement::crash
