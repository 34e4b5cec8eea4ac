#include "services/handler/delivery/email/mail_message.h"

#include <curl/curl.h>
#include <locale.h>

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/templates/event_template.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/delivery/facts.h"

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
  return !HasControlCharacters(address) && std::none_of(address.begin(), address.end(), [](char c) {
    return c == ' ' || absl::StrContains("()<>[]:;,\\\"", absl::string_view(&c, 1));
  });
}

std::string WithAsciiDomain(absl::string_view address) {
  const size_t domain = address.find('@') + 1;
  std::string result(address);
  if (std::all_of(address.begin() + static_cast<ptrdiff_t>(domain), address.end(), IsPrintable))
    return result;
  // libcurl converts from the thread's character set.
  static const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  const locale_t before = uselocale(utf8);
  CURLU* const url = curl_url();
  char* host = nullptr;
  if (curl_url_set(url, CURLUPART_HOST, result.c_str() + domain, 0) == CURLUE_OK &&
      curl_url_get(url, CURLUPART_HOST, &host, CURLU_PUNYCODE) == CURLUE_OK)
    result.replace(domain, std::string::npos, host);
  curl_free(host);
  curl_url_cleanup(url);
  uselocale(before);
  return result;
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

namespace {

using storage::v1::EmailTargetRecord;

constexpr size_t kMessageIdBytesMax = 200;

std::string Rfc3339(absl::Time time) {
  std::string text;
  AppendRfc3339(time, &text);
  return text;
}

absl::Status CheckAddresses(const EmailTargetRecord& target) {
  if (target.to().empty()) return absl::InvalidArgumentError("the target has no receiver");
  if (!IsMailAddress(target.from()))
    return absl::InvalidArgumentError("the sender is no e-mail address");
  for (const std::string& to : target.to()) {
    if (!IsMailAddress(to)) return absl::InvalidArgumentError("a receiver is no e-mail address");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Filled(const std::string& text, const EventFacts& facts,
                                   size_t bytes_max, absl::string_view name) {
  const absl::StatusOr<EventTemplate> parsed = EventTemplate::Parse(text);
  if (!parsed.ok())
    return absl::InvalidArgumentError(absl::StrCat("the ", name, " ", parsed.status().message()));
  return parsed->Fill(facts, bytes_max);
}

// The first characters of UTF-8 text.
absl::string_view FirstCharacters(absl::string_view text, size_t characters_max) {
  size_t characters = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80;
    if (begins && ++characters > characters_max) return text.substr(0, i);
  }
  return text;
}

// A dot-atom (RFC 5322, 3.2.3); other characters become their two digits after "=".
std::string AtomOf(absl::string_view text) {
  std::string atom;
  for (const char c : text) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_') {
      atom.push_back(c);
    } else {
      absl::StrAppend(&atom, "=", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    }
    if (atom.size() > kMessageIdBytesMax) break;
  }
  return atom;
}

// Events of different sources may have one id.
std::string MessageId(const DeliveryAttempt& attempt, absl::string_view from) {
  const uint64_t hash =
      StableHash64(absl::StrCat(attempt.context->Source(), "\n", attempt.event_id));
  return absl::StrCat("<", AtomOf(attempt.event_id), ".", absl::Hex(hash, absl::kZeroPad16), "@",
                      from.substr(from.find('@') + 1), ">");
}

void AppendFacts(const DeliveryAttempt& attempt, const EventFacts& facts, std::string* mail) {
  const DeliveryContext& context = *attempt.context;
  mail->append("ce-specversion: 1.0\r\nce-type: escapement.trigger.v1\r\n");
  AppendMailHeader("ce-id", facts.id, mail);
  AppendMailHeader("ce-source", facts.source, mail);
  AppendMailHeader("ce-time", facts.time, mail);
  if (!facts.subject.empty()) AppendMailHeader("ce-subject", facts.subject, mail);
  AppendMailHeader("Idempotency-Key", facts.id, mail);
  AppendMailHeader("Escapement-Launch-Time", Rfc3339(context.launch_time), mail);
  AppendMailHeader("Escapement-Attempt", facts.attempt, mail);
  AppendMailHeader("Escapement-Index", facts.index, mail);
  AppendMailHeader("Escapement-Count", facts.count, mail);
  if (!attempt.token.empty()) AppendMailHeader("Escapement-Token", attempt.token, mail);
}

}  // namespace

absl::StatusOr<std::string> MailOf(const DeliveryAttempt& attempt, absl::Time date) {
  const EmailTargetRecord& target = attempt.context->definition->delivery().target().email();
  RETURN_IF_ERROR(CheckAddresses(target));
  const EventFacts facts = EventFactsOf(attempt);
  ASSIGN_OR_RETURN(const auto subject,
                   Filled(target.subject(), facts, kMailSubjectFilledBytesMax, "subject"));
  ASSIGN_OR_RETURN(const auto text, Filled(target.text(), facts, kMailTextFilledBytesMax, "text"));

  std::string mail;
  mail.reserve(text.size() * 4 / 3 + 1'500);
  const std::string from = WithAsciiDomain(target.from());
  absl::StrAppend(&mail, "From: ", from, "\r\nTo: ");
  for (int i = 0; i < target.to_size(); ++i)
    absl::StrAppend(&mail, i == 0 ? "" : ",\r\n ", WithAsciiDomain(target.to(i)));
  mail.append("\r\n");
  AppendMailHeader("Subject", FirstCharacters(subject, kMailSubjectCharactersMax), &mail);
  absl::StrAppend(
      &mail, "Date: ", absl::FormatTime("%a, %d %b %Y %H:%M:%S +0000", date, absl::UTCTimeZone()),
      "\r\nMessage-ID: ", MessageId(attempt, from), "\r\n");
  AppendFacts(attempt, facts, &mail);
  mail.append(
      "Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n"
      "Content-Type: text/plain; charset=utf-8\r\n");
  AppendMailBody(text, &mail);
  return mail;
}

}  // namespace escapement::handler
