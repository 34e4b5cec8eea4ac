#include "services/master/calendars/ics_days.h"

#include <algorithm>
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
constexpr absl::CivilDay kEpoch(1970, 1, 1);

int64_t DayNumber(absl::CivilDay day) { return day - kEpoch; }
absl::CivilDay CivilOf(int64_t day) { return kEpoch + day; }
int DaysOfMonth(absl::CivilDay day) {
  const absl::CivilMonth month(day);
  return static_cast<int>(absl::CivilDay(month + 1) - absl::CivilDay(month));
}
int DaysOfYear(absl::CivilDay day) {
  const absl::CivilYear year(day);
  return static_cast<int>(absl::CivilDay(year + 1) - absl::CivilDay(year));
}
// Monday is 0.
int WeekdayOf(int64_t day) { return static_cast<int>(((day + 3) % 7 + 7) % 7); }

absl::Status Wrong(absl::string_view what) { return absl::InvalidArgumentError(what); }

// "NAME;PARAMETER=VALUE:VALUE"
struct ContentLine {
  std::string name;  // upper case
  std::map<std::string, std::string> parameters;
  std::string value;
};

absl::StatusOr<ContentLine> ParseLine(absl::string_view text) {
  std::vector<std::string> parts(1);  // name and parameters
  bool quoted = false;
  size_t i = 0;
  for (; i < text.size() && (quoted || text[i] != ':'); ++i) {
    if (text[i] == '"') {
      quoted = !quoted;
    } else if (text[i] == ';' && !quoted) {
      parts.emplace_back();
    } else {
      parts.back() += text[i];
    }
  }
  if (i == text.size()) return Wrong("has no value");
  ContentLine line;
  line.name = absl::AsciiStrToUpper(parts[0]);
  line.value = std::string(text.substr(i + 1));
  for (size_t p = 1; p < parts.size(); ++p) {
    const std::pair<std::string, std::string> parameter =
        absl::StrSplit(parts[p], absl::MaxSplits('=', 1));
    line.parameters.emplace(absl::AsciiStrToUpper(parameter.first), parameter.second);
  }
  return line;
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

// The rule of a recurrence, by days: a day is an occurrence if it passes all its parts.
class Recurrence {
 public:
  static absl::StatusOr<Recurrence> Parse(absl::string_view text);

  // Sets what the rule takes from the event's start.
  void Start(int64_t start) {
    start_ = start;
    const absl::CivilDay day = CivilOf(start);
    if (!by_month_day_.empty() || !by_day_.empty() || !by_year_day_.empty()) return;
    if (freq_ == Freq::kYearly && by_month_.empty()) by_month_ = {day.month()};
    if (freq_ == Freq::kYearly || freq_ == Freq::kMonthly) by_month_day_ = {day.day()};
    if (freq_ == Freq::kWeekly) by_day_ = {{0, WeekdayOf(start)}};
  }

  const std::optional<IcsTime>& until() const { return until_; }

  // The occurrences in [begin, end], in order. Takes the days that it tries from `budget`, and ends
  // when that is used up.
  std::vector<int64_t> Days(int64_t begin, int64_t end, int& budget) const {
    std::vector<int64_t> days, period;
    // Without a count every period stands for itself.
    int64_t day = count_ > 0 ? start_ : std::max(start_, begin);
    while (PeriodOf(day - 1) == PeriodOf(day)) --day;
    int64_t left = count_ > 0 ? count_ : end - day + 1;
    const auto end_period = [&] {
      for (const int64_t found : Positions(period)) {
        if (found < start_ || left == 0) continue;
        --left;
        if (found >= begin && found <= end) days.push_back(found);
      }
      period.clear();
    };
    for (; day <= end && left > 0 && budget > 0; ++day, --budget) {
      if (Matches(day)) period.push_back(day);
      if (PeriodOf(day + 1) != PeriodOf(day)) end_period();
    }
    // The last period is whole, although it ends behind `end`.
    for (; !period.empty() && !positions_.empty() && PeriodOf(day) == PeriodOf(day - 1); ++day)
      if (Matches(day)) period.push_back(day);
    end_period();
    return days;
  }

 private:
  enum class Freq { kDaily, kWeekly, kMonthly, kYearly };
  struct Weekday {
    int nth = 0;  // 0: each
    int weekday = 0;
  };

  absl::Status ReadPart(absl::string_view name, absl::string_view value);
  absl::Status ReadFreq(absl::string_view value);
  absl::Status ReadDays(absl::string_view value);
  static absl::StatusOr<std::vector<int>> ReadNumbers(absl::string_view value, int min, int max,
                                                      bool negative);

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

  static bool Has(const std::vector<int>& numbers, int number, int length) {
    return std::any_of(numbers.begin(), numbers.end(),
                       [&](int n) { return n == number || n == number - length - 1; });
  }

  bool Matches(int64_t number) const {
    if ((PeriodOf(number) - PeriodOf(start_)) % interval_ != 0) return false;
    const absl::CivilDay day = CivilOf(number);
    const int of_year = static_cast<int>(day - absl::CivilDay(day.year(), 1, 1)) + 1;
    const int year_days = DaysOfYear(day), month_days = DaysOfMonth(day);
    if (!by_month_.empty() && !Has(by_month_, day.month(), 12)) return false;
    if (!by_month_day_.empty() && !Has(by_month_day_, day.day(), month_days)) return false;
    if (!by_year_day_.empty() && !Has(by_year_day_, of_year, year_days)) return false;
    if (by_day_.empty()) return true;
    const bool of_month = freq_ == Freq::kMonthly || !by_month_.empty();
    const int before = (of_month ? day.day() : of_year) - 1;
    const int after = (of_month ? month_days : year_days) - 1 - before;
    return std::any_of(by_day_.begin(), by_day_.end(), [&](const Weekday& wanted) {
      return wanted.weekday == WeekdayOf(number) &&
             (wanted.nth == 0 || wanted.nth == before / 7 + 1 || wanted.nth == -(after / 7 + 1));
    });
  }

  // Those of a period's occurrences that BYSETPOS takes.
  std::vector<int64_t> Positions(const std::vector<int64_t>& period) const {
    if (positions_.empty()) return period;
    std::vector<int64_t> taken;
    for (size_t i = 0; i < period.size(); ++i) {
      if (Has(positions_, static_cast<int>(i) + 1, static_cast<int>(period.size())))
        taken.push_back(period[i]);
    }
    return taken;
  }

  Freq freq_ = Freq::kDaily;
  bool freq_set_ = false;
  int64_t start_ = 0;
  int64_t interval_ = 1;
  int64_t count_ = 0;  // 0: no limit
  std::optional<IcsTime> until_;
  int week_start_ = 0;
  std::vector<int> by_month_, by_month_day_, by_year_day_, positions_;
  std::vector<Weekday> by_day_;
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
    Weekday day;
    const size_t sign_and_number = text.size() < 2 ? 0 : text.size() - 2;
    const auto weekday = WeekdayNamed(text.substr(sign_and_number));
    const absl::string_view nth = text.substr(0, sign_and_number);
    if (!weekday || (!nth.empty() && (!absl::SimpleAtoi(nth, &day.nth) || day.nth == 0 ||
                                      day.nth < -53 || day.nth > 53)))
      return Wrong("BYDAY must have days such as MO, 4TH or -1SU");
    day.weekday = *weekday;
    by_day_.push_back(day);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int>> Recurrence::ReadNumbers(absl::string_view value, int min, int max,
                                                         bool negative) {
  std::vector<int> numbers;
  for (const absl::string_view text : absl::StrSplit(value, ',')) {
    int number = 0;
    if (!absl::SimpleAtoi(text, &number) || (number < 0 && !negative) || std::abs(number) < min ||
        std::abs(number) > max)
      return Wrong("a number of the rule is out of its range");
    numbers.push_back(number);
  }
  return numbers;
}

absl::Status Recurrence::ReadPart(absl::string_view name, absl::string_view value) {
  if (name == "FREQ") return ReadFreq(value);
  if (name == "BYDAY") return ReadDays(value);
  if (name == "INTERVAL" || name == "COUNT") {
    ASSIGN_OR_RETURN(const auto numbers, ReadNumbers(value, 1, 100'000, false));
    if (numbers.size() != 1) return Wrong("INTERVAL and COUNT must be one number");
    (name == "COUNT" ? count_ : interval_) = numbers[0];
  } else if (name == "UNTIL") {
    until_ = ParseTime(value);
    if (!until_.has_value()) return Wrong("UNTIL must be a date, or a date and time");
  } else if (name == "WKST") {
    const auto weekday = WeekdayNamed(value);
    if (!weekday.has_value()) return Wrong("WKST must be a day such as MO");
    week_start_ = *weekday;
  } else if (name == "BYMONTH") {
    ASSIGN_OR_RETURN(by_month_, ReadNumbers(value, 1, 12, false));
  } else if (name == "BYMONTHDAY") {
    ASSIGN_OR_RETURN(by_month_day_, ReadNumbers(value, 1, 31, true));
  } else if (name == "BYYEARDAY") {
    ASSIGN_OR_RETURN(by_year_day_, ReadNumbers(value, 1, 366, true));
  } else if (name == "BYSETPOS") {
    ASSIGN_OR_RETURN(positions_, ReadNumbers(value, 1, 366, true));
  } else {
    return Wrong(absl::StrCat("rules with ", name.substr(0, 40), " cannot be read"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Recurrence> Recurrence::Parse(absl::string_view text) {
  Recurrence rule;
  for (const absl::string_view part : absl::StrSplit(text, ';', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    const std::string name = absl::AsciiStrToUpper(pair.first);
    RETURN_IF_ERROR(rule.ReadPart(name, absl::AsciiStrToUpper(pair.second)));
  }
  if (!rule.freq_set_) return Wrong("the rule has no FREQ");
  if (rule.count_ > 0 && rule.until_.has_value()) return Wrong("the rule has both COUNT and UNTIL");
  const bool of_period = rule.freq_ == Freq::kMonthly || rule.freq_ == Freq::kYearly;
  const bool numbered = std::any_of(rule.by_day_.begin(), rule.by_day_.end(),
                                    [](const Weekday& day) { return day.nth != 0; });
  if (numbered && !of_period) return Wrong("BYDAY with numbers needs FREQ=MONTHLY or FREQ=YEARLY");
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
        replaced_[event.uid].insert(InZone(*event.replaces, event).day());
    }
    for (const IcsEvent& event : events_) RETURN_IF_ERROR(AddEvent(event));
    if (days_.empty()) return Wrong("has no event on a day of 1970 to 2199");
    return std::move(days_);
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
      event.uid = line.value;
    } else if (line.name == "STATUS") {
      event.cancelled = absl::EqualsIgnoreCase(line.value, "CANCELLED");
    } else if (line.name == "DTSTART") {
      const auto zone = line.parameters.find("TZID");
      if (zone != line.parameters.end()) event.zone = zone->second;
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
      ASSIGN_OR_RETURN(Recurrence rule, Recurrence::Parse(line.value));
      event.rules.push_back(std::move(rule));
    } else if (line.name == "EXRULE") {
      return Wrong("cannot be read");
    }
    return absl::OkStatus();
  }

  // A time in UTC, in the zone of the event's start; of an unknown zone as it is.
  static IcsTime InZone(IcsTime time, const IcsEvent& event) {
    if (!time.utc || event.start->utc || event.start->date) return time;
    const auto zone = cron::Zone::Load(event.zone);
    if (!zone.ok()) return time;
    time.utc = false;
    time.local += zone->spans()[zone->SpanAt(time.local)].offset;
    return time;
  }

  // The days of one occurrence behind the one on which it begins.
  static absl::StatusOr<int64_t> FurtherDays(const IcsEvent& event) {
    const IcsTime& start = *event.start;
    IcsTime end = start;
    if (event.end.has_value()) {
      end = InZone(*event.end, event);
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

  absl::Status AddOccurrence(int64_t day, int64_t further) {
    for (int64_t d = day; d <= day + further; ++d) {
      if (d < 0 || d >= cron::kLocalEnd / kSecondsOfDay) continue;
      days_.insert(static_cast<int32_t>(d));
      if (days_.size() > kCalendarDatesMax) {
        return Wrong(absl::StrCat("has more than ", kCalendarDatesMax,
                                  " days, recurrences of the next ", kIcsYears,
                                  " years included; use rules instead"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddEvent(const IcsEvent& event) {
    if (event.cancelled) return absl::OkStatus();
    ASSIGN_OR_RETURN(const int64_t further, FurtherDays(event));
    std::set<int64_t> excluded;
    for (const IcsTime& time : event.excluded) excluded.insert(InZone(time, event).day());
    const auto replaced = replaced_.find(event.uid);
    if (replaced != replaced_.end() && !event.replaces.has_value())
      excluded.insert(replaced->second.begin(), replaced->second.end());
    std::set<int64_t> begins;
    if (event.rules.empty()) begins.insert(event.start->day());
    for (const IcsTime& time : event.added) begins.insert(InZone(time, event).day());
    for (Recurrence rule : event.rules) {
      rule.Start(event.start->day());
      int64_t end = today_ + kIcsYears * 366;
      if (rule.until().has_value()) {
        // The last day at whose time of day the rule has not ended.
        const IcsTime until = InZone(*rule.until(), event);
        const int64_t of_day =
            until.date ? 0 : event.start->local - event.start->day() * kSecondsOfDay;
        end = std::min(end, IcsTime{until.local - of_day}.day());
      }
      const std::vector<int64_t> days = rule.Days(today_ - 366 - further, end, budget_);
      if (budget_ <= 0) return Wrong("has too many recurrences; use rules instead");
      begins.insert(days.begin(), days.end());
    }
    for (const int64_t day : begins) {
      if (!excluded.contains(day)) RETURN_IF_ERROR(AddOccurrence(day, further));
    }
    return absl::OkStatus();
  }

  const int64_t today_;
  std::vector<std::string> open_;  // components that have begun
  std::vector<IcsEvent> events_;
  std::map<std::string, std::set<int64_t>> replaced_;  // days of occurrences, by uid
  std::set<int32_t> days_;
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
