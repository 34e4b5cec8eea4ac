#include "common/tzdata/tzdata_table.h"

#include "gtest/gtest.h"

namespace escapement::tzdata {
namespace tzdata_table_test {

absl::Time At(int64_t seconds) { return absl::FromUnixSeconds(seconds); }

ZoneRules Rules(std::vector<cron::OffsetSpan> changes) {
  ZoneRules rules{.begin = At(-500), .end = At(100'000), .spans = {{.offset = -3600}}};
  rules.spans.insert(rules.spans.end(), changes.begin(), changes.end());
  return rules;
}

TEST(TzdataTableTest, RulesOfAZoneAreItsOffsetsOverTheYears) {
  const cron::Zone berlin = cron::Zone::Load("Europe/Berlin").value();
  const absl::Time begin =
      absl::FromCivil(absl::CivilSecond(2026, 1, 1), absl::UTCTimeZone()) + absl::Milliseconds(3);
  const ZoneRules rules = RulesOf(berlin, begin, begin + absl::Hours(24 * 365));
  ASSERT_EQ(rules.spans.size(), 3u);
  EXPECT_EQ(rules.spans[0].offset, 3600);
  EXPECT_EQ(At(rules.spans[1].begin),
            absl::FromCivil(absl::CivilSecond(2026, 3, 29, 1, 0, 0), absl::UTCTimeZone()));
  EXPECT_EQ(rules.spans[1].offset, 7200);
  EXPECT_EQ(rules.spans[2].offset, 3600);
  const auto again = DecodeRules(EncodeRules(rules));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(EncodeRules(*again), EncodeRules(rules));
  EXPECT_EQ(again->begin, begin - absl::Milliseconds(3));
  EXPECT_TRUE(SameRules(rules, *again));
}

TEST(TzdataTableTest, RulesAreEqualIfOffsetsAreWhereBothAreKnown) {
  const ZoneRules one = Rules({{.begin = 1000, .offset = 0}, {.begin = 2000, .offset = -3600}});
  EXPECT_TRUE(SameRules(one, one));
  // A span that changes nothing makes no difference.
  EXPECT_TRUE(SameRules(one, Rules({{.begin = 1000, .offset = 0},
                                    {.begin = 1500, .offset = 0},
                                    {.begin = 2000, .offset = -3600}})));
  for (const ZoneRules& other :
       {Rules({}), Rules({{.begin = 1001, .offset = 0}, {.begin = 2000, .offset = -3600}}),
        Rules({{.begin = 1000, .offset = 1800}, {.begin = 2000, .offset = -3600}}),
        Rules({{.begin = 999, .offset = 0}, {.begin = 2000, .offset = -3600}})}) {
    EXPECT_FALSE(SameRules(one, other));
    EXPECT_FALSE(SameRules(other, one));
  }
  // They differ only from 2000 on.
  const ZoneRules shorter = Rules({{.begin = 1000, .offset = 0}});
  EXPECT_FALSE(SameRules(one, shorter));
  EXPECT_FALSE(SameRules(one, shorter, At(2001)));
  EXPECT_TRUE(SameRules(one, shorter, At(2000)));
  ZoneRules later = shorter;
  later.begin = At(1000);
  later.end = At(2000);
  later.spans = {{.offset = 0}};
  EXPECT_TRUE(SameRules(one, later));
  EXPECT_TRUE(SameRules(later, one));
}

TEST(TzdataTableTest, ASwitchAndAFrontierCanBeReadAgain) {
  Switch change{.old_revision = "2026a", .new_revision = "2026b"};
  change.before.emplace("Asia/Kolkata", Rules({{.begin = 7, .offset = 19800}}));
  change.before.emplace("Etc/UTC", Rules({}));
  std::string bytes = EncodeSwitch(change);
  const auto again = DecodeSwitch(bytes);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->old_revision, "2026a");
  EXPECT_EQ(again->new_revision, "2026b");
  ASSERT_EQ(again->before.size(), 2u);
  EXPECT_TRUE(SameRules(again->before.at("Asia/Kolkata"), change.before.at("Asia/Kolkata")));
  for (size_t cut = 0; cut < bytes.size(); ++cut)
    EXPECT_FALSE(DecodeSwitch(bytes.substr(0, cut)).has_value()) << cut;
  EXPECT_FALSE(DecodeSwitch(bytes + "x").has_value());

  const PartitionFrontier frontier{.revision = "2026b", .emitted_to = At(5), .planned_to = At(10)};
  EXPECT_EQ(DecodeFrontier(EncodeFrontier(frontier)), frontier);
  EXPECT_FALSE(DecodeFrontier("2026b").has_value());
  EXPECT_FALSE(DecodeRules("").has_value());
  EXPECT_NE(FrontierKey(1), FrontierKey(2));
}

}  // namespace tzdata_table_test
}  // namespace escapement::tzdata
