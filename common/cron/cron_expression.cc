#include "common/cron/cron_expression.h"

#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/cron/field_parser.h"

namespace escapement::cron {

namespace {

constexpr size_t kFields = 7;

// In the order of FieldKind. An empty text means that the second or year is absent.
using FieldTexts = std::array<absl::string_view, kFields>;

absl::StatusOr<CronExpression> Assemble(const FieldTexts& texts) {
  CronExpression e;
  const auto parse = [&](FieldKind kind, ParsedField& field) {
    return ParseField(kind, texts[static_cast<size_t>(kind)], field);
  };
  ParsedField second, minute, hour, day, month, weekday, year;
  if (!texts[0].empty()) {
    RETURN_IF_ERROR(parse(FieldKind::kSecond, second));
    e.second_written = true;
    e.seconds = second.values[0];
  }
  RETURN_IF_ERROR(parse(FieldKind::kMinute, minute));
  RETURN_IF_ERROR(parse(FieldKind::kHour, hour));
  RETURN_IF_ERROR(parse(FieldKind::kDayOfMonth, day));
  RETURN_IF_ERROR(parse(FieldKind::kMonth, month));
  RETURN_IF_ERROR(parse(FieldKind::kDayOfWeek, weekday));
  if (!texts[6].empty()) {
    RETURN_IF_ERROR(parse(FieldKind::kYear, year));
    e.years.bits = year.values;
  }
  e.minutes = minute.values[0];
  e.hours = static_cast<uint32_t>(hour.values[0]);
  e.days_of_month = static_cast<uint32_t>(day.values[0]);
  e.days_before_last = day.days_before_last;
  e.weekdays_near_day = day.weekdays_near_day;
  e.weekdays_near_last = day.weekdays_near_last;
  e.months = static_cast<uint16_t>(month.values[0]);
  e.days_of_week = static_cast<uint8_t>(weekday.values[0]);
  e.weekdays_of_month = weekday.weekdays_of_month;
  e.day_of_month_restricted = !day.star;
  e.day_of_week_restricted = !weekday.star;
  e.both_days_match = weekday.plus && !day.star;
  e.periodic = second.rhythmic || minute.rhythmic || hour.rhythmic ||
               e.seconds == kEverySecondMask || e.minutes == kEveryMinuteMask ||
               e.hours == kEveryHourMask;
  return e;
}

absl::string_view MacroExpansion(absl::string_view text) {
  static constexpr std::array<std::pair<absl::string_view, absl::string_view>, 7> kMacros = {{
      {"@yearly", "0 0 1 1 *"},
      {"@annually", "0 0 1 1 *"},
      {"@monthly", "0 0 1 * *"},
      {"@weekly", "0 0 * * 0"},
      {"@daily", "0 0 * * *"},
      {"@midnight", "0 0 * * *"},
      {"@hourly", "0 * * * *"},
  }};
  for (const auto& [name, expansion] : kMacros) {
    if (absl::EqualsIgnoreCase(text, name)) return expansion;
  }
  return {};
}

constexpr std::array<bool, 256> AllowedCharacters() {
  std::array<bool, 256> allowed = {};
  for (int c = 'a'; c <= 'z'; ++c) allowed[c] = allowed[c - 'a' + 'A'] = true;
  for (int c = '0'; c <= '9'; ++c) allowed[c] = true;
  for (const char c : {' ', '\t', '*', '/', ',', '-', '?', '#', '+', '@'})
    allowed[static_cast<uint8_t>(c)] = true;
  return allowed;
}

absl::Status CheckCharacters(absl::string_view text) {
  static constexpr std::array<bool, 256> kAllowed = AllowedCharacters();
  if (text.size() > kExpressionBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("cron: longer than ", kExpressionBytesMax, " bytes"));
  }
  for (const char& c : text) {
    if (!kAllowed[static_cast<uint8_t>(c)]) {
      return absl::InvalidArgumentError(absl::StrCat("cron: the character \"",
                                                     absl::CHexEscape(absl::string_view(&c, 1)),
                                                     "\" is not allowed"));
    }
  }
  return absl::OkStatus();
}

// Counts the fields of the text. Fields beyond the size of `parts` are only counted.
size_t Split(absl::string_view text, FieldTexts& parts) {
  size_t count = 0;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == ' ' || text[i] == '\t') {
      ++i;
      continue;
    }
    const size_t begin = i;
    while (i < text.size() && text[i] != ' ' && text[i] != '\t') ++i;
    if (count < parts.size()) parts[count] = text.substr(begin, i - begin);
    ++count;
  }
  return count;
}

}  // namespace

