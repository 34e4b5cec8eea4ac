// Properties of any bytes given as a cron expression. A libFuzzer target (tools/dev fuzz);
// cron_parser_fuzz_test runs the same function without libFuzzer.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/cron/civil_match.h"
#include "common/cron/cron_expression.h"
#include "common/cron/evaluator.h"
#include "common/cron/launch_expression.h"
#include "common/cron/zone.h"

namespace escapement::cron {
namespace {

void Require(bool holds, const char* what, absl::string_view text) {
  if (holds) return;
  std::fprintf(stderr, "%s does not hold of \"%s\"\n", what, std::string(text).c_str());
  std::abort();
}

std::string Joined(uint64_t mask) {
  std::string text;
  for (int v = 0; v < 64; ++v) {
    if ((mask >> v) & 1) absl::StrAppend(&text, text.empty() ? "" : ",", v);
  }
  return text;
}

void Append(std::string* list, absl::string_view item) {
  absl::StrAppend(list, list->empty() ? "" : ",", item);
}

// A text of the expression made from its sets alone, with lists in place of ranges.
std::string TextOf(const CronExpression& e) {
  std::string day = e.day_of_month_restricted ? Joined(e.days_of_month) : "*";
  std::string weekday = e.day_of_week_restricted ? Joined(e.days_of_week) : "*";
  for (int n = 0; n < 32; ++n) {
    if ((e.days_before_last >> n) & 1) Append(&day, absl::StrCat("L-", n));
    if ((e.weekdays_near_day >> n) & 1) Append(&day, absl::StrCat(n, "W"));
    if ((e.weekdays_near_last >> n) & 1) Append(&day, absl::StrCat("L-", n, "W"));
  }
  for (int n = 0; n < 42; ++n) {
    if ((e.weekdays_of_month >> n) & 1)
      Append(&weekday, n < 35 ? absl::StrCat(n % 7, "#", n / 7 + 1) : absl::StrCat(n % 7, "L"));
  }
  std::string years;
  for (int year = e.years.AtOrAfter(0); year != 0; year = e.years.AtOrAfter(year + 1))
    Append(&years, absl::StrCat(year));
  if (e.years.Every()) years = "*";
  return absl::StrCat(Joined(e.seconds), " ", Joined(e.minutes), " ", Joined(e.hours), " ", day,
                      " ", Joined(e.months), " ", e.both_days_match ? "+" : "", weekday, " ",
                      years);
}

void CheckOccurrences(const CronExpression& e, const Zone& zone, const DstPolicy& policy,
                      absl::string_view text) {
  const std::vector<Place> places = ChildPlaces(e);
  Require(places.size() <= static_cast<size_t>(kChildrenMax), "a bound of children", text);
  Require(std::is_sorted(places.begin(), places.end()), "the order of children", text);
  absl::Time from = absl::FromUnixSeconds(1'772'000'000);  // February 2026
  for (int i = 0; i < 6; ++i) {
    const std::optional<Occurrence> found = FirstAtOrAfter(e, zone, policy, from);
    if (!found) break;
    Require(found->instant >= from, "at or after", text);
    const int64_t local = ToLocalSeconds(found->civil);
    Require(Matches(e, local), "an occurrence matches", text);
    Require(FirstUnmatched(e, local) > local, "an occurrence is no gap in the matches", text);
    Require(std::binary_search(places.begin(), places.end(), CanonicalPlace(e, found->civil)),
            "the canonical place is a child's", text);
    from = found->instant + absl::Seconds(1);
  }
}

void CheckCronText(absl::string_view text) {
  const absl::StatusOr<CronExpression> parsed = ParseCron(text);
  const absl::StatusOr<CronExpression> exclusion = ParseExclusion(text);
  Require(parsed.ok() == exclusion.ok(), "exclusions have the same language", text);
  if (!parsed.ok()) {
    Require(parsed.status().code() == absl::StatusCode::kInvalidArgument, "INVALID_ARGUMENT", text);
    Require(absl::StrContains(parsed.status().message(), ": "), "a field and a reason", text);
    return;
  }
  const CronExpression& e = *parsed;
  Require(e.seconds != 0 && e.minutes != 0 && e.hours != 0 && e.months != 0, "fields have values",
          text);
  // The sets say everything except how it was written. A list of all items may be too long to
  // parse.
  if (const std::string again = TextOf(e); again.size() <= kExpressionBytesMax) {
    absl::StatusOr<CronExpression> reread = ParseCron(again);
    Require(reread.ok(), "its own text is read", again);
    reread->periodic = e.periodic;
    reread->second_written = e.second_written;
    Require(*reread == e, "its own text is the same", again);
  }
  Require(!Describe(e).empty(), "a description", text);
  static const Zone* const kZones[] = {new Zone(Zone::Utc()),
                                       new Zone(Zone::Load("America/New_York").value()),
                                       new Zone(Zone::Load("Australia/Lord_Howe").value())};
  CheckOccurrences(e, *kZones[0], {}, text);
  CheckOccurrences(e, *kZones[1], {GapPolicy::kShift, FoldPolicy::kBoth}, text);
  CheckOccurrences(e, *kZones[2], {GapPolicy::kFireAfter, FoldPolicy::kLast}, text);
}

}  // namespace
}  // namespace escapement::cron

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  escapement::cron::CheckCronText(absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
