#include "tests/accounts/judge.h"

#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace escapement::accounts {
namespace judge_test {

using Result = v1::Occurrence;

const absl::Time kStart = absl::FromCivil(absl::CivilDay(2026, 3, 8), absl::UTCTimeZone());
constexpr absl::Duration kEvery = absl::Minutes(10);

// The time of the k-th occurrence.
absl::Time At(int k) { return kStart + k * kEvery; }

// A schedule that fires each ten minutes for two hours; everything was on time.
class JudgeTest : public ::testing::Test {
 protected:
  JudgeTest() {
    life_.versions.push_back({.from = kStart - absl::Hours(1),
                              .called = kStart - absl::Hours(1),
                              .answered = kStart - absl::Hours(1),
                              .times = Each(kEvery)});
    for (int k = 0; k < 12; ++k) Set(k, Result::ON_TIME);
    account_ = {.begin = kStart, .end = At(12), .called = At(13), .answered = At(13)};
  }

  static Times Each(absl::Duration every) {
    Times times;
    times.kind = Times::Kind::kInterval;
    times.every = absl::ToInt64Seconds(every);
    times.anchor = kStart;
    return times;
  }

  // For results that were sent, the consumer has accepted it so much after its time.
  void Set(int k, Result::Result result, const std::string& reason = "",
           absl::Duration lateness = absl::Seconds(1)) {
    rows_[At(k)] = {.nominal = At(k), .result = result, .reason = reason};
    Seen& seen = seen_[At(k)] = Seen();
    if (result != Result::ON_TIME && result != Result::LATE && result != Result::FAILED) return;
    const absl::Time sent = At(k) + lateness;
    seen.arrived = 1;
    seen.accepted = result == Result::FAILED ? 0 : 1;
    seen.refused = 1 - seen.accepted;
    seen.first = seen.last_new = seen.last_answer = sent;
  }
  void Pause(absl::Time begin, absl::Time end) {
    life_.pauses.push_back(
        {.called = begin, .answered = begin, .resume_called = end, .resumed = end});
  }
  void Update(absl::Time at, Times times) {
    life_.versions.push_back({.from = at, .called = at, .answered = at, .times = std::move(times)});
  }
  static Windows During(absl::Time begin, absl::Time end) {
    return Windows(std::vector<std::pair<absl::Time, absl::Time>>{{begin, end}});
  }

  // The breaches, without the date.
  std::string Breaches() {
    std::vector<Row> rows;
    for (const auto& [time, row] : rows_) rows.push_back(row);
    if (twice_.has_value()) rows.insert(rows.begin() + 1 + *twice_, rows[*twice_]);
    std::vector<std::string> breaches =
        Judge(life_, rows, account_, faults_, [this](absl::Time nominal) -> const Seen* {
          const auto seen = seen_.find(nominal);
          return seen == seen_.end() || seen->second.arrived == 0 ? nullptr : &seen->second;
        });
    for (std::string& breach : breaches) {
      if (breach.starts_with("08 ")) breach = breach.substr(3);
    }
    return absl::StrJoin(breaches, "\n");
  }

