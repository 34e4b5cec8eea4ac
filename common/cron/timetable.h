// When a schedule fires: a cron expression in a zone, an interval, or a list of instants, with what
// restricts them (start, end, exclusions).
//
// Pure and immutable; any thread. All searches end. Those of cron expressions are exact, as
// evaluator.h says, whatever is excluded. Those of intervals and lists of instants pass over what
// is excluded in stretches of civil time, kExclusionStepsMax of them at most.

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

// Of an interval or list: beyond so many excluded stretches a search finds nothing.
inline constexpr int kExclusionStepsMax = 100'000;
// EnumerateLast gives no more than this.
inline constexpr size_t kEnumerateLastMax = 1'000'000;

struct TimetableSpec {
  // One of these three.
  std::optional<CronExpression> cron;
  absl::Duration every =
      absl::ZeroDuration();       // of an interval: more than zero, whole microseconds
  std::vector<absl::Time> times;  // ascending, distinct

  absl::Time anchor;  // of an interval: occurrences are at anchor + k × every, all whole k
  Zone zone = Zone::Utc();
  DstPolicy policy = {};  // of a cron expression
  // Nominal civil times that match one of them are left out.
  std::vector<CronExpression> exclusions;
  // Occurrences are in [start, end).
  absl::Time start = absl::InfinitePast();
  absl::Time end = absl::InfiniteFuture();
};

class Timetable {
 public:
  explicit Timetable(TimetableSpec spec) : spec_(std::move(spec)) {}

  const TimetableSpec& spec() const { return spec_; }
  // Occurrences are named by civil time, fold and zone; else by their instant.
  bool calendar() const { return spec_.cron.has_value(); }

  // Of intervals and times `civil` is the local time in the zone, fold 0.
  std::optional<Occurrence> FirstAtOrAfter(absl::Time from) const;
  std::optional<Occurrence> FirstAfter(absl::Time after) const;
  // Those in [begin, end) in order: the first `max` / the last `max` of them.
  std::vector<Occurrence> Enumerate(absl::Time begin, absl::Time end, size_t max) const;
  std::vector<Occurrence> EnumerateLast(absl::Time begin, absl::Time end, size_t max) const;

  // The text of its identity (occurrence_id.h).
  std::string IdOf(const Occurrence& occurrence) const;
  // Is there an occurrence of this identity at this instant?
  bool Has(absl::string_view id, absl::Time nominal) const;

 private:
  // The following are for intervals and times.
  std::optional<absl::Time> FirstInstant(absl::Time from) const;
  Occurrence InstantOccurrence(absl::Time instant) const;
  // The end of what the exclusions certainly cover from this instant on; the instant itself if
  // nothing excludes it.
  absl::Time PassExclusions(absl::Time instant) const;

  TimetableSpec spec_;
};

}  // namespace escapement::cron

#endif  // COMMON_CRON_TIMETABLE_H_
