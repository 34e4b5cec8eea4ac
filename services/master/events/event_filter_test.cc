#include "services/master/events/event_filter.h"

#include <google/protobuf/text_format.h>

#include <string>
#include <utility>
#include <vector>

#include "common/status/errors.h"
#include "gtest/gtest.h"

namespace escapement::master {
namespace event_filter_test {

v1::Event Event(const std::string& text) {
  v1::Event event;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &event)) << text;
  return event;
}

void ExpectMatches(const v1::Event& event, const std::vector<std::pair<std::string, bool>>& cases) {
  for (const auto& [text, matches] : cases) {
    const auto filter = ReadEventFilter(text, "t");
    ASSERT_TRUE(filter.ok()) << text << ": " << filter.status();
    EXPECT_EQ(filter->Matches(event), matches) << text;
  }
}

TEST(EventFilter, MatchesAPendingEventByEachField) {
  ExpectMatches(Event(R"(name: "tenants/t/events/mail-1" event_id: "mail-1" state: PENDING
                         due_time { seconds: 1800000000 } target { grpc { uri: "h:1" } })"),
                {{"", true},
                 {"name = mail-1", true},
                 {"name : ail", true},
                 {"name : tenants", false},
                 {"event_id : \"l-1\"", true},
                 {"name = \"tenants/t/events/mail-*\"", true},
                 {"name = \"mai\"", false},
                 {"event_id = \"mail*\"", true},
                 {"event_id != \"mail-1\"", false},
                 {"state = PENDING", true},
                 {"state != PENDING OR state = ENDED", false},
                 {"target = grpc AND NOT target = http", true},
                 {"due_time >= \"2027-01-15T08:00:00Z\"", true},
                 {"due_time < \"2027-01-15T08:00:00Z\"", false},
                 // It has neither an outcome nor an end.
                 {"outcome != FAILED", false},
                 {"complete_time > \"1970-01-01T00:00:00Z\"", false},
                 {"NOT complete_time > \"1970-01-01T00:00:00Z\"", true}});
}

TEST(EventFilter, MatchesAnEndedEventWithoutItsTarget) {
  ExpectMatches(Event(R"(name: "tenants/t/events/e" event_id: "e" state: ENDED outcome: FAILED
                         due_time { seconds: 1800000000 } complete_time { seconds: 1800000009 })"),
                {{"outcome = FAILED", true},
                 {"outcome != FAILED", false},
                 {"outcome != CANCELLED AND state = ENDED", true},
                 {"complete_time = \"2027-01-15T08:00:09Z\"", true},
                 {"target = http", false},
                 {"target != http", false}});
}

TEST(EventFilter, RefusesUnknownFieldsAndValues) {
  for (const std::string text :
       {"colour = red", "state = DONE", "state < ENDED", "outcome = OUTCOME_UNSPECIFIED",
        "target = smoke", "due_time = noon", "create_time > \"2027-01-15T08:00:00Z\"",
        "target : http", "state = "}) {
    const auto filter = ReadEventFilter(text, "t");
    ASSERT_FALSE(filter.ok()) << text;
    ASSERT_EQ(FieldViolationsOf(filter.status()).size(), 1u) << text;
    EXPECT_EQ(FieldViolationsOf(filter.status())[0].first, "filter") << text;
  }
}

TEST(EventFilter, SaysWhatEveryMatchHas) {
  const auto read = [](const std::string& text) { return *ReadEventFilter(text, "t"); };
  EXPECT_EQ(StateOfMatches(read("")), std::nullopt);
  EXPECT_EQ(StateOfMatches(read("state = RUNNING AND target = http")), v1::RUNNING);
  EXPECT_EQ(StateOfMatches(read("outcome != FAILED")), v1::ENDED);
  EXPECT_EQ(StateOfMatches(read("complete_time > \"2027-01-15T08:00:00Z\"")), v1::ENDED);
  EXPECT_EQ(StateOfMatches(read("outcome = FAILED OR state = PENDING")), std::nullopt);
  EXPECT_EQ(StateOfMatches(read("NOT outcome = FAILED")), std::nullopt);

  const FilterTimes due =
      read("due_time >= \"2027-01-15T08:00:00Z\" AND due_time < \"2027-01-15T09:00:00Z\"")
          .TimesOf("due_time");
  EXPECT_EQ(due.begin, absl::FromUnixSeconds(1'800'000'000));
  EXPECT_GE(due.end, absl::FromUnixSeconds(1'800'003'600));
  EXPECT_LE(due.end, absl::FromUnixSeconds(1'800'003'601));
  EXPECT_EQ(read("NOT due_time >= \"2027-01-15T08:00:00Z\"").TimesOf("due_time").begin,
            absl::InfinitePast());
}

}  // namespace event_filter_test
}  // namespace escapement::master
