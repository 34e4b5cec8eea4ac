// ListDeadLetterGroups through the API, and the filter field `error`. operations/ has the counts.

#include <algorithm>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/sim/sim_runtime.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"
#include "services/master/operations/dead_letter_list.h"
#include "services/master/testing/dead_letters/dead_letter_world.h"

namespace escapement::master {
namespace dead_letter_groups_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Strings = std::vector<std::string>;
using Death = DeadLetterWorld::Death;

class DeadLetterGroupsTest : public ::testing::Test {
 protected:
  v1::ListDeadLetterGroupsResponse Groups(const std::string& filter = "",
                                          absl::Time start = absl::InfinitePast(),
                                          absl::Time end = absl::InfiniteFuture()) {
    v1::ListDeadLetterGroupsRequest request;
    request.set_parent("tenants/default");
    request.set_filter(filter);
    if (start != absl::InfinitePast()) SetTimestamp(ToMicros(start), *request.mutable_start_time());
    if (end != absl::InfiniteFuture()) SetTimestamp(ToMicros(end), *request.mutable_end_time());
    const auto groups = world_.fixture.Call(&DeadLetterService::ListDeadLetterGroups, request);
    EXPECT_TRUE(groups.ok()) << groups.status();
    return groups.value_or(v1::ListDeadLetterGroupsResponse());
  }
  // The names of the dead letters that a filter selects.
  Strings List(const std::string& filter) {
    v1::ListDeadLettersRequest request;
    request.set_parent("tenants/default");
    request.set_filter(filter);
    request.set_page_size(1000);
    Strings names;
    do {
      const auto page = world_.fixture.Call(&DeadLetterService::ListDeadLetters, request);
      EXPECT_TRUE(page.ok()) << page.status() << " " << filter;
      if (!page.ok()) break;
      for (const v1::DeadLetter& letter : page->dead_letters()) names.push_back(letter.name());
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    return names;
  }
  // Dead letters of one-off events with these reasons, one second apart.
  Strings DieOf(const Strings& reasons) {
    std::vector<Death> deaths;
    for (const std::string& reason : reasons) {
      deaths.push_back(world_.OneOff("", number_++));
      deaths.back().reason = reason;
      deaths.back().time = world_.bench.start + absl::Seconds(number_);
    }
    return world_.Die(deaths);
  }
  // Advances so far that "now" is after every dead letter.
  void Pass() { world_.fixture.runtime.AdvanceBy(absl::Seconds(10)); }

  DeadLetterWorld world_;
  uint64_t number_ = 0;
};

TEST_F(DeadLetterGroupsTest, ErrorIsAFieldOfTheFilter) {
  const Strings names = DieOf({"status 503", "status 42", "stat", "x*", "x*y", "x\\*", "x"});
  EXPECT_THAT(List("error = \"status #\""), UnorderedElementsAre(names[0], names[1]));
  EXPECT_THAT(List("error = \"status 503\""), IsEmpty());
  EXPECT_THAT(List("error = \"stat*\""), UnorderedElementsAre(names[0], names[1], names[2]));
  EXPECT_THAT(List("error != \"x*\""), UnorderedElementsAre(names[0], names[1], names[2]));
  // A star at the end that is the text's own.
  EXPECT_THAT(List(R"(error = "x\\*")"), ElementsAre(names[3]));
  EXPECT_THAT(List(R"(error = "x**")"), UnorderedElementsAre(names[3], names[4]));
  EXPECT_THAT(List(R"(error = "x\\\\*")"), ElementsAre(names[5]));
  EXPECT_THAT(List(R"(reason = "x\\*")"), ElementsAre(names[3]));
  for (const char* wrong : {"error : x", "error < x", "error.a = b"}) {
    v1::ListDeadLettersRequest request;
    request.set_parent("tenants/default");
    request.set_filter(wrong);
    EXPECT_EQ(world_.fixture.Call(&DeadLetterService::ListDeadLetters, request).status().code(),
              absl::StatusCode::kInvalidArgument)
        << wrong;
  }
}

TEST_F(DeadLetterGroupsTest, RedriveAndPurgeTakeTheFilterOfAGroup) {
  DieOf({"status 503", "status 42", "timed out"});
  Pass();
  const auto groups = Groups();
  ASSERT_EQ(groups.groups_size(), 2);
  EXPECT_EQ(groups.groups(0).count(), 2);
  v1::PurgeDeadLettersRequest purge;
  purge.set_parent("tenants/default");
  purge.set_filter(groups.groups(1).filter());
  const auto counted = world_.fixture.Call(&DeadLetterService::PurgeDeadLetters, purge);
  ASSERT_TRUE(counted.ok()) << counted.status();
  EXPECT_EQ(counted->purge_count(), 1);
  const v1::Operation operation = world_.Await(world_.RedriveAll(0, groups.groups(0).filter()));
  EXPECT_EQ(operation.done_count(), 2);
  EXPECT_EQ(List("").size(), 1u);
}

TEST_F(DeadLetterGroupsTest, OnlyTheTimeAndTheFilterCount) {
  const Strings names = DieOf({"a 1", "a 2", "a 3", "b 4"});
  Pass();
  const auto at = [&](int seconds) { return world_.bench.start + absl::Seconds(seconds); };
  auto groups = Groups("", at(2), at(4));
  ASSERT_EQ(groups.groups_size(), 1);
  EXPECT_EQ(groups.groups(0).count(), 2);
  EXPECT_EQ(groups.groups(0).latest(), names[2]);
  groups = Groups("reason : 1 OR reason : 4", at(0), at(9));
  ASSERT_EQ(groups.groups_size(), 2);
  EXPECT_EQ(groups.groups(0).latest(), names[3]);
  EXPECT_THAT(List(groups.groups(0).filter()), ElementsAre(names[3]));
  EXPECT_THAT(List(groups.groups(1).filter()), ElementsAre(names[0]));
  EXPECT_EQ(Groups("", at(100), at(101)).groups_size(), 0);
  // The request's own times narrow the range further.
  groups =
      Groups(absl::StrCat("create_time > \"",
                          absl::FormatTime(absl::RFC3339_full, at(3), absl::UTCTimeZone()), "\""),
             at(0), at(9));
  ASSERT_EQ(groups.groups_size(), 1);
  EXPECT_EQ(groups.groups(0).error(), "b #");
}

// Any reasons: the filters of the groups split the dead letters of the time, each into those of one
// schedule whose reasons differ only by digits.
TEST_F(DeadLetterGroupsTest, FilterOfAGroupSelectsExactlyItsMembers) {
  const Strings parts = {"x", "*",          "\\",  "\"", "'",    "#",  "1",      "23",
                         "é", "\n",         " ",   ")",  "(",    "\t", "\u202e", "AND",
                         "=", "\U0001F30D", "\\*", "**", "\\\"", "",   "\u0085"};
  sim::SimRuntime random(7);
  const auto pick = [&](size_t bound) { return random.random().Next() % bound; };
  for (int round = 0; round < 12; ++round) {
    std::map<std::string, const Death*> by_id;
    std::vector<Death> deaths;
    for (int i = 0; i < 120; ++i) {
      std::string reason;
      for (size_t length = pick(5); length > 0; --length) reason += parts[pick(parts.size())];
      if (pick(10) == 0) reason += std::string(150 + pick(100), 'y');
      if (pick(10) == 0) reason += parts[pick(parts.size())];
      Death death = pick(3) == 0 ? world_.OneOff("", number_)
                                 : world_.OfRun("20260101T000000-0-UTC", number_, 10'000);
      if (pick(2) == 0 && !death.schedule_id.empty()) death.schedule_id = "s2";
      death.reason = reason;
      death.time = world_.fixture.Now() + absl::Milliseconds(pick(1000));
      ++number_;
      deaths.push_back(death);
    }
    std::sort(deaths.begin(), deaths.end(),
              [](const Death& a, const Death& b) { return a.time < b.time; });
    const absl::Time start = deaths[20].time, end = deaths[100].time;
    const Strings names = world_.Die(deaths);
    for (size_t i = 0; i < deaths.size(); ++i) by_id[names[i]] = &deaths[i];
    Pass();
    std::set<std::string> seen;
    const auto groups = Groups(round % 2 == 0 ? "" : "policy = p OR policy != p", start, end);
    EXPECT_FALSE(groups.more());
    for (const v1::DeadLetterGroup& group : groups.groups()) {
      const Strings members = List(group.filter());
      EXPECT_EQ(static_cast<int64_t>(members.size()), group.count()) << group.filter();
      ASSERT_FALSE(members.empty());
      EXPECT_EQ(members[0], group.latest());
      int64_t sum = 0;
      for (const int64_t count : group.counts()) sum += count;
      EXPECT_EQ(sum, group.count());
      const auto shape = [&](const std::string& name) {
        const Death& death = *by_id.at(name);
        return std::pair(death.schedule_id,
                         std::regex_replace(death.reason, std::regex("[0-9]+"), "#"));
      };
      for (const std::string& name : members) {
        EXPECT_TRUE(seen.insert(name).second) << name << " is in two groups";
        EXPECT_EQ(shape(name).first, shape(members[0]).first);
        EXPECT_EQ(ErrorOf(shape(name).second), group.error());
      }
    }
    size_t expected = 0;
    for (const Death& death : deaths) expected += death.time >= start && death.time < end ? 1 : 0;
    EXPECT_EQ(seen.size(), expected);
  }
}

// Writes `count` rows of dead letters 1 µs apart, with payloads of so many bytes.
void PutLetters(DeadLetterWorld& world, size_t count, size_t payload) {
  Death death = world.OneOff("e");
  death.event.set_payload(std::string(payload, 'p'));
  const std::string record = DeadLetterWorld::RecordOf(death).SerializeAsString();
  const absl::Time begin = world.fixture.Now();
  const size_t at_once = std::max<size_t>(1, std::min<size_t>(1000, (1 << 20) / record.size()));
  for (size_t i = 0; i < count;) {
    kv::Group group;
    for (size_t end = std::min(count, i + at_once); i < end; ++i) {
      const DeadLetterName name{"default", begin + absl::Microseconds(i), "e"};
      group.mutations.push_back(
          kv::Put(kv::ColumnFamily::kDeadLetters, EncodeDeadLetterKey(name), record));
    }
    world.fixture.Commit({group});
  }
}

TEST_F(DeadLetterGroupsTest, TheNewestHundredThousandAreExamined) {
  PutLetters(world_, kDeadLetterCountRowsMax, 0);
  Pass();
  auto groups = Groups();
  ASSERT_EQ(groups.groups_size(), 1);
  EXPECT_FALSE(groups.more());
  EXPECT_EQ(groups.groups(0).count(), static_cast<int64_t>(kDeadLetterCountRowsMax));
  const Strings newest = DieOf({"timed out"});
  Pass();
  groups = Groups();
  EXPECT_TRUE(groups.more());
  ASSERT_EQ(groups.groups_size(), 2);
  EXPECT_EQ(groups.groups(0).count(), static_cast<int64_t>(kDeadLetterCountRowsMax) - 1);
  EXPECT_EQ(groups.groups(1).latest(), newest[0]);
}

TEST_F(DeadLetterGroupsTest, AtMostSixtyFourMebibytesAreExamined) {
  constexpr size_t kPayload = 256 << 10;
  constexpr size_t kCount = kDeadLetterCountBytesMax / kPayload + 20;
  PutLetters(world_, kCount, kPayload);
  Pass();
  const auto groups = Groups();
  EXPECT_TRUE(groups.more());
  ASSERT_EQ(groups.groups_size(), 1);
  EXPECT_LE(groups.groups(0).count(), static_cast<int64_t>(kCount) - 16);
  EXPECT_GE(groups.groups(0).count(), static_cast<int64_t>(kCount) - 24);
}

// Other calls are answered between two steps.
TEST_F(DeadLetterGroupsTest, OtherCallsAreAnsweredMeanwhile) {
  PutLetters(world_, 5000, 0);
  Pass();
  std::optional<bool> grouped;
  int answers = 0;
  v1::ListDeadLetterGroupsRequest request;
  request.set_parent("tenants/default");
  world_.fixture.master->dead_letters().ListDeadLetterGroups(
      request, [&](const auto& groups) { grouped = groups.ok(); });
  v1::GetScheduleRequest get;
  get.set_name("tenants/default/schedules/s");
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(world_.fixture.Call(&ScheduleApi::GetSchedule, get).ok());
    if (!grouped.has_value()) ++answers;
  }
  EXPECT_EQ(answers, 3);
  EXPECT_TRUE(
      world_.fixture.runtime.RunUntil([&] { return grouped.has_value(); }, absl::Minutes(1)));
  EXPECT_EQ(grouped, true);
}

TEST_F(DeadLetterGroupsTest, MoreThanSomeAtOnceAreRefused) {
  PutLetters(world_, 10, 0);
  Pass();
  int answered = 0;
  std::vector<absl::Status> refused;
  v1::ListDeadLetterGroupsRequest request;
  request.set_parent("tenants/default");
  for (int i = 0; i < kLetterGroupingsAtOnceMax + 2; ++i) {
    world_.fixture.master->dead_letters().ListDeadLetterGroups(
        request, [&](const absl::StatusOr<v1::ListDeadLetterGroupsResponse>& groups) {
          groups.ok() ? void(++answered) : refused.push_back(groups.status());
        });
  }
  world_.fixture.runtime.AdvanceBy(absl::Seconds(5));
  EXPECT_EQ(answered, kLetterGroupingsAtOnceMax);
  ASSERT_EQ(refused.size(), 2u);
  EXPECT_EQ(ErrorReason(refused[0]), "TOO_MANY_GROUPINGS");
  EXPECT_EQ(Groups().groups_size(), 1);  // there is room again
}

}  // namespace dead_letter_groups_test
}  // namespace escapement::master
