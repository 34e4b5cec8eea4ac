#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/util/time_util.h"
#include "tests/simulation/actors/schedule_user.h"

namespace escapement::simulation {
namespace {

using google::protobuf::util::TimeUtil;

constexpr int64_t kRunsAtOnce = 15;

absl::Duration WholeMicros(absl::Duration duration) {
  return absl::Floor(duration, absl::Microseconds(1));
}

google::protobuf::Duration Message(absl::Duration duration) {
  return TimeUtil::MicrosecondsToDuration(absl::ToInt64Microseconds(duration));
}

void DrawInterval(sim::SimRandom& random, absl::Time now, Definition* definition) {
  definition->cron.clear();
  definition->every =
      WholeMicros(random.Between(absl::Seconds(1), absl::Seconds(random.Below(2) == 0 ? 2 : 7)));
  if (random.Below(2) == 0) definition->every = absl::Ceil(definition->every, absl::Seconds(1));
  definition->anchor = absl::FromUnixMicros(
      absl::ToUnixMicros(now + random.Between(-absl::Minutes(2), absl::Minutes(2))));
}

void DrawInstants(sim::SimRandom& random, absl::Time now, Definition* definition) {
  definition->cron.clear();
  std::set<int64_t> micros;
  const uint64_t many = 2 + random.Below(20);
  for (uint64_t i = 0; i < many; ++i) {
    absl::Time at = now + random.Between(-absl::Seconds(30), absl::Seconds(60));
    if (random.Below(2) == 0) at = absl::FromUnixSeconds(absl::ToUnixSeconds(at));
    micros.insert(absl::ToUnixMicros(at));
  }
  micros.insert(absl::ToUnixMicros(now + random.Between(absl::Seconds(30), absl::Minutes(3))));
  for (int64_t at : micros) definition->times.push_back(absl::FromUnixMicros(at));
}

// Excludes a part of every minute or, if `minutes`, perhaps one of the next minutes as a whole.
// Draw `minutes` only for definitions that last longer than that.
std::string DrawExclusion(sim::SimRandom& random, absl::Time now, bool minutes) {
  if (minutes && random.Below(3) == 0) {
    const absl::CivilSecond soon = absl::ToCivilSecond(
        now + random.Between(absl::ZeroDuration(), absl::Minutes(1)), absl::UTCTimeZone());
    return absl::StrCat(soon.minute(), " * * * *");
  }
  const uint64_t first = random.Below(45);
  return absl::StrCat(first, "-", first + random.Below(15), " * * * * *");
}

void DrawRestrictions(sim::SimRandom& random, absl::Time now, bool frequent,
                      Definition* definition) {
  const auto soon = [&](int64_t low, int64_t high) {
    return absl::FromUnixMicros(
        absl::ToUnixMicros(now + random.Between(absl::Seconds(low), absl::Seconds(high))));
  };
  if (frequent && random.Below(4) == 0) definition->start = soon(-5, 15);
  if (frequent && random.Below(4) == 0) definition->end = soon(90, 150);
  if (frequent && random.Below(8) == 0) definition->end = soon(40, 80);
  // A definition without any occurrence is refused. A cron expression has at least one in each
  // minute.
  definition->end = std::max(definition->end, definition->start + absl::Minutes(1));
  const bool ends = definition->end != absl::InfiniteFuture();
  if (frequent && random.Below(3) == 0 && (!ends || definition->every > absl::ZeroDuration())) {
    const bool minutes = !ends;
    definition->exclusions.push_back(DrawExclusion(random, now, minutes));
    // Not for cron expressions: two exclusions could remove all their occurrences.
    if (definition->every > absl::ZeroDuration() && minutes && random.Below(2) == 0)
      definition->exclusions.push_back(DrawExclusion(random, now, minutes));
  }
  if (random.Below(5) == 0)
    definition->max_runs = static_cast<int64_t>(1 + random.Below(random.Below(2) == 0 ? 12 : 45));
}

void DrawPolicies(sim::SimRandom& random, Definition* definition) {
  if (random.Below(5) < 2)
    definition->jitter = WholeMicros(random.Between(absl::ZeroDuration(), absl::Seconds(5)));
  if (random.Below(6) != 0) {
    definition->misfire = static_cast<Definition::Misfire>(random.Below(3));
    definition->threshold = WholeMicros(random.Between(absl::Seconds(1), absl::Seconds(4)));
    definition->max_catch_up = 1 + random.Below(5);
  }
  if (random.Below(5) < 3)
    definition->overlap = static_cast<Definition::Overlap>(1 + random.Below(3));
}

void SetCron(const Definition& definition, bool by_fields, v1::Schedule* schedule) {
  const std::vector<std::string> parts = absl::StrSplit(definition.cron, ' ');
  if (!by_fields || parts.size() != 6) return schedule->set_cron(definition.cron);
  v1::CronFields& fields = *schedule->mutable_cron_fields();
  fields.set_second(parts[0]);
  fields.set_minute(parts[1]);
  fields.set_hour(parts[2]);
  fields.set_day_of_month(parts[3]);
  fields.set_month(parts[4]);
  fields.set_day_of_week(parts[5]);
}

}  // namespace

google::protobuf::Timestamp ToTimestamp(absl::Time time) {
  return TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(time));
}

