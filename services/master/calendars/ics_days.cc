#include "services/master/calendars/ics_days.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/civil_time.h"
#include "common/base/status_macros.h"
#include "common/cron/zone.h"
#include "services/master/base/limits.h"

namespace escapement::master {
namespace {

constexpr int64_t kSecondsOfDay = 86'400;
constexpr int kComponentsDeepMax = 8;
constexpr int64_t kEventDaysMax = 366;
constexpr int64_t kIcsDaysEnd = cron::kLocalEnd / kSecondsOfDay;
constexpr absl::CivilDay kEpoch(1970, 1, 1);

int64_t DayNumber(absl::CivilDay day) { return day - kEpoch; }
absl::CivilDay CivilOf(int64_t day) { return kEpoch + day; }
int DaysOfMonth(absl::CivilMonth month) {
  return static_cast<int>(absl::CivilDay(month + 1) - absl::CivilDay(month));
}
int DaysOfYear(absl::CivilYear year) {
  return static_cast<int>(absl::CivilDay(year + 1) - absl::CivilDay(year));
}
// Monday is 0.
int WeekdayOf(int64_t day) { return static_cast<int>(((day + 3) % 7 + 7) % 7); }

absl::Status Wrong(absl::string_view what) { return absl::InvalidArgumentError(what); }

// "NAME;PARAMETER=VALUE:VALUE"
struct ContentLine {
  std::string name;  // upper case
  std::string zone;  // the first parameter TZID
  absl::string_view value;
};

absl::StatusOr<ContentLine> ParseLine(absl::string_view text) {
  ContentLine line;
  bool quoted = false, zone_set = false;
  size_t begin = 0;  // where the name or parameter begins
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (quoted || (text[i] != ';' && text[i] != ':')) continue;
    absl::string_view part = text.substr(begin, i - begin);
    if (begin == 0) {
      line.name = absl::AsciiStrToUpper(part);
    } else if (!zone_set && absl::StartsWithIgnoreCase(part, "TZID=")) {
      zone_set = true;
      line.zone = absl::StrReplaceAll(part.substr(5), {{"\"", ""}});
    }
    begin = i + 1;
    if (text[i] == ':') {
      line.value = text.substr(begin);
      return line;
    }
  }
  return Wrong("has no value");
}

// A date, or a date and a time of day.
struct IcsTime {
  int64_t local = 0;  // seconds from 1970-01-01T00:00:00 of its own zone
  bool date = false;
  bool utc = false;

