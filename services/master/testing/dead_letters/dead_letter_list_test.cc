// ListDeadLetters, GetDeadLetter, the count of PurgeDeadLetters, and the collection of old ones.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"
#include "services/master/testing/dead_letters/dead_letter_world.h"

namespace escapement::master {
namespace dead_letter_list_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Strings = std::vector<std::string>;

class DeadLetterListTest : public ::testing::Test {
 protected:
  // The event ids of the list.
  Strings List(const std::string& filter, const std::string& order_by = "create_time",
               int page_size = 100) {
    v1::ListDeadLettersRequest request;
    request.set_parent("tenants/default");
    request.set_filter(filter);
    request.set_order_by(order_by);
    request.set_page_size(page_size);
    Strings ids;
    do {
      const auto page = world_.fixture.Call(&DeadLetterService::ListDeadLetters, request);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) break;
      EXPECT_LE(page->dead_letters_size(), page_size);
      for (const v1::DeadLetter& letter : page->dead_letters()) ids.push_back(letter.event_id());
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    return ids;
  }
  absl::StatusOr<v1::DeadLetter> Get(const std::string& name) {
    v1::GetDeadLetterRequest request;
    request.set_name(name);
    return world_.fixture.Call(&DeadLetterService::GetDeadLetter, request);
  }
  // Dead letters "a", "b" and "c", a second apart, and one of the schedule.
  Strings DieFour() {
    std::vector<DeadLetterWorld::Death> deaths;
    for (const char* id : {"a", "b", "c"}) {
      deaths.push_back(world_.OneOff(id));
      deaths.back().time = world_.bench.start + absl::Seconds(deaths.size());
    }
    deaths[1].reason = "connection refused";
    deaths.push_back(world_.OfRun("20260101T000000-0-UTC", 2, 7));
    deaths.back().event.mutable_throttle()->set_policy_id("p");
    deaths.back().time = world_.bench.start + absl::Seconds(4);
    run_event_ = deaths.back().event_id;
    return world_.Die(deaths);
  }

