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

OutcomeWrite EndOf(uint64_t first, uint64_t count, uint32_t attempts) {
  return {.uid = "u",
          .occurrence = "o",
          .first = first,
          .count = count,
          .outcome = Outcome::kSkipped,
          .attempts = attempts};
}

GrantWrite GrantOf(uint64_t number, uint64_t count, absl::Time retry_at = absl::InfinitePast()) {
  return {.name = {.policy = "p", .epoch = 1, .number = number},
          .uid = "u",
          .occurrence = "o",
          .weight = 2,
          .retry_at = retry_at,
          .holders = {{.first = 0, .count = count}}};
}

Commit Reporting(std::vector<TimesWrite> times, std::vector<ThrottleWrite> throttle,
                 uint64_t never_started, uint64_t tokens, uint16_t part = 0) {
  Commit commit;
  commit.times = std::move(times);
  commit.throttle = std::move(throttle);
  commit.run_reports = {{.uid = "u",
                         .occurrence = "o",
                         .part = part,
                         .never_started = never_started,
                         .tokens = tokens}};
  return commit;
}

size_t ReportViolations(std::vector<Commit> commits) {
  History history;
  history.commits = std::move(commits);
  return CheckReports(history).size();
}

TEST(CheckReports, AcceptsReportsThatGrowWithEndsAndGrants) {
  OutcomeWrite redriven = EndOf(3, 0, 0);
  redriven.deleted = true;
  EXPECT_EQ(ReportViolations({Reporting({}, {GrantOf(1, 3)}, 0, 6),
                              Reporting({EndOf(0, 1, 1), EndOf(3, 2, 0)}, {GrantOf(1, 2)}, 2, 6),
                              Reporting({}, {GrantOf(2, 1, absl::UnixEpoch())}, 2, 6),
                              Reporting({}, {GrantOf(2, 1)}, 2, 6),
                              Reporting({redriven}, {}, ~uint64_t{0} - 1, 0, /*part=*/7)}),
            0u);
}

TEST(CheckReports, CatchesAnEventThatHadAnAttempt) {
  EXPECT_EQ(ReportViolations({Reporting({EndOf(0, 1, 1)}, {}, 1, 0)}), 1u);
}

TEST(CheckReports, CatchesAnEventThatIsNotReported) {
  EXPECT_EQ(ReportViolations({Reporting({EndOf(0, 1, 0)}, {}, 0, 0)}), 1u);
}

TEST(CheckReports, CatchesATokenThatIsCountedTwice) {
  EXPECT_EQ(ReportViolations(
                {Reporting({}, {GrantOf(1, 1)}, 0, 2), Reporting({}, {GrantOf(1, 1)}, 0, 4)}),
            1u);
}

}  // namespace counts_checker_test
}  // namespace escapement::simulation
