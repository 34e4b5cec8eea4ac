#include "common/rest/path_template.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::rest {
namespace path_template_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;
using testing::Pair;

std::optional<std::vector<std::pair<std::string, std::string>>> Match(absl::string_view pattern,
                                                                      absl::string_view path) {
  const auto parsed = RequestPath::Parse(path);
  return parsed.ok() ? PathTemplate::Parse(pattern)->Match(*parsed) : std::nullopt;
}

TEST(PathTemplate, VariableTakesItsSegments) {
  constexpr const char* kPattern = "/v1/{parent=tenants/*}/schedules";
  EXPECT_THAT(Match(kPattern, "/v1/tenants/a/schedules"),
              Optional(ElementsAre(Pair("parent", "tenants/a"))));
  EXPECT_EQ(Match(kPattern, "/v1/tenants/a/policies"), std::nullopt);
  EXPECT_EQ(Match(kPattern, "/v1/tenants/a/schedules/b"), std::nullopt);
  EXPECT_EQ(Match(kPattern, "/v1/tenants//schedules"), std::nullopt);
  EXPECT_EQ(Match(kPattern, "/v1/tenants/a/schedules/"), std::nullopt);
  EXPECT_EQ(Match(kPattern, "/v1/tenant/a/schedules"), std::nullopt);
}

TEST(PathTemplate, VerbMustBeEqual) {
  constexpr const char* kPattern = "/v1/{name=tenants/*/schedules/*}:pause";
  EXPECT_THAT(Match(kPattern, "/v1/tenants/a/schedules/b:pause"),
              Optional(ElementsAre(Pair("name", "tenants/a/schedules/b"))));
  EXPECT_EQ(Match(kPattern, "/v1/tenants/a/schedules/b"), std::nullopt);
  EXPECT_EQ(Match(kPattern, "/v1/tenants/a/schedules/b:resume"), std::nullopt);
  EXPECT_EQ(Match("/v1/{name=tenants/*/schedules/*}", "/v1/tenants/a/schedules/b:pause"),
            std::nullopt);
}

TEST(PathTemplate, EncodedColonBelongsToTheSegment) {
  EXPECT_THAT(Match("/v1/{name=events/*}", "/v1/events/a%3Ab"),
              Optional(ElementsAre(Pair("name", "events/a:b"))));
}

TEST(PathTemplate, LiteralPathHasNoBindings) {
  EXPECT_THAT(Match("/v1/schedules:preview", "/v1/schedules:preview"), Optional(IsEmpty()));
}

TEST(PathTemplate, VariableWithoutPatternIsOneSegment) {
  EXPECT_THAT(Match("/v1/{a}/{b.c}", "/v1/x%20y/z"),
              Optional(ElementsAre(Pair("a", "x y"), Pair("b.c", "z"))));
}

TEST(PathTemplate, ShowsItsSegmentsAndVerb) {
  const auto parsed = PathTemplate::Parse("/v1/{name=tenants/*/schedules/*}:pause");
  EXPECT_THAT(parsed->Segments(), ElementsAre("v1", "tenants", "", "schedules", ""));
  EXPECT_EQ(parsed->verb(), "pause");
}

TEST(PathTemplate, RefusesWhatIsNotOfTheGrammar) {
  for (const char* bad : {"", "v1", "/", "/v1//x", "/v1/{", "/v1/{a", "/v1/{}", "/v1/a}",
                          "/v1/{a={b}}", "/v1/{a=**}", "/v1/x:", "/v1/{a=x/{b}/y}"}) {
    EXPECT_FALSE(PathTemplate::Parse(bad).ok()) << bad;
  }
}

TEST(RequestPath, RefusesBadEscapesAndHiddenSlashes) {
  for (const char* bad : {"", "x", "/a%", "/a%2", "/a%zz", "/a%2Fb", "/a%00", "/a%0a", "/%ff"})
    EXPECT_FALSE(RequestPath::Parse(bad).ok()) << bad;
}

TEST(PercentDecoded, PlusIsASpaceInQueriesOnly) {
  EXPECT_EQ(PercentDecoded("a+b%2B", true), "a b+");
  EXPECT_EQ(PercentDecoded("a+b", false), "a+b");
}

}  // namespace path_template_test
}  // namespace escapement::rest