int YearSet::AtOrAfter(int year) const {
  for (int i = year < kFirst ? 0 : year - kFirst; i <= kLast - kFirst; i = (i / 64 + 1) * 64) {
    if (const uint64_t rest = bits[i / 64] >> (i % 64); rest != 0)
      return kFirst + i + std::countr_zero(rest);
  }
  return 0;
}

int YearSet::AtOrBefore(int year) const {
  for (int i = year > kLast ? kLast - kFirst : year - kFirst; i >= 0; i = i / 64 * 64 - 1) {
    if (const uint64_t rest = bits[i / 64] << (63 - i % 64); rest != 0)
      return kFirst + i - std::countl_zero(rest);
  }
  return 0;
}

absl::StatusOr<CronExpression> ParseCron(absl::string_view text) {
  RETURN_IF_ERROR(CheckCharacters(text));
  FieldTexts parts;
  size_t count = Split(text, parts);
  if (count == 1 && parts[0][0] == '@') {
    const absl::string_view expansion = MacroExpansion(parts[0]);
    if (expansion.empty())
      return absl::InvalidArgumentError(absl::StrCat("cron: unknown macro \"", parts[0], "\""));
    count = Split(expansion, parts);
  }
  if (count == 5) return Assemble({"", parts[0], parts[1], parts[2], parts[3], parts[4], ""});
  if (count == 6) return Assemble({parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], ""});
  if (count == 7) return Assemble(parts);
  return absl::InvalidArgumentError(absl::StrCat(
      "cron: ", count,
      " fields; needs 5 (minute hour day-of-month month day-of-week), 6 (second first) "
      "or 7 (second first, year last)"));
}

absl::StatusOr<CronExpression> ParseExclusion(absl::string_view text) {
  absl::StatusOr<CronExpression> expression = ParseCron(text);
  if (expression.ok() && !expression->second_written) expression->seconds = kEverySecondMask;
  return expression;
}

absl::StatusOr<CronExpression> ParseCronFields(const CronFields& fields) {
  if (fields.minute.empty()) return absl::InvalidArgumentError("minute: is required");
  if (fields.hour.empty()) return absl::InvalidArgumentError("hour: is required");
  const auto or_star = [](absl::string_view field) {
    return field.empty() ? absl::string_view("*") : field;
  };
  const FieldTexts texts = {fields.second,
                            fields.minute,
                            fields.hour,
                            or_star(fields.day_of_month),
                            or_star(fields.month),
                            or_star(fields.day_of_week),
                            fields.year};
  for (absl::string_view text : texts) {
    RETURN_IF_ERROR(CheckCharacters(text));
  }
  return Assemble(texts);
}

std::string TextOf(const CronFields& fields) {
  const auto or_default = [](absl::string_view field, absl::string_view fallback) {
    return field.empty() ? fallback : field;
  };
  std::string text =
      absl::StrCat(fields.minute, " ", fields.hour, " ", or_default(fields.day_of_month, "*"), " ",
                   or_default(fields.month, "*"), " ", or_default(fields.day_of_week, "*"));
  if (!fields.second.empty() || !fields.year.empty())
    text = absl::StrCat(or_default(fields.second, "0"), " ", text);
  if (!fields.year.empty()) absl::StrAppend(&text, " ", fields.year);
  return text;
}

