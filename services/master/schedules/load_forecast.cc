#include "services/master/schedules/load_forecast.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/cron/civil_match.h"
#include "common/cron/zone.h"
#include "common/records/row_judge.h"
#include "common/status/errors.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/requests/resource_name.h"
#include "services/master/schedules/changes/schedule_warnings.h"
#include "services/master/schedules/schedule_reader.h"
#include "services/master/schedules/schedule_search.h"

namespace escapement::master {

namespace {

constexpr int64_t kMinuteMicros = 60'000'000;
constexpr int64_t kMinutesOfDay = 1440;
// A gap or fold of a zone may move occurrences by less than this, in seconds.
constexpr int64_t kOffsetChangeMax = 2 * 86400;
// Occurrences that one step looks at; of even windows, each of which may touch all minutes.
constexpr size_t kOccurrencesAtOnce = 500;
constexpr size_t kWindowsAtOnce = 8;
// An interval with exclusions may have few occurrences and take a step for each excluded one.
constexpr absl::Duration kExcludedAtOnce = absl::Hours(1);
// Units of work: the id of an occurrence with its hash; the message that a filter is asked about.
constexpr uint64_t kJitterWork = 8;
constexpr uint64_t kFilterWork = 100;
constexpr uint64_t kScheduleWork = 10;

int64_t MinuteOf(absl::Time time) { return ToMicros(time) / kMinuteMicros; }
absl::Time MinuteAt(int64_t minute) { return FromMicros(minute * kMinuteMicros); }

// Events [0, count) of an even window of `duration_micros` whose place is less than `micros` after
// its begin: those with ceil(duration × i / count) < micros (token_manager's Pacing).
int64_t EvenBefore(int64_t count, int64_t duration_micros, int64_t micros) {
  if (micros <= 0) return 0;
  const absl::int128 places = absl::int128(micros - 1) * count / duration_micros + 1;
  return static_cast<int64_t>(std::min<absl::int128>(places, count));
}

int64_t SumUpToMax(int64_t a, int64_t b) {
  return a > std::numeric_limits<int64_t>::max() - b ? std::numeric_limits<int64_t>::max() : a + b;
}

}  // namespace

LoadForecast::LoadForecast(absl::Time start, int minutes, bool grouped)
    : start_minute_(MinuteOf(start)),
      minutes_(minutes),
      grouped_(grouped),
      counts_(static_cast<size_t>(minutes)),
      minute_events_(counts_.size()),
      minute_schedules_(counts_.size()),
      sources_(counts_.size()),
      sources_beyond_(counts_.size()) {
  touched_.reserve(counts_.size());
}

void LoadForecast::Begin(ForecastSource schedule) {
  schedule_ = std::move(schedule);
  const OccurrenceSource& source = schedule_->source;
  const cron::TimetableSpec& spec = schedule_->timetable.spec();
  events_each_ = static_cast<int64_t>(source.event_count);
  even_ = source.throttle.has_value() && source.throttle->window().even() &&
          source.throttle->window().duration_micros() > 0;
  const absl::Time start = MinuteAt(start_minute_);
  // Jitter and windows move events to later minutes than their occurrence's.
  at_ = start - std::max(source.jitter, absl::ZeroDuration());
  if (even_) at_ -= absl::Microseconds(source.throttle->window().duration_micros());
  at_ = std::max({at_, schedule_->from, spec.start});
  end_ = std::min(start + absl::Minutes(minutes_), spec.end);
}

bool LoadForecast::Step() {
  if (at_ < end_) {
    const Stretch stretch = NextStretch();
    if (!stretch.by_minute) {
      at_ = CountEach(stretch.end);
    } else {
      const size_t before = touched_.size();
      schedule_->timetable.calendar() ? CountCivil(stretch) : CountInterval(stretch.end);
      work_ += 1 + (touched_.size() - before) / 16;
      at_ = stretch.end;
    }
    if (at_ < end_) return false;
  }
  Finish();
  return true;
}

LoadForecast::Stretch LoadForecast::NextStretch() const {
  const cron::TimetableSpec& spec = schedule_->timetable.spec();
  const bool moved = schedule_->source.jitter > absl::ZeroDuration() || even_;
  if (spec.cron.has_value())
    return moved || spec.moves_days() ? Stretch{.end = end_} : CivilStretch();
  if (spec.every <= absl::ZeroDuration()) return {.end = end_};
  if (spec.excludes()) return {.end = std::min(end_, at_ + kExcludedAtOnce)};
  return {.end = end_, .by_minute = !moved};
}

// By minute: whole minutes whose civil time has one instant, and to which no gap moves occurrences.
LoadForecast::Stretch LoadForecast::CivilStretch() const {
  const int64_t at_micros = ToMicros(at_);
  const absl::Time next_minute = MinuteAt(MinuteOf(at_) + 1);
  if (at_micros % kMinuteMicros != 0) return {.end = std::min(next_minute, end_)};
  const cron::Zone& zone = schedule_->timetable.spec().zone;
  const int64_t at = at_micros / 1'000'000;
  const size_t span = zone.SpanAt(at);
  const int64_t offset = zone.spans()[span].offset;
  const auto [local_begin, local_end] = zone.UniqueRange(span);
  const absl::Time span_end = FromMicros(zone.SpanEnd(span) == std::numeric_limits<int64_t>::max()
                                             ? std::numeric_limits<int64_t>::max()
                                             : zone.SpanEnd(span) * 1'000'000);
  int64_t begin = std::numeric_limits<int64_t>::min();
  for (size_t i = span; i > 0 && zone.spans()[i].begin > at - kOffsetChangeMax; --i) {
    const int64_t change = zone.spans()[i].offset - zone.spans()[i - 1].offset;
    begin = std::max(begin, zone.spans()[i].begin + std::max<int64_t>(change, 0));
  }
  const int64_t local = at + offset;
  const int64_t last = std::min(local_end, cron::kLocalEnd);  // exclusive
  const absl::Time civil_end =
      MinuteAt((last - offset) / 60);  // local seconds in [local, last) are plain
  const bool plain = at >= begin && local >= std::max(local_begin, cron::kLocalBegin) &&
                     offset % 60 == 0 && civil_end > at_;
  if (!plain) return {.end = std::min({next_minute, span_end, end_})};
  const absl::Time end =
      std::min({civil_end, MinuteAt(MinuteOf(span_end)), MinuteAt(MinuteOf(end_))});
  if (end <= at_) return {.end = std::min(next_minute, end_)};
  return {.end = end, .by_minute = true, .offset = offset};
}

void LoadForecast::CountCivil(const Stretch& stretch) {
  const cron::TimetableSpec& spec = schedule_->timetable.spec();
  const cron::CronExpression& cron = *spec.cron;
  const int64_t shift = stretch.offset / 60;  // local minute = minute + shift
  const int64_t begin = MinuteOf(at_) + shift, end = MinuteOf(stretch.end) + shift;
  for (int64_t day = begin / kMinutesOfDay; day * kMinutesOfDay < end; ++day) {
    const cron::CivilMonth month = cron::CivilMonth::Of(day);
    const auto matches = [&](const cron::CronExpression& expression) {
      return ((month.Matching(expression) >> (day - month.first_day() + 1)) & 1) != 0;
    };
    if (!matches(cron) || (spec.days_off != nullptr && spec.days_off->Has(day))) continue;
    absl::InlinedVector<const cron::CronExpression*, 4> exclusions;
    for (const cron::CronExpression& exclusion : spec.exclusions)
      if (matches(exclusion)) exclusions.push_back(&exclusion);
    for (uint32_t hours = cron.hours; hours != 0; hours &= hours - 1) {
      const int hour = std::countr_zero(hours);
      for (uint64_t minutes = cron.minutes; minutes != 0; minutes &= minutes - 1) {
        const int minute = std::countr_zero(minutes);
        const int64_t local = day * kMinutesOfDay + hour * 60 + minute;
        if (local < begin || local >= end) continue;
        uint64_t seconds = cron.seconds;
        for (const cron::CronExpression* exclusion : exclusions) {
          if (((exclusion->hours >> hour) & (exclusion->minutes >> minute) & 1) != 0)
            seconds &= ~exclusion->seconds;
        }
        Count(local - shift, std::popcount(seconds) * events_each_);
      }
    }
  }
}

// An interval that excludes nothing.
void LoadForecast::CountInterval(absl::Time end) {
  const cron::TimetableSpec& spec = schedule_->timetable.spec();
  const int64_t every = absl::ToInt64Microseconds(spec.every);
  const int64_t past = ((ToMicros(at_) - ToMicros(spec.anchor)) % every + every) % every;
  const int64_t end_micros = ToMicros(end);
  for (int64_t t = ToMicros(at_) + (past == 0 ? 0 : every - past); t < end_micros;) {
    const int64_t minute = t / kMinuteMicros;
    const int64_t to = std::min((minute + 1) * kMinuteMicros, end_micros);
    const int64_t occurrences = (to - t + every - 1) / every;
    Count(minute, occurrences * events_each_);
    t += occurrences * every;
  }
}

absl::Time LoadForecast::CountEach(absl::Time end) {
  const OccurrenceSource& source = schedule_->source;
  const cron::Timetable& timetable = schedule_->timetable;
  const size_t max = even_ ? kWindowsAtOnce : kOccurrencesAtOnce;
  std::vector<cron::Occurrence> found;
  if (!timetable.calendar() && timetable.spec().every > absl::ZeroDuration() &&
      timetable.spec().excludes()) {
    work_ += static_cast<uint64_t>((end - at_) / timetable.spec().every);
    found = EndingAt(timetable, end).Enumerate(at_, end, max);
  } else {
    found = timetable.Enumerate(at_, end, max);
  }
  const bool jittered = source.jitter > absl::ZeroDuration();
  for (const cron::Occurrence& o : found) {
    const absl::Time launch =
        jittered ? LaunchTimeOf(source, timetable.IdOf(o), o.instant) : o.instant;
    even_ ? CountEven(launch) : Count(MinuteOf(launch), events_each_);
  }
  work_ += 1 + found.size() * (jittered ? kJitterWork : 1);
  return found.size() < max ? end : found.back().instant + absl::Microseconds(1);
}

// The events of one occurrence, spread over the window that begins at `begin`.
void LoadForecast::CountEven(absl::Time begin) {
  const int64_t duration = schedule_->source.throttle->window().duration_micros();
  const int64_t begin_micros = ToMicros(begin);
  const int64_t first = std::max(MinuteOf(begin), start_minute_);
  const int64_t end =
      std::min((begin_micros + duration) / kMinuteMicros + 1, start_minute_ + minutes_);
  int64_t before = EvenBefore(events_each_, duration, first * kMinuteMicros - begin_micros);
  // Few events have fewer minutes than the window: each is then found from the one before.
  uint64_t minutes = 0;
  for (int64_t minute = first; minute < end && before < events_each_;) {
    const int64_t to =
        EvenBefore(events_each_, duration, (minute + 1) * kMinuteMicros - begin_micros);
    Count(minute, to - before);
    before = to;
    ++minutes;
    const absl::int128 next = (absl::int128(duration) * to + events_each_ - 1) / events_each_;
    minute = std::max(minute + 1, (begin_micros + static_cast<int64_t>(next)) / kMinuteMicros);
  }
  work_ += minutes / 4;
}

void LoadForecast::Count(int64_t minute, int64_t events) {
  const int64_t i = minute - start_minute_;
  if (i < 0 || i >= minutes_ || events == 0) return;
  int64_t& count = counts_[static_cast<size_t>(i)];
  if (count == 0) touched_.push_back(static_cast<uint32_t>(i));
  count += events;
}

void LoadForecast::Finish() {
  work_ += 1 + touched_.size() / 32;
  if (!touched_.empty()) {
    int64_t events = 0;
    std::shared_ptr<const std::string> schedule_id;
    for (const uint32_t i : touched_) {
      events += counts_[i];
      minute_events_[i] += counts_[i];
      ++minute_schedules_[i];
      if (counts_[i] <= sources_beyond_[i]) continue;
      if (schedule_id == nullptr)
        schedule_id = std::make_shared<const std::string>(schedule_->schedule_id);
      AddSource({counts_[i], schedule_id}, i);
    }
    events_ = SumUpToMax(events_, events);
    ++schedules_;
    jittered_ += schedule_->source.jitter > absl::ZeroDuration();
    if (grouped_) AddToGroup(events);
    for (const uint32_t i : touched_) counts_[i] = 0;
    touched_.clear();
  }
  schedule_.reset();
}

void LoadForecast::AddSource(Source source, size_t minute) {
  std::vector<Source>& sources = sources_[minute];
  const auto least = [&sources] {
    return std::min_element(sources.begin(), sources.end(),
                            [](const Source& a, const Source& b) { return a.events < b.events; });
  };
  if (sources.size() < kForecastSourcesMax) {
    sources.push_back(std::move(source));
  } else {
    *least() = std::move(source);
  }
  if (sources.size() == kForecastSourcesMax) sources_beyond_[minute] = least()->events;
}

void LoadForecast::AddToGroup(int64_t events) {
  auto found = groups_.find(schedule_->group);
  if (found == groups_.end() && !groups_closed_)
    found = groups_.try_emplace(schedule_->group).first;
  Group& group = found == groups_.end() ? other_ : found->second;
  group.events = SumUpToMax(group.events, events);
  ++group.schedules;
  const size_t before = group.schedules == 1 ? 0 : BytesOf(group);
  Append(group);
  group_bytes_ += BytesOf(group) - before;
  if (group_bytes_ > kForecastGroupBytesMax) DropSmallGroups();
}

size_t LoadForecast::BytesOf(const Group& group) {
  return sizeof(Group) + group.some.capacity() * sizeof(MinuteCount) +
         group.all.capacity() * sizeof(int64_t);
}

// Adds counts_ to the group.
void LoadForecast::Append(Group& group) {
  if (group.some.size() + touched_.size() > counts_.size() / 4) Densify(group);
  if (!group.all.empty()) {
    for (const uint32_t i : touched_) group.all[i] += counts_[i];
    return;
  }
  std::sort(touched_.begin(), touched_.end());
  std::vector<MinuteCount> merged;
  merged.reserve(group.some.size() + touched_.size());
  auto some = group.some.begin();
  for (const uint32_t i : touched_) {
    for (; some != group.some.end() && some->first < i; ++some) merged.push_back(*some);
    const bool both = some != group.some.end() && some->first == i;
    merged.emplace_back(i, counts_[i] + (both ? (some++)->second : 0));
  }
  merged.insert(merged.end(), some, group.some.end());
  group.some = std::move(merged);
}

void LoadForecast::Densify(Group& group) const {
  group.all.resize(counts_.size());
  for (const auto& [i, events] : group.some) group.all[i] += events;
  group.some = {};
}

void LoadForecast::MoveInto(const Group& from, Group& into) {
  into.events = SumUpToMax(into.events, from.events);
  into.schedules += from.schedules;
  for (const auto& [i, events] : from.some) into.all[i] += events;
  for (size_t i = 0; i < from.all.size(); ++i) into.all[i] += from.all[i];
}

std::vector<const LoadForecast::NamedGroup*> LoadForecast::LargestGroups() const {
  std::vector<const NamedGroup*> groups;
  for (const NamedGroup& group : groups_) groups.push_back(&group);
  std::stable_sort(groups.begin(), groups.end(), [](const NamedGroup* a, const NamedGroup* b) {
    return a->second.events > b->second.events;
  });
  return groups;
}

void LoadForecast::DropSmallGroups() {
  groups_closed_ = true;
  Densify(other_);
  const std::vector<const NamedGroup*> groups = LargestGroups();
  for (size_t i = groups.size() / 2; i < groups.size(); ++i) {
    MoveInto(groups[i]->second, other_);
    groups_.erase(groups_.find(groups[i]->first));
  }
  group_bytes_ = 0;
  for (const auto& [key, group] : groups_) group_bytes_ += BytesOf(group);
}

v1::ForecastLoadResponse LoadForecast::Answer(absl::string_view tenant,
                                              std::optional<absl::Time> near) const {
  v1::ForecastLoadResponse response;
  SetTimestamp(start_minute_ * kMinuteMicros, *response.mutable_start_time());
  response.mutable_events_per_minute()->Add(minute_events_.begin(), minute_events_.end());
  response.set_event_count(events_);
  response.set_schedule_count(schedules_);
  response.set_jittered_schedule_count(jittered_);
  if (grouped_) ShowGroups(response);
  ShowBusy(tenant, response);
  if (near.has_value()) ShowQuiet(*near, response);
  return response;
}

void LoadForecast::ShowGroups(v1::ForecastLoadResponse& response) const {
  const auto show = [&](absl::string_view key, Group group) {
    v1::ForecastLoadResponse::Group& shown = *response.add_groups();
    shown.set_key(std::string(key));
    shown.set_event_count(group.events);
    shown.set_schedule_count(group.schedules);
    Densify(group);
    shown.mutable_events_per_minute()->Add(group.all.begin(), group.all.end());
  };
  const std::vector<const NamedGroup*> groups = LargestGroups();
  response.set_other(groups_closed_ || groups.size() > kForecastGroupsMax);
  const size_t named =
      response.other() ? std::min(groups.size(), kForecastGroupsMax - 1) : groups.size();
  for (size_t i = 0; i < named; ++i) show(groups[i]->first, groups[i]->second);
  if (!response.other()) return;
  Group rest = other_;
  Densify(rest);
  for (size_t i = named; i < groups.size(); ++i) MoveInto(groups[i]->second, rest);
  show("", std::move(rest));
}

void LoadForecast::ShowMinute(size_t i, v1::ForecastLoadResponse::Minute& shown) const {
  SetTimestamp((start_minute_ + static_cast<int64_t>(i)) * kMinuteMicros, *shown.mutable_time());
  shown.set_event_count(minute_events_[i]);
  shown.set_schedule_count(minute_schedules_[i]);
}

// The first minutes of `minutes` in this order: those with the fewest (or: most) events, then as
// they stand.
void LoadForecast::KeepFirst(bool fewest, size_t max, std::vector<size_t>& minutes) const {
  std::stable_sort(minutes.begin(), minutes.end(), [&](size_t a, size_t b) {
    return fewest ? minute_events_[a] < minute_events_[b] : minute_events_[a] > minute_events_[b];
  });
  if (minutes.size() > max) minutes.resize(max);
}

void LoadForecast::ShowBusy(absl::string_view tenant, v1::ForecastLoadResponse& response) const {
  std::vector<size_t> minutes;
  for (size_t i = 0; i < minute_schedules_.size(); ++i)
    if (minute_schedules_[i] > 1) minutes.push_back(i);
  KeepFirst(/*fewest=*/false, kForecastBusyMax, minutes);
  for (const size_t i : minutes) {
    v1::ForecastLoadResponse::Minute& shown = *response.add_busy_minutes();
    ShowMinute(i, shown);
    std::vector<Source> sources = sources_[i];
    std::sort(sources.begin(), sources.end(), [](const Source& a, const Source& b) {
      return a.events != b.events ? a.events > b.events : *a.schedule_id < *b.schedule_id;
    });
    for (const Source& source : sources) {
      v1::ForecastLoadResponse::Minute::Source& added = *shown.add_sources();
      added.set_schedule(ScheduleName{std::string(tenant), *source.schedule_id}.ToString());
      added.set_event_count(source.events);
    }
  }
}

void LoadForecast::ShowQuiet(absl::Time near, v1::ForecastLoadResponse& response) const {
  const int64_t own = MinuteOf(near) - start_minute_;
  ShowMinute(static_cast<size_t>(own), *response.add_quiet_minutes());
  std::vector<size_t> minutes;
  for (int64_t distance = 1; distance <= kForecastNearMinutes; ++distance) {
    for (const int64_t i : {own - distance, own + distance}) {
      if (i >= 0 && i < minutes_ &&
          minute_events_[static_cast<size_t>(i)] < minute_events_[static_cast<size_t>(own)])
        minutes.push_back(static_cast<size_t>(i));
    }
  }
  KeepFirst(/*fewest=*/true, kForecastQuietMax, minutes);
  for (const size_t i : minutes) ShowMinute(i, *response.add_quiet_minutes());
}

namespace {

constexpr char kForecastLabels[] = "labels.";

class ForecastRead : public std::enable_shared_from_this<ForecastRead> {
 public:
  ForecastRead(MasterContext& context, ForecastQuery query, Done<v1::ForecastLoadResponse> done)
      : context_(context),
        query_(std::move(query)),
        done_(std::move(done)),
        forecast_(query_.start, query_.minutes, !query_.group_by.empty()) {}

