#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/simulation/checkers/commits/commit_checks.h"

namespace escapement::simulation {
namespace counts_checker_test {

OutcomeWrite Ended(Outcome outcome, uint64_t count, const std::string& occurrence = "o") {
  return {.uid = "u", .occurrence = occurrence, .count = count, .outcome = outcome};
}

Commit CommitOf(std::vector<TimesWrite> times, std::vector<ScheduleCountsWrite> counts) {
  Commit commit;
  commit.times = std::move(times);
  commit.schedule_counts = std::move(counts);
  return commit;
}

size_t Violations(std::vector<Commit> commits) {
  History history;
  history.commits = std::move(commits);
  return CheckCounts(history).size();
}

TEST(CheckCounts, AcceptsCountsThatGrowWithTheEnds) {
  EXPECT_EQ(Violations({CommitOf({Ended(Outcome::kSucceeded, 3), Ended(Outcome::kFailed, 1)},
                                 {{.uid = "u", .part = 0, .succeeded = 3, .failed = 1}}),
                        CommitOf({Ended(Outcome::kSucceeded, 2)},
                                 {{.uid = "u", .part = 1, .succeeded = 2}}),
                        CommitOf({Ended(Outcome::kSucceeded, 1)},
                                 {{.uid = "u", .part = 0, .succeeded = 4, .failed = 1}}),
                        CommitOf({Ended(Outcome::kSkipped, 9), Ended(Outcome::kExpired, 9)}, {}),
                        CommitOf({Ended(Outcome::kSucceeded, 1, "")}, {})}),
            0u);
}

TEST(CheckCounts, CatchesAnEndThatIsNotCounted) {
  EXPECT_EQ(Violations({CommitOf({Ended(Outcome::kFailed, 1)}, {})}), 1u);
}

TEST(CheckCounts, CatchesAnEndThatIsCountedTwice) {
  EXPECT_EQ(Violations({CommitOf({Ended(Outcome::kSucceeded, 1)},
                                 {{.uid = "u", .part = 0, .succeeded = 1},
                                  {.uid = "u", .part = 1, .succeeded = 1}})}),
            1u);
}

TEST(CheckCounts, CatchesCountsThatBeginAnew) {
  EXPECT_EQ(
      Violations(
          {CommitOf({Ended(Outcome::kSucceeded, 5)}, {{.uid = "u", .part = 0, .succeeded = 5}}),
           CommitOf({Ended(Outcome::kSucceeded, 1)}, {{.uid = "u", .part = 0, .succeeded = 1}})}),
      1u);
}

}  // namespace counts_checker_test
}  // namespace escapement::simulation
