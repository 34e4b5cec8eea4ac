#include "common/cron/cron_expression.h"

#include <array>
#include <bit>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/cron/field_parser.h"

namespace escapement::cron {
namespace {

constexpr size_t kFields = 7;

// In the order of FieldKind; an empty second or year is not written.
using FieldTexts = std::array<absl::string_view, kFields>;

absl::StatusOr<CronExpression> Assemble(const FieldTexts& texts) {
  CronExpression e;
  const auto parse = [&](FieldKind kind, ParsedField& field) {
    return ParseField(kind, texts[static_cast<size_t>(kind)], field);
  };
  ParsedField second, minute, hour, day, month, weekday, year;
  if (!texts[0].empty()) {
    if (absl::Status status = parse(FieldKind::kSecond, second); !status.ok()) return status;
    e.second_written = true;
    e.seconds = second.values[0];
  }
  if (absl::Status status = parse(FieldKind::kMinute, minute); !status.ok()) return status;
  if (absl::Status status = parse(FieldKind::kHour, hour); !status.ok()) return status;
  if (absl::Status status = parse(FieldKind::kDayOfMonth, day); !status.ok()) return status;
  if (absl::Status status = parse(FieldKind::kMonth, month); !status.ok()) return status;
  if (absl::Status status = parse(FieldKind::kDayOfWeek, weekday); !status.ok()) return status;
  if (!texts[6].empty()) {
    if (absl::Status status = parse(FieldKind::kYear, year); !status.ok()) return status;
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

// How many fields the text has; those beyond the size of `parts` are only counted.
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
  if (absl::Status status = CheckCharacters(text); !status.ok()) return status;
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
    if (absl::Status status = CheckCharacters(text); !status.ok()) return status;
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

}  // namespace escapement::cron