  void Start() {
    VisitSchedules(
        context_, query_.tenant, query_.filter,
        [self = shared_from_this()](std::vector<StoredSchedule> chunk, VisitSchedulesNext next) {
          self->chunk_ = std::move(chunk);
          self->begun_ = 0;
          self->Turn(std::move(next));
        },
        [self = shared_from_this()](const absl::Status& status) {
          if (!status.ok()) return self->done_(status);
          self->done_(self->forecast_.Answer(self->query_.tenant, self->query_.near));
        });
  }

 private:
  void Turn(VisitSchedulesNext next) {
    if (Work() > kForecastWorkMax) return done_(ForecastTooLarge());
    const uint64_t end = Work() + kForecastTurnWork;
    while (Work() < end) {
      if (counting_) {
        counting_ = !forecast_.Step();
      } else if (begun_ < chunk_.size()) {
        Begin(chunk_[begun_++]);
      } else {
        return next();
      }
    }
    context_.executor->Post([self = shared_from_this(), next = std::move(next)]() mutable {
      self->Turn(std::move(next));
    });
  }

  uint64_t Work() const { return visit_work_ + forecast_.work(); }

  void Begin(StoredSchedule& stored) {
    visit_work_ += kScheduleWork;
    if (stored.state.kind() != storage::v1::SCHEDULE_STATE_KIND_ENABLED) return;
    if (!query_.filter.always()) {
      visit_work_ += kFilterWork;
      if (!query_.filter.Matches(Show(stored, context_.client.NowLow()))) return;
    }
    OccurrenceSource source = SourceOf(stored.definition.record);
    source.uid = stored.uid;
    forecast_.Begin({.schedule_id = stored.state.schedule_id(),
                     .group = GroupOf(stored),
                     .source = std::move(source),
                     .timetable = std::move(stored.definition.timetable),
                     .from = FromMicros(stored.definition.record.create_time_micros())});
    counting_ = true;
  }

