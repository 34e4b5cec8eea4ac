#include "common/cron/evaluator.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "common/cron/civil_match.h"

namespace escapement::cron {
namespace {

// AUTO: a longer change does not count as daylight saving.
constexpr absl::Duration kLongChange = absl::Hours(3);
// More than any offset from UTC and any change of an offset.
constexpr int64_t kOffsetsMax = 2 * 86400;
constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

struct Candidate {
  int64_t instant = kForever;
  int64_t local = 0;
  int fold = 0;
  Note note = Note::kNone;
  bool found() const { return instant != kForever; }
};

class Search {
 public:
  Search(const CronExpression& expression, const CivilRules& rules, const Zone& zone,
         const DstPolicy& policy)
      : e_(expression), rules_(rules), zone_(zone), policy_(policy) {}

  // The first occurrence in [from, end), in Unix seconds.
  Candidate First(int64_t from, int64_t end) const {
    from = std::max(from, kLocalBegin - kOffsetsMax);  // keeps sums with offsets in range
    end = std::min(end, kLocalEnd + kOffsetsMax);
    while (from < end) {
      const size_t span = zone_.SpanAt(from);
      const int64_t span_end = zone_.SpanEnd(span);
      Candidate best = Direct(span, from, std::min(span_end, end));
      // The order matters. Among equal instants the existing time wins, then the later nominal
      // time.
      ConsiderGaps(span, from, std::min(span_end, end), best);
      if (best.found()) return best;
      if (span_end >= end) break;
      // Go to the span of the next matching time, which may be far away in the zone.
      const std::optional<int64_t> next =
          FirstCivil(e_, rules_, span_end - kOffsetsMax, end + kOffsetsMax);
      if (!next) break;
      from = std::max(span_end, *next - kOffsetsMax);
    }
    return {};
  }

 private:
  // The first occurrence in [from, end) whose civil time exists within this span of constant
  // offset.
  Candidate Direct(size_t span, int64_t from, int64_t end) const {
    const int64_t offset = zone_.spans()[span].offset;
    const auto [unique_begin, unique_end] = zone_.UniqueRange(span);
    int64_t local = from + offset;
    while (true) {
      const std::optional<int64_t> match =
          FirstCivil(e_, rules_, local, end == kForever ? end : end + offset);
      if (!match) return {};
      if (*match >= unique_begin && *match < unique_end)
        return {.instant = *match - offset, .local = *match};
      const CivilInfo info = zone_.Classify(*match);
      if (info.kind == CivilKind::kUnique) return {.instant = *match - offset, .local = *match};
      const auto& instants = info.instants;
      const size_t fold =
          std::find(instants.begin(), instants.end(), *match - offset) - instants.begin();
      const FoldPolicy rule =
          FoldRule(e_, policy_, absl::Seconds(instants.back() - instants.front()));
      if (rule == FoldPolicy::kBoth || (rule == FoldPolicy::kFirst && fold == 0) ||
          (rule == FoldPolicy::kLast && fold + 1 == instants.size())) {
        return {.instant = *match - offset,
                .local = *match,
                .fold = static_cast<int>(fold),
                .note = fold == 0 ? Note::kFoldFirst : Note::kFoldLast};
      }
      local = info.end;
    }
  }

  // Considers the occurrences that the gap at the beginning of this span, and earlier gaps close to
  // it, move into [from, end).
  void ConsiderGaps(size_t span, int64_t from, int64_t end, Candidate& best) const {
    for (size_t i = span; i > 0; --i) {
      const int64_t begin = zone_.spans()[i].begin;
      if (begin < from - kOffsetsMax) return;
      const int64_t before = zone_.spans()[i - 1].offset, after = zone_.spans()[i].offset;
      if (after <= before) continue;
      const GapPolicy rule = GapRule(e_, policy_, absl::Seconds(after - before));
      if (rule == GapPolicy::kFireAfter && begin >= from && begin < end) {
        if (const std::optional<int64_t> local = LastSkipped(i, begin + before, begin + after)) {
          Offer({.instant = begin, .local = *local, .note = Note::kGapFiredAfter}, best);
        }
      }
      if (rule == GapPolicy::kShift) {
        const int64_t local_end = std::min(begin + after, end == kForever ? end : end + before);
        if (const std::optional<int64_t> local =
                FirstSkipped(i, std::max(begin, from) + before, local_end)) {
          Offer({.instant = *local - before, .local = *local, .note = Note::kGapShifted}, best);
        }
      }
    }
  }

