#include "services/master/notifications/problem_list.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "services/master/base/limits.h"

namespace escapement::master {
namespace problem_list_test {

using storage::v1::ProblemRecord;
using v1::Subscription;

const absl::Time kStart = absl::FromUnixSeconds(1'800'000'000);

Evidence At(absl::Duration since, std::string detail = "") {
  return {.first = kStart + since,
          .last = kStart + since,
          .resource = absl::FormatDuration(since),
          .detail = std::move(detail)};
}

struct Checked {
  ProblemList list{{}};

  // The numbers of problems and of ends that are reported.
  std::pair<size_t, size_t> News(absl::Duration since) {
    // As it is stored and read again between two checks.
    list = ProblemList(list.ToRecords());
    const master::News news = list.TakeNews(kStart + since);
    return {news.problems.size(), news.ended.size()};
  }
};
using Pair = std::pair<size_t, size_t>;

TEST(ProblemList, ProblemAndItsEndAreReportedOnce) {
  Checked checked;
  checked.list.Add("s", Subscription::FAILED, At(absl::ZeroDuration()));
  EXPECT_EQ(checked.News(absl::Seconds(10)), Pair(1, 0));
  EXPECT_EQ(checked.News(absl::Hours(5)), Pair(0, 0));
  checked.list.End("s", Subscription::FAILED, kStart + absl::Hours(6));
  EXPECT_EQ(checked.News(absl::Hours(6)), Pair(0, 1));
  EXPECT_EQ(checked.News(absl::Hours(7)), Pair(0, 0));
  EXPECT_EQ(checked.list.ToRecords().size(), 0);
}

TEST(ProblemList, FurtherRunsAreReportedAfterAnHour) {
  Checked checked;
  checked.list.Add("s", Subscription::FAILED, At(absl::ZeroDuration(), "first"));
  EXPECT_EQ(checked.News(absl::ZeroDuration()), Pair(1, 0));
  checked.list.Add("s", Subscription::FAILED, At(absl::Minutes(1), "second"));
  EXPECT_EQ(checked.News(absl::Minutes(1)), Pair(0, 0));
  EXPECT_EQ(checked.News(kNotifyAgainAfter - absl::Microseconds(1)), Pair(0, 0));
  const News news = checked.list.TakeNews(kStart + kNotifyAgainAfter);
  ASSERT_EQ(news.problems.size(), 1u);
  EXPECT_EQ(news.problems[0].count(), 2u);
  EXPECT_EQ(news.problems[0].detail(), "second");
  EXPECT_EQ(news.problems[0].begin_micros(), absl::ToUnixMicros(kStart));
}

TEST(ProblemList, ProblemThatEndsWithinOneCheckIsReportedWithItsEnd) {
  Checked checked;
  checked.list.Add("s", Subscription::MISSED, At(absl::ZeroDuration()));
  checked.list.End("s", Subscription::MISSED, kStart);
  EXPECT_EQ(checked.News(absl::ZeroDuration()), Pair(1, 1));
}

TEST(ProblemList, FlappingIsReportedOnceAnHour) {
  Checked checked;
  size_t problems = 0, ends = 0;
  for (int minute = 0; minute < 180; minute += 2) {
    checked.list.Add("s", Subscription::FAILED, At(absl::Minutes(minute)));
    const Pair begun = checked.News(absl::Minutes(minute));
    checked.list.End("s", Subscription::FAILED, kStart + absl::Minutes(minute + 1));
    const Pair ended = checked.News(absl::Minutes(minute + 1));
    problems += begun.first + ended.first;
    ends += begun.second + ended.second;
  }
  EXPECT_EQ(problems, 3u);
  EXPECT_EQ(ends, 3u);
}

TEST(ProblemList, ProblemThatCameBackIsReportedWhenTheHourIsOver) {
  Checked checked;
  checked.list.Add("s", Subscription::LATE, At(absl::ZeroDuration()));
  EXPECT_EQ(checked.News(absl::ZeroDuration()), Pair(1, 0));
  checked.list.End("s", Subscription::LATE, kStart + absl::Minutes(1));
  EXPECT_EQ(checked.News(absl::Minutes(1)), Pair(0, 1));
  checked.list.Add("s", Subscription::LATE, At(absl::Minutes(30)));
  EXPECT_EQ(checked.News(absl::Minutes(30)), Pair(0, 0));
  const ProblemRecord* problem = checked.list.Find("s", Subscription::LATE);
  ASSERT_NE(problem, nullptr);
  EXPECT_EQ(problem->count(), 1u);
  EXPECT_EQ(problem->begin_micros(), absl::ToUnixMicros(kStart + absl::Minutes(30)));
  EXPECT_EQ(checked.News(kNotifyAgainAfter), Pair(1, 0));
}

TEST(ProblemList, SchedulesAndKindsAreApart) {
  Checked checked;
  checked.list.Add("a", Subscription::FAILED, At(absl::ZeroDuration()));
  checked.list.Add("a", Subscription::LATE, At(absl::ZeroDuration()));
  checked.list.Add("b", Subscription::FAILED, At(absl::ZeroDuration()));
  EXPECT_EQ(checked.News(absl::ZeroDuration()), Pair(3, 0));
  checked.list.Retain([](const ProblemRecord& problem) { return problem.schedule_id() != "a"; });
  checked.list.End("a", Subscription::FAILED, kStart);
  checked.list.End("b", Subscription::FAILED, kStart);
  EXPECT_EQ(checked.News(absl::Minutes(1)), Pair(0, 1));
}

TEST(ProblemList, OlderEvidenceCountsAndShowsNothing) {
  Checked checked;
  checked.list.Add("s", Subscription::FAILED, At(absl::Minutes(5), "new"));
  checked.list.Add("s", Subscription::FAILED, At(absl::Minutes(1), "old"));
  const ProblemRecord* problem = checked.list.Find("s", Subscription::FAILED);
  ASSERT_NE(problem, nullptr);
  EXPECT_EQ(problem->count(), 2u);
  EXPECT_EQ(problem->detail(), "new");
  EXPECT_EQ(problem->begin_micros(), absl::ToUnixMicros(kStart + absl::Minutes(1)));
  EXPECT_EQ(problem->last_micros(), absl::ToUnixMicros(kStart + absl::Minutes(5)));
}

TEST(ProblemList, ProblemsThatHaveEndedLeaveRoomForOthers) {
  ProblemList list({});
  for (size_t i = 0; i < kProblemsMax; ++i)
    list.Add(std::to_string(i), Subscription::FAILED, At(absl::ZeroDuration()));
  list.TakeNews(kStart);
  for (size_t i = 0; i < kProblemsMax; ++i)
    list.End(std::to_string(i), Subscription::FAILED, kStart);
  EXPECT_EQ(list.TakeNews(kStart).ended.size(), kProblemsMax);
  list.Add("billing", Subscription::FAILED, At(absl::Minutes(1)));
  EXPECT_EQ(list.TakeNews(kStart + absl::Minutes(1)).problems.size(), 1u);
}

TEST(ProblemList, ProblemsBeyondTheBoundAreLeftOut) {
  ProblemList list({});
  for (size_t i = 0; i <= kProblemsMax; ++i)
    list.Add(std::to_string(i), Subscription::FAILED, At(absl::ZeroDuration()));
  EXPECT_EQ(list.TakeNews(kStart).problems.size(), kProblemsMax);
}

}  // namespace problem_list_test
}  // namespace escapement::master
