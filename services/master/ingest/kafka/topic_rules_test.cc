#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "services/master/ingest/kafka/message_decoder.h"

namespace escapement::master {
namespace topic_rules_test {

TopicRules RulesOf(const std::vector<std::string>& topics) {
  const auto rules = TopicRules::Parse(topics, "default");
  EXPECT_TRUE(rules.ok()) << rules.status();
  return rules.value_or(TopicRules());
}

TEST(TopicRulesTest, TopicWithoutTenantsWritesToTheDefaultTenantOnly) {
  const TopicRules rules = RulesOf({"orders"});
  EXPECT_EQ(*rules.TenantOf("orders", ""), "default");
  EXPECT_EQ(*rules.TenantOf("orders", "default"), "default");
  EXPECT_EQ(rules.TenantOf("orders", "team-a").status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST(TopicRulesTest, FirstTenantGetsMessagesThatNameNone) {
  const TopicRules rules = RulesOf({"orders=team-a|team-b", "bills=team-c"});
  EXPECT_EQ(*rules.TenantOf("orders", ""), "team-a");
  EXPECT_EQ(*rules.TenantOf("orders", "team-b"), "team-b");
  EXPECT_EQ(*rules.TenantOf("bills", ""), "team-c");
  for (const char* other : {"default", "team-c"}) {
    EXPECT_EQ(rules.TenantOf("orders", other).status().code(), absl::StatusCode::kPermissionDenied);
  }
  EXPECT_EQ(rules.Topics(), std::vector<std::string>({"bills", "orders"}));
}

TEST(TopicRulesTest, EveryTenantMustBeWrittenOut) {
  const TopicRules rules = RulesOf({"all=*", "most=team-a|*"});
  EXPECT_EQ(*rules.TenantOf("all", "team-z"), "team-z");
  EXPECT_EQ(rules.TenantOf("all", "").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*rules.TenantOf("most", ""), "team-a");
  EXPECT_EQ(*rules.TenantOf("most", "team-z"), "team-z");
}

TEST(TopicRulesTest, MalformedTenantOfAMessageIsRefused) {
  const TopicRules rules = RulesOf({"all=*"});
  for (const char* tenant : {"-", "A", "a/b", "tenants/a", "a b", "*"}) {
    EXPECT_EQ(rules.TenantOf("all", tenant).status().code(), absl::StatusCode::kInvalidArgument)
        << tenant;
  }
}

TEST(TopicRulesTest, MalformedTextsAreRefused) {
  for (const char* text : {"", "=a", "a=", "a=|", "a=B", "a=b|", "a/b", "..", "a=b=c", "a b"}) {
    EXPECT_FALSE(TopicRules::Parse({text}, "default").ok()) << text;
  }
  EXPECT_FALSE(TopicRules::Parse({}, "default").ok());
  EXPECT_FALSE(TopicRules::Parse({"a", "a=b"}, "default").ok());
  EXPECT_FALSE(TopicRules::Parse({"a"}, "").ok());
}

}  // namespace topic_rules_test
}  // namespace escapement::master