  static void Offer(const Candidate& gap, Candidate& best) {
    const bool later_nominal = gap.instant == best.instant && best.note >= Note::kGapFiredAfter &&
                               best.note <= Note::kGapShifted && gap.local > best.local;
    if (gap.instant < best.instant || later_nominal) best = gap;
  }

  // The first (or: last) matching time in [begin, end) that falls into the gap before span i.
  std::optional<int64_t> FirstSkipped(size_t i, int64_t begin, int64_t end) const {
    while (true) {
      const std::optional<int64_t> match = FirstCivil(e_, rules_, begin, end);
      if (!match) return std::nullopt;
      const CivilInfo info = zone_.Classify(*match);
      if (info.kind == CivilKind::kSkipped && info.gap == i) return match;
      begin = info.end;
    }
  }

  std::optional<int64_t> LastSkipped(size_t i, int64_t begin, int64_t end) const {
    while (true) {
      const std::optional<int64_t> match = LastCivil(e_, rules_, begin, end);
      if (!match) return std::nullopt;
      const CivilInfo info = zone_.Classify(*match);
      if (info.kind == CivilKind::kSkipped && info.gap == i) return match;
      end = info.begin;
    }
  }

  const CronExpression& e_;
  const CivilRules& rules_;
  const Zone& zone_;
  const DstPolicy& policy_;
};

// Occurrences are whole seconds, so a bound between two seconds is rounded up.
int64_t CeilSeconds(absl::Time t) {
  if (t == absl::InfiniteFuture()) return kForever;
  if (t == absl::InfinitePast()) return std::numeric_limits<int64_t>::min();
  const int64_t floor = absl::ToUnixSeconds(t);
  return absl::FromUnixSeconds(floor) == t ? floor : floor + 1;
}

Occurrence ToOccurrence(const Candidate& candidate) {
  return {.instant = absl::FromUnixSeconds(candidate.instant),
          .civil = FromLocalSeconds(candidate.local),
          .fold = candidate.fold,
          .note = candidate.note};
}

}  // namespace

GapPolicy GapRule(const CronExpression& expression, const DstPolicy& policy,
                  absl::Duration change) {
  if (policy.gap != GapPolicy::kAuto) return policy.gap;
  return expression.periodic || change > kLongChange ? GapPolicy::kSkip : GapPolicy::kFireAfter;
}

FoldPolicy FoldRule(const CronExpression& expression, const DstPolicy& policy,
                    absl::Duration change) {
  if (policy.fold != FoldPolicy::kAuto) return policy.fold;
  return expression.periodic || change > kLongChange ? FoldPolicy::kBoth : FoldPolicy::kFirst;
}

absl::string_view NoteName(Note note) {
  switch (note) {
    case Note::kNone:
      return "";
    case Note::kGapFiredAfter:
      return "GAP_FIRED_AFTER";
    case Note::kGapShifted:
      return "GAP_SHIFTED";
    case Note::kFoldFirst:
      return "OVERLAP_FIRST";
    case Note::kFoldLast:
      return "OVERLAP_LAST";
  }
  return "";
}

std::optional<Occurrence> FirstAtOrAfter(const CronExpression& expression, const Zone& zone,
                                         const DstPolicy& policy, absl::Time from,
                                         const CivilRules& rules) {
  const Candidate found =
      Search(expression, rules, zone, policy).First(CeilSeconds(from), kForever);
  if (!found.found()) return std::nullopt;
  return ToOccurrence(found);
}

std::optional<Occurrence> FirstAfter(const CronExpression& expression, const Zone& zone,
                                     const DstPolicy& policy, absl::Time after,
                                     const CivilRules& rules) {
  return FirstAtOrAfter(expression, zone, policy, after + absl::Nanoseconds(1), rules);
}

std::vector<Occurrence> Enumerate(const CronExpression& expression, const Zone& zone,
                                  const DstPolicy& policy, absl::Time begin, absl::Time end,
                                  size_t max, const CivilRules& rules) {
  std::vector<Occurrence> occurrences;
  const Search search(expression, rules, zone, policy);
  int64_t from = CeilSeconds(begin);
  const int64_t until = CeilSeconds(end);
  while (occurrences.size() < max) {
    const Candidate found = search.First(from, until);
    if (!found.found()) break;
    occurrences.push_back(ToOccurrence(found));
    from = found.instant + 1;
  }
  return occurrences;
}

bool HasAnyOccurrence(const CronExpression& expression, const Zone& zone, const DstPolicy& policy,
                      const CivilRules& rules) {
  return FirstAtOrAfter(expression, zone, policy, absl::InfinitePast(), rules).has_value();
}

}  // namespace escapement::cron
