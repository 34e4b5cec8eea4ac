#include "services/handler/delivery/email/mail_text.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"

namespace escapement::handler {
namespace {

constexpr size_t kAddressBytesMax = 254;      // RFC 5321, 4.5.3.1.3
constexpr size_t kPlainHeaderBytesMax = 900;  // RFC 5322, 2.1.1: 998 with the name
constexpr size_t kEncodedLineBytesMax = 76;   // RFC 2045, 6.7 and 6.8; RFC 2047, 2
constexpr size_t kBase64InputBytesMax = 57;   // in one line
constexpr absl::string_view kWordBegin = "=?utf-8?B?";
constexpr absl::string_view kWordEnd = "?=";

bool IsPrintable(char c) { return c >= 0x20 && c <= 0x7e; }

// Everything as it is: no character needs an encoding, and none can be taken for one.
bool IsPlainHeader(absl::string_view text) {
  return text.size() <= kPlainHeaderBytesMax &&
         std::all_of(text.begin(), text.end(), IsPrintable) && !absl::StrContains(text, "=?");
}

// The first bytes of UTF-8 text, at most `bytes_max`, without a part of a character.
absl::string_view HeadOf(absl::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

// Calls `line` for each line of the text, without its end.
template <typename Line>
void ForEachLine(absl::string_view text, Line line) {
  while (!text.empty()) {
    const size_t end = text.find_first_of("\r\n");
    line(text.substr(0, end));
    if (end == absl::string_view::npos) return;
    text.remove_prefix(end + (absl::StartsWith(text.substr(end), "\r\n") ? 2 : 1));
  }
}

// True if the byte needs no escape inside of a quoted-printable line.
bool IsQuotedPrintable(char c) { return (IsPrintable(c) && c != '=') || c == '\t'; }

void AppendQuotedPrintableLine(absl::string_view line, std::string* out) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  size_t column = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool blank = c == ' ' || c == '\t';
    const auto plain = [&] {
      if (!IsQuotedPrintable(c) || (blank && i + 1 == line.size())) return false;
      // A dot may end the message, and programs that keep mails in one file change "From ".
      return column > 0 || (c != '.' && !absl::StartsWith(line.substr(i), "From "));
    };
    // One byte stays for the "=" of a soft line end.
    if (column + (plain() ? 1 : 3) > kEncodedLineBytesMax - 1) {
      out->append("=\r\n");
      column = 0;
    }
    if (plain()) {
      out->push_back(c);
      column += 1;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out->push_back('=');
      out->push_back(kDigits[byte >> 4]);
      out->push_back(kDigits[byte & 15]);
      column += 3;
    }
  }
  out->append("\r\n");
}

void AppendBase64(absl::string_view text, std::string* out) {
  std::string lines;
  lines.reserve(text.size() + 64);
  ForEachLine(text, [&lines](absl::string_view line) { absl::StrAppend(&lines, line, "\r\n"); });
  for (absl::string_view rest = lines; !rest.empty();) {
    const absl::string_view head = rest.substr(0, kBase64InputBytesMax);
    absl::StrAppend(out, absl::Base64Escape(head), "\r\n");
    rest.remove_prefix(head.size());
  }
}

}  // namespace

bool IsMailAddress(absl::string_view address) {
  const size_t at = address.find('@');
  if (address.size() > kAddressBytesMax || at == absl::string_view::npos || at == 0 ||
      at + 1 == address.size() || address.find('@', at + 1) != absl::string_view::npos)
    return false;
  return std::all_of(address.begin(), address.end(), [](char c) {
    return c > 0x20 && IsPrintable(c) &&
           !absl::StrContains("()<>[]:;,\\\"", absl::string_view(&c, 1));
  });
}

void AppendMailHeader(absl::string_view name, absl::string_view text, std::string* out) {
  const std::string clean = CleanText(text, text.size());
  absl::string_view rest = absl::StripAsciiWhitespace(clean);
  absl::StrAppend(out, name, ": ");
  if (IsPlainHeader(rest)) {
    absl::StrAppend(out, rest, "\r\n");
    return;
  }
  size_t column = name.size() + 2;
  while (true) {
    const size_t room = kEncodedLineBytesMax - column - kWordBegin.size() - kWordEnd.size();
    const absl::string_view head = HeadOf(rest, room / 4 * 3);
    absl::StrAppend(out, kWordBegin, absl::Base64Escape(head), kWordEnd, "\r\n");
    rest.remove_prefix(head.size());
    if (rest.empty()) return;
    out->push_back(' ');
    column = 1;
  }
}

void AppendMailBody(absl::string_view text, std::string* out) {
  const auto escaped = static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return !IsQuotedPrintable(c) && c != '\r' && c != '\n';
  }));
  // An escape has three bytes. Base64 makes four bytes of three.
  if (escaped * 6 > text.size()) {
    out->append("Content-Transfer-Encoding: base64\r\n\r\n");
    return AppendBase64(text, out);
  }
  out->append("Content-Transfer-Encoding: quoted-printable\r\n\r\n");
  ForEachLine(text, [out](absl::string_view line) { AppendQuotedPrintableLine(line, out); });
}

}  // namespace escapement::handler
