#include "absl/strings/match.h"
#include "common/storage/name_tables.h"
#include "gtest/gtest.h"

namespace escapement {
namespace target_table_test {

TEST(TargetTable, KeysAreReadAgain) {
  const TargetRowName name{
      .tenant = "acme", .target = TargetIdOf("http:https://a.example"), .handler = "handler-1"};
  const auto read = DecodeTargetRowKey(EncodeTargetRowKey(name));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->tenant, "acme");
  EXPECT_EQ(read->target, name.target);
  EXPECT_EQ(read->handler, "handler-1");
  EXPECT_FALSE(DecodeTargetRowKey(TargetRowPrefix("acme", name.target)).has_value());
  EXPECT_FALSE(DecodeTargetRowKey("").has_value());
}

TEST(TargetTable, PrefixesHoldTheRowsOfOneTenantAndTarget) {
  const Uid target = TargetIdOf("http:https://a.example");
  const std::string key = EncodeTargetRowKey({.tenant = "a", .target = target, .handler = "h"});
  EXPECT_TRUE(absl::StartsWith(key, TargetRowPrefix("a")));
  EXPECT_TRUE(absl::StartsWith(key, TargetRowPrefix("a", target)));
  EXPECT_FALSE(
      absl::StartsWith(EncodeTargetRowKey({.tenant = "ab", .target = target, .handler = "h"}),
                       TargetRowPrefix("a")));
  EXPECT_NE(target, TargetIdOf("http:https://b.example"));
}

}  // namespace target_table_test
}  // namespace escapement