  int64_t day() const { return local / kSecondsOfDay - (local % kSecondsOfDay < 0 ? 1 : 0); }
};

std::optional<int> Digits(absl::string_view text) {
  int number = 0;
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
  if (!digits || !absl::SimpleAtoi(text, &number)) return std::nullopt;
  return number;
}

// 20261225, 20261225T093000 or 20261225T093000Z.
std::optional<IcsTime> ParseTime(absl::string_view text) {
  IcsTime time;
  time.utc = absl::ConsumeSuffix(&text, "Z");
  if (text.size() != 8 && (text.size() != 15 || text[8] != 'T')) return std::nullopt;
  time.date = text.size() == 8;
  const auto year = Digits(text.substr(0, 4)), month = Digits(text.substr(4, 2)),
             day = Digits(text.substr(6, 2));
  if (!year || !month || !day || *year < 1) return std::nullopt;
  const absl::CivilDay civil(*year, *month, *day);
  if (civil.month() != *month || civil.day() != *day) return std::nullopt;
  time.local = DayNumber(civil) * kSecondsOfDay;
  if (time.date) return time.utc ? std::nullopt : std::make_optional(time);
  const auto hour = Digits(text.substr(9, 2)), minute = Digits(text.substr(11, 2)),
             second = Digits(text.substr(13, 2));
  if (!hour || !minute || !second || *hour > 23 || *minute > 59 || *second > 60)
    return std::nullopt;
  time.local += *hour * 3600 + *minute * 60 + *second;
  return time;
}

// P2W, P1D, PT36H, P1DT12H: seconds.
std::optional<int64_t> ParseDuration(absl::string_view text) {
  absl::ConsumePrefix(&text, "+");
  if (!absl::ConsumePrefix(&text, "P") || text.empty()) return std::nullopt;
  int64_t seconds = 0;
  bool of_day = false;  // behind the T
  while (!text.empty()) {
    if (!of_day && absl::ConsumePrefix(&text, "T")) {
      of_day = true;
      continue;
    }
    size_t length = 0;
    while (length < text.size() && absl::ascii_isdigit(text[length])) ++length;
    const auto number = Digits(text.substr(0, length));
    if (!number || length > 6 || length == text.size()) return std::nullopt;
    const char unit = text[length];
    text.remove_prefix(length + 1);
    int64_t factor = 0;
    if (!of_day) factor = unit == 'W' ? 7 * kSecondsOfDay : unit == 'D' ? kSecondsOfDay : 0;
    if (of_day) factor = unit == 'H' ? 3600 : unit == 'M' ? 60 : unit == 'S' ? 1 : 0;
    if (factor == 0) return std::nullopt;
    seconds += *number * factor;
  }
  return seconds;
}

// The numbers of one part of a rule, from 1 to kMax; negative numbers count from the end. Its
// memory, and the time of Has(), do not depend on the length of the part.
template <int kMax>
class Numbers {
 public:
  bool empty() const { return empty_; }
  void Add(int number) {
    (number < 0 ? from_end_ : from_begin_).set(static_cast<size_t>(std::abs(number)));
    empty_ = false;
  }
  // Requires 1 <= number <= length <= kMax.
  bool Has(int number, int length) const {
    return from_begin_[static_cast<size_t>(number)] ||
           from_end_[static_cast<size_t>(length + 1 - number)];
  }

 private:
  std::bitset<kMax + 1> from_begin_, from_end_;
  bool empty_ = true;
};

// A day and its places in its week, month and year.
struct PlacedDay {
  explicit PlacedDay(int64_t day)
      : number(day),
        weekday(WeekdayOf(day)),
        civil(CivilOf(day)),
        month(civil.month()),
        of_month(civil.day()),
        of_year(static_cast<int>(civil - absl::CivilDay(absl::CivilYear(civil))) + 1),
        month_days(DaysOfMonth(absl::CivilMonth(civil))),
        year_days(DaysOfYear(absl::CivilYear(civil))) {}

  // Computes with the civil calendar only at the end of a month.
  void Next() {
    if (of_month == month_days) {
      *this = PlacedDay(number + 1);
      return;
    }
    ++number;
    ++of_month;
    ++of_year;
    weekday = weekday == 6 ? 0 : weekday + 1;
  }

  int64_t number;
  int weekday;
  absl::CivilDay civil;  // a day of the same month
  int month, of_month, of_year;
  int month_days, year_days;
};

// The rule of a recurrence, by days: a day is an occurrence if it passes all its parts.
class Recurrence {
 public:
  static absl::StatusOr<Recurrence> Parse(absl::string_view text);

  // Sets what the rule takes from the event's start. INVALID_ARGUMENT if the rule has a COUNT and
  // the start is before 1970: counting from there would cost too much.
  absl::Status Start(int64_t start) {
    start_ = start;
    if (count_ > 0 && start < 0) return Wrong("a rule with COUNT must start in 1970 or later");
    const absl::CivilDay day = CivilOf(start);
    if (!by_month_day_.empty() || !by_year_day_.empty() || HasByDay()) return absl::OkStatus();
    if (freq_ == Freq::kYearly && by_month_.empty()) by_month_.Add(day.month());
    if (freq_ == Freq::kYearly || freq_ == Freq::kMonthly) by_month_day_.Add(day.day());
    if (freq_ == Freq::kWeekly) AddWeekday(0, WeekdayOf(start));
    return absl::OkStatus();
  }

  const std::optional<IcsTime>& until() const { return until_; }

