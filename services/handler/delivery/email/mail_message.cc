#include "services/handler/delivery/email/mail_message.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/stable_hash.h"
#include "common/templates/event_template.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/delivery/email/mail_text.h"
#include "services/handler/delivery/event_facts.h"
#include "services/handler/delivery/facts.h"

namespace escapement::handler {
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
  const uint64_t hash = StableHash64(absl::StrCat(attempt.context->source, "\n", attempt.event_id));
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
  if (absl::Status checked = CheckAddresses(target); !checked.ok()) return checked;
  const EventFacts facts = EventFactsOf(attempt);
  const auto subject = Filled(target.subject(), facts, kMailSubjectFilledBytesMax, "subject");
  if (!subject.ok()) return subject.status();
  const auto text = Filled(target.text(), facts, kMailTextFilledBytesMax, "text");
  if (!text.ok()) return text.status();

  std::string mail;
  mail.reserve(text->size() * 4 / 3 + 1'500);
  absl::StrAppend(&mail, "From: ", target.from(), "\r\nTo: ");
  for (int i = 0; i < target.to_size(); ++i)
    absl::StrAppend(&mail, i == 0 ? "" : ",\r\n ", target.to(i));
  mail.append("\r\n");
  AppendMailHeader("Subject", FirstCharacters(*subject, kMailSubjectCharactersMax), &mail);
  absl::StrAppend(
      &mail, "Date: ", absl::FormatTime("%a, %d %b %Y %H:%M:%S +0000", date, absl::UTCTimeZone()),
      "\r\nMessage-ID: ", MessageId(attempt, target.from()), "\r\n");
  AppendFacts(attempt, facts, &mail);
  mail.append(
      "Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n"
      "Content-Type: text/plain; charset=utf-8\r\n");
  AppendMailBody(*text, &mail);
  return mail;
}

}  // namespace escapement::handler
