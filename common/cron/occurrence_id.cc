#include "common/cron/occurrence_id.h"

#include <algorithm>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace escapement::cron {
namespace {

constexpr size_t kCivilBytes = 15;    // 20261121T030000
constexpr size_t kInstantBytes = 23;  // 20261121T030000.000000Z
constexpr size_t kZoneBytesMax = 64;

// `text[begin, begin + size)` as a number, or -1.
int64_t Number(absl::string_view text, size_t begin, size_t size) {
  int64_t value = 0;
  for (char c : text.substr(begin, size)) {
    if (!absl::ascii_isdigit(c)) return -1;
    value = value * 10 + (c - '0');
  }
  return value;
}

std::string FormatCivil(absl::CivilSecond c) {
  return absl::StrFormat("%04d%02d%02dT%02d%02d%02d", c.year(), c.month(), c.day(), c.hour(),
                         c.minute(), c.second());
}

std::optional<absl::CivilSecond> ParseCivil(absl::string_view text) {
  if (text.size() < kCivilBytes || text[8] != 'T') return std::nullopt;
  for (size_t i = 0; i < kCivilBytes; ++i) {
    if (i != 8 && !absl::ascii_isdigit(text[i])) return std::nullopt;
  }
  const absl::CivilSecond civil(Number(text, 0, 4), Number(text, 4, 2), Number(text, 6, 2),
                                Number(text, 9, 2), Number(text, 11, 2), Number(text, 13, 2));
  // Refuses 30 February and the like.
  if (FormatCivil(civil) != text.substr(0, kCivilBytes)) return std::nullopt;
  return civil;
}

bool IsZoneText(absl::string_view text) {
  return !text.empty() && text.size() <= kZoneBytesMax &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isalnum(c) || absl::StrContains("+-_~", c); });
}

}  // namespace

std::string FormatCalendarOccurrence(absl::CivilSecond civil, int fold, absl::string_view zone) {
  return absl::StrCat(FormatCivil(civil), "-", fold, "-", absl::StrReplaceAll(zone, {{"/", "~"}}));
}

std::string FormatInstantOccurrence(absl::Time instant) {
  const int64_t micros = absl::ToUnixMicros(instant);  // floors
  const absl::Time whole = absl::FromUnixMicros(micros);
  const int64_t fraction = ((micros % 1'000'000) + 1'000'000) % 1'000'000;
  return absl::StrFormat("%s.%06dZ", FormatCivil(absl::ToCivilSecond(whole, absl::UTCTimeZone())),
                         fraction);
}

absl::StatusOr<OccurrenceId> ParseOccurrence(absl::string_view text) {
  const auto refuse = [text] {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", absl::CHexEscape(text.substr(0, 100)), "\" is not an occurrence"));
  };
  const std::optional<absl::CivilSecond> civil = ParseCivil(text);
  if (!civil) return refuse();
  OccurrenceId id;
  if (text.size() == kInstantBytes && text[kCivilBytes] == '.' && text.back() == 'Z') {
    const int64_t fraction = Number(text, kCivilBytes + 1, 6);
    if (fraction < 0) return refuse();
    id.instant = absl::FromCivil(*civil, absl::UTCTimeZone()) + absl::Microseconds(fraction);
    return id;
  }
  const absl::string_view rest = text.substr(kCivilBytes);
  if (rest.size() < 4 || rest[0] != '-' || !absl::ascii_isdigit(rest[1]) || rest[2] != '-' ||
      !IsZoneText(rest.substr(3))) {
    return refuse();
  }
  id.calendar = true;
  id.civil = *civil;
  id.fold = rest[1] - '0';
  id.zone = absl::StrReplaceAll(rest.substr(3), {{"~", "/"}});
  return id;
}

}  // namespace escapement::cron
