#include "services/master/operations/dead_letter_groups.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::master {
namespace dead_letter_groups_test {

using ::testing::HasSubstr;

const absl::Time kStart = absl::FromUnixSeconds(1'772'323'200);
const absl::Time kEnd = kStart + absl::Hours(24);

// An event of schedule "s", or a one-off event.
StoredDeadLetter LetterOf(const std::string& schedule, const std::string& reason, absl::Time time,
                          const std::string& event_id = "e") {
  storage::v1::DeadLetterRecord record;
  record.set_uid(std::string(Uid::FromHalves(7, 7).bytes()));
  record.set_schedule_id(schedule);
  record.set_reason(reason);
  record.mutable_event()->set_version(schedule.empty() ? 0 : 1);
  const auto letter =
      ReadDeadLetter(EncodeDeadLetterKey({"default", time, event_id}), record.SerializeAsString());
  EXPECT_TRUE(letter.ok()) << letter.status();
  return *letter;
}

LetterGroupsQuery QueryOf(const std::string& filter = "") {
  return {.tenant = "default", .filter = filter, .selection = {}, .start = kStart, .end = kEnd};
}

v1::ListDeadLetterGroupsRequest RequestOf(const std::string& filter) {
  v1::ListDeadLetterGroupsRequest request;
  request.set_parent("tenants/default");
  request.set_filter(filter);
  return request;
}

// "field: description" of each violation.
std::string ViolationsOf(const absl::Status& status) {
  std::string text;
  for (const auto& [field, description] : FieldViolationsOf(status))
    absl::StrAppend(&text, field, ": ", description, "\n");
  return text;
}

TEST(ErrorOfTest, RunsOfDigitsAreOneSign) {
  EXPECT_EQ(ErrorOf("answered 503 after 12 ms"), "answered # after # ms");
  EXPECT_EQ(ErrorOf("12.5s, 0x7f"), "#.#s, #x#f");
  EXPECT_EQ(ErrorOf("#1#"), "###");
  EXPECT_EQ(ErrorOf(""), "");
}

TEST(ErrorOfTest, IsCutAfterTwoHundredCharactersNotWithinOne) {
  std::string reason, error;
  for (int i = 0; i < 200; ++i) absl::StrAppend(&error, i % 2 == 0 ? "é" : "\U0001F30D");
  EXPECT_EQ(ErrorOf(absl::StrCat(error, "x")), error);
  EXPECT_EQ(ErrorOf(absl::StrCat(error, "é")), error);
  // A run of digits is one character.
  EXPECT_EQ(ErrorOf(absl::StrCat(std::string(1000, '7'), std::string(300, 'x'))),
            absl::StrCat("#", std::string(199, 'x')));
}

TEST(ErrorOfTest, HasNoCharacterThatFiltersRefuse) {
  EXPECT_EQ(ErrorOf("a\nb\tc\x1b[1m"), "a b c [#m");
  EXPECT_EQ(ErrorOf("a\u202e\u0085\xff"), "a? ?");
}

TEST(LetterGroupsTest, CountsByScheduleAndErrorTheLargestFirst) {
  LetterGroups groups(kStart, kEnd);
  groups.Add(LetterOf("s", "status 503", kEnd - absl::Microseconds(1), "last"));
  groups.Add(LetterOf("", "status 503", kStart + absl::Hours(2)));
  groups.Add(LetterOf("s", "status 500", kStart + absl::Hours(1), "middle"));
  groups.Add(LetterOf("t", "status 500", kStart + absl::Minutes(59)));
  groups.Add(LetterOf("s", "timed out", kStart + absl::Minutes(58)));
  groups.Add(LetterOf("s", "status 404", kStart, "first"));
  const v1::ListDeadLetterGroupsResponse answer = groups.Answer(QueryOf(), /*complete=*/true);
  EXPECT_FALSE(answer.more());
  EXPECT_EQ(answer.start_time().seconds(), absl::ToUnixSeconds(kStart));
  EXPECT_EQ(answer.end_time().seconds(), absl::ToUnixSeconds(kEnd));
  ASSERT_EQ(answer.groups_size(), 4);
  const v1::DeadLetterGroup& largest = answer.groups(0);
  EXPECT_EQ(largest.schedule(), "tenants/default/schedules/s");
  EXPECT_EQ(largest.error(), "status #");
  EXPECT_EQ(largest.count(), 3);
  EXPECT_EQ(*TimestampMicros(largest.first_time()), ToMicros(kStart));
  EXPECT_EQ(*TimestampMicros(largest.last_time()), ToMicros(kEnd) - 1);
  EXPECT_EQ(largest.latest(),
            ToString(DeadLetterName{"default", kEnd - absl::Microseconds(1), "last"}));
  ASSERT_EQ(largest.counts_size(), 24);
  for (int i = 0; i < 24; ++i) EXPECT_EQ(largest.counts(i), i < 2 || i == 23 ? 1 : 0) << i;
  EXPECT_EQ(largest.filter(),
            R"(schedule = "s" AND error = "status #" AND create_time >= "2026-03-01T00:00:00Z" )"
            R"(AND create_time < "2026-03-02T00:00:00Z")");
  // Equal groups: the one that failed last comes first.
  EXPECT_EQ(answer.groups(1).schedule(), "");
  EXPECT_THAT(answer.groups(1).filter(), HasSubstr(R"(schedule = "" AND error = "status #")"));
  EXPECT_EQ(answer.groups(2).schedule(), "tenants/default/schedules/t");
  EXPECT_EQ(answer.groups(3).error(), "timed out");
}

TEST(LetterGroupsTest, FilterOfAGroupContainsTheRequestsFilter) {
  LetterGroups groups(kStart, kEnd);
  groups.Add(LetterOf("s", R"(a "b\" *)", kStart));
  EXPECT_THAT(
      groups.Answer(QueryOf("policy = p OR policy = q"), true).groups(0).filter(),
      HasSubstr(R"((policy = p OR policy = q) AND schedule = "s" AND error = "a \"b\\\" \\*")"));
}

TEST(LetterGroupsTest, NamesAtMostTwoHundredGroupsAndSaysSo) {
  LetterGroups groups(kStart, kEnd);
  for (size_t i = 0; i < kLetterGroupsMax; ++i)
    groups.Add(LetterOf(absl::StrCat("s", i), "e", kStart));
  EXPECT_FALSE(groups.Answer(QueryOf(), true).more());
  EXPECT_TRUE(groups.Answer(QueryOf(), false).more());
  groups.Add(LetterOf("further", "e", kStart));
  const auto answer = groups.Answer(QueryOf(), true);
  EXPECT_TRUE(answer.more());
  EXPECT_EQ(answer.groups_size(), static_cast<int>(kLetterGroupsMax));
}

TEST(LetterGroupsTest, GroupsBeyondTheBoundAreLeftOutOthersCountOn) {
  LetterGroups groups(kStart, kEnd);
  for (size_t i = 0; i < kLetterGroupsCounted; ++i)
    groups.Add(LetterOf(absl::StrCat("s", i), "e", kStart));
  for (int i = 0; i < 3; ++i) groups.Add(LetterOf("further", "e", kStart));
  groups.Add(LetterOf("s7", "e", kStart));
  const auto answer = groups.Answer(QueryOf(), true);
  EXPECT_TRUE(answer.more());
  EXPECT_EQ(answer.groups(0).schedule(), "tenants/default/schedules/s7");
  EXPECT_EQ(answer.groups(0).count(), 2);
  EXPECT_EQ(answer.groups(1).count(), 1);
}

TEST(ReadLetterGroupsTest, TheTimeIsTheLastDayUnlessGiven) {
  v1::ListDeadLetterGroupsRequest request = RequestOf("");
  auto query = ReadLetterGroups(request, "default", kEnd);
  ASSERT_TRUE(query.ok()) << query.status();
  EXPECT_EQ(query->start, kStart);
  EXPECT_EQ(query->end, kEnd);
  SetTimestamp(ToMicros(kStart), *request.mutable_end_time());
  query = ReadLetterGroups(request, "default", kEnd);
  ASSERT_TRUE(query.ok()) << query.status();
  EXPECT_EQ(query->start, kStart - absl::Hours(24));
  EXPECT_EQ(query->end, kStart);
}

TEST(ReadLetterGroupsTest, BadFieldsAreNamed) {
  v1::ListDeadLetterGroupsRequest request = RequestOf("error > x");
  SetTimestamp(ToMicros(kStart), *request.mutable_start_time());
  SetTimestamp(ToMicros(kStart), *request.mutable_end_time());
  std::string violations = ViolationsOf(ReadLetterGroups(request, "default", kEnd).status());
  EXPECT_THAT(violations, HasSubstr("end_time: must be after start_time"));
  EXPECT_THAT(violations, HasSubstr("filter: error takes only = and !="));
  request.mutable_start_time()->set_nanos(-1);
  request.mutable_end_time()->set_seconds(-1'000'000'000'000);
  violations = ViolationsOf(ReadLetterGroups(request, "default", kEnd).status());
  EXPECT_THAT(violations, HasSubstr("start_time: is not a valid time"));
  EXPECT_THAT(violations, HasSubstr("end_time: is not a valid time"));
  // Before 1970 nothing has failed.
  request = RequestOf("");
  request.mutable_end_time()->set_seconds(-5);
  EXPECT_THAT(ViolationsOf(ReadLetterGroups(request, "default", kEnd).status()),
              HasSubstr("end_time: must be after start_time"));
}

TEST(ReadLetterGroupsTest, FilterLeavesRoomForTheConditionsOfEveryGroup) {
  const auto filled = [](size_t bytes) {
    return absl::StrCat("reason : \"", std::string(bytes, 'x'), "\"");
  };
  ASSERT_TRUE(ReadLetterGroups(RequestOf(filled(500)), "default", kEnd).ok());
  EXPECT_THAT(ViolationsOf(ReadLetterGroups(RequestOf(filled(1500)), "default", kEnd).status()),
              HasSubstr("filter: is too long"));
  // With the longest filter that is taken, each group's filter can be read.
  size_t bytes = 500;
  while (ReadLetterGroups(RequestOf(filled(bytes + 1)), "default", kEnd).ok()) ++bytes;
  std::string error;
  for (int i = 0; i < 200; ++i) absl::StrAppend(&error, "\U0001F30D");
  LetterGroups groups(kStart, kEnd - absl::Microseconds(1));
  groups.Add(LetterOf(std::string(63, 's'), error, kStart));
  const std::string filter = groups.Answer(QueryOf(filled(bytes)), true).groups(0).filter();
  EXPECT_TRUE(DeadLetterSelection::Read("default", filter, "").ok()) << filter.size();
}

}  // namespace dead_letter_groups_test
}  // namespace escapement::master