  std::string GroupOf(const StoredSchedule& stored) const {
    const storage::v1::DefinitionRecord& definition = stored.definition.record;
    absl::string_view label = query_.group_by;
    if (absl::ConsumePrefix(&label, kForecastLabels)) {
      const auto found = stored.record.labels().find(std::string(label));
      return found == stored.record.labels().end() ? std::string() : found->second;
    }
    if (query_.group_by == "policy") return definition.throttle().policy_id();
    if (query_.group_by == "target") return TargetKeyOf(definition.delivery().target());
    return std::string();
  }

  MasterContext& context_;
  const ForecastQuery query_;
  Done<v1::ForecastLoadResponse> done_;
  LoadForecast forecast_;
  std::vector<StoredSchedule> chunk_;
  size_t begun_ = 0;       // schedules of chunk_ that have been begun
  bool counting_ = false;  // the last one that was begun is not finished
  uint64_t visit_work_ = 0;
};

bool IsForecastGroup(absl::string_view group_by) {
  if (group_by.empty() || group_by == "policy" || group_by == "target") return true;
  return absl::ConsumePrefix(&group_by, kForecastLabels) && !group_by.empty() &&
         group_by.size() <= kLabelBytesMax;
}

void ReadForecastTimes(const v1::ForecastLoadRequest& request, absl::Time now, ForecastQuery& query,
                       FieldViolations& violations) {
  query.start = MinuteAt(MinuteOf(now));
  if (request.has_start_time()) {
    const auto micros = TimestampMicrosDown(request.start_time());
    if (!micros.has_value() || FromMicros(*micros) < query.start ||
        FromMicros(*micros) > now + kForecastAheadMax) {
      violations.Add("start_time", "must be from now to 366 days ahead");
    } else {
      query.start = MinuteAt(MinuteOf(FromMicros(*micros)));
    }
  }
  absl::Duration duration = kForecastDefault;
  if (request.has_duration())
    duration = ToDuration(request.duration()).value_or(absl::ZeroDuration());
  if (duration < absl::Minutes(1) || duration > kForecastMax ||
      duration % absl::Minutes(1) != absl::ZeroDuration()) {
    violations.Add("duration", "must be whole minutes, from 1 min to 72 h");
  }
  query.minutes = static_cast<int>(duration / absl::Minutes(1));
  if (!request.has_near_time()) return;
  const auto near = TimestampMicrosDown(request.near_time());
  if (!near.has_value() || FromMicros(*near) < query.start ||
      FromMicros(*near) >= query.start + absl::Minutes(query.minutes)) {
    violations.Add("near_time", "must be within the forecast");
  } else {
    query.near = FromMicros(*near);
  }
}

}  // namespace

absl::StatusOr<ForecastQuery> ReadForecast(const v1::ForecastLoadRequest& request, absl::Time now) {
  ForecastQuery query;
  ASSIGN_OR_RETURN(query.tenant, ParseTenantName(request.parent(), "parent"));
  FieldViolations violations;
  ReadForecastTimes(request, now, query, violations);
  query.group_by = request.group_by();
  if (!IsForecastGroup(query.group_by))
    violations.Add("group_by", "must be empty, \"policy\", \"target\" or \"labels.KEY\"");
  absl::StatusOr<ListFilter> filter = ReadScheduleFilter(request.filter(), query.tenant);
  violations.AddStatus("", filter.status());
  RETURN_IF_ERROR(violations.ToStatus());
  query.filter = *std::move(filter);
  return query;
}

void ForecastLoad(MasterContext& context, ForecastQuery query,
                  Done<v1::ForecastLoadResponse> done) {
  std::make_shared<ForecastRead>(context, std::move(query), std::move(done))->Start();
}

}  // namespace escapement::master
