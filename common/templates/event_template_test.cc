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

TEST(EventTemplate, NumbersKeepTheirText) {
  constexpr absl::string_view kPayload =
      R"({"a":[100.00,{"n":12345678901234567890123,"7":"8\\"}],"b":-0,"c":1E+2,"d":9.10 , "e":1e400})";
  EXPECT_EQ(
      Fill("{{payload.a.0}} {{payload.a.1.n}} {{payload.b}} {{payload.c}} {{payload.d}}", kPayload),
      "100.00 12345678901234567890123 -0 1E+2 9.10");
  EXPECT_EQ(Fill("{{payload.a}}", kPayload), R"([100.00,{"7":"8\\","n":12345678901234567890123}])");
  EXPECT_EQ(Fill("{{payload.e}}", kPayload), "1e400");
  EXPECT_EQ(Fill("{{payload}}", "12.50"), "12.50");
}

TEST(EventTemplate, FieldsOfWrongNumbersAreEmpty) {
  for (const absl::string_view number :
       {"01", "1.", ".5", "-", "+1", "1e", "1-2", "1e5.0", "0x1"}) {
    const std::string payload = absl::StrCat(R"({"a":"x","b":)", number, "}");
    EXPECT_EQ(Fill("<{{payload.a}}>", payload), "<>") << number;
  }
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

TEST(EventTemplate, CutsTheTextAsItIsBeforeItIsEscaped) {
  const auto escape = [](absl::string_view text) { return absl::StrCat("(", text, ")"); };
  const auto parsed = EventTemplate::Parse("{{payload.a}}{{payload.b}}{{id}}");
  const EventFacts facts = Facts(R"({"a":"\u00e4\u00e4","b":"\u00e4b"})");
  EXPECT_EQ(parsed->Fill(facts, 3, escape, EventTemplate::Unit::kCharacters), "(ää)(ä)");
  EXPECT_EQ(parsed->Fill(facts, 5, escape), "(ää)()");
  EXPECT_EQ(parsed->Fill(facts, 9, escape, EventTemplate::Unit::kCharacters), "(ää)(äb)(e1)");
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
