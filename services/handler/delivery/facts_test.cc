#include "services/handler/delivery/facts.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/attempts.h"
#include "tests/fixtures/http_receiver.h"

namespace escapement::handler {
namespace facts_test {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr char kTraceParent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

std::vector<std::pair<std::string, std::string>> Attributes(const DeliveryAttempt& attempt) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const Fact& fact : FactsOf(attempt)) {
    EXPECT_TRUE(fact.attribute == fact.name ||
                fact.attribute.substr(fact.attribute.find('_') + 1) == fact.name);
    pairs.emplace_back(fact.attribute, fact.value);
  }
  return pairs;
}

TEST(FactsTest, AttemptOfARunHasAllFacts) {
  DeliveryAttempt attempt =
      fixtures::MakeAttempts({.uri = "http://a", .run_count = 9}, 7, 1).front();
  attempt.token = "T";
  attempt.attempt = 3;
  EXPECT_THAT(
      Attributes(attempt),
      ElementsAre(Pair("ce_specversion", "1.0"),
                  Pair("ce_source", "/tenants/default/schedules/nightly"),
                  Pair("ce_type", "escapement.trigger.v1"), Pair("ce_time", "2026-03-01T00:00:00Z"),
                  Pair("ce_datacontenttype", "application/json"), Pair("escapement_count", "9"),
                  Pair("escapement_launchtime", "2026-03-01T00:00:00Z"), Pair("ce_id", "event-7"),
                  Pair("ce_subject", "2026-03-01T00:00:00Z/7"), Pair("escapement_token", "T"),
                  Pair("escapement_attempt", "3"), Pair("escapement_index", "7")));
}

TEST(FactsTest, OneOffEventWithoutPayloadHasFewer) {
  const DeliveryAttempt attempt =
      fixtures::MakeAttempts(
          {.uri = "http://a", .payload = "", .occurrence = "", .trace_parent = kTraceParent}, 0, 1)
          .front();
  EXPECT_THAT(Attributes(attempt),
              ElementsAre(Pair("ce_specversion", "1.0"), Pair("ce_source", testing::_),
                          Pair("ce_type", testing::_), Pair("ce_time", testing::_),
                          Pair("escapement_count", "1"), Pair("escapement_launchtime", testing::_),
                          Pair("traceparent", kTraceParent), Pair("ce_id", "event-0"),
                          Pair("escapement_attempt", "1"), Pair("escapement_index", "0")));
}

TEST(FactsTest, TimesAreRfc3339) {
  const auto text = [](int64_t micros) {
    std::string out;
    AppendRfc3339(absl::FromUnixMicros(micros), &out);
    return out;
  };
  EXPECT_EQ(text(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(text(-1), "1969-12-31T23:59:59.999999Z");
  for (const char* time :
       {"2024-02-29T23:59:59.000001Z", "2000-03-01T00:00:00Z", "2100-02-28T12:34:56Z"}) {
    absl::Time parsed;
    std::string error;
    ASSERT_TRUE(absl::ParseTime(absl::RFC3339_full, time, &parsed, &error)) << error;
    EXPECT_EQ(text(absl::ToUnixMicros(parsed)), time);
    EXPECT_EQ(fixtures::ParseUtcMicros(time), absl::ToUnixMicros(parsed));
  }
}

}  // namespace facts_test
}  // namespace escapement::handler