  DeadLetterWorld world_;
  std::string run_event_;
};

TEST_F(DeadLetterListTest, ListIsInTheOrderOfTimeBothWays) {
  DieFour();
  const Strings oldest_first = {"a", "b", "c", run_event_};
  const Strings newest_first(oldest_first.rbegin(), oldest_first.rend());
  for (int page_size : {1, 2, 3, 4, 100}) {
    EXPECT_EQ(List("", "create_time", page_size), oldest_first) << page_size;
    EXPECT_EQ(List("", "", page_size), newest_first) << page_size;
    EXPECT_EQ(List("", "create_time desc", page_size), newest_first) << page_size;
  }
}

TEST_F(DeadLetterListTest, FilterSelectsByScheduleReasonAndTime) {
  DieFour();
  EXPECT_THAT(List("schedule = s"), ElementsAre(run_event_));
  EXPECT_THAT(List("schedule = \"tenants/default/schedules/s\""), ElementsAre(run_event_));
  EXPECT_THAT(List("schedule = \"\""), ElementsAre("a", "b", "c"));
  EXPECT_THAT(List("schedule = t"), ElementsAre());
  EXPECT_THAT(List("policy = p"), ElementsAre(run_event_));
  EXPECT_THAT(List("policy != p"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(List("reason : refused"), ElementsAre("b"));
  EXPECT_THAT(List("reason = \"status*\" AND NOT schedule = s"), ElementsAre("a", "c"));
  EXPECT_THAT(List("event_id = b OR event = \"tenants/default/events/c\""), ElementsAre("b", "c"));
  const std::string second = absl::FormatTime(
      "%Y-%m-%dT%H:%M:%E*SZ", world_.bench.start + absl::Seconds(2), absl::UTCTimeZone());
  EXPECT_THAT(List(absl::StrCat("create_time <= \"", second, "\"")), ElementsAre("a", "b"));
  EXPECT_THAT(List(absl::StrCat("create_time > \"", second, "\" AND reason : 503"), "", 1),
              ElementsAre(run_event_, "c"));
}

TEST_F(DeadLetterListTest, BadRequestsAreRefusedByField) {
  v1::ListDeadLettersRequest request;
  request.set_parent("tenants/default");
  request.set_filter("colour = red");
  request.set_order_by("size");
  request.set_page_size(-1);
  request.set_page_token("forged");
  const auto refused = world_.fixture.Call(&DeadLetterService::ListDeadLetters, request);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldViolationsOf(refused.status()).size(), 4u) << refused.status();
  v1::RedriveDeadLettersRequest redrive;
  redrive.set_parent("tenants/default");
  redrive.set_filter("reason > 3");
  redrive.set_max_per_second(-1);
  const auto bad = world_.fixture.Call(&DeadLetterService::RedriveDeadLetters, redrive);
  EXPECT_EQ(FieldViolationsOf(bad.status()).size(), 2u) << bad.status();
  for (const char* name :
       {"tenants/default/deadLetters/x", "tenants/default/deadLetters/000000000000000g-a",
        "tenants/default/deadLetters/0x00000000000001-a", "tenants/default/deadLetters/",
        "tenants/default/deadLetters/00063F0000000000-a",
        "tenants/default/deadLetters/00063f0000000000_a"}) {
    EXPECT_EQ(Get(name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(Get("tenants/default/deadLetters/00063f0000000000-a").status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(DeadLetterListTest, GetShowsTheEventAndItsPayload) {
  DeadLetterWorld::Death death = world_.OneOff("a");
  storage::v1::AttemptRecord& attempt = *death.event.add_tried();
  attempt.set_number(3);
  attempt.set_kind(storage::v1::AttemptRecord::UNKNOWN);
  attempt.set_error("timed out");
  const auto letter = Get(world_.Die({death})[0]);
  ASSERT_TRUE(letter.ok()) << letter.status();
  EXPECT_EQ(letter->event(), "tenants/default/events/a");
  EXPECT_EQ(letter->schedule(), "");
  EXPECT_EQ(letter->payload(), "hello");
  EXPECT_EQ(letter->attempts(), 4);
  EXPECT_EQ(letter->reason(), "status 503");
  ASSERT_EQ(letter->recent_attempts_size(), 1);
  EXPECT_EQ(letter->recent_attempts(0).number(), 3);
  EXPECT_EQ(letter->recent_attempts(0).result(), v1::Attempt::UNKNOWN);
  EXPECT_EQ(letter->recent_attempts(0).error(), "timed out");
  EXPECT_EQ(letter->expire_time().seconds() - letter->create_time().seconds(), 30 * 86'400);
}

TEST_F(DeadLetterListTest, PurgeWithoutForceOnlyCounts) {
  const Strings names = DieFour();
  const std::string before = world_.fixture.Dump();
  v1::PurgeDeadLettersRequest request;
  request.set_parent("tenants/default");
  request.set_filter("schedule = \"\"");
  const auto counted = world_.fixture.Call(&DeadLetterService::PurgeDeadLetters, request);
  ASSERT_TRUE(counted.ok()) << counted.status();
  EXPECT_EQ(counted->purge_count(), 3);
  EXPECT_FALSE(counted->more());
  EXPECT_FALSE(counted->has_operation());
  EXPECT_THAT(counted->purge_sample(), ElementsAre(names[0], names[1], names[2]));
  EXPECT_EQ(world_.fixture.Dump(), before);
}

TEST_F(DeadLetterListTest, DeadLettersAreCollectedAfterThirtyDays) {
  std::vector<DeadLetterWorld::Death> deaths = {world_.OneOff("old"), world_.OneOff("young")};
  deaths[1].time += absl::Hours(24 * 5);
  world_.Die(deaths);
  world_.fixture.runtime.RunUntil([] { return false; }, absl::Hours(24 * 25 - 1));
  EXPECT_THAT(List(""), ElementsAre("old", "young"));
  world_.fixture.runtime.RunUntil([] { return false; }, absl::Hours(3));
  EXPECT_THAT(List(""), ElementsAre("young"));
  world_.fixture.runtime.RunUntil([] { return false; }, absl::Hours(24 * 5));
  EXPECT_THAT(List(""), ElementsAre());
}

}  // namespace dead_letter_list_test
}  // namespace escapement::master