void DrawTimes(sim::SimRandom& random, absl::Time now, bool frequent, Definition* definition) {
  switch (random.Below(3)) {
    case 0:
      DrawInterval(random, now, definition);
      DrawRestrictions(random, now, true, definition);
      break;
    case 1:
      DrawInstants(random, now, definition);
      DrawRestrictions(random, now, false, definition);
      break;
    default:
      DrawRestrictions(random, now, frequent, definition);
      break;
  }
  DrawPolicies(random, definition);
}

bool MayFinish(const Definition& definition, absl::Time made, absl::Time now) {
  const absl::Time soon = now + absl::Seconds(60);
  if (!definition.times.empty() && definition.times.back() < soon) return true;
  if (definition.end < soon ||
      (definition.end < soon + absl::Minutes(5) && !definition.exclusions.empty()))
    return true;
  // Runs use up about one of max_runs a second at most.
  return definition.max_runs > 0 &&
         definition.max_runs < absl::ToInt64Seconds(now - made) + kRunsAtOnce;
}

void SetTimes(const Definition& definition, bool by_fields, v1::Schedule* schedule) {
  if (definition.every > absl::ZeroDuration()) {
    *schedule->mutable_interval()->mutable_every() = Message(definition.every);
    *schedule->mutable_interval()->mutable_anchor_time() = ToTimestamp(definition.anchor);
  } else if (!definition.times.empty()) {
    for (absl::Time time : definition.times) *schedule->add_times() = ToTimestamp(time);
  } else {
    SetCron(definition, by_fields, schedule);
  }
  for (const std::string& exclusion : definition.exclusions) schedule->add_exclusions(exclusion);
  if (definition.start != absl::InfinitePast())
    *schedule->mutable_start_time() = ToTimestamp(definition.start);
  if (definition.end != absl::InfiniteFuture())
    *schedule->mutable_end_time() = ToTimestamp(definition.end);
  schedule->set_max_runs(definition.max_runs);
  if (definition.jitter > absl::ZeroDuration())
    *schedule->mutable_jitter() = Message(definition.jitter);
  v1::MisfirePolicy& misfire = *schedule->mutable_misfire_policy();
  misfire.set_action(
      static_cast<v1::MisfirePolicy::Action>(1 + static_cast<int>(definition.misfire)));
  *misfire.mutable_threshold() = Message(definition.threshold);
  misfire.set_max_catch_up(static_cast<int32_t>(definition.max_catch_up));
  schedule->set_overlap_policy(
      static_cast<v1::Schedule::OverlapPolicy>(1 + static_cast<int>(definition.overlap)));
}

std::vector<std::string> TimesPaths(const v1::Schedule& schedule) {
  std::vector<std::string> paths = {"exclusions", "start_time",     "end_time",      "max_runs",
                                    "jitter",     "misfire_policy", "overlap_policy"};
  if (schedule.has_interval()) {
    paths.push_back("interval");
  } else if (schedule.times_size() > 0) {
    paths.push_back("times");
  } else {
    paths.push_back(schedule.has_cron_fields() ? "cron_fields" : "cron");
  }
  return paths;
}

std::string Describe(const Definition& definition) {
  const auto time = [](absl::Time t) {
    return absl::FormatTime("%H:%M:%E*S", t, absl::UTCTimeZone());
  };
  std::string text = absl::StrCat(definition.cron, " ", definition.zone, " n ", definition.count);
  if (definition.every > absl::ZeroDuration())
    absl::StrAppend(&text, " every ", absl::FormatDuration(definition.every), " from ",
                    time(definition.anchor));
  for (absl::Time at : definition.times) absl::StrAppend(&text, " at ", time(at));
  for (const std::string& exclusion : definition.exclusions)
    absl::StrAppend(&text, " but ", exclusion);
  if (definition.start != absl::InfinitePast())
    absl::StrAppend(&text, " start ", time(definition.start));
  if (definition.end != absl::InfiniteFuture())
    absl::StrAppend(&text, " end ", time(definition.end));
  if (definition.max_runs > 0) absl::StrAppend(&text, " max_runs ", definition.max_runs);
  if (definition.jitter > absl::ZeroDuration())
    absl::StrAppend(&text, " jitter ", absl::FormatDuration(definition.jitter));
  static constexpr const char* kMisfires[] = {"fire_all", "fire_latest", "skip"};
  static constexpr const char* kOverlaps[] = {"allow", "skip", "buffer_one", "cancel_previous"};
  if (definition.threshold != absl::Seconds(60))
    absl::StrAppend(&text, " misfire ", kMisfires[static_cast<int>(definition.misfire)], " after ",
                    absl::FormatDuration(definition.threshold), " ", definition.max_catch_up);
  absl::StrAppend(&text, " overlap ", kOverlaps[static_cast<int>(definition.overlap)]);
  return text;
}

}  // namespace escapement::simulation
