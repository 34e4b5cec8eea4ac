#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/simulation/checkers/commits/commit_checks.h"

namespace escapement::simulation {
namespace cancelled_checker_test {

const absl::Time kStart = absl::FromUnixSeconds(1'772'323'200);

absl::Time At(double seconds) { return kStart + absl::Seconds(seconds); }

Commit CommitAt(double seconds, std::vector<QueueWrite> queue, std::vector<TimesWrite> times = {}) {
  static uint64_t seq = 0;
  Commit commit;
  commit.seq = ++seq;
  commit.store_time = At(seconds);
  commit.time = At(seconds);
  commit.queue = std::move(queue);
  commit.times = std::move(times);
  return commit;
}

StateWrite State(std::vector<std::string> cancelled) {
  return {.uid = "u",
          .kind = StateWrite::Kind::kEnabled,
          .version = 1,
          .cancelled_runs = std::move(cancelled)};
}

ClaimPut Claim(const std::string& occurrence) {
  ClaimPut claim;
  claim.events.push_back({.uid = "u", .occurrence = occurrence, .events = {0, 1}});
  return claim;
}

OutcomeWrite CancelledEnd(const std::string& occurrence) {
  return {.uid = "u",
          .occurrence = occurrence,
          .count = 1,
          .outcome = Outcome::kCancelled,
          .reason = "cancelled"};
}

Receipt SentAt(double seconds, const std::string& occurrence) {
  Receipt receipt;
  receipt.uid = "u";
  receipt.occurrence = occurrence;
  receipt.sent = At(seconds);
  receipt.timeout = absl::Seconds(10);
  return receipt;
}

// Run "o" is claimed, cancelled and ended; run "p" goes on.
History Right() {
  History history;
  ScheduleLife life{.id = "s", .uid = "u", .changes = {}, .triggered = {}};
  life.cancels.push_back({.occurrence = "o", .called = At(1), .cancelled = true});
  history.schedules.push_back(life);
  history.commits.push_back(CommitAt(1, {Claim("o")}));
  history.commits.push_back(CommitAt(2, {State({"o"})}));
  history.commits.push_back(CommitAt(3, {Claim("p")}));
  history.commits.push_back(CommitAt(4, {State({})}, {CancelledEnd("o")}));
  history.receipts = {SentAt(11, "o"), SentAt(30, "p")};
  return history;
}

std::string Found(const History& history) {
  const std::vector<Violation> violations = CheckCancelled(history);
  return violations.size() == 1 ? violations[0].what : std::to_string(violations.size());
}

TEST(CheckCancelled, FindsNothingInWhatIsRight) { EXPECT_EQ(Found(Right()), "0"); }

TEST(CheckCancelled, FindsAClaimOfACancelledRunAlsoOnceItIsForgotten) {
  for (const size_t at : {2u, 4u}) {
    History history = Right();
    history.commits.insert(history.commits.begin() + static_cast<ptrdiff_t>(at),
                           CommitAt(5, {Claim("o")}));
    EXPECT_NE(Found(history).find("are claimed"), std::string::npos) << at;
  }
}

TEST(CheckCancelled, FindsACancelledRunThatIsSent) {
  History history = Right();
  history.receipts.push_back(SentAt(12.1, "o"));
  EXPECT_NE(Found(history).find("is sent"), std::string::npos);
}

TEST(CheckCancelled, FindsARunThatNobodyWantedCancelled) {
  History history = Right();
  history.commits[2] = CommitAt(3, {State({"o", "q"})});
  EXPECT_NE(Found(history).find("nobody wanted"), std::string::npos);
}

TEST(CheckCancelled, FindsEventsOfAnotherRunThatEndAsCancelled) {
  History history = Right();
  history.commits.push_back(CommitAt(5, {}, {CancelledEnd("p")}));
  EXPECT_NE(Found(history).find("it is not"), std::string::npos);
}

TEST(CheckCancelled, FindsAnAnswerThatWasNotTrue) {
  History history = Right();
  history.schedules[0].cancels.push_back({.occurrence = "r", .called = At(9), .cancelled = true});
  EXPECT_NE(Found(history).find("as the user was told"), std::string::npos);
  history.schedules[0].cancels.back().cancelled = false;
  EXPECT_EQ(Found(history), "0");
}

}  // namespace cancelled_checker_test
}  // namespace escapement::simulation