namespace {

constexpr size_t kListMax = 12;        // longer lists are described by their count
constexpr size_t kTimesListShort = 4;  // up to this many times of day are always listed
constexpr size_t kTimesListMax = 12;   // up to this many times of day are listed one by one

constexpr std::array<const char*, 13> kMonths = {
    "",     "January", "February",  "March",   "April",    "May",     "June",
    "July", "August",  "September", "October", "November", "December"};
constexpr std::array<const char*, 7> kWeekdays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                  "Thursday", "Friday", "Saturday"};
constexpr std::array<const char*, 6> kOrdinals = {"first",  "second", "third",
                                                  "fourth", "fifth",  "last"};

using Values = std::vector<int>;
using Words = std::vector<std::string>;

// "a", "a and b", "a, b and c".
std::string Listed(const Words& words, const char* conjunction) {
  if (words.size() < 2) return words.empty() ? "" : words[0];
  return absl::StrCat(absl::StrJoin(words.begin(), words.end() - 1, ", "), " ", conjunction, " ",
                      words.back());
}

Values Of(uint64_t mask) {
  Values values;
  for (; mask != 0; mask &= mask - 1) values.push_back(LowestBit(mask));
  return values;
}

// Ascending values as words; three or more neighbours become "a to b".
Words InRanges(const Values& values, const std::function<std::string(int)>& name) {
  Words words;
  for (size_t i = 0; i < values.size();) {
    size_t j = i;
    while (j + 1 < values.size() && values[j + 1] == values[j] + 1) ++j;
    if (j - i >= 2) {
      words.push_back(absl::StrCat(name(values[i]), " to ", name(values[j])));
      i = j + 1;
    } else {
      words.push_back(name(values[i++]));
    }
  }
  return words;
}

// Returns n if the values are 0, n, 2n, … up to the end of `size` values, where n > 1 divides
// `size`.
std::optional<int> EvenStep(const Values& values, int size) {
  if (values.size() < 2 || values[0] != 0) return std::nullopt;
  const int step = values[1];
  if (step < 2 || size % step != 0 || static_cast<int>(values.size()) != size / step)
    return std::nullopt;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != static_cast<int>(i) * step) return std::nullopt;
  }
  return step;
}

// "minute 5", "minutes 5, 10 and 20 to 30", "27 different minutes".
std::string Numbered(const char* unit, const Values& values) {
  if (values.size() == 1) return absl::StrCat(unit, " ", values[0]);
  const Words words = InRanges(values, [](int v) { return absl::StrCat(v); });
  if (words.size() > kListMax) return absl::StrCat(values.size(), " different ", unit, "s");
  return absl::StrCat(unit, "s ", Listed(words, "and"));
}

// Its text starts with "At" or "Every".
class Time {
 public:
  explicit Time(const CronExpression& e)
      : seconds_(Of(e.seconds)),
        minutes_(Of(e.minutes)),
        hours_(Of(e.hours)),
        on_the_minute_(e.seconds == 1) {
    const size_t times = seconds_.size() * minutes_.size() * hours_.size();
    if (times > kTimesListShort && on_the_minute_) text_ = Rhythm();
    times_listed_ = text_.empty() && times <= kTimesListMax;
    if (times_listed_) text_ = TimesOfDay();
    if (text_.empty()) text_ = OfMinutesAndHours();
  }

  const std::string& text() const { return text_; }
  bool times_listed() const { return times_listed_; }

 private:
  static bool IsRange(const Values& values) {
    return values.size() > 1 && values.back() - values[0] + 1 == static_cast<int>(values.size());
  }

  // Words for a rhythm, at second 0; empty if only lists describe it.
  std::string Rhythm() const {
    if (minutes_.size() == 60) return absl::StrCat("Every minute", InHours(59));
    if (const auto step = EvenStep(minutes_, 60))
      return absl::StrCat("Every ", *step, " minutes", InHours(60 - *step));
    if (minutes_ != Values{0}) return "";
    if (hours_.size() == 24) return "Every hour";
    if (const auto step = EvenStep(hours_, 24)) return absl::StrCat("Every ", *step, " hours");
    if (!IsRange(hours_)) return "";
    return absl::StrFormat("Every hour from %02d:00 to %02d:00", hours_[0], hours_.back());
  }