  // The occurrences in [begin, end], in order. Takes the days that it tries from `budget`, and ends
  // when that is used up.
  std::vector<int64_t> Days(int64_t begin, int64_t end, int& budget) const {
    std::vector<int64_t> days, period;
    int64_t left = count_ > 0 ? count_ : std::numeric_limits<int64_t>::max();
    const auto end_period = [&] {
      for (size_t i = 0; i < period.size() && left > 0; ++i) {
        const int length = static_cast<int>(period.size());
        if (!positions_.empty() && !positions_.Has(static_cast<int>(i) + 1, length)) continue;
        if (period[i] < start_) continue;
        --left;
        if (period[i] >= begin && period[i] <= end) days.push_back(period[i]);
      }
      period.clear();
    };
    // Without a count every period stands for itself.
    PlacedDay day(PeriodBegin(count_ > 0 ? start_ : std::max(start_, begin)));
    // How many periods ago the interval last took a period; 0: it takes this one.
    int64_t phase = (PeriodOf(day.number) - PeriodOf(start_) + interval_ - 1) % interval_;
    for (; budget > 0; day.Next(), --budget) {
      if (BeginsPeriod(day)) {
        end_period();
        if (++phase == interval_) phase = 0;
      }
      // The last period is whole, although it ends behind `end`.
      if (left == 0 || (day.number > end && period.empty())) break;
      if (phase == 0 && Matches(day)) period.push_back(day.number);
    }
    return days;
  }

 private:
  enum class Freq { kDaily, kWeekly, kMonthly, kYearly };

  absl::Status ReadPart(absl::string_view name, absl::string_view value);
  absl::Status ReadFreq(absl::string_view value);
  absl::Status ReadDays(absl::string_view value);
  template <int kMax>
  static absl::Status ReadNumbers(absl::string_view value, bool negative, Numbers<kMax>& numbers);

  // nth 0: each such day.
  void AddWeekday(int nth, int weekday) {
    if (nth == 0) {
      weekdays_.set(static_cast<size_t>(weekday));
    } else {
      nth_by_day_[static_cast<size_t>(weekday)].Add(nth);
      nth_set_ = true;
    }
  }

  int64_t PeriodOf(int64_t day) const {
    const absl::CivilDay civil = CivilOf(day);
    switch (freq_) {
      case Freq::kDaily:
        return day;
      case Freq::kWeekly: {
        const int64_t shifted = day + 3 - week_start_;  // 0 is the first day of a week
        return shifted / 7 - (shifted % 7 < 0 ? 1 : 0);
      }
      case Freq::kMonthly:
        return civil.year() * 12 + civil.month();
      default:
        return civil.year();
    }
  }

  bool HasByDay() const { return weekdays_.any() || nth_set_; }

  bool BeginsPeriod(const PlacedDay& day) const {
    switch (freq_) {
      case Freq::kDaily:
        return true;
      case Freq::kWeekly:
        return day.weekday == week_start_;
      case Freq::kMonthly:
        return day.of_month == 1;
      default:
        return day.of_year == 1;
    }
  }

  int64_t PeriodBegin(int64_t number) const {
    const PlacedDay day(number);
    switch (freq_) {
      case Freq::kDaily:
        return number;
      case Freq::kWeekly:
        return number - (day.weekday + 7 - week_start_) % 7;
      case Freq::kMonthly:
        return number - day.of_month + 1;
      default:
        return number - day.of_year + 1;
    }
  }

  bool Matches(const PlacedDay& day) const {
    if (!by_month_.empty() && !by_month_.Has(day.month, 12)) return false;
    if (!by_month_day_.empty() && !by_month_day_.Has(day.of_month, day.month_days)) return false;
    if (!by_year_day_.empty() && !by_year_day_.Has(day.of_year, day.year_days)) return false;
    const auto weekday = static_cast<size_t>(day.weekday);
    if (weekdays_[weekday] || !HasByDay()) return true;
    if (nth_by_day_[weekday].empty()) return false;
    const bool in_month = freq_ == Freq::kMonthly || !by_month_.empty();
    const int before = (in_month ? day.of_month : day.of_year) - 1;
    const int after = (in_month ? day.month_days : day.year_days) - 1 - before;
    return nth_by_day_[weekday].Has(before / 7 + 1, before / 7 + 1 + after / 7);
  }

