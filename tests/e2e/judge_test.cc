#include "tests/e2e/judge.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::e2e {
namespace judge_test {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<Arrival> Batch(int n) {
  std::vector<Arrival> arrivals;
  for (int i = 0; i < n; ++i) arrivals.push_back({absl::StrCat("id", i), i, 1000, 1000 + i, "h"});
  return arrivals;
}

TEST(JudgeTest, AcceptsAWholeBatch) {
  const Verdict verdict = JudgeBatch("batch", Batch(100), 100, false);
  EXPECT_THAT(verdict.problems, IsEmpty());
  EXPECT_EQ(verdict.events, 100u);
  EXPECT_EQ(verdict.p50_micros, 50);
  EXPECT_EQ(verdict.max_micros, 99);
}

TEST(JudgeTest, SeesALostEvent) {
  auto arrivals = Batch(100);
  arrivals.erase(arrivals.begin() + 7);
  EXPECT_THAT(JudgeBatch("", arrivals, 100, true).problems,
              Contains(HasSubstr("1 events never came")));
}

TEST(JudgeTest, SeesASecondIdForAnIndexAndAWrongIndex) {
  auto arrivals = Batch(10);
  arrivals.push_back({"other", 3, 1000, 1000, "h"});
  arrivals.push_back({"beyond", 10, 1000, 1000, "h"});
  EXPECT_THAT(JudgeBatch("", arrivals, 10, true).problems,
              testing::ElementsAre(HasSubstr("index 3 has a second id"), HasSubstr("index 10")));
}

TEST(JudgeTest, CountsWhatComesAgainAndRefusesItIfItMustNot) {
  auto arrivals = Batch(10);
  arrivals.push_back(arrivals[4]);
  EXPECT_EQ(JudgeBatch("", arrivals, 10, true).again, 1u);
  EXPECT_THAT(JudgeBatch("", arrivals, 10, true).problems, IsEmpty());
  EXPECT_THAT(JudgeBatch("", arrivals, 10, false).problems,
              Contains(HasSubstr("id4 arrived 2 times")));
}

TEST(JudgeTest, SeesAnotherBodyUnderTheSameId) {
  auto arrivals = Batch(10);
  arrivals.push_back(arrivals[4]);
  arrivals.back().body_hash = "changed";
  EXPECT_THAT(JudgeBatch("", arrivals, 10, true).problems,
              Contains(HasSubstr("id4 came again as something else")));
}

TEST(JudgeTest, SeesWhatIsEarly) {
  auto arrivals = Batch(10);
  arrivals[2].wall_micros = 999;
  const Verdict verdict = JudgeBatch("", arrivals, 10, false);
  EXPECT_EQ(verdict.early, 1u);
  EXPECT_THAT(verdict.problems, Contains(HasSubstr("1 µs early")));
}

TEST(JudgeTest, ComparesInstants) {
  const std::vector<Arrival> arrivals = {{"a", 0, 1000, 1001, ""}, {"b", 0, 2000, 2001, ""}};
  EXPECT_THAT(JudgeInstants("", arrivals, {1000, 2000}, false).problems, IsEmpty());
  EXPECT_THAT(JudgeInstants("", arrivals, {1000, 2000, 3000}, false).problems,
              Contains(HasSubstr("3000")));
  EXPECT_THAT(JudgeInstants("", arrivals, {1000}, false).problems,
              Contains(HasSubstr("wrong instant 2000")));
  EXPECT_THAT(JudgeInstants("", {{"a", 0, 1000, 1001, ""}, {"b", 0, 1000, 1001, ""}}, {1000}, false)
                  .problems,
              Contains(HasSubstr("2 events came for instant 1000")));
}

TEST(JudgeTest, EveryOccurrenceIsFiredOrSkippedOnce) {
  const std::vector<Arrival> arrivals = {{"a", 0, 1000, 1001, ""}, {"e", 0, 5000, 5001, ""}};
  const OccurrenceFacts good = {.due = {1000, 2000, 3000, 4000, 5000},
                                .skipped = {{2000, 3000, 2, "misfire"}, {4000, 4000, 1, "misfire"}},
                                .completed = {1000, 5000},
                                .reason = "misfire",
                                .apart_micros = 4000};
  const Verdict verdict = JudgeOccurrences("", arrivals, good);
  EXPECT_THAT(verdict.problems, IsEmpty());
  EXPECT_EQ(verdict.expected, 2u);
  EXPECT_THAT(verdict.figures, Contains(HasSubstr("of 5 occurrences 3 skipped")));
  const auto problems_of = [&](const OccurrenceFacts& facts) {
    return JudgeOccurrences("", arrivals, facts).problems;
  };
  OccurrenceFacts facts = good;
  facts.due.insert(6000);
  EXPECT_THAT(problems_of(facts), Contains(HasSubstr("nothing came for instant 6000")));
  facts = good;
  facts.due.erase(5000);
  EXPECT_THAT(problems_of(facts), Contains(HasSubstr("wrong instant 5000")));
  facts = good;
  facts.skipped[1] = {5000, 5000, 1, "misfire"};
  EXPECT_THAT(problems_of(facts), Contains(HasSubstr("wrong instant 5000")));
  facts = good;
  facts.skipped.push_back(facts.skipped[1]);
  EXPECT_THAT(problems_of(facts), Contains(HasSubstr("from 4000 to 4000, where 0 were left")));
  facts = good;
  facts.skipped[0].count = 3;
  EXPECT_THAT(problems_of(facts), Contains(HasSubstr("3 skipped from 2000 to 3000, where 2")));
  facts = good;
  facts.skipped[0].reason = "paused";
  EXPECT_THAT(problems_of(facts), Contains(HasSubstr("2000 was skipped: paused")));
  facts = good;
  facts.skipped.clear();
  facts.due = {1000, 5000};
  EXPECT_THAT(problems_of(facts), Contains(HasSubstr("nothing was skipped: misfire")));
  facts.reason.clear();
  EXPECT_THAT(problems_of(facts), IsEmpty());
  facts.completed.erase(1000);
  EXPECT_THAT(problems_of(facts), Contains(HasSubstr("1 runs completed")));
  facts = good;
  facts.apart_micros = 4001;
  EXPECT_THAT(problems_of(facts), Contains(HasSubstr("4000 µs after another")));
}

TEST(JudgeTest, ABatchUnderAPolicyIsJudgedByWhatWasOutByTimeAndByTheRecord) {
  const ThrottleFacts good = {.concurrent = 2,
                              .out_max = 2,
                              .ideal_seconds = 1,
                              .took_seconds = 1.1,
                              .allowed_seconds = 1.15,
                              .completed = true,
                              .succeeded = 10};
  const auto problems_of = [](const ThrottleFacts& facts) {
    Verdict verdict = JudgeBatch("", Batch(10), 10, false);
    JudgeThrottle(facts, &verdict);
    EXPECT_THAT(verdict.figures, Contains(HasSubstr("of 2 out at once")));
    return verdict.problems;
  };
  EXPECT_THAT(problems_of(good), IsEmpty());
  ThrottleFacts facts = good;
  facts.out_max = 3;
  EXPECT_THAT(problems_of(facts), Contains(HasSubstr("3 events were out at once")));
  facts = good;
  facts.out_left = 1;
  EXPECT_THAT(problems_of(facts), Contains(HasSubstr("out at the end")));
  facts = good;
  facts.took_seconds = 1.2;
  EXPECT_THAT(problems_of(facts), Contains(HasSubstr("it took 1.20 s")));
  facts = good;
  facts.succeeded = 9;
  EXPECT_THAT(problems_of(facts), Contains(HasSubstr("9 succeeded")));
  facts = good;
  facts.others = 1;
  EXPECT_THAT(problems_of(facts), Contains(HasSubstr("1 otherwise")));
  facts = good;
  facts.completed = false;
  EXPECT_THAT(problems_of(facts), Contains(HasSubstr("not completed")));
}

TEST(JudgeTest, TheTableShowsProblems) {
  auto arrivals = Batch(3);
  arrivals.pop_back();
  const std::string table = FormatVerdicts(
      {JudgeBatch("good", Batch(3), 3, false), JudgeBatch("bad", arrivals, 3, false)});
  EXPECT_THAT(table,
              testing::AllOf(HasSubstr("ok\n"), HasSubstr("FAILED\n"), HasSubstr("never came")));
}

}  // namespace judge_test
}  // namespace escapement::e2e