  std::string TimesOfDay() const {
    Words times;
    for (int h : hours_) {
      for (int m : minutes_) {
        for (int s : seconds_) {
          times.push_back(on_the_minute_ ? absl::StrFormat("%02d:%02d", h, m)
                                         : absl::StrFormat("%02d:%02d:%02d", h, m, s));
        }
      }
    }
    return absl::StrCat("At ", Listed(times, "and"));
  }

  // Words for minutes 0 to `last` of each hour.
  std::string InHours(int last) const {
    if (hours_.size() == 24) return "";
    Words ranges;
    for (size_t i = 0; i < hours_.size();) {
      size_t j = i;
      while (j + 1 < hours_.size() && hours_[j + 1] == hours_[j] + 1) ++j;
      ranges.push_back(absl::StrFormat("from %02d:00 to %02d:%02d", hours_[i], hours_[j], last));
      i = j + 1;
    }
    if (ranges.size() > 4) return absl::StrCat(" of ", OfHours());
    return absl::StrCat(" ", Listed(ranges, "and"));
  }

  std::string OfHours() const {
    if (hours_.size() == 24) return "every hour";
    const Words words = InRanges(hours_, [](int h) { return absl::StrFormat("%02d", h); });
    return absl::StrCat(hours_.size() == 1 ? "hour " : "the hours ", Listed(words, "and"));
  }

  std::string OfMinutesAndHours() const {
    std::string text;
    if (on_the_minute_) return absl::StrCat("At ", Numbered("minute", minutes_), " of ", OfHours());
    const auto step = EvenStep(seconds_, 60);
    if (seconds_.size() == 60) {
      text = "Every second";
    } else if (step) {
      text = absl::StrCat("Every ", *step, " seconds");
    } else {
      text = absl::StrCat("At ", Numbered("second", seconds_));
    }
    if (minutes_.size() < 60)
      return absl::StrCat(text, " of ", Numbered("minute", minutes_), " of ", OfHours());
    if (hours_.size() < 24) return absl::StrCat(text, " of every minute of ", OfHours());
    return seconds_.size() == 60 || step ? text : absl::StrCat(text, " of every minute");
  }

  const Values seconds_, minutes_, hours_;
  const bool on_the_minute_;
  bool times_listed_ = false;
  std::string text_;
};

std::string BeforeLast(int n) {
  if (n == 0) return "the last day";
  return n == 1 ? "the day before the last day"
                : absl::StrCat("the day ", n, " days before the last day");
}

// "day 15 of the month", "days 1 to 7 and the last day of the month".
std::string DayOfMonth(const CronExpression& e) {
  Words items = InRanges(Of(e.days_of_month), [](int v) { return absl::StrCat(v); });
  if (!items.empty())
    items[0] = absl::StrCat(std::popcount(e.days_of_month) == 1 ? "day " : "days ", items[0]);
  for (int n : Of(e.days_before_last)) items.push_back(BeforeLast(n));
  for (int day : Of(e.weekdays_near_day))
    items.push_back(absl::StrCat("the weekday nearest day ", day));
  for (int n : Of(e.weekdays_near_last)) {
    items.push_back(n == 0 ? std::string("the last weekday")
                           : absl::StrCat("the weekday nearest ", BeforeLast(n)));
  }
  if (items.size() > kListMax) {
    const int listed = std::popcount(e.days_of_month) + std::popcount(e.days_before_last) +
                       std::popcount(e.weekdays_near_day) + std::popcount(e.weekdays_near_last);
    return absl::StrCat("any of ", listed, " listed days of the month");
  }
  return absl::StrCat(Listed(items, "and"), " of the month");
}

