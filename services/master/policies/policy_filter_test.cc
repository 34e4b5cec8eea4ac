#include <google/protobuf/text_format.h>

#include <string>
#include <utility>
#include <vector>

#include "common/status/errors.h"
#include "gtest/gtest.h"
#include "services/master/policies/policy_codec.h"

namespace escapement::master {
namespace policy_filter_test {

v1::ThrottlePolicy Policy(const std::string& text) {
  v1::ThrottlePolicy policy;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &policy)) << text;
  return policy;
}

void ExpectMatches(const v1::ThrottlePolicy& policy,
                   const std::vector<std::pair<std::string, bool>>& cases) {
  for (const auto& [text, matches] : cases) {
    const auto filter = ReadPolicyFilter(text, "t");
    ASSERT_TRUE(filter.ok()) << text << ": " << filter.status();
    EXPECT_EQ(filter->Matches(policy), matches) << text;
  }
}

TEST(PolicyFilter, MatchesByEachField) {
  ExpectMatches(Policy(R"(name: "tenants/t/policies/gentle-1" display_name: "The Backup"
                          state: PAUSED max_concurrent: 50 max_per_second: 0.5 burst: 3
                          on_expiry: HOLD fairness: FIFO create_time { seconds: 1800000000 }
                          update_time { seconds: 1800000001 })"),
                {{"", true},
                 {"name = gentle-1", true},
                 {"name = \"tenants/t/policies/gentle-1\"", true},
                 {"name = \"gentle*\"", true},
                 {"name != \"g*\"", false},
                 {"name : tle-", true},
                 {"name : policies", false},
                 {"display_name : Back", true},
                 {"display_name = Backup", false},
                 {"state = PAUSED AND NOT state = ENABLED", true},
                 {"max_concurrent = 50", true},
                 {"max_concurrent < 50 OR max_concurrent > 50", false},
                 {"max_concurrent >= 9", true},
                 {"max_per_second <= 0.5", true},
                 {"max_per_second > \"0.5\"", false},
                 {"burst != 3", false},
                 {"on_expiry = HOLD", true},
                 {"fairness = BY_SCHEDULE", false},
                 {"create_time >= \"2027-01-15T08:00:00Z\"", true},
                 {"update_time = \"2027-01-15T08:00:01Z\"", true}});
}

TEST(PolicyFilter, AMissingLimitIsNotASmallOne) {
  ExpectMatches(Policy(R"(name: "tenants/t/policies/p" max_concurrent: 5)"),
                {{"max_per_second < 10", false},
                 {"max_per_second != 10", false},
                 {"max_per_second = 0", true},
                 {"max_per_second > 0", false},
                 {"burst = 0", true},
                 {"max_concurrent > 0", true},
                 {"NOT max_concurrent = 0", true}});
}

TEST(PolicyFilter, RefusesUnknownFieldsAndValues) {
  for (const std::string text :
       {"colour = red", "state = FINISHED", "on_expiry < HOLD", "fairness = LIFO",
        "max_concurrent = many", "max_concurrent = 1.5", "max_concurrent : 5",
        "max_per_second = inf", "max_per_second = nan", "labels:team", "create_time = noon"}) {
    const auto filter = ReadPolicyFilter(text, "t");
    ASSERT_FALSE(filter.ok()) << text;
    ASSERT_EQ(FieldViolationsOf(filter.status()).size(), 1u) << text;
    EXPECT_EQ(FieldViolationsOf(filter.status())[0].first, "filter") << text;
  }
}

TEST(PolicyFilter, GivesTheBeginOfTheIdsOfAllMatches) {
  const auto prefix = [](const std::string& text) {
    return ReadPolicyFilter(text, "t")->id_prefix();
  };
  EXPECT_EQ(prefix("name = \"ab*\" AND state = PAUSED"), "ab");
  EXPECT_EQ(prefix("name = \"a*\" AND name = \"tenants/t/policies/abc\""), "abc");
  EXPECT_EQ(prefix("name = \"a*\" OR state = PAUSED"), "");
  EXPECT_EQ(prefix("NOT name = \"a*\""), "");
}

}  // namespace policy_filter_test
}  // namespace escapement::master
