#include <map>
#include <string>

#include "common/status/errors.h"
#include "gtest/gtest.h"
#include "services/master/runs/run_listing.h"

namespace escapement::master {
namespace run_filter_test {

const absl::Time kNoon = absl::FromCivil(absl::CivilSecond(2026, 11, 25, 12), absl::UTCTimeZone());

v1::Run RunAt(absl::Time nominal, v1::Run::State state, bool ended) {
  v1::Run run;
  run.set_state(state);
  run.mutable_nominal_time()->set_seconds(absl::ToUnixSeconds(nominal));
  if (ended) run.mutable_complete_time()->set_seconds(absl::ToUnixSeconds(nominal) + 60);
  return run;
}

TEST(RunFilter, MatchesStateAndTimes) {
  const v1::Run active = RunAt(kNoon, v1::Run::ACTIVE, false);
  const v1::Run skipped = RunAt(kNoon + absl::Hours(1), v1::Run::SKIPPED, true);
  struct Case {
    std::string filter;
    bool active;
    bool skipped;
  };
  for (const Case& c : std::vector<Case>{
           {"", true, true},
           {"state=ACTIVE", true, false},
           {"state != ACTIVE", false, true},
           {"NOT state = \"ACTIVE\"", false, true},
           {"nominal_time = \"2026-11-25T12:00:00Z\"", true, false},
           {"nominal_time = \"2026-11-25T17:30:00+05:30\"", true, false},
           {"nominal_time > \"2026-11-25T12:00:00Z\"", false, true},
           {"nominal_time >= 2026-11-25T12:00:00Z AND state = SKIPPED", false, true},
           {"nominal_time < \"2026-11-25T12:00:00.5Z\"", true, false},
           {"complete_time >= \"2020-01-01T00:00:00Z\"", false, true},
           {"complete_time < \"2020-01-01T00:00:00Z\"", false, false},
           {"NOT complete_time >= \"2020-01-01T00:00:00Z\"", true, false},
           {"complete_time > \"2030-01-01T00:00:00Z\" OR state=ACTIVE", true, false},
       }) {
    const auto filter = ReadRunFilter(c.filter);
    ASSERT_TRUE(filter.ok()) << c.filter << filter.status();
    EXPECT_EQ(filter->Matches(active), c.active) << c.filter;
    EXPECT_EQ(filter->Matches(skipped), c.skipped) << c.filter;
  }
}

TEST(RunFilter, RefusesWhatItDoesNotKnow) {
  for (const char* text : {"state", "state=", "state=RUNNING", "state=STATE_UNSPECIFIED", "state=2",
                           "state<ACTIVE", "nominal_time=noon", "nominal_time > 2026-11-25",
                           "name=x", "state=ACTIVE, state=SKIPPED", "STATE=ACTIVE"}) {
    const absl::Status status = ReadRunFilter(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(ErrorReason(status), "INVALID_FIELD") << text;
  }
}

TEST(RunFilter, BoundsTheTimesOfWhatMatches) {
  const std::string at = "\"2026-11-25T12:00:00Z\"";
  const std::string later = "\"2026-11-25T13:00:00Z\"";
  const absl::Time past = absl::InfinitePast();
  const absl::Time future = absl::InfiniteFuture();
  const absl::Duration unit = absl::Microseconds(1);
  const absl::Time hour = kNoon + absl::Hours(1);
  const std::map<std::string, std::pair<absl::Time, absl::Time>> cases = {
      {"", {past, future}},
      {"state=ACTIVE", {past, future}},
      {"nominal_time = " + at, {kNoon, kNoon + unit}},
      {"nominal_time != " + at, {past, future}},
      {"NOT nominal_time > " + at, {past, future}},
      {"nominal_time >= " + at + " AND nominal_time < " + later, {kNoon, hour + unit}},
      {"nominal_time >= " + at + " OR nominal_time >= " + later, {kNoon, future}},
      {"nominal_time >= " + at + " OR state=ACTIVE", {past, future}},
      {"nominal_time >= " + at + " AND state=ACTIVE", {kNoon, future}},
      {"complete_time < " + at, {past, future}},
  };
  for (const auto& [text, wanted] : cases) {
    const auto filter = ReadRunFilter(text);
    ASSERT_TRUE(filter.ok()) << text << filter.status();
    EXPECT_EQ(filter->TimesOf("nominal_time").begin, wanted.first) << text;
    EXPECT_EQ(filter->TimesOf("nominal_time").end, wanted.second) << text;
  }
}

}  // namespace run_filter_test
}  // namespace escapement::master
