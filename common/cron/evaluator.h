// When an expression fires in a zone.
//
// Pure: (expression, zone, policy, instant) in, instants out. For every matching wall-clock time:
// if it exists once, that instant. If it is skipped by a change of the offset (gap): nothing, the
// first instant after the gap, or the time read with the offset before the gap. If it exists
// several times (overlap): the first, the last, or each. Equal instants are one occurrence. AUTO
// decides by whether the expression is periodic and how long the change is:
//
//              fixed, change <= 3 h    periodic, or change > 3 h
//   gap        fire after              skip
//   overlap    first                   both
//
// Occurrences lie in the local years 1970 to 2199. Every search ends: it visits at most 2,760
// months (and only the years that the expression has) and, of the zone's offset changes, those near
// times that match. Threads: any.

#ifndef COMMON_CRON_EVALUATOR_H_
#define COMMON_CRON_EVALUATOR_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/cron/cron_expression.h"
#include "common/cron/zone.h"

namespace escapement::cron {

enum class GapPolicy { kAuto, kSkip, kFireAfter, kShift };
enum class OverlapPolicy { kAuto, kFirst, kLast, kBoth };

struct DstPolicy {
  GapPolicy gap = GapPolicy::kAuto;
  OverlapPolicy overlap = OverlapPolicy::kAuto;

  friend bool operator==(const DstPolicy&, const DstPolicy&) = default;
};

// What the policy says about a change of the offset by `change` (more than zero) for this
// expression: never kAuto.
GapPolicy GapRule(const CronExpression& expression, const DstPolicy& policy, absl::Duration change);
OverlapPolicy OverlapRule(const CronExpression& expression, const DstPolicy& policy,
                          absl::Duration change);

// Why an instant is not simply its civil time.
enum class Note {
  kNone,
  kGapFiredAfter,  // the civil time does not exist; this is the first instant after the gap
  kGapShifted,     // the civil time does not exist; read with the offset before the gap
  kOverlapFirst,   // the civil time exists several times; this is the first of them
  kOverlapLast,    // … a later one
};
absl::string_view NoteName(Note note);  // "", "GAP_FIRED_AFTER", …

// The identity of an occurrence is (civil, fold, zone): of the nominal times that fall on one
// instant the one that exists, else the latest.
struct Occurrence {
  absl::Time instant;
  absl::CivilSecond civil;
  int fold = 0;  // how many earlier instants have this civil time
  Note note = Note::kNone;

  friend bool operator==(const Occurrence&, const Occurrence&) = default;
};

// `exclusions`: nominal times that one of them matches are none; what is left is mapped to
// instants.
std::optional<Occurrence> FirstAtOrAfter(const CronExpression& expression, const Zone& zone,
                                         const DstPolicy& policy, absl::Time from,
                                         absl::Span<const CronExpression> exclusions = {});
std::optional<Occurrence> FirstAfter(const CronExpression& expression, const Zone& zone,
                                     const DstPolicy& policy, absl::Time after,
                                     absl::Span<const CronExpression> exclusions = {});

// All occurrences in [begin, end) in order, at most `max` of them.
std::vector<Occurrence> Enumerate(const CronExpression& expression, const Zone& zone,
                                  const DstPolicy& policy, absl::Time begin, absl::Time end,
                                  size_t max, absl::Span<const CronExpression> exclusions = {});

// False for an expression that never fires, such as 30 February.
bool HasAnyOccurrence(const CronExpression& expression, const Zone& zone, const DstPolicy& policy,
                      absl::Span<const CronExpression> exclusions = {});

}  // namespace escapement::cron

#endif  // COMMON_CRON_EVALUATOR_H_