  Life life_;
  Faults faults_;
  AccountTimes account_;
  std::map<absl::Time, Row> rows_;
  std::map<absl::Time, Seen> seen_;
  std::optional<int> twice_;  // this row is there twice
};

TEST_F(JudgeTest, AccountThatEqualsTheOracleHasNoBreach) { EXPECT_EQ(Breaches(), ""); }

TEST_F(JudgeTest, MissingExtraAndDoubledOccurrencesAreBreaches) {
  rows_.erase(At(3));
  EXPECT_EQ(Breaches(), "00:30:00.000 is missing");
  rows_.erase(At(11));
  EXPECT_EQ(Breaches(), "00:30:00.000 is missing\n01:50:00.000 is missing");
  for (const int k : {3, 11}) Set(k, Result::ON_TIME);
  const absl::Time extra = At(5) + absl::Minutes(1);
  rows_[extra] = {.nominal = extra, .result = Result::ON_TIME};
  EXPECT_EQ(Breaches(), "00:51:00.000 ON_TIME \"\" is in it, but nobody asked for it");
  rows_.erase(extra);
  twice_ = 7;
  EXPECT_EQ(Breaches(), "01:10:00.000 ON_TIME \"\" is in it twice, or out of order");
}

TEST_F(JudgeTest, UpdatesDecideWhichOccurrencesThereAre) {
  Update(At(6) - absl::Minutes(3), Each(absl::Minutes(20)));
  EXPECT_EQ(Breaches(),
            "01:10:00.000 ON_TIME \"\" is in it, but nobody asked for it\n"
            "01:30:00.000 ON_TIME \"\" is in it, but nobody asked for it\n"
            "01:50:00.000 ON_TIME \"\" is in it, but nobody asked for it");
  for (const int k : {7, 9, 11}) rows_.erase(At(k));
  EXPECT_EQ(Breaches(), "");
}

TEST_F(JudgeTest, UnaccountedIsAlwaysABreach) {
  Set(2, Result::UNACCOUNTED);
  EXPECT_EQ(Breaches(), "00:20:00.000 UNACCOUNTED \"\" must never be");
}

TEST_F(JudgeTest, EachOutcomeNeedsACause) {
  Set(1, Result::LATE, "", absl::Minutes(2));
  Set(2, Result::FAILED);
  seen_[At(2)].refused = 0;
  Set(3, Result::PENDING);
  Set(4, Result::SKIPPED, "paused");
  Set(5, Result::SKIPPED, "misfire");
  Set(6, Result::SKIPPED, "overlap");
  Set(7, Result::SKIPPED, "superseded");
  EXPECT_EQ(Breaches(),
            "00:10:00.000 LATE \"\" nothing has delayed it\n"
            "00:20:00.000 FAILED \"\" its target has refused nothing\n"
            "00:30:00.000 PENDING \"\" should have ended\n"
            "00:40:00.000 SKIPPED \"paused\" no pause skips it\n"
            "00:50:00.000 SKIPPED \"misfire\" no emitter was away for so long\n"
            "01:00:00.000 SKIPPED \"overlap\" its runs may overlap\n"
            "01:10:00.000 SKIPPED \"superseded\" no update has superseded it");
}

TEST_F(JudgeTest, OutcomeAgreesWithWhatTheConsumerHasSeen) {
  seen_.erase(At(1));
  Set(2, Result::ON_TIME, "", absl::Minutes(2));
  EXPECT_EQ(Breaches(),
            "00:10:00.000 ON_TIME \"\" its target has accepted nothing\n"
            "00:20:00.000 ON_TIME \"\" was late: 08 00:22:00.000");
  Set(1, Result::ON_TIME);
  faults_.delivery = During(At(2) - absl::Minutes(1), At(2) + absl::Minutes(1));
  Set(2, Result::LATE, "", absl::Seconds(10));
  EXPECT_EQ(Breaches(), "00:20:00.000 LATE \"\" was on time: 08 00:20:10.000");
  Set(2, Result::LATE, "", absl::Minutes(2));
  EXPECT_EQ(Breaches(), "");
}

TEST_F(JudgeTest, PauseDecidesByTheMisfirePolicy) {
  Pause(At(3) - absl::Minutes(1), At(7) - absl::Minutes(1));
  for (const int k : {3, 4, 5, 6}) Set(k, Result::LATE, "", At(7) - At(k));
  EXPECT_EQ(Breaches(), "");
  life_.traits.misfire = Traits::Misfire::kFireLatest;
  EXPECT_EQ(Breaches(),
            "00:30:00.000 LATE \"\" was due in a pause that skips it\n"
            "00:40:00.000 LATE \"\" was due in a pause that skips it\n"
            "00:50:00.000 LATE \"\" was due in a pause that skips it");
  for (const int k : {3, 4, 5}) Set(k, Result::SKIPPED, "paused");
  EXPECT_EQ(Breaches(), "");
  Set(6, Result::SKIPPED, "paused");
  EXPECT_EQ(Breaches(), "01:00:00.000 SKIPPED \"paused\" no pause skips it");
  life_.traits.misfire = Traits::Misfire::kSkip;
  EXPECT_EQ(Breaches(), "");
  life_.traits.misfire = Traits::Misfire::kFireAll;
  life_.traits.catch_up = 2;
  EXPECT_EQ(Breaches(),
            "00:50:00.000 SKIPPED \"paused\" no pause skips it\n"
            "01:00:00.000 SKIPPED \"paused\" no pause skips it");
}

TEST_F(JudgeTest, PausedOccurrenceIsPendingOnlyUntilTheResume) {
  Pause(At(10) - absl::Minutes(1), absl::InfiniteFuture());
  Set(10, Result::PENDING);
  Set(11, Result::PENDING);
  EXPECT_EQ(Breaches(), "");
  life_.pauses[0].resume_called = life_.pauses[0].resumed = At(12) - absl::Minutes(5);
  EXPECT_EQ(
      Breaches(),
      "01:40:00.000 PENDING \"\" should have ended\n01:50:00.000 PENDING \"\" should have ended");
}

TEST_F(JudgeTest, TimeWithoutEmittersIsAMisfireIfThePolicySaysSo) {
  faults_.emission = faults_.no_emitter =
      During(At(5) - absl::Minutes(1), At(5) + absl::Minutes(3));
  Set(5, Result::LATE, "", absl::Minutes(3));
  EXPECT_EQ(Breaches(), "");
  life_.traits.misfire = Traits::Misfire::kSkip;
  EXPECT_EQ(Breaches(),
            "00:50:00.000 LATE \"\" was due without an emitter, and misfires are skipped");
  Set(5, Result::SKIPPED, "misfire");
  EXPECT_EQ(Breaches(), "");
}

TEST_F(JudgeTest, EventThatThreeLostHandlersHadMayFail) {
  Set(2, Result::FAILED);
  seen_[At(2)].refused = 0;
  faults_.delivery = During(At(2), At(2) + absl::Minutes(9));
  faults_.lost_handlers = {At(2) + absl::Seconds(1), At(2) + absl::Minutes(4)};
  EXPECT_EQ(Breaches(), "00:20:00.000 FAILED \"\" its target has refused nothing");
  faults_.lost_handlers.push_back(At(2) + absl::Minutes(8));
  EXPECT_EQ(Breaches(), "");
}

TEST_F(JudgeTest, EventOfASlowTargetThatTwoLostHandlersHadMayTakeLong) {
  life_.traits.target = Traits::Target::kSlow;
  Set(2, Result::PENDING);
  faults_.lost_handlers = {At(2) + absl::Seconds(1)};
  EXPECT_EQ(Breaches(), "00:20:00.000 PENDING \"\" should have ended");
  faults_.lost_handlers.push_back(At(2) + absl::Minutes(4));
  EXPECT_EQ(Breaches(), "");
  life_.traits.target = Traits::Target::kAccepts;
  EXPECT_EQ(Breaches(), "00:20:00.000 PENDING \"\" should have ended");
}

TEST_F(JudgeTest, OverlapNeedsAnActiveRun) {
  life_.traits.overlap = Traits::Overlap::kSkip;
  life_.traits.target = Traits::Target::kSlow;
  Set(5, Result::SKIPPED, "overlap");
  EXPECT_EQ(Breaches(), "00:50:00.000 SKIPPED \"overlap\" no other run was active");
  seen_[At(4)].last_answer = At(5) + absl::Minutes(1);
  EXPECT_EQ(Breaches(), "");
  seen_[At(4)].last_answer = At(6) + absl::Minutes(1);
  EXPECT_EQ(Breaches(), "runs of 08 00:40:01.000 and 08 01:00:01.000 overlap");
}

}  // namespace judge_test
}  // namespace escapement::accounts
