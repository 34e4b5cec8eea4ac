#include "tests/bench/costs/cost_meter.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/bench/costs/counts.h"

namespace escapement::bench {
namespace {

using integration::ChildProcess;

constexpr absl::Duration kMax = absl::Seconds(30);

class CostMeterTest : public ::testing::Test {
 protected:
  void Start(const std::vector<std::string>& work, bool counter = true) {
    const std::string built = integration::BuiltFolder() + "/tests/bench/costs/";
    ChildProcess::Options options = {
        .program = built + "sample_main", .arguments = work, .input = true};
    if (counter) {
      options.environment = {absl::StrCat("LD_PRELOAD=", built, "counter.so"),
                             absl::StrCat(kCountsFolder, "=", folder_)};
    }
    auto started = ChildProcess::Start(options);
    ASSERT_TRUE(started.ok()) << started.status();
    sample_ = *std::move(started);
    ASSERT_TRUE(sample_->AwaitLine("ready", kMax).ok());
  }

  // Lets it work once.
  Costs Measure() {
    CostMeter meter({{"sample", sample_->pid()}}, folder_, folder_);
    EXPECT_TRUE(meter.Start().ok());
    EXPECT_TRUE(sample_->WriteLine("work").ok());
    EXPECT_TRUE(sample_->AwaitLine("done", kMax).ok());
    const auto costs = meter.Stop();
    EXPECT_TRUE(costs.ok()) << costs.status();
    return costs.value_or(Costs());
  }

  const std::string folder_ = integration::NewFolder("costs");
  std::unique_ptr<ChildProcess> sample_;
};

// Reading a line and writing one are a few system calls, and at most a few allocations.
constexpr double kFew = 20;

TEST_F(CostMeterTest, PlantedAllocationsAndCopiesAreCounted) {
  Start({"1000", "500", "0", "0", "0"});
  for (int i = 0; i < 2; ++i) {
    const Costs costs = Measure();
    EXPECT_EQ(costs.counts_missing, "");
    const ThreadCosts& worker = costs.by_thread.at({"sample", "worker"});
    EXPECT_NEAR(worker.allocations, 1000, kFew);
    EXPECT_NEAR(worker.allocated_bytes, 100'000, 5000);
    EXPECT_NEAR(worker.copies, 500, kFew);
    EXPECT_NEAR(worker.copied_bytes, 32'000, 2000);
  }
}

TEST_F(CostMeterTest, PlantedSystemCallsAndWakesAreCounted) {
  Start({"0", "0", "3000", "700", "300"});
  const Costs costs = Measure();
  if (!costs.syscalls_missing.empty()) GTEST_SKIP() << costs.syscalls_missing;
  EXPECT_NEAR(costs.by_thread.at({"sample", "worker"}).syscalls, 4000, kFew);
  EXPECT_NEAR(costs.by_thread.at({"sample", "worker"}).wakes, 700, kFew);
  EXPECT_NEAR(costs.by_thread.at({"sample", "worker"}).voluntary, 300, kFew);
}

TEST_F(CostMeterTest, ProcessorTimeIsOfTheThreadThatUsedIt) {
  Start({"0", "0", "300000", "0", "0"});
  const Costs costs = Measure();
  EXPECT_GT(costs.by_thread.at({"sample", "worker"}).cpu_seconds, 0.005);
  EXPECT_LT(costs.by_thread.at({"sample", "sample_main"}).cpu_seconds, 0.005);
}

TEST_F(CostMeterTest, MissingCounterIsNamed) {
  Start({"1000", "0", "0", "0", "0"}, /*counter=*/false);
  const Costs costs = Measure();
  EXPECT_EQ(costs.counts_missing, "counter.so is not loaded into sample");
  EXPECT_EQ(costs.Total().allocations, 0);
}

TEST_F(CostMeterTest, ProcessThatHasEndedIsAnError) {
  Start({"0", "0", "0", "0", "0"});
  const pid_t pid = sample_->pid();
  sample_->Kill();
  CostMeter meter({{"sample", pid}}, folder_, folder_);
  EXPECT_FALSE(meter.Start().ok());
}

}  // namespace
}  // namespace escapement::bench
