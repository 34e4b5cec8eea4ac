// Computes when an expression fires in a zone.
//
// Pure: it maps (expression, zone, policy, instant) to instants. A matching wall-clock time that
// exists once fires at that instant. If a change of the offset skips it (gap), there are three
// policies: no firing, the first instant after the gap, or the time read with the offset before the
// gap. If it exists several times (fold), it fires at the first, at the last, or at each. Equal
// instants are one occurrence. AUTO decides by whether the expression is periodic, and by the
// length of the change:
//
//                fixed, change <= 3 h    periodic, or change > 3 h
//     gap        fire after              skip
//     fold       first                   both
//
// Occurrences lie in the local years 1970 to 2199. Every search ends. It visits at most 2,760
// months, and only the years that the expression has. Among the zone's offset changes it visits
// those near matching times. Threads: any.

#ifndef COMMON_CRON_EVALUATOR_H_
#define COMMON_CRON_EVALUATOR_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "common/cron/cron_expression.h"
#include "common/cron/day_set.h"
#include "common/cron/zone.h"

namespace escapement::cron {

enum class GapPolicy { kAuto, kSkip, kFireAfter, kShift };
enum class FoldPolicy { kAuto, kFirst, kLast, kBoth };

struct DstPolicy {
  GapPolicy gap = GapPolicy::kAuto;
  FoldPolicy fold = FoldPolicy::kAuto;

  friend bool operator==(const DstPolicy&, const DstPolicy&) = default;
};

// The rule for a change of the offset by `change` (more than zero) of this expression; never kAuto.
GapPolicy GapRule(const CronExpression& expression, const DstPolicy& policy, absl::Duration change);
FoldPolicy FoldRule(const CronExpression& expression, const DstPolicy& policy,
                    absl::Duration change);

// Why an instant is not simply its civil time.
enum class Note {
  kNone,
  kGapFiredAfter,  // the civil time does not exist; this is the first instant after the gap
  kGapShifted,     // the civil time does not exist; read with the offset before the gap
  kFoldFirst,      // the civil time exists several times; this is the first of them
  kFoldLast,       // … a later one
};
absl::string_view NoteName(Note note);  // "", "GAP_FIRED_AFTER", …

// The identity of an occurrence is (civil, fold, zone). If several nominal times fall on one
// instant, the one that exists counts, otherwise the latest.
struct Occurrence {
  absl::Time instant;
  absl::CivilSecond civil;
  int fold = 0;  // the number of earlier instants with this civil time
  Note note = Note::kNone;

  friend bool operator==(const Occurrence&, const Occurrence&) = default;
};

// The civil times that the rules leave (FirstCivil) are mapped to instants.
std::optional<Occurrence> FirstAtOrAfter(const CronExpression& expression, const Zone& zone,
                                         const DstPolicy& policy, absl::Time from,
                                         const CivilRules& rules = {});
std::optional<Occurrence> FirstAfter(const CronExpression& expression, const Zone& zone,
                                     const DstPolicy& policy, absl::Time after,
                                     const CivilRules& rules = {});

// The occurrences in [begin, end) in order, at most `max`.
std::vector<Occurrence> Enumerate(const CronExpression& expression, const Zone& zone,
                                  const DstPolicy& policy, absl::Time begin, absl::Time end,
                                  size_t max, const CivilRules& rules = {});

// False for an expression that never fires, such as 30 February.
bool HasAnyOccurrence(const CronExpression& expression, const Zone& zone, const DstPolicy& policy,
                      const CivilRules& rules = {});

}  // namespace escapement::cron

#endif  // COMMON_CRON_EVALUATOR_H_
