// Timetable: when a schedule fires. It has a cron expression in a zone, an interval, or a list of
// instants, and restrictions (start, end, exclusions).
//
// Pure and immutable; any thread. All searches end. Searches of cron expressions are exact for any
// exclusions, as evaluator.h says. Searches of intervals and lists of instants skip excluded times
// in stretches of civil time, at most kExclusionStepsMax of them.

#ifndef COMMON_CRON_TIMETABLE_H_
#define COMMON_CRON_TIMETABLE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/cron/cron_expression.h"
#include "common/cron/evaluator.h"
#include "common/cron/zone.h"

namespace escapement::cron {

// For an interval or list: after this many excluded stretches a search finds nothing.
inline constexpr int kExclusionStepsMax = 100'000;
// EnumerateLast returns no more than this.
inline constexpr size_t kEnumerateLastMax = 1'000'000;

struct TimetableSpec {
  // One of the next three is set.
  std::optional<CronExpression> cron;
  absl::Duration every =
      absl::ZeroDuration();       // for an interval: more than zero, whole microseconds
  std::vector<absl::Time> times;  // ascending, distinct

  absl::Time anchor;  // for an interval: occurrences are at anchor + k × every, for all whole k
  Zone zone = Zone::Utc();
  DstPolicy policy = {};  // for a cron expression
  // A nominal civil time that matches one of these expressions does not fire.
  std::vector<CronExpression> exclusions;
  // Occurrences are in [start, end).
  absl::Time start = absl::InfinitePast();
  absl::Time end = absl::InfiniteFuture();
};

class Timetable {
 public:
  explicit Timetable(TimetableSpec spec) : spec_(std::move(spec)) {}

  const TimetableSpec& spec() const { return spec_; }
  // True if civil time, fold and zone name an occurrence; otherwise its instant does.
  bool calendar() const { return spec_.cron.has_value(); }

  // For intervals and lists `civil` is the local time in the zone, with fold 0.
  std::optional<Occurrence> FirstAtOrAfter(absl::Time from) const;
  std::optional<Occurrence> FirstAfter(absl::Time after) const;
  // Occurrences in [begin, end), in order. Enumerate: the first `max`. EnumerateLast: the last
  // `max`.
  std::vector<Occurrence> Enumerate(absl::Time begin, absl::Time end, size_t max) const;
  std::vector<Occurrence> EnumerateLast(absl::Time begin, absl::Time end, size_t max) const;

  // The text of the occurrence's identity (occurrence_id.h).
  std::string IdOf(const Occurrence& occurrence) const;
  // True if there is an occurrence with this identity at this instant.
  bool Has(absl::string_view id, absl::Time nominal) const;

 private:
  // For intervals and lists.
  std::optional<absl::Time> FirstInstant(absl::Time from) const;
  Occurrence InstantOccurrence(absl::Time instant) const;
  // The end of the stretch from `instant` on that the exclusions cover for certain; `instant`
  // itself if no exclusion matches it.
  absl::Time PassExclusions(absl::Time instant) const;

  TimetableSpec spec_;
};

}  // namespace escapement::cron

#endif  // COMMON_CRON_TIMETABLE_H_
