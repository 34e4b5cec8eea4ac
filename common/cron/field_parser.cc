#include "common/cron/field_parser.h"

#include <span>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/cron/cron_expression.h"

namespace escapement::cron {

namespace {

// Three letters as one number, in lower case.
constexpr uint32_t Letters(char a, char b, char c) {
  const auto lower = [](char x) { return static_cast<uint32_t>(static_cast<uint8_t>(x) | 0x20); };
  return lower(a) << 16 | lower(b) << 8 | lower(c);
}
constexpr std::array<uint32_t, 12> kMonthNames = {
    Letters('j', 'a', 'n'), Letters('f', 'e', 'b'), Letters('m', 'a', 'r'), Letters('a', 'p', 'r'),
    Letters('m', 'a', 'y'), Letters('j', 'u', 'n'), Letters('j', 'u', 'l'), Letters('a', 'u', 'g'),
    Letters('s', 'e', 'p'), Letters('o', 'c', 't'), Letters('n', 'o', 'v'), Letters('d', 'e', 'c')};
constexpr std::array<uint32_t, 7> kWeekdayNames = {
    Letters('s', 'u', 'n'), Letters('m', 'o', 'n'), Letters('t', 'u', 'e'), Letters('w', 'e', 'd'),
    Letters('t', 'h', 'u'), Letters('f', 'r', 'i'), Letters('s', 'a', 't')};

struct FieldSpec {
  FieldKind kind;
  absl::string_view name;
  int lowest;
  int highest;    // the MAX of `a/n`
  int wrap_last;  // the last value before a range wraps to `lowest`
  int step_max;
  size_t digits_max = 2;
  std::span<const uint32_t> names = {};  // names[i] is lowest + i

  bool IsDay() const { return kind == FieldKind::kDayOfMonth || kind == FieldKind::kDayOfWeek; }
};

constexpr std::array<FieldSpec, 7> kSpecs = {{
    {FieldKind::kSecond, "second", 0, 59, 59, 59},
    {FieldKind::kMinute, "minute", 0, 59, 59, 59},
    {FieldKind::kHour, "hour", 0, 23, 23, 23},
    {FieldKind::kDayOfMonth, "day-of-month", 1, 31, 31, 31},
    {FieldKind::kMonth, "month", 1, 12, 12, 12, 2, kMonthNames},
    {FieldKind::kDayOfWeek, "day-of-week", 0, 7, 6, 7, 2, kWeekdayNames},
    {FieldKind::kYear, "year", YearSet::kFirst, YearSet::kLast, YearSet::kLast, 229, 4},
}};

bool IsLetter(char c, char letter) { return (c | 0x20) == letter; }

// The number in the text, which may have at most `digits_max` digits; -1 if it is not a number.
int Number(absl::string_view text, size_t digits_max) {
  if (text.empty() || text.size() > digits_max) return -1;
  int value = 0;
  for (char c : text) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return -1;
    value = value * 10 + (c - '0');
  }
  return value;
}

// Reads one field. A method that returns false has set the status.
class FieldReader {
 public:
  FieldReader(const FieldSpec& spec, absl::string_view text, ParsedField& field)
      : spec_(spec), text_(text), field_(field) {}

  absl::Status Read() {
    absl::string_view rest = text_;
    if (spec_.kind == FieldKind::kDayOfWeek && !rest.empty() && rest[0] == '+') {
      field_.plus = true;
      rest.remove_prefix(1);
    }
    if (rest == "*" || (rest == "?" && spec_.IsDay())) {
      if (field_.plus) Refuse("a leading + needs a restriction of the day of week");
      AddRange(spec_.lowest, spec_.wrap_last, 1);
      field_.star = true;
      field_.rhythmic = rest == "*";
      return std::move(status_);
    }
    while (true) {
      const size_t comma = rest.find(',');
      if (!ReadItem(rest.substr(0, comma)) || comma == absl::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
    return std::move(status_);
  }

 private:
  template <typename... Parts>
  bool Refuse(const Parts&... reason) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat(spec_.name, ": ", reason..., " in \"", text_, "\""));
    return false;
  }

  void Add(int value) {
    if (value > spec_.wrap_last) value = spec_.lowest;
    if (spec_.kind == FieldKind::kYear) value -= YearSet::kFirst;
    field_.values[static_cast<size_t>(value) / 64] |= uint64_t{1} << (value % 64);
  }

  // Adds first..last in steps, wrapping past the end of the field if first > last.
  void AddRange(int first, int last, int step) {
    if (first <= last) {
      for (int v = first; v <= last; v += step) Add(v);
      return;
    }
    const int size = spec_.wrap_last - spec_.lowest + 1;
    if (first > spec_.wrap_last) {  // 7-3 in day-of-week is 0-3
      first -= size;
    } else {
      last += size;
    }
    for (int v = first; v <= last; v += step) Add(v > spec_.wrap_last ? v - size : v);
  }

  bool ReadValue(absl::string_view text, int& value) {
    if (text.empty()) return Refuse("a value is missing");
    value = Number(text, spec_.digits_max);
    if (value >= 0) {
      if (value >= spec_.lowest && value <= spec_.highest) return true;
      return Refuse(value, " is outside ", spec_.lowest, "-", spec_.highest);
    }
    if (text.size() == 3) {
      const uint32_t letters = Letters(text[0], text[1], text[2]);
      for (size_t i = 0; i < spec_.names.size(); ++i) {
        if (letters != spec_.names[i]) continue;
        value = spec_.lowest + static_cast<int>(i);
        return true;
      }
    }
    if (text == "?" && !spec_.IsDay()) return Refuse("? is for the day fields only");
    if (text == "*" || text == "?") return Refuse("\"", text, "\" must stand alone");
    if (text[0] == '+') return Refuse("+ may stand only once, before the whole day-of-week field");
    return Refuse("\"", text, "\" is not a value");
  }

