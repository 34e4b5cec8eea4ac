#include "common/filter/filter.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement {
namespace filter_test {

// Shows the tree with a pair of parentheses for each node.
std::string Shown(const Filter& filter) {
  static constexpr const char* kOperators[] = {"=", "!=", "<", "<=", ">", ">=", ":"};
  if (filter.kind == Filter::Kind::kComparison) {
    return absl::StrCat(filter.comparison.field, kOperators[static_cast<int>(filter.comparison.op)],
                        filter.comparison.value);
  }
  std::string text = filter.kind == Filter::Kind::kAnd  ? "(and"
                     : filter.kind == Filter::Kind::kOr ? "(or"
                                                        : "(not";
  for (const Filter& operand : filter.operands) absl::StrAppend(&text, " ", Shown(operand));
  return text + ")";
}

std::string Parsed(absl::string_view text) {
  const absl::StatusOr<Filter> filter = ParseFilter(text);
  return filter.ok() ? Shown(*filter) : std::string(filter.status().message());
}

TEST(Filter, ReadsComparisonsAndJoinsThem) {
  const std::map<std::string, std::string> cases = {
      {"", "(and)"},
      {"  ", "(and)"},
      {"a=b", "a=b"},
      {" a\t= b ", "a=b"},
      {"a!=b", "a!=b"},
      {"a<=1 AND a>=2 AND a<3 AND a>4", "(and a<=1 a>=2 a<3 a>4)"},
      {"a=1 AND b=2 OR c=3", "(and a=1 (or b=2 c=3))"},
      {"a=1 OR b=2 AND c=3", "(and (or a=1 b=2) c=3)"},
      {"(a=1 AND b=2) OR c=3", "(or (and a=1 b=2) c=3)"},
      {"NOT a=1 AND NOT (b=2 OR c=3)", "(and (not a=1) (not (or b=2 c=3)))"},
      {"NOT NOT a=1", "(not (not a=1))"},
      {"a=2026-11-25T00:00:00Z", "a=2026-11-25T00:00:00Z"},
      {R"(a="x \"y\" \\ AND (")", R"(a=x "y" \ AND ()"},
      {"a=\"\"", "a="},
      {"a.b_1=ANDROID", "a.b_1=ANDROID"},
      {"labels.Env-1=x", "labels.Env-1=x"},
      {R"(labels."app.io/a b"=x)", "labels.app.io/a b=x"},
      {"labels:env AND name : \"a:b\"", "(and labels:env name:a:b)"},
  };
  for (const auto& [text, wanted] : cases) EXPECT_EQ(Parsed(text), wanted) << text;
}

TEST(Filter, ReportsPositionOfAnError) {
  const std::map<std::string, std::string> cases = {
      {"a", "expected one of = != < <= > >= : at character 2"},
      {"a=", "expected a value at character 3"},
      {"a=AND", "expected a value at character 3"},
      {"=b", "expected the name of a field at character 1"},
      {"A=b", "expected the name of a field at character 1"},
      {"a=b c=d", "expected AND, OR or the end at character 5"},
      {"a=b AND", "expected the name of a field at character 8"},
      {"(a=b", "expected ) at character 5"},
      {"a=b)", "expected AND, OR or the end at character 4"},
      {"a='it''", "expected AND, OR or the end at character 7"},
      {"a='b", "a quoted value has no closing quote at character 3"},
      {"a='b\tc'", "a quoted value has a control character at character 3"},
      {"a=\"\u202eb\"", "a quoted value has a control character at character 3"},
      {"a=b and c=d", "expected AND, OR or the end at character 5"},
      {"a.=b", "expected a quoted part after the dot at character 3"},
      {"a.'b", "a quoted value has no closing quote at character 3"},
      {std::string("a=\0b", 4), "expected a value at character 3"},
  };
  for (const auto& [text, wanted] : cases) EXPECT_EQ(Parsed(text), wanted) << text;
}

TEST(Filter, RefusesTextsBeyondItsBounds) {
  const auto repeated = [](absl::string_view part, size_t times) {
    std::string text;
    for (size_t i = 0; i < times; ++i) absl::StrAppend(&text, part);
    return text;
  };
  EXPECT_TRUE(ParseFilter(repeated("(", 20) + "a=b" + repeated(")", 20)).ok());
  EXPECT_FALSE(ParseFilter(repeated("(", 21) + "a=b" + repeated(")", 21)).ok());
  EXPECT_FALSE(ParseFilter(repeated("(", 1990)).ok());
  EXPECT_FALSE(ParseFilter(repeated("NOT ", 400) + "a=b").ok());
  EXPECT_TRUE(ParseFilter(repeated("a=b OR ", 99) + "a=b").ok());
  EXPECT_FALSE(ParseFilter(repeated("a=b OR ", 100) + "a=b").ok());
  EXPECT_FALSE(ParseFilter("a=" + repeated("b", 2000)).ok());
}

TEST(Filter, HoldsAsItsOperandsDo) {
  const auto holds = [](absl::string_view text) {
    return FilterHolds(*ParseFilter(text), [](const FilterComparison& comparison) {
      return Compares(comparison.field.compare(comparison.value), comparison.op);
    });
  };
  EXPECT_TRUE(holds(""));
  EXPECT_TRUE(holds("a=a AND b<=c"));
  EXPECT_FALSE(holds("a=a AND b>c"));
  EXPECT_TRUE(holds("a=b OR b!=c"));
  EXPECT_FALSE(holds("NOT (a=b OR b!=c)"));
  EXPECT_TRUE(holds("b>a AND b>=b AND NOT b<b"));
}

TEST(Filter, BindsEachComparisonOnce) {
  const auto bind = [](FilterComparison& comparison) {
    if (comparison.field != "a") return absl::InvalidArgumentError(comparison.field);
    return absl::SimpleAtoi(comparison.value, &comparison.number)
               ? absl::OkStatus()
               : absl::InvalidArgumentError(comparison.value);
  };
  Filter filter = *ParseFilter("a=1 AND NOT (a=2 OR a=3)");
  ASSERT_TRUE(BindComparisons(filter, bind).ok());
  std::vector<int64_t> numbers;
  const auto note = [&](const FilterComparison& comparison) {
    numbers.push_back(comparison.number);
    return comparison.number == 1;
  };
  EXPECT_TRUE(FilterHolds(filter, note));
  EXPECT_THAT(numbers, testing::ElementsAre(1, 2, 3));

  Filter unknown = *ParseFilter("a=1 AND NOT (a=2 OR b=3) AND c=1");
  EXPECT_EQ(BindComparisons(unknown, bind).message(), "b");
}

}  // namespace filter_test
}  // namespace escapement