  Freq freq_ = Freq::kDaily;
  bool freq_set_ = false;
  int64_t start_ = 0;
  int64_t interval_ = 1;
  int64_t count_ = 0;  // 0: no limit
  std::optional<IcsTime> until_;
  int week_start_ = 0;
  Numbers<12> by_month_;
  Numbers<31> by_month_day_;
  Numbers<366> by_year_day_, positions_;
  std::bitset<7> weekdays_;                // BYDAY without numbers
  std::array<Numbers<53>, 7> nth_by_day_;  // BYDAY with numbers, by weekday
  bool nth_set_ = false;
};

absl::Status Recurrence::ReadFreq(absl::string_view value) {
  static const std::map<absl::string_view, Freq> freqs = {{"DAILY", Freq::kDaily},
                                                          {"WEEKLY", Freq::kWeekly},
                                                          {"MONTHLY", Freq::kMonthly},
                                                          {"YEARLY", Freq::kYearly}};
  const auto freq = freqs.find(value);
  if (freq == freqs.end()) return Wrong("FREQ must be DAILY, WEEKLY, MONTHLY or YEARLY");
  freq_ = freq->second;
  freq_set_ = true;
  return absl::OkStatus();
}

std::optional<int> WeekdayNamed(absl::string_view name) {
  static constexpr absl::string_view kNames[] = {"MO", "TU", "WE", "TH", "FR", "SA", "SU"};
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<int>(found - std::begin(kNames));
}

absl::Status Recurrence::ReadDays(absl::string_view value) {
  for (const absl::string_view text : absl::StrSplit(value, ',')) {
    int number = 0;
    const size_t sign_and_number = text.size() < 2 ? 0 : text.size() - 2;
    const auto weekday = WeekdayNamed(text.substr(sign_and_number));
    const absl::string_view nth = text.substr(0, sign_and_number);
    if (!weekday || (!nth.empty() && (!absl::SimpleAtoi(nth, &number) || number == 0 ||
                                      number < -53 || number > 53)))
      return Wrong("BYDAY must have days such as MO, 4TH or -1SU");
    AddWeekday(number, *weekday);
  }
  return absl::OkStatus();
}

absl::StatusOr<int> ReadNumber(absl::string_view text, int max, bool negative) {
  int number = 0;
  if (!absl::SimpleAtoi(text, &number) || number == 0 || number > max ||
      number < (negative ? -max : 0))
    return Wrong("a number of the rule is out of its range");
  return number;
}

template <int kMax>
absl::Status Recurrence::ReadNumbers(absl::string_view value, bool negative,
                                     Numbers<kMax>& numbers) {
  for (const absl::string_view text : absl::StrSplit(value, ',')) {
    ASSIGN_OR_RETURN(const int number, ReadNumber(text, kMax, negative));
    numbers.Add(number);
  }
  return absl::OkStatus();
}

absl::Status Recurrence::ReadPart(absl::string_view name, absl::string_view value) {
  if (name == "FREQ") return ReadFreq(value);
  if (name == "BYDAY") return ReadDays(value);
  if (name == "INTERVAL" || name == "COUNT") {
    ASSIGN_OR_RETURN((name == "COUNT" ? count_ : interval_), ReadNumber(value, 100'000, false));
  } else if (name == "UNTIL") {
    until_ = ParseTime(value);
    if (!until_.has_value()) return Wrong("UNTIL must be a date, or a date and time");
  } else if (name == "WKST") {
    const auto weekday = WeekdayNamed(value);
    if (!weekday.has_value()) return Wrong("WKST must be a day such as MO");
    week_start_ = *weekday;
  } else if (name == "BYMONTH") {
    return ReadNumbers(value, false, by_month_);
  } else if (name == "BYMONTHDAY") {
    return ReadNumbers(value, true, by_month_day_);
  } else if (name == "BYYEARDAY") {
    return ReadNumbers(value, true, by_year_day_);
  } else if (name == "BYSETPOS") {
    return ReadNumbers(value, true, positions_);
  } else {
    return Wrong(absl::StrCat("rules with ", name.substr(0, 40), " cannot be read"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Recurrence> Recurrence::Parse(absl::string_view text) {
  Recurrence rule;
  std::set<std::string> names;
  for (const absl::string_view part : absl::StrSplit(text, ';', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    const std::string name = absl::AsciiStrToUpper(pair.first);
    RETURN_IF_ERROR(rule.ReadPart(name, absl::AsciiStrToUpper(pair.second)));
    if (!names.insert(name).second) return Wrong(absl::StrCat("the rule has two ", name));
  }
  if (!rule.freq_set_) return Wrong("the rule has no FREQ");
  if (rule.count_ > 0 && rule.until_.has_value()) return Wrong("the rule has both COUNT and UNTIL");
  const bool of_period = rule.freq_ == Freq::kMonthly || rule.freq_ == Freq::kYearly;
  if (rule.nth_set_ && !of_period)
    return Wrong("BYDAY with numbers needs FREQ=MONTHLY or FREQ=YEARLY");
  if (!rule.by_year_day_.empty() && rule.freq_ != Freq::kYearly)
    return Wrong("BYYEARDAY needs FREQ=YEARLY");
  if (!rule.by_month_day_.empty() && rule.freq_ == Freq::kWeekly)
    return Wrong("BYMONTHDAY cannot be with FREQ=WEEKLY");
  return rule;
}

struct IcsEvent {
  std::string uid;
  std::optional<IcsTime> start, end, replaces;
  std::string zone;  // TZID of the start
  std::optional<int64_t> duration;
  std::vector<Recurrence> rules;
  std::vector<IcsTime> added, excluded;
  bool cancelled = false;
};

// The zone of an event's start.
class EventZone {
 public:
  // `event` must live longer.
  explicit EventZone(const IcsEvent& event) : event_(event) {}

  // A time in UTC, in this zone; of an unknown zone as it is.
  IcsTime Local(IcsTime time) {
    if (!time.utc || event_.start->utc || event_.start->date) return time;
    if (!zone_.has_value()) zone_ = cron::Zone::Load(event_.zone);
    if (!zone_->ok()) return time;
    const cron::Zone& zone = **zone_;
    time.utc = false;
    time.local += zone.spans()[zone.SpanAt(time.local)].offset;
    return time;
  }

 private:
  const IcsEvent& event_;
  std::optional<absl::StatusOr<cron::Zone>> zone_;
};

class IcsReader {
 public:
  explicit IcsReader(int64_t today) : today_(today) {}

  absl::Status ReadLine(absl::string_view text) {
    ASSIGN_OR_RETURN(const ContentLine line, ParseLine(text));
    if (line.name == "BEGIN") return Begin(absl::AsciiStrToUpper(line.value));
    if (line.name == "END") return End(absl::AsciiStrToUpper(line.value));
    if (open_.empty()) return Wrong("stands before BEGIN:VCALENDAR");
    return InEvent() ? ReadProperty(line) : absl::OkStatus();
  }

  absl::StatusOr<std::set<int32_t>> Finish() {
    if (!open_.empty()) return Wrong(absl::StrCat("BEGIN:", open_.back(), " has no END"));
    for (const IcsEvent& event : events_) {
      if (event.replaces.has_value())
        replaced_[event.uid].push_back(EventZone(event).Local(*event.replaces).day());
    }
    for (const IcsEvent& event : events_) RETURN_IF_ERROR(AddEvent(event));
    if (days_count_ == 0) return Wrong("has no event on a day of 1970 to 2199");
    std::set<int32_t> days;
    for (size_t day = 0; day < days_.size(); ++day) {
      if (days_[day]) days.insert(days.end(), static_cast<int32_t>(day));
    }
    return days;
  }

 private:
  bool InEvent() const { return open_.size() == 2 && open_[1] == "VEVENT"; }

  absl::Status Begin(std::string component) {
    if (open_.empty() && component != "VCALENDAR") return Wrong("must be BEGIN:VCALENDAR");
    if (open_.size() == kComponentsDeepMax) return Wrong("is nested too deep");
    open_.push_back(std::move(component));
    if (!InEvent()) return absl::OkStatus();
    if (events_.size() == static_cast<size_t>(kIcsEventsMax))
      return Wrong(absl::StrCat("is beyond ", kIcsEventsMax, " events"));
    events_.emplace_back();
    return absl::OkStatus();
  }

  absl::Status End(absl::string_view component) {
    if (open_.empty() || open_.back() != component) return Wrong("has no BEGIN");
    const bool event = InEvent();
    open_.pop_back();
    if (event && !events_.back().start.has_value()) return Wrong("ends an event without DTSTART");
    return absl::OkStatus();
  }

  static absl::Status ReadTimes(const ContentLine& line, std::vector<IcsTime>& times) {
    for (absl::string_view text : absl::StrSplit(line.value, ',')) {
      // A period stands for the time at which it begins.
      const std::optional<IcsTime> time = ParseTime(text.substr(0, text.find('/')));
      if (!time.has_value()) return Wrong("must be a date, or a date and time");
      times.push_back(*time);
    }
    return absl::OkStatus();
  }

  absl::Status ReadProperty(const ContentLine& line) {
    IcsEvent& event = events_.back();
    const auto read = [&](std::optional<IcsTime>& time) {
      time = ParseTime(line.value);
      return time.has_value() ? absl::OkStatus() : Wrong("must be a date, or a date and time");
    };
    if (line.name == "UID") {
      event.uid = std::string(line.value);
    } else if (line.name == "STATUS") {
      event.cancelled = absl::EqualsIgnoreCase(line.value, "CANCELLED");
    } else if (line.name == "DTSTART") {
      event.zone = line.zone;
      return read(event.start);
    } else if (line.name == "DTEND") {
      return read(event.end);
    } else if (line.name == "RECURRENCE-ID") {
      return read(event.replaces);
    } else if (line.name == "DURATION") {
      event.duration = ParseDuration(line.value);
      if (!event.duration.has_value()) return Wrong("must be a duration such as P1D");
    } else if (line.name == "RDATE") {
      return ReadTimes(line, event.added);
    } else if (line.name == "EXDATE") {
      return ReadTimes(line, event.excluded);
    } else if (line.name == "RRULE") {
      if (rules_count_ == kIcsEventsMax)
        return Wrong(absl::StrCat("is beyond ", kIcsEventsMax, " rules"));
      ++rules_count_;
      ASSIGN_OR_RETURN(Recurrence rule, Recurrence::Parse(line.value));
      event.rules.push_back(std::move(rule));
    } else if (line.name == "EXRULE") {
      return Wrong("cannot be read");
    }
    return absl::OkStatus();
  }

  // The days of one occurrence behind the one on which it begins.
  static absl::StatusOr<int64_t> FurtherDays(const IcsEvent& event, EventZone& zone) {
    const IcsTime& start = *event.start;
    IcsTime end = start;
    if (event.end.has_value()) {
      end = zone.Local(*event.end);
    } else if (event.duration.has_value()) {
      end.local += *event.duration;
    }
    if (end.local < start.local) return Wrong("an event ends before it begins");
    // Its end does not belong to it.
    const int64_t last = end.local == start.local ? start.day() : IcsTime{end.local - 1}.day();
    const int64_t further = last - start.day();
    if (further >= kEventDaysMax)
      return Wrong(absl::StrCat("an event is longer than ", kEventDaysMax, " days"));
    return further;
  }

  // Takes `work` days from the budget; INVALID_ARGUMENT if it has less.
  absl::Status Spend(int64_t work) {
    if (work > budget_) return Wrong("has too many recurrences; use rules instead");
    budget_ -= static_cast<int>(work);
    return absl::OkStatus();
  }

  // Days that are not in this range begin no occurrence on a day from 1970 to 2199.
  static bool MayBegin(int64_t day) { return day >= -kEventDaysMax && day < kIcsDaysEnd; }

  void Exclude(int64_t day) {
    if (MayBegin(day)) excluded_.set(static_cast<size_t>(day + kEventDaysMax));
  }

  absl::Status AddOccurrence(int64_t day, int64_t further) {
    if (!MayBegin(day) || excluded_[static_cast<size_t>(day + kEventDaysMax)])
      return absl::OkStatus();
    RETURN_IF_ERROR(Spend(further + 1));
    const int64_t end = std::min(day + further + 1, kIcsDaysEnd);
    for (int64_t d = std::max<int64_t>(day, 0); d < end; ++d) {
      if (days_[static_cast<size_t>(d)]) continue;
      days_.set(static_cast<size_t>(d));
      if (++days_count_ > kCalendarDatesMax) {
        return Wrong(absl::StrCat("has more than ", kCalendarDatesMax,
                                  " days, recurrences of the next ", kIcsYears,
                                  " years included; use rules instead"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddEvent(const IcsEvent& event) {
    if (event.cancelled) return absl::OkStatus();
    EventZone zone(event);
    ASSIGN_OR_RETURN(const int64_t further, FurtherDays(event, zone));
    excluded_.reset();
    for (const IcsTime& time : event.excluded) Exclude(zone.Local(time).day());
    const auto replaced = replaced_.find(event.uid);
    if (replaced != replaced_.end() && !event.replaces.has_value()) {
      RETURN_IF_ERROR(Spend(static_cast<int64_t>(replaced->second.size())));
      for (const int64_t day : replaced->second) Exclude(day);
    }
    if (event.rules.empty()) RETURN_IF_ERROR(AddOccurrence(event.start->day(), further));
    for (const IcsTime& time : event.added)
      RETURN_IF_ERROR(AddOccurrence(zone.Local(time).day(), further));
    for (Recurrence rule : event.rules) {
      RETURN_IF_ERROR(rule.Start(event.start->day()));
      int64_t end = today_ + kIcsYears * 366;
      if (rule.until().has_value()) {
        // The last day at whose time of day the rule has not ended.
        const IcsTime until = zone.Local(*rule.until());
        const int64_t of_day =
            until.date ? 0 : event.start->local - event.start->day() * kSecondsOfDay;
        end = std::min(end, IcsTime{until.local - of_day}.day());
      }
      const std::vector<int64_t> days = rule.Days(today_ - 366 - further, end, budget_);
      RETURN_IF_ERROR(Spend(1));
      for (const int64_t day : days) RETURN_IF_ERROR(AddOccurrence(day, further));
    }
    return absl::OkStatus();
  }

  const int64_t today_;
  std::vector<std::string> open_;  // components that have begun
  std::vector<IcsEvent> events_;
  int rules_count_ = 0;
  std::map<std::string, std::vector<int64_t>> replaced_;  // days of occurrences, by uid
  std::bitset<kEventDaysMax + kIcsDaysEnd> excluded_;  // days of the event, from -kEventDaysMax on
  std::bitset<kIcsDaysEnd> days_;
  size_t days_count_ = 0;
  int budget_ = kIcsDaysTriedMax;
};

}  // namespace

absl::StatusOr<std::set<int32_t>> IcsDays(absl::string_view text, int64_t today) {
  if (text.size() > kIcsBytesMax)
    return Wrong(absl::StrCat("has more than ", kIcsBytesMax, " bytes"));
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");
  IcsReader reader(today);
  std::string line;
  int number = 0, begin = 0;
  const auto end_line = [&]() -> absl::Status {
    if (line.empty()) return absl::OkStatus();
    const absl::Status read = reader.ReadLine(line);
    line.clear();
    if (read.ok()) return read;
    return Wrong(absl::StrCat("line ", begin, " ", read.message()));
  };
  for (absl::string_view part : absl::StrSplit(text, '\n')) {
    ++number;
    absl::ConsumeSuffix(&part, "\r");
    // A line that begins with a blank goes on with the one before.
    if (!part.empty() && (part[0] == ' ' || part[0] == '\t')) {
      absl::StrAppend(&line, part.substr(1));
      continue;
    }
    RETURN_IF_ERROR(end_line());
    line = std::string(part);
    begin = number;
  }
  RETURN_IF_ERROR(end_line());
  if (number == 1 && text.empty()) return Wrong("is empty");
  return reader.Finish();
}

}  // namespace escapement::master