// The weekdays from Monday on; a range that wraps is one range.
Words Weekdays(uint8_t mask) {
  const auto name = [](int d) { return std::string(kWeekdays[d % 7]); };
  // Start after a day that is not in the set, so that no range is cut.
  int first = 1;
  if (HasBit(mask, 0) && HasBit(mask, 1) && mask != kEveryWeekdayMask) {
    first = 0;
    while (HasBit(mask, (first + 6) % 7)) first = (first + 6) % 7;
  }
  Values values;
  for (int i = first; i < first + 7; ++i) {
    if (HasBit(mask, i % 7)) values.push_back(i);
  }
  return InRanges(values, name);
}

struct WeekdayWords {
  std::string text;
  bool range = false;  // it is one range of weekdays
};

WeekdayWords DayOfWeek(const CronExpression& e, const char* conjunction) {
  Words items = Weekdays(e.days_of_week);
  WeekdayWords words;
  words.range = items.size() == 1 && e.weekdays_of_month == 0 && std::popcount(e.days_of_week) > 1;
  bool of_the_month = false;
  for (int bit : Of(e.weekdays_of_month)) {
    items.push_back(absl::StrCat("the ", kOrdinals[bit / 7], " ", kWeekdays[bit % 7]));
    of_the_month = true;
  }
  words.text = items.size() > kListMax ? absl::StrCat("any of ", items.size(), " listed weekdays")
                                       : Listed(items, conjunction);
  if (of_the_month) absl::StrAppend(&words.text, " of the month");
  return words;
}

// Empty if both day fields are unrestricted.
std::string Days(const CronExpression& e) {
  if (e.both_days_match) {
    return absl::StrCat("on ", DayOfMonth(e), ", if that is ", DayOfWeek(e, "or").text);
  }
  std::string text;
  if (e.day_of_month_restricted) text = absl::StrCat("on ", DayOfMonth(e));
  if (!e.day_of_week_restricted) return text;
  const WeekdayWords weekday = DayOfWeek(e, "and");
  if (text.empty()) return weekday.range ? weekday.text : absl::StrCat("on ", weekday.text);
  return absl::StrCat(text, " or ", weekday.range ? "" : "on ", weekday.text);
}

std::string Months(const CronExpression& e) {
  const Words words = InRanges(Of(e.months), [](int m) { return std::string(kMonths[m]); });
  const bool range = words.size() == 1 && std::popcount(e.months) > 1;
  return absl::StrCat(range ? "from " : "in ", Listed(words, "and"));
}

std::string Years(const YearSet& years) {
  Values values;
  for (int year = years.AtOrAfter(YearSet::kFirst); year != 0; year = years.AtOrAfter(year + 1))
    values.push_back(year);
  const Words words = InRanges(values, [](int v) { return absl::StrCat(v); });
  if (words.size() == 1 && values.size() > 1) return absl::StrCat("from ", words[0]);
  if (values.size() > 3) {
    const int step = values[1] - values[0];
    bool even = true;
    for (size_t i = 1; i < values.size(); ++i) even = even && values[i] - values[i - 1] == step;
    if (even) return absl::StrCat("every ", step, " years from ", values[0], " to ", values.back());
  }
  if (words.size() > kListMax) {
    return absl::StrCat("in ", values.size(), " different years from ", values[0], " to ",
                        values.back());
  }
  return absl::StrCat("in ", Listed(words, "and"));
}

}  // namespace

std::string Describe(const CronExpression& e) {
  const Time time(e);
  std::string text = time.text();
  if (const std::string days = Days(e); !days.empty()) {
    absl::StrAppend(&text, ", ", days);
  } else if (time.times_listed()) {
    absl::StrAppend(&text, ", every day");
  }
  if (e.months != kEveryMonthMask) absl::StrAppend(&text, ", ", Months(e));
  if (!e.years.Every()) absl::StrAppend(&text, ", ", Years(e.years));
  return text;
}

}  // namespace escapement::cron
