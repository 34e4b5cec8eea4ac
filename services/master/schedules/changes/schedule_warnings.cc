#include "services/master/schedules/changes/schedule_warnings.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/proto_time.h"
#include "common/cron/evaluator.h"
#include "services/master/base/limits.h"
#include "services/master/schedules/changes/resume_decision.h"

namespace escapement::master {

namespace {

using Warnings = std::vector<std::string>;

constexpr absl::Duration kYear = absl::Hours(24 * 366);

constexpr std::array<const char*, 12> kMonths = {"January",   "February", "March",    "April",
                                                 "May",       "June",     "July",     "August",
                                                 "September", "October",  "November", "December"};
constexpr std::array<int, 12> kDaysMax = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

// "a", "a and b", "a, b and c".
std::string ListOf(const std::vector<std::string>& words) {
  if (words.size() < 2) return absl::StrJoin(words, "");
  return absl::StrCat(absl::StrJoin(words.begin(), words.end() - 1, ", "), " and ", words.back());
}

// The shortest distance of the next occurrences; nullopt if there are not two.
std::optional<absl::Duration> ShortestPeriod(const cron::Timetable& timetable, absl::Time now) {
  const std::vector<cron::Occurrence> next =
      UpcomingOf(timetable, now, kPeriodOccurrencesMax, kPeriodCandidatesMax).occurrences;
  std::optional<absl::Duration> shortest;
  for (size_t i = 1; i < next.size(); ++i) {
    const absl::Duration distance = next[i].instant - next[i - 1].instant;
    if (!shortest.has_value() || distance < *shortest) shortest = distance;
  }
  return shortest;
}

// No two occurrences are closer together: a cheap bound, which spares most schedules the search. (A
// gap may bring 01:59 and 02:59 as close as a minute, whatever the expression is.)
absl::Duration PeriodMin(const cron::TimetableSpec& spec) {
  if (!spec.cron.has_value()) return spec.every;
  return spec.cron->seconds == 1 ? absl::Minutes(1) : absl::Seconds(1);
}

// The retries that must fit between two occurrences. The default is nobody's choice, so it is
// enough if its first attempts fit: else each schedule that fires hourly would have a warning.
absl::Duration RetrySpanWanted(storage::v1::DeliveryRecord delivery) {
  constexpr uint32_t kFirstAttempts = 4;
  storage::v1::RetryRecord& retry = *delivery.mutable_retry();
  if (retry.max_attempts() == kMaxAttemptsDefault && retry.multiplier() == kMultiplierDefault &&
      retry.min_backoff_micros() == absl::ToInt64Microseconds(kMinBackoffDefault) &&
      retry.max_backoff_micros() == absl::ToInt64Microseconds(kMaxBackoffDefault) &&
      retry.max_age_micros() == absl::ToInt64Microseconds(kMaxAgeDefault)) {
    retry.set_max_attempts(kFirstAttempts);
  }
  return RetrySpanMax(delivery);
}

void AddPeriodWarnings(const Definition& definition, absl::Time now, Warnings& warnings) {
  const storage::v1::RetryRecord& retry = definition.record.delivery().retry();
  const bool retries = retry.max_attempts() > 1 && !retry.keep();
  const absl::Duration jitter = absl::Microseconds(definition.record.timing().jitter_micros());
  const absl::Duration wanted = RetrySpanWanted(definition.record.delivery());
  const absl::Duration bound = PeriodMin(definition.timetable.spec());
  if ((!retries || wanted <= bound) && (jitter == absl::ZeroDuration() || jitter < bound)) return;
  const std::optional<absl::Duration> period = ShortestPeriod(definition.timetable, now);
  if (!period.has_value()) return;
  if (retries && wanted > *period) {
    warnings.push_back(absl::StrCat(
        "retries can last ", absl::FormatDuration(RetrySpanMax(definition.record.delivery())),
        ", longer than the shortest period of ", absl::FormatDuration(*period),
        ": an event is not retried after the next occurrence is due, unless "
        "retry_policy.keep is set"));
  }
  if (jitter >= *period) {
    warnings.push_back(absl::StrCat(
        "jitter of up to ", absl::FormatDuration(jitter), " is not below the shortest period of ",
        absl::FormatDuration(*period), ": runs may launch in another order"));
  }
}

// The days that the text names by number (`31`, `31W`); a range or a step that reaches them is no
// wish for them.
std::vector<int> NamedDays(const std::string& cron) {
  std::vector<std::string> fields = absl::StrSplit(cron, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (fields.size() < 5) return {};
  std::vector<int> days;
  for (absl::string_view item : absl::StrSplit(fields[fields.size() == 5 ? 2 : 3], ',')) {
    int day = 0;
    if (!absl::ConsumeSuffix(&item, "W")) absl::ConsumeSuffix(&item, "w");
    if (absl::SimpleAtoi(item, &day)) days.push_back(day);
  }
  return days;
}

void AddMissingDays(const Definition& definition, Warnings& warnings) {
  if (!definition.timetable.calendar()) return;
  const uint32_t months = definition.timetable.spec().cron->months;
  for (const int day : NamedDays(definition.record.cron())) {
    std::vector<std::string> missing;
    for (size_t month = 0; month < kMonths.size(); ++month) {
      if ((months >> (month + 1) & 1) != 0 && day > kDaysMax[month])
        missing.push_back(kMonths[month]);
    }
    if (!missing.empty()) {
      warnings.push_back(
          absl::StrCat("never on the ", day, day == 31 ? "st" : "th", " in ", ListOf(missing)));
    }
    if (day == 29 && (months >> 2 & 1) != 0)
      warnings.push_back("on 29 February only in leap years");
  }
}

// "02:30", with the second where it is not 0.
std::string TimeOfDay(absl::Time time, absl::TimeZone zone) {
  return absl::FormatTime(absl::ToCivilSecond(time, zone).second() == 0 ? "%H:%M" : "%H:%M:%S",
                          time, zone);
}

// Civil times are handled as if they were UTC here: a matching one is an occurrence in UTC.
std::vector<absl::Time> MatchesOf(const cron::TimetableSpec& spec, absl::Time begin,
                                  absl::Time end) {
  cron::TimetableSpec civil;
  civil.cron = spec.cron;
  civil.exclusions = spec.exclusions;
  civil.days_off = spec.days_off;
  civil.on_excluded = spec.on_excluded;
  civil.end = end;
  std::vector<absl::Time> times;
  for (const cron::Occurrence& o :
       cron::Timetable(std::move(civil)).Enumerate(begin, end, kOffsetWarningsMax))
    times.push_back(o.instant);
  return times;
}

// One sentence per change of the offset and fixed time of day that it meets.
void AddOffsetChanges(const cron::Timetable& timetable, absl::Time now, Warnings& warnings) {
  const cron::TimetableSpec& spec = timetable.spec();
  if (!timetable.calendar() || spec.cron->periodic) return;
  const absl::TimeZone utc = absl::UTCTimeZone();
  const absl::TimeZone zone = spec.zone.time_zone();
  const absl::Time begin = std::max(now, spec.start);
  const absl::Time end = std::min(begin + kYear, spec.end);
  Warnings found;
  auto change = spec.zone.NextChange(begin);
  for (; change.has_value() && change->instant < end;
       change = spec.zone.NextChange(change->instant)) {
    const bool gap = change->after > change->before;
    const absl::Duration size =
        gap ? change->after - change->before : change->before - change->after;
    if (!gap && cron::FoldRule(*spec.cron, spec.policy, size) != cron::FoldPolicy::kBoth) continue;
    const absl::Time local = change->instant + std::min(change->before, change->after);
    for (const absl::Time nominal : MatchesOf(spec, local, local + size)) {
      std::string effect = ": fires twice";
      if (gap) {
        const cron::GapPolicy rule = cron::GapRule(*spec.cron, spec.policy, size);
        const absl::Time fires =
            rule == cron::GapPolicy::kShift ? nominal - change->before : change->instant;
        effect = rule == cron::GapPolicy::kSkip
                     ? ": skipped"
                     : absl::StrCat(": fires at ", TimeOfDay(fires, zone));
      }
      found.push_back(absl::StrCat(
          TimeOfDay(nominal, utc), " on ", absl::FormatTime("%Y-%m-%d", nominal, utc),
          gap ? " does not exist in " : " exists twice in ", spec.zone.name(), effect));
      if (found.size() == kOffsetWarningsMax) break;
    }
    if (found.size() == kOffsetWarningsMax) break;
  }
  warnings.insert(warnings.end(), found.begin(), found.end());
}

// Asks which occurrences an exclusion meets, by leaping from the next occurrence to the next civil
// time that the exclusion matches, and back.
class ExclusionProbe {
 public:
  ExclusionProbe(const cron::Timetable& timetable, absl::Time now) : zone_(timetable.spec().zone) {
    cron::TimetableSpec plain = timetable.spec();
    plain.exclusions.clear();
    begin_ = std::max(now, plain.start);
    end_ = begin_ + kYear;
    plain.end = std::min(plain.end, end_);
    plain_ = cron::Timetable(std::move(plain));
  }

  // True if it certainly matches none of the next year.
  bool MatchesNone(const cron::CronExpression& exclusion) {
    absl::Time from = begin_;
    for (int i = 0; i < kExclusionProbesMax && probes_ < kExclusionProbesAllMax; ++i, ++probes_) {
      const std::optional<cron::Occurrence> occurrence = plain_.FirstAtOrAfter(from);
      if (!occurrence.has_value()) return true;
      const std::optional<absl::CivilSecond> excluded = FirstExcluded(exclusion, occurrence->civil);
      if (!excluded.has_value()) return true;
      if (*excluded == occurrence->civil) return false;
      from = std::max(absl::FromCivil(*excluded, zone_.time_zone()),
                      occurrence->instant + absl::Microseconds(1));
      // Civil times do not run evenly across a change of the offset.
      if (const auto change = zone_.NextChange(occurrence->instant))
        from = std::min(from, change->instant);
    }
    return false;
  }

 private:
  static std::optional<absl::CivilSecond> FirstExcluded(const cron::CronExpression& exclusion,
                                                        absl::CivilSecond from) {
    const auto found = cron::FirstAtOrAfter(exclusion, cron::Zone::Utc(), cron::DstPolicy(),
                                            absl::FromCivil(from, absl::UTCTimeZone()));
    if (!found.has_value()) return std::nullopt;
    return found->civil;
  }

  const cron::Zone zone_;
  cron::Timetable plain_ = cron::Timetable(cron::TimetableSpec());
  absl::Time begin_, end_;
  int probes_ = 0;
};

void AddIdleExclusions(const Definition& definition, absl::Time now, Warnings& warnings) {
  const auto& texts = definition.record.timing().exclusions();
  const auto& exclusions = definition.timetable.spec().exclusions;
  ExclusionProbe probe(definition.timetable, now);
  for (size_t i = 0; i < exclusions.size() && i < static_cast<size_t>(texts.size()); ++i) {
    if (probe.MatchesNone(exclusions[i])) {
      warnings.push_back(absl::StrCat("the exclusion \"", texts[static_cast<int>(i)],
                                      "\" matches no occurrence of the next year"));
    }
  }
}

void AddIdlePolicies(const Definition& definition, absl::Time now, Warnings& warnings) {
  const storage::v1::TimingRecord& timing = definition.record.timing();
  const cron::TimetableSpec& spec = definition.timetable.spec();
  if (spec.policy != cron::DstPolicy() && !spec.zone.NextChange(now).has_value()) {
    warnings.push_back(absl::StrCat("dst_policy has no effect: the offset of ", spec.zone.name(),
                                    " does not change"));
  }
  const storage::v1::RetryRecord& retry = definition.record.delivery().retry();
  if (retry.keep() && retry.max_attempts() <= 1)
    warnings.push_back("retry_policy.keep has no effect: there is only one attempt");
  if (timing.times_micros().empty()) return;
  const auto times = static_cast<uint64_t>(timing.times_micros_size());
  if (timing.max_runs() >= times)
    warnings.push_back(absl::StrCat("max_runs has no effect: there are ", times, " times"));
  if (times == 1 && definition.record.run_overlap() != storage::v1::RUN_OVERLAP_KIND_ALLOW)
    warnings.push_back("overlap_policy has no effect: there is only one time");
}

}  // namespace

absl::Duration RetrySpanMax(const storage::v1::DeliveryRecord& delivery) {
  const storage::v1::RetryRecord& retry = delivery.retry();
  const absl::Duration age_max = absl::Microseconds(retry.max_age_micros());
  const absl::Duration backoff_max = absl::Microseconds(retry.max_backoff_micros());
  absl::Duration backoff = absl::Microseconds(retry.min_backoff_micros());
  absl::Duration span = absl::Microseconds(delivery.delivery_timeout_micros());
  for (uint32_t attempt = 1; attempt < retry.max_attempts() && span < age_max; ++attempt) {
    backoff = std::min(backoff, backoff_max);
    span += backoff + absl::Microseconds(delivery.delivery_timeout_micros());
    backoff *= retry.multiplier();
  }
  return std::min(span, age_max);
}

std::vector<std::string> WarningsOf(const Definition& definition, absl::Time now) {
  Warnings warnings;
  AddPeriodWarnings(definition, now, warnings);
  AddMissingDays(definition, warnings);
  AddOffsetChanges(definition.timetable, now, warnings);
  AddIdleExclusions(definition, now, warnings);
  AddIdlePolicies(definition, now, warnings);
  if (!CheckFiresAfter(definition, now).ok()) warnings.push_back("every occurrence has passed");
  return warnings;
}

std::string TokensMustComeBack(const storage::v1::PolicyRecord& policy) {
  const absl::Duration hold = absl::Microseconds(policy.hold_timeout_micros());
  return absl::StrCat(
      "the consumer must give tokens back: each event holds a token of the policy until "
      "CompleteTokens or ReleaseTokens is called with it; ",
      policy.hold_on_expiry() ? "when all tokens are held, no further event goes out"
                              : absl::StrCat("after the hold time of ", absl::FormatDuration(hold),
                                             " without this, its attempt has failed"),
      ". If the consumer does not do so, set completion to ON_DELIVERY");
}

namespace {

// A limited timetable has no more than that.
uint64_t CountIn(const cron::Timetable& timetable, absl::Time begin, absl::Time end) {
  return begin >= end ? 0 : timetable.Enumerate(begin, end, kMaxRunsMax).size();
}

}  // namespace

cron::Timetable EndingAt(const cron::Timetable& timetable, absl::Time finish) {
  cron::TimetableSpec spec = timetable.spec();
  spec.end = std::min(spec.end, finish);
  return cron::Timetable(std::move(spec));
}

uint64_t RunsUsedAt(const storage::v1::StateRecord& state, const Definition& definition,
                    absl::Time now) {
  if (definition.record.timing().max_runs() == 0) return 0;
  if (state.kind() == storage::v1::SCHEDULE_STATE_KIND_PAUSED) return state.runs_used();
  const absl::Time counted_to = FromMicros(state.covered_to_micros());
  if (counted_to <= now) return state.runs_used() + CountIn(definition.timetable, counted_to, now);
  return state.runs_used() -
         std::min(state.runs_used(), CountIn(definition.timetable, now, counted_to));
}

void LimitRuns(uint64_t used, absl::Time from, absl::Time counted_to, Definition& definition,
               storage::v1::StateRecord& state) {
  state.clear_finish_micros();
  state.clear_runs_used();
  const uint64_t max_runs = definition.record.timing().max_runs();
  if (max_runs == 0) return;
  const size_t left = max_runs - std::min(used, max_runs);
  const std::vector<cron::Occurrence> last =
      definition.timetable.Enumerate(from, absl::InfiniteFuture(), left);
  if (last.size() == left) {
    const absl::Time finish = last.empty() ? from : last.back().instant + absl::Microseconds(1);
    state.set_finish_micros(ToMicros(finish));
    definition.timetable = EndingAt(definition.timetable, finish);
  }
  state.set_runs_used(used + CountIn(definition.timetable, from, counted_to));
}

}  // namespace escapement::master
