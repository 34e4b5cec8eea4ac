// Timetable: when a schedule fires. MisfirePlan: which late occurrences fire. OccurrenceId: the
// identity of an occurrence as text.

#ifndef COMMON_CRON_TIMETABLE_H_
#define COMMON_CRON_TIMETABLE_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "common/cron/cron_expression.h"
#include "common/cron/day_set.h"
#include "common/cron/evaluator.h"
#include "common/cron/launch_expression.h"
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
  // The civil days on which nothing fires; null: none. For an interval or list, on_excluded is
  // kSkip.
  std::shared_ptr<const DaySet> days_off = nullptr;
  OnExcluded on_excluded = OnExcluded::kSkip;
  // Occurrences are in [start, end).
  absl::Time start = absl::InfinitePast();
  absl::Time end = absl::InfiniteFuture();

  bool excludes() const { return !exclusions.empty() || days_off != nullptr; }
  // True if occurrences can be on days that the cron expression does not match.
  bool moves_days() const { return days_off != nullptr && on_excluded != OnExcluded::kSkip; }
};

// Timetable: when a schedule fires. It has a cron expression in a zone, an interval, or a list of
// instants, and restrictions (start, end, exclusions, days off).
//
// Pure and immutable; any thread. All searches end. Searches of cron expressions are exact for any
// exclusions and days off, as evaluator.h says. Searches of intervals and lists of instants skip
// excluded times in stretches of civil time, at most kExclusionStepsMax of them.
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

  // The places of its children (cron::ChildPlaces), and of the one that emits the occurrence. Those
  // of an expression whose times move to other days stand for every day. Only of cron expressions.
  std::vector<Place> ChildPlaces() const;
  Place PlaceOf(const Occurrence& occurrence) const;

  // The text of the occurrence's identity (OccurrenceId).
  std::string IdOf(const Occurrence& occurrence) const;
  // True if there is an occurrence with this identity at this instant.
  bool Has(absl::string_view id, absl::Time nominal) const;

 private:
  // For intervals and lists.
  std::optional<absl::Time> FirstInstant(absl::Time from) const;
  Occurrence InstantOccurrence(absl::Time instant) const;
  CivilRules Rules() const;
  // The end of the stretch from `instant` on that the exclusions and days off cover for certain;
  // `instant` itself if it is not excluded.
  absl::Time PassExclusions(absl::Time instant) const;

  TimetableSpec spec_;
};

// Decides which late occurrences fire.
//
// Pure.

enum class MisfireAction { kFireAll, kFireLatest, kSkip };

struct MisfirePolicy {
  MisfireAction action = MisfireAction::kFireAll;
  absl::Duration threshold = absl::Seconds(60);
  size_t max_catch_up = 100;                          // at least 1
  absl::Duration max_age = absl::InfiniteDuration();  // older missed occurrences do not fire

  friend bool operator==(const MisfirePolicy&, const MisfirePolicy&) = default;
};

// The plan for the occurrences from `begin` on, as seen at `now`:
//
//   before summary_to             skipped, all in one summary
//   in [summary_to, fire_from)    skipped, each with its own record
//   at or after fire_from         they fire
//
// begin <= summary_to <= fire_from. An occurrence is missed if instant + threshold < now.
// Occurrences that are not missed fire.
struct MisfirePlan {
  absl::Time summary_to = absl::InfinitePast();
  absl::Time fire_from = absl::InfinitePast();

  bool Fires(absl::Time instant) const { return instant >= fire_from; }
  bool InSummary(absl::Time instant) const { return instant < summary_to; }

  friend bool operator==(const MisfirePlan&, const MisfirePlan&) = default;
};

// Occurrences before `begin` are already done.
MisfirePlan PlanMissed(const Timetable& timetable, const MisfirePolicy& policy, absl::Time begin,
                       absl::Time now);

// OccurrenceId: the identity of an occurrence, which is kept as text. The text is part of keys, of
// resource names (`…/runs/{occurrence}`) and of event ids.
//
//   calendar  20261121T030000-0-Asia~Kolkata    civil time, fold, zone with '/' written '~'
//   instant   20261121T030000.000000Z           UTC, microseconds: intervals and one-off times
//
// Identities of one kind (and one zone) sort by civil time, then fold. Pure.
struct OccurrenceId {
  bool calendar = false;
  absl::CivilSecond civil;  // calendar only, years 0 to 9999
  int fold = 0;             // calendar only, 0 to 9
  std::string zone;         // calendar only: IANA name
  absl::Time instant;       // others only: whole microseconds

  friend bool operator==(const OccurrenceId&, const OccurrenceId&) = default;
};

std::string FormatCalendarOccurrence(absl::CivilSecond civil, int fold, absl::string_view zone);
// Fractions of a microsecond are cut off.
std::string FormatInstantOccurrence(absl::Time instant);

// Accepts exactly the texts that the functions above write; INVALID_ARGUMENT otherwise. Does not
// look up the zone.
absl::StatusOr<OccurrenceId> ParseOccurrence(absl::string_view text);

}  // namespace escapement::cron

#endif  // COMMON_CRON_TIMETABLE_H_
