#include "common/templates/event_template.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace escapement {
namespace event_template_test {

EventFacts Facts(absl::string_view payload) {
  return {.payload = payload,
          .id = "e1",
          .source = "/tenants/t/schedules/s",
          .time = "2026-01-01T00:00:00Z",
          .subject = "o/3",
          .attempt = "2",
          .index = "3",
          .count = "9"};
}

std::string Fill(absl::string_view text, absl::string_view payload, size_t bytes_max = 1000) {
  const auto parsed = EventTemplate::Parse(text);
  return parsed.ok() ? parsed->Fill(Facts(payload), bytes_max)
                     : std::string(parsed.status().message());
}

TEST(EventTemplate, FillsInFacts) {
  EXPECT_EQ(Fill("{{id}} {{ source }} {{time}} {{subject}} {{attempt}} {{index}}/{{count}}.", ""),
            "e1 /tenants/t/schedules/s 2026-01-01T00:00:00Z o/3 2 3/9.");
}

TEST(EventTemplate, FillsInFieldsOfThePayload) {
  constexpr absl::string_view kPayload = R"({"a":{"b":["x",{"c":7}],"d":true},"n":null,"t":"\n"})";
  EXPECT_EQ(Fill("{{payload.a.b.0}} {{payload.a.b.1.c}} {{payload.a.d}}", kPayload), "x 7 true");
  EXPECT_EQ(Fill("{{payload.a.b.1}}", kPayload), R"({"c":7})");
  EXPECT_EQ(Fill("<{{payload.n}}{{payload.a.b.2}}{{payload.a.b.-1}}{{payload.x.y}}>", kPayload),
            "<>");
  EXPECT_EQ(Fill("<{{payload.a}}>", "not json"), "<>");
  EXPECT_EQ(Fill("{{payload}}", kPayload), kPayload);
}

TEST(EventTemplate, FieldsOfDeeplyNestedPayloadsAreEmpty) {
  const std::string deep =
      absl::StrCat("{\"a\":", std::string(60'000, '['), std::string(60'000, ']'), "}");
  EXPECT_EQ(Fill("<{{payload.a}}>", deep, 1 << 20), "<>");
  EXPECT_EQ(Fill("{{payload}}", deep, 1 << 20), deep);
}

TEST(EventTemplate, FilledInValueIsNotReadAsTemplate) {
  EXPECT_EQ(Fill("{{payload.a}}", R"({"a":"{{id}}"})"), "{{id}}");
}

TEST(EventTemplate, CutsAtACharacter) {
  EXPECT_EQ(Fill("ab\xc3\xa4z", "", 3), "ab");
  EXPECT_EQ(Fill("ab\xc3\xa4z", "", 4), "ab\xc3\xa4");
}

TEST(EventTemplate, BytesThatAreNoTextAreReplaced) {
  EXPECT_EQ(Fill("<{{payload}}>", "a\xff"), "<a\xef\xbf\xbd>");
}

TEST(EventTemplate, RefusesUnknownAndUnclosedPlaces) {
  EXPECT_TRUE(absl::StrContains(Fill("{{nobody}}", ""), "unknown place {{nobody}}"));
  EXPECT_TRUE(absl::StrContains(Fill("{{payloads}}", ""), "unknown place"));
  EXPECT_TRUE(absl::StrContains(Fill("a {{id", ""), "without"));
  EXPECT_EQ(Fill("a }} b { c", ""), "a }} b { c");
}

}  // namespace event_template_test
}  // namespace escapement
