// The checkers of skipped, summarised and overlapping occurrences pass correct histories and catch
// planted breaches.

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/simulation/checkers/checkers.h"
#include "tests/simulation/checkers/model/expectations.h"
#include "tests/simulation/checkers/model/naive_expander.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {
namespace times_checkers_test {

std::string First(const std::vector<Violation>& violations) {
  return violations.empty() ? "" : violations[0].what;
}
testing::AssertionResult Says(const std::vector<Violation>& violations, const std::string& what) {
  for (const Violation& violation : violations) {
    if (violation.what.find(what) != std::string::npos) return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "instead: " << First(violations);
}

// Fires every second. Occurrences are missed after two seconds, and the latest three missed ones
// are fired.
Definition EverySecond() {
  Definition definition;
  definition.zone = "UTC";
  definition.every = absl::Seconds(1);
  definition.anchor = At(0);
  definition.threshold = absl::Seconds(2);
  definition.max_catch_up = 3;
  return definition;
}

DoneRow Row(int second, Outcome outcome, const std::string& reason) {
  DoneRow row;
  row.uid = "u1";
  row.occurrence = Id(second);
  row.outcome = outcome;
  row.reason = reason;
  row.nominal = row.last = At(second);
  row.version = 1;
  return row;
}

OutcomeWrite Written(const DoneRow& row) {
  OutcomeWrite write;
  write.uid = row.uid;
  write.occurrence = row.occurrence;
  write.count = row.count;
  write.outcome = row.outcome;
  write.reason = row.reason;
  write.version = row.version;
  write.nominal = row.nominal;
  write.last = row.last;
  write.run_skipped = row.run_skipped;
  write.occurrences = row.occurrences;
  return write;
}

Commit CommitAt(double seconds, std::vector<TimesWrite> writes) {
  Commit commit;
  commit.seq = static_cast<uint64_t>(seconds * 1000);
  commit.store_time = commit.time = At(seconds);
  commit.times = std::move(writes);
  return commit;
}

// Made before 1 s and deleted after 15 s. No emitter is up from 5 s to 13.5 s: 5 to 8 are in a
// summary; 9, 10 and 11 fire late.
History Downtime() {
  History history;
  history.begin = kBegin;
  history.end = At(60);
  history.only_downtimes = true;
  ScheduleLife life{.id = "s", .uid = "u1", .changes = {}, .triggered = {}};
  life.changes.push_back({ScheduleChange::Kind::kCreate, At(0.5), At(0.6), EverySecond()});
  life.changes.push_back({ScheduleChange::Kind::kDelete, At(15.3), At(15.5), {}});
  history.schedules.push_back(life);
  for (int second = 1; second <= 15; ++second) {
    if (second >= 5 && second <= 8) continue;
    history.done.push_back(Row(second, Outcome::kSucceeded, ""));
    const double emitted = second < 5 ? second : std::max(second + 0.0, 13.5);
    history.commits.push_back(
        CommitAt(emitted, {EmissionWrite{"u1", Id(second), 1, At(second), At(second), false}}));
  }
  DoneRow summary = Row(5, Outcome::kSkipped, "misfire");
  summary.run_skipped = true;
  summary.occurrences = 4;
  summary.last = At(8);
  history.done.push_back(summary);
  history.commits.push_back(CommitAt(13.5, {Written(summary)}));
  return history;
}

TEST(TimesCheckers, FindNothingInADowntimeThatWasCaughtUpWith) {
  const History history = Downtime();
  EXPECT_EQ(First(CheckLost(history)), "");
  EXPECT_EQ(First(CheckTimes(history)), "");
  EXPECT_EQ(First(CheckOverlap(history)), "");
}

TEST(TimesCheckers, CatchASummaryThatCountsOtherThanWhatItStandsFor) {
  History history = Downtime();
  history.done.back().occurrences = 3;
  EXPECT_TRUE(Says(CheckLost(history), "counts 3 occurrences, not 4 to 4"));
  history.done.back().occurrences = 5;
  EXPECT_TRUE(Says(CheckLost(history), "counts 5 occurrences, not 4 to 4"));
  history.done.back().occurrences = 4;
  history.done.back().last = At(7);
  EXPECT_TRUE(Says(CheckLost(history), "has no outcome")) << "8 is beyond it";
}

TEST(TimesCheckers, CatchAnOccurrenceThatWasNeitherFiredNorSkipped) {
  History history = Downtime();
  history.done.erase(history.done.begin() + 5);  // the row of second 10
  EXPECT_TRUE(Says(CheckLost(history), "has no outcome"));
}

TEST(TimesCheckers, CatchASkipThatCameTooEarlyOrThatThePolicyDidNotWant) {
  History history = Downtime();
  history.commits.back().store_time = At(9.9);
  EXPECT_TRUE(Says(CheckTimes(history), "against its policy")) << "8 was not missed then";
  history.commits.back().store_time = At(12.5);
  EXPECT_TRUE(Says(CheckTimes(history), "against its policy")) << "two more were missed then";
}

TEST(TimesCheckers, CatchWhatIsFiredLateAgainstItsPolicy) {
  History history = Downtime();
  history.commits.push_back(CommitAt(25, {EmissionWrite{"u1", Id(9), 1, At(9), At(9), false},
                                          EmissionWrite{"u1", Id(8), 1, At(8), At(8), false}}));
  EXPECT_TRUE(Says(CheckTimes(history), "is fired late"));
  history.only_downtimes = false;
  EXPECT_EQ(First(CheckTimes(history)), "") << "whatever else may have delayed it";
}

TEST(TimesCheckers, CatchALaunchBeforeItsTimeOrBeyondTheJitter) {
  History history = Downtime();
  std::get<EmissionWrite>(history.commits[0].times[0]).launch = At(0.9);
  EXPECT_TRUE(Says(CheckTimes(history), "is launched at"));
  std::get<EmissionWrite>(history.commits[0].times[0]).launch = At(1.1);
  EXPECT_TRUE(Says(CheckTimes(history), "is launched at"));
  history.schedules[0].changes[0].definition.jitter = absl::Milliseconds(100);
  EXPECT_EQ(First(CheckTimes(history)), "");
}

TEST(TimesCheckers, CatchWhatIsSkippedAndEndsOtherwiseToo) {
  History history = Downtime();
  history.commits.push_back(CommitAt(14, {Written(Row(5, Outcome::kSucceeded, ""))}));
  EXPECT_TRUE(Says(CheckTimes(history), "was skipped as a whole, and ends again"));
  OutcomeWrite taken_back = Written(Row(5, Outcome::kNone, ""));
  taken_back.deleted = true;
  history.commits.back().times.insert(history.commits.back().times.begin(), taken_back);
  EXPECT_EQ(First(CheckTimes(history)), "") << "a backfill";
}

TEST(TimesCheckers, CatchReasonsThatAreNone) {
  for (const char* reason : {"paused", "deleted", "superseded", "quota"}) {
    History history = Downtime();
    DoneRow row = Row(3, Outcome::kSkipped, reason);
    row.run_skipped = true;
    history.commits.push_back(CommitAt(8, {Written(row)}));
    EXPECT_TRUE(Says(CheckTimes(history), "is skipped")) << reason;
  }
}

TEST(TimesCheckers, ResumeOwesTheFiringsOfThePause) {
  History history = Downtime();
  auto& changes = history.schedules[0].changes;
  changes.insert(changes.begin() + 1, {{ScheduleChange::Kind::kPause, At(4.5), At(4.6), {}},
                                       {ScheduleChange::Kind::kResume, At(12.9), At(13.5), {}}});
  history.done.back().reason = "paused";
  history.commits.back() = CommitAt(13.5, {Written(history.done.back())});
  EXPECT_EQ(First(CheckLost(history)), "");
  EXPECT_EQ(First(CheckTimes(history)), "");
  history.done.pop_back();
  EXPECT_TRUE(Says(CheckLost(history), "has no outcome"));
}

TEST(TimesCheckers, MaxRunsEndAScheduleAndPausesDoNotCount) {
  History history = Downtime();
  history.schedules[0].changes[0].definition.max_runs = 4;
  EXPECT_TRUE(ExpectRuns(history).at({"u1", Id(4)}).required);
  EXPECT_TRUE(ExpectRuns(history).at({"u1", Id(5)}).only_skips);
  EXPECT_TRUE(Says(CheckLost(history), "was not to fire then"));
  auto& changes = history.schedules[0].changes;
  changes.insert(changes.begin() + 1, {{ScheduleChange::Kind::kPause, At(1.5), At(1.6), {}},
                                       {ScheduleChange::Kind::kResume, At(4.4), At(4.5), {}}});
  const ExpectedRuns runs = ExpectRuns(history);
  EXPECT_FALSE(runs.at({"u1", Id(7)}).required);
  EXPECT_FALSE(runs.at({"u1", Id(7)}).only_skips) << "if 2, 3 and 4 were skipped";
  EXPECT_TRUE(runs.at({"u1", Id(8)}).only_skips);
}

TEST(TimesCheckers, ABackfillMayFireWhatWasBeforeTheSchedule) {
  History history = Downtime();
  Backfill backfill;
  backfill.begin = At(-3);
  backfill.end = backfill.done_to = At(0);
  backfill.called = At(2.1);
  backfill.answered = At(2.2);
  history.schedules[0].backfills.push_back(backfill);
  EXPECT_TRUE(Says(CheckLost(history), "has no outcome"));
  for (int second : {-3, -2, -1}) history.done.push_back(Row(second, Outcome::kSucceeded, ""));
  EXPECT_EQ(First(CheckLost(history)), "");
}

History Overlapping(Definition::Overlap policy) {
  History history = Downtime();
  history.done.clear();
  history.commits.clear();
  history.schedules[0].changes[0].definition.overlap = policy;
  history.commits.push_back(
      CommitAt(1, {LaunchWrite{"u1", Id(1), 1, At(1), 2}, MarkWrite{"u1", Id(1), false}}));
  return history;
}

TEST(OverlapChecker, CatchesALaunchWhileARunIsActive) {
  for (const auto policy : {Definition::Overlap::kSkip, Definition::Overlap::kBufferOne}) {
    History history = Overlapping(policy);
    history.commits.push_back(CommitAt(2, {LaunchWrite{"u1", Id(2), 1, At(2), 1}}));
    EXPECT_TRUE(Says(CheckOverlap(history), "is active"));
    history.commits[1].times.insert(history.commits[1].times.begin(), MarkWrite{"u1", Id(1), true});
    EXPECT_TRUE(Says(CheckOverlap(history), "have not ended"));
    DoneRow row = Row(1, Outcome::kSucceeded, "");
    row.count = 2;
    history.commits[1].times.insert(history.commits[1].times.begin(), Written(row));
    EXPECT_EQ(First(CheckOverlap(history)), "");
  }
  History history = Overlapping(Definition::Overlap::kAllow);
  history.commits.push_back(CommitAt(2, {LaunchWrite{"u1", Id(2), 1, At(2), 1}}));
  EXPECT_EQ(First(CheckOverlap(history)), "");
}

TEST(OverlapChecker, CatchesASkipWithoutAnActiveRun) {
  History history = Overlapping(Definition::Overlap::kSkip);
  DoneRow row = Row(2, Outcome::kSkipped, "overlap");
  row.run_skipped = true;
  history.commits.push_back(CommitAt(2, {Written(row)}));
  EXPECT_EQ(First(CheckOverlap(history)), "");
  history.commits[1].times.insert(history.commits[1].times.begin(), MarkWrite{"u1", Id(1), true});
  EXPECT_TRUE(Says(CheckOverlap(history), "no run is active"));
}

TEST(OverlapChecker, CatchesACancelThatGaveWayToNothing) {
  History history = Overlapping(Definition::Overlap::kCancelPrevious);
  history.commits.push_back(CommitAt(2.5, {Written(Row(1, Outcome::kCancelled, "overlap"))}));
  EXPECT_TRUE(Says(CheckOverlap(history), "gave way to no run"));
  history.commits.insert(
      history.commits.begin() + 1,
      CommitAt(2, {LaunchWrite{"u1", Id(2), 1, At(2), 1}, CancelWrite{"u1", At(2)}}));
  EXPECT_EQ(First(CheckOverlap(history)), "");
  history.commits.push_back(CommitAt(3, {CancelWrite{"u1", At(1)}}));
  EXPECT_TRUE(Says(CheckOverlap(history), "that were cancelled are no more"));
}

TEST(OverlapChecker, CatchesWhatIsSentOfARunThatGaveWay) {
  History history = Overlapping(Definition::Overlap::kCancelPrevious);
  history.commits.push_back(
      CommitAt(2, {LaunchWrite{"u1", Id(2), 1, At(2), 1}, CancelWrite{"u1", At(2)}}));
  Receipt receipt;
  receipt.uid = "u1";
  receipt.occurrence = Id(1);
  receipt.nominal = At(1);
  receipt.sent = At(2.9);
  history.receipts.push_back(receipt);
  EXPECT_EQ(First(CheckOverlap(history)), "");
  history.receipts[0].sent = At(3.1);
  EXPECT_TRUE(Says(CheckOverlap(history), "had given way"));
}

TEST(NaiveExpander, KnowsIntervalsInstantsAndRestrictions) {
  const auto seconds = [](const Definition& definition) {
    std::vector<double> found;
    for (const ExpectedOccurrence& o : ExpandNaively(definition, At(0), At(20)))
      found.push_back(absl::ToDoubleSeconds(o.instant - At(0)));
    return found;
  };
  Definition definition;
  definition.zone = "Asia/Kolkata";
  definition.every = absl::Milliseconds(7500);
  definition.anchor = At(100);
  EXPECT_EQ(seconds(definition), (std::vector<double>{2.5, 10, 17.5}));
  definition.exclusions = {"10 30 5 * * *"};
  EXPECT_EQ(seconds(definition), (std::vector<double>{2.5, 17.5}));
  definition.exclusions = {"30 5 * * *"};
  EXPECT_EQ(seconds(definition), (std::vector<double>{})) << "an absent second is every second";
  definition.exclusions.clear();
  definition.start = At(10);
  definition.end = At(17.5);
  EXPECT_EQ(seconds(definition), (std::vector<double>{10}));
  definition.every = absl::ZeroDuration();
  definition.times = {At(-1), At(9), At(12.25), At(17.5)};
  EXPECT_EQ(seconds(definition), (std::vector<double>{12.25}));
  EXPECT_EQ(ExpandNaively(definition, At(0), At(20))[0].id, "20260301T000012.250000Z");
}

}  // namespace times_checkers_test
}  // namespace escapement::simulation
