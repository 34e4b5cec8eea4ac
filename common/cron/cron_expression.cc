#include "common/cron/cron_expression.h"

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace escapement::cron {
namespace {

constexpr std::array<absl::string_view, 12> kMonthNames = {
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr std::array<absl::string_view, 7> kWeekdayNames = {"sun", "mon", "tue", "wed",
                                                            "thu", "fri", "sat"};

struct FieldSpec {
  absl::string_view name;
  int lowest;
  int highest;    // the MAX of `a/n`
  int wrap_last;  // the last value before a range wraps to `lowest`
  int step_max;
  std::span<const absl::string_view> names;  // names[i] is lowest + i
  bool is_day;
};

constexpr FieldSpec kSecond = {"second", 0, 59, 59, 59, {}, false};
constexpr FieldSpec kMinute = {"minute", 0, 59, 59, 59, {}, false};
constexpr FieldSpec kHour = {"hour", 0, 23, 23, 23, {}, false};
constexpr FieldSpec kDayOfMonth = {"day-of-month", 1, 31, 31, 31, {}, true};
constexpr FieldSpec kMonth = {"month", 1, 12, 12, 12, kMonthNames, false};
constexpr FieldSpec kDayOfWeek = {"day-of-week", 0, 7, 6, 7, kWeekdayNames, true};

struct Field {
  uint64_t mask = 0;      // bit 7 of day-of-week is already folded into bit 0
  bool star = false;      // exactly `*` or `?`
  bool rhythmic = false;  // contains `*` or `/`
};

absl::Status Refuse(const FieldSpec& spec, absl::string_view field, absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat(spec.name, ": ", reason, " in \"", field, "\""));
}

// Digits only, at most `digits_max` of them.
std::optional<int> Digits(absl::string_view text, size_t digits_max) {
  if (text.empty() || text.size() > digits_max) return std::nullopt;
  int value = 0;
  for (char c : text) {
    if (!absl::ascii_isdigit(c)) return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

// Names the extensions of other cron dialects, so that the message says "not supported" and not
// "not a value".
std::optional<absl::string_view> UnsupportedReason(const FieldSpec& spec, absl::string_view value) {
  if (!spec.is_day) return std::nullopt;
  if (absl::StartsWith(value, "+")) return "a leading + (AND of the day fields) is not supported";
  if (absl::StrContains(value, '#')) return "# (k-th weekday of the month) is not supported";
  const std::string lower = absl::AsciiStrToLower(value);
  if (absl::StartsWith(lower, "l") || absl::EndsWith(lower, "l"))
    return "L (last) is not supported";
  if (absl::EndsWith(lower, "w") && lower.size() <= 3)
    return "W (nearest weekday) is not supported";
  return std::nullopt;
}

absl::StatusOr<int> ParseValue(const FieldSpec& spec, absl::string_view field,
                               absl::string_view text) {
  if (text.empty()) return Refuse(spec, field, "a value is missing");
  if (std::optional<int> number = Digits(text, 2)) {
    if (*number < spec.lowest || *number > spec.highest) {
      return Refuse(spec, field,
                    absl::StrCat(*number, " is outside ", spec.lowest, "-", spec.highest));
    }
    return *number;
  }
  const std::string lower = absl::AsciiStrToLower(text);
  for (size_t i = 0; i < spec.names.size(); ++i) {
    if (lower == spec.names[i]) return spec.lowest + static_cast<int>(i);
  }
  if (text == "*" || text == "?")
    return Refuse(spec, field, absl::StrCat("\"", text, "\" must stand alone"));
  if (auto reason = UnsupportedReason(spec, text)) return Refuse(spec, field, *reason);
  return Refuse(spec, field, absl::StrCat("\"", text, "\" is not a value"));
}

absl::StatusOr<int> ParseStep(const FieldSpec& spec, absl::string_view field,
                              absl::string_view text) {
  const std::optional<int> step = Digits(text, 3);
  if (!step) return Refuse(spec, field, absl::StrCat("\"", text, "\" is not a step"));
  if (*step < 1 || *step > spec.step_max) {
    return Refuse(spec, field, absl::StrCat("step ", *step, " is outside 1-", spec.step_max));
  }
  return *step;
}

void SetBit(const FieldSpec& spec, int value, uint64_t& mask) {
  mask |= uint64_t{1} << (value > spec.wrap_last ? spec.lowest : value);
}

// first..last in steps; past the end of the field if first > last.
void SetRange(const FieldSpec& spec, int first, int last, int step, uint64_t& mask) {
  if (first <= last) {
    for (int v = first; v <= last; v += step) SetBit(spec, v, mask);
    return;
  }
  const int size = spec.wrap_last - spec.lowest + 1;
  if (first > spec.wrap_last) {  // 7-3 in day-of-week is 0-3
    first -= size;
  } else {
    last += size;
  }
  for (int v = first; v <= last; v += step) SetBit(spec, v > spec.wrap_last ? v - size : v, mask);
}

absl::Status ParseItem(const FieldSpec& spec, absl::string_view field, absl::string_view item,
                       uint64_t& mask) {
  if (item.empty()) return Refuse(spec, field, "an item of the list is empty");
  absl::string_view range = item;
  int step = 0;  // 0: not written
  if (const size_t slash = item.find('/'); slash != absl::string_view::npos) {
    absl::StatusOr<int> parsed = ParseStep(spec, field, item.substr(slash + 1));
    if (!parsed.ok()) return parsed.status();
    step = *parsed;
    range = item.substr(0, slash);
  }
  if (range == "*") {
    if (step == 0) return Refuse(spec, field, "a bare * inside a list");
    SetRange(spec, spec.lowest, spec.wrap_last, step, mask);
    return absl::OkStatus();
  }
  if (auto reason = UnsupportedReason(spec, range)) return Refuse(spec, field, *reason);
  const size_t dash = range.find('-');
  absl::StatusOr<int> first = ParseValue(spec, field, range.substr(0, dash));
  if (!first.ok()) return first.status();
  if (dash == absl::string_view::npos) {
    SetRange(spec, *first, step == 0 ? *first : spec.highest, step == 0 ? 1 : step, mask);
    return absl::OkStatus();
  }
  absl::StatusOr<int> last = ParseValue(spec, field, range.substr(dash + 1));
  if (!last.ok()) return last.status();
  SetRange(spec, *first, *last, step == 0 ? 1 : step, mask);
  return absl::OkStatus();
}

absl::StatusOr<Field> ParseField(const FieldSpec& spec, absl::string_view text) {
  Field field;
  if (text == "*" || (text == "?" && spec.is_day)) {
    SetRange(spec, spec.lowest, spec.wrap_last, 1, field.mask);
    field.star = true;
    field.rhythmic = text == "*";
    return field;
  }
  if (text == "?") return Refuse(spec, text, "? is for the day fields only");
  for (absl::string_view item : absl::StrSplit(text, ',')) {
    if (absl::Status status = ParseItem(spec, text, item, field.mask); !status.ok()) return status;
  }
  field.rhythmic = absl::StrContains(text, '*') || absl::StrContains(text, '/');
  return field;
}

// `fields` are second (empty = not written), minute, hour, day-of-month, month, day-of-week.
absl::StatusOr<CronExpression> Assemble(const std::array<absl::string_view, 6>& fields) {
  static constexpr std::array<FieldSpec, 6> kSpecs = {kSecond,     kMinute, kHour,
                                                      kDayOfMonth, kMonth,  kDayOfWeek};
  std::array<Field, 6> parsed;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (i == 0 && fields[0].empty()) {
      parsed[0].mask = 1;
      continue;
    }
    absl::StatusOr<Field> field = ParseField(kSpecs[i], fields[i]);
    if (!field.ok()) return field.status();
    parsed[i] = *field;
  }
  CronExpression e;
  e.second_written = !fields[0].empty();
  e.seconds = parsed[0].mask;
  e.minutes = parsed[1].mask;
  e.hours = static_cast<uint32_t>(parsed[2].mask);
  e.days_of_month = static_cast<uint32_t>(parsed[3].mask);
  e.months = static_cast<uint16_t>(parsed[4].mask);
  e.days_of_week = static_cast<uint8_t>(parsed[5].mask);
  e.day_of_month_restricted = !parsed[3].star;
  e.day_of_week_restricted = !parsed[5].star;
  e.periodic = parsed[0].rhythmic || parsed[1].rhythmic || parsed[2].rhythmic ||
               e.seconds == kEveryMinuteMask || e.minutes == kEveryMinuteMask ||
               e.hours == kEveryHourMask;
  return e;
}

absl::StatusOr<absl::string_view> ExpandMacro(absl::string_view text) {
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
  return absl::InvalidArgumentError(absl::StrCat("cron: unknown macro \"", text, "\""));
}

absl::Status CheckCharacters(absl::string_view text) {
  for (char c : text) {
    if (!absl::ascii_isalnum(c) && !absl::StrContains(" \t*/,-?#+@", c)) {
      return absl::InvalidArgumentError(absl::StrCat("cron: the character \"",
                                                     absl::CHexEscape(absl::string_view(&c, 1)),
                                                     "\" is not allowed"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CronExpression> ParseCron(absl::string_view text) {
  if (text.size() > kExpressionBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("cron: longer than ", kExpressionBytesMax, " bytes"));
  }
  if (absl::Status status = CheckCharacters(text); !status.ok()) return status;
  std::vector<absl::string_view> parts =
      absl::StrSplit(text, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (parts.size() == 1 && absl::StartsWith(parts[0], "@")) {
    absl::StatusOr<absl::string_view> expansion = ExpandMacro(parts[0]);
    if (!expansion.ok()) return expansion.status();
    parts = absl::StrSplit(*expansion, ' ');
  }
  if (parts.size() == 7)
    return absl::InvalidArgumentError("year: a seventh field is not supported");
  if (parts.size() == 6)
    return Assemble({parts[0], parts[1], parts[2], parts[3], parts[4], parts[5]});
  if (parts.size() == 5) return Assemble({"", parts[0], parts[1], parts[2], parts[3], parts[4]});
  return absl::InvalidArgumentError(
      absl::StrCat("cron: ", parts.size(),
                   " fields; 5 (minute hour day-of-month month day-of-week) or 6 (second "
                   "first) are needed"));
}

absl::StatusOr<CronExpression> ParseExclusion(absl::string_view text) {
  absl::StatusOr<CronExpression> expression = ParseCron(text);
  if (expression.ok() && !expression->second_written) expression->seconds = kEverySecondMask;
  return expression;
}

absl::StatusOr<CronExpression> ParseCronFields(const CronFields& fields) {
  if (fields.minute.empty()) return absl::InvalidArgumentError("minute: required");
  if (fields.hour.empty()) return absl::InvalidArgumentError("hour: required");
  const auto or_star = [](absl::string_view field) {
    return field.empty() ? absl::string_view("*") : field;
  };
  const std::array<absl::string_view, 6> all = {fields.second,         fields.minute,
                                                fields.hour,           or_star(fields.day_of_month),
                                                or_star(fields.month), or_star(fields.day_of_week)};
  for (absl::string_view field : all) {
    if (field.size() > kExpressionBytesMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("cron: longer than ", kExpressionBytesMax, " bytes"));
    }
    if (absl::Status status = CheckCharacters(field); !status.ok()) return status;
  }
  return Assemble(all);
}

}  // namespace escapement::cron
