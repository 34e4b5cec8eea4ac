#include "services/handler/delivery/http/headers.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/micros.h"
#include "common/base/stable_hash.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement::handler {
namespace {

constexpr absl::string_view kNameMarks = "!#$%&'*+-.^_`|~";
constexpr absl::string_view kFixedLines =
    "User-Agent: Escapement\r\nce-specversion: 1.0\r\nce-type: escapement.trigger.v1\r\n";

// No control character, so that no value can end its line (RFC 9110, 5.5).
bool IsValue(absl::string_view value) {
  return std::none_of(value.begin(), value.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
  });
}

// A token (RFC 9110, 5.6.2).
bool IsName(absl::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           kNameMarks.find(c) != absl::string_view::npos;
  });
}

void AppendDigits(int64_t value, int count, std::string* out) {
  char digits[8];
  for (int i = count - 1; i >= 0; --i) {
    digits[i] = static_cast<char>('0' + value % 10);
    value /= 10;
  }
  out->append(digits, static_cast<size_t>(count));
}

void AppendHex(uint64_t value, std::string* out) {
  constexpr char kDigits[] = "0123456789abcdef";
  char digits[16];
  for (int i = 15; i >= 0; --i) {
    digits[i] = kDigits[value & 15];
    value >>= 4;
  }
  out->append(digits, 16);
}

}  // namespace

absl::StatusOr<std::string> ContentTypeLine(const DeliveryContext& context) {
  const std::string& type = context.definition->delivery().content_type();
  if (!IsValue(type)) return absl::InvalidArgumentError("the content type is no header value");
  return context.payload->empty() ? std::string() : absl::StrCat("Content-Type: ", type, "\r\n");
}

absl::StatusOr<std::string> DefinitionHeaderLines(const storage::v1::DefinitionRecord& definition) {
  const storage::v1::DeliveryRecord& delivery = definition.delivery();
  std::string lines;
  // Sorted, so that equal definitions make equal requests.
  std::map<std::string, std::string> headers(delivery.target().http().headers().begin(),
                                             delivery.target().http().headers().end());
  for (const auto& [name, value] : headers) {
    if (!IsName(name) || !IsValue(value))
      return absl::InvalidArgumentError("the target's headers are malformed");
    absl::StrAppend(&lines, name, ": ", value, "\r\n");
  }
  for (const storage::v1::SecretHeaderRecord& header : delivery.target().http().secret_headers()) {
    if (!IsName(header.name()) || !IsValue(header.value()))
      return absl::InvalidArgumentError("the target's secret headers are malformed");
    absl::StrAppend(&lines, header.name(), ": ", header.value(), "\r\n");
  }
  lines.append(kFixedLines.data(), kFixedLines.size());
  return lines;
}

absl::StatusOr<std::string> ContextHeaderLines(const DeliveryContext& context) {
  if (!IsValue(context.source) || !IsValue(context.occurrence)) {
    return absl::InvalidArgumentError("the event's name is no header value");
  }
  std::string lines;
  lines.reserve(256);
  absl::StrAppend(&lines, "ce-source: ", context.source, "\r\nce-time: ");
  AppendRfc3339(context.nominal_time, &lines);
  lines.append("\r\nEscapement-Launch-Time: ");
  AppendRfc3339(context.launch_time, &lines);
  absl::StrAppend(&lines, "\r\nEscapement-Count: ", context.run_count, "\r\n");
  return lines;
}

void AppendAttemptHeaderLines(const DeliveryAttempt& attempt, std::string* lines) {
  absl::StrAppend(lines, "ce-id: ", attempt.event_id, "\r\nIdempotency-Key: ", attempt.event_id);
  if (!attempt.context->occurrence.empty()) {
    absl::StrAppend(lines, "\r\nce-subject: ", attempt.context->occurrence, "/", attempt.index);
  }
  absl::StrAppend(lines, "\r\nEscapement-Attempt: ", attempt.attempt,
                  "\r\nEscapement-Index: ", attempt.index);
  if (!attempt.token.empty()) absl::StrAppend(lines, "\r\nEscapement-Token: ", attempt.token);
  // W3C Trace Context: not sampled, since nobody records these spans; never all zeros.
  const uint64_t trace = StableHash64(attempt.event_id);
  lines->append("\r\ntraceparent: 00-");
  AppendHex(trace, lines);
  AppendHex(~trace, lines);
  lines->push_back('-');
  AppendHex((trace ^ (attempt.attempt * 0x9e3779b97f4a7c15u)) | 1, lines);
  lines->append("-00");
}

void AppendRfc3339(absl::Time time, std::string* out) {
  const int64_t micros = ToMicros(time);
  int64_t days = micros / 86'400'000'000;
  int64_t of_day = micros % 86'400'000'000;
  if (of_day < 0) {
    of_day += 86'400'000'000;
    --days;
  }
  // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms": civil_from_days.
  const int64_t shifted = days + 719468;
  const int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
  const int64_t doe = shifted - era * 146097;
  const int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  const int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  const int64_t mp = (5 * doy + 2) / 153;
  const int64_t month = mp < 10 ? mp + 3 : mp - 9;
  AppendDigits(yoe + era * 400 + (month <= 2 ? 1 : 0), 4, out);
  out->push_back('-');
  AppendDigits(month, 2, out);
  out->push_back('-');
  AppendDigits(doy - (153 * mp + 2) / 5 + 1, 2, out);
  out->push_back('T');
  const int64_t seconds = of_day / 1'000'000;
  AppendDigits(seconds / 3600, 2, out);
  out->push_back(':');
  AppendDigits(seconds / 60 % 60, 2, out);
  out->push_back(':');
  AppendDigits(seconds % 60, 2, out);
  if (of_day % 1'000'000 != 0) {
    out->push_back('.');
    AppendDigits(of_day % 1'000'000, 6, out);
  }
  out->push_back('Z');
}

}  // namespace escapement::handler