  bool ReadStep(absl::string_view text, int& step) {
    step = Number(text, 3);
    if (step < 0) return Refuse("\"", text, "\" is not a step");
    if (step < 1 || step > spec_.step_max)
      return Refuse("step ", step, " is outside 1-", spec_.step_max);
    return true;
  }

  bool ReadItem(absl::string_view item) {
    if (item.empty() && text_.empty()) return Refuse("empty");
    if (item.empty() && text_ == "+") return Refuse("a value is missing");
    if (item.empty()) return Refuse("an item of the list is empty");
    if (IsDayItem(item)) {
      return spec_.kind == FieldKind::kDayOfMonth ? ReadMonthDayItem(item) : ReadWeekdayItem(item);
    }
    absl::string_view range = item;
    int step = 0;  // 0: not written
    if (const size_t slash = item.find('/'); slash != absl::string_view::npos) {
      field_.rhythmic = true;
      if (!ReadStep(item.substr(slash + 1), step)) return false;
      range = item.substr(0, slash);
    }
    if (range == "*") {
      if (step == 0) return Refuse("a bare * inside a list");
      AddRange(spec_.lowest, spec_.wrap_last, step);
      return true;
    }
    const size_t dash = range.find('-');
    int first = 0, last = 0;
    if (!ReadValue(range.substr(0, dash), first)) return false;
    if (dash == absl::string_view::npos) {
      AddRange(first, step == 0 ? first : spec_.highest, step == 0 ? 1 : step);
      return true;
    }
    if (!ReadValue(range.substr(dash + 1), last)) return false;
    if (first > last && spec_.kind == FieldKind::kYear)
      return Refuse("the range ", first, "-", last, " runs backwards; years do not wrap");
    AddRange(first, last, step == 0 ? 1 : step);
    return true;
  }

  // Days of the month have no names, and names of weekdays contain no L.
  bool IsDayItem(absl::string_view item) const {
    if (!spec_.IsDay()) return false;
    for (char c : item) {
      if (IsLetter(c, 'l') || c == '#') return true;
      if (IsLetter(c, 'w') && spec_.kind == FieldKind::kDayOfMonth) return true;
    }
    return false;
  }

  bool RefuseInRange(absl::string_view item) {
    return Refuse("\"", item, "\": items with L, W or # stand in no range and take no step");
  }

  // `L`, `L-n`, `nW`, `LW`, `L-nW`.
  bool ReadMonthDayItem(absl::string_view item) {
    absl::string_view rest = item;
    const bool weekday = IsLetter(rest.back(), 'w');
    if (weekday) rest.remove_suffix(1);
    if (rest.empty()) return Refuse("W needs a day, such as 15W or LW");
    const bool last = IsLetter(rest[0], 'l');
    if (rest.find('/') != absl::string_view::npos) return RefuseInRange(item);
    if (!last) {
      if (rest.find('-') != absl::string_view::npos) return RefuseInRange(item);
      if (!weekday) return Refuse("\"", item, "\" is not a value");
      int day = 0;
      if (!ReadValue(rest, day)) return false;
      field_.weekdays_near_day |= uint32_t{1} << day;
      return true;
    }
    int before = 0;
    if (rest.size() > 1) {
      if (rest[1] != '-') return Refuse("\"", item, "\" is not a value");
      before = Number(rest.substr(2), 2);
      if (before < 0) {
        return rest.size() > 2 && IsDayItem(rest.substr(2))
                   ? RefuseInRange(item)
                   : Refuse("\"", item, "\" is not a value");
      }
      if (before > 30) return Refuse("L-", before, ": ", before, " is outside 0-30");
    }
    (weekday ? field_.weekdays_near_last : field_.days_before_last) |= uint32_t{1} << before;
    return true;
  }

  // `d#k`, `d#L`, `dL`.
  bool ReadWeekdayItem(absl::string_view item) {
    if (item.find_first_of("-/") != absl::string_view::npos) return RefuseInRange(item);
    if (item.size() == 1 && item[0] != '#') return Refuse("L needs a weekday, such as 5L");
    const size_t hash = item.find('#');
    const bool last =
        IsLetter(item.back(), 'l') && (hash == absl::string_view::npos || hash == item.size() - 2);
    if (!last && hash == absl::string_view::npos) return Refuse("\"", item, "\" is not a value");
    int weekday = 0;
    if (!ReadValue(item.substr(0, hash == absl::string_view::npos ? item.size() - 1 : hash),
                   weekday)) {
      return false;
    }
    if (weekday == 7) weekday = 0;
    int place = 6;  // 6: the last one
    if (!last) {
      const absl::string_view number = item.substr(hash + 1);
      place = Number(number, 2);
      if (place < 0) return Refuse("\"", number, "\" after # is neither 1-5 nor L");
      if (place < 1 || place > 5) return Refuse(place, " after # is outside 1-5");
    }
    field_.weekdays_of_month |= uint64_t{1} << (7 * (place - 1) + weekday);
    return true;
  }

  const FieldSpec& spec_;
  const absl::string_view text_;
  ParsedField& field_;
  absl::Status status_;
};

}  // namespace

absl::Status ParseField(FieldKind kind, absl::string_view text, ParsedField& field) {
  return FieldReader(kSpecs[static_cast<size_t>(kind)], text, field).Read();
}

}  // namespace escapement::cron
