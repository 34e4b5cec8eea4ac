// Texts in e-mails: headers (RFC 5322, RFC 2047) and the body (RFC 2045).
//
// All lines end with CR LF, have at most 998 bytes, and are ASCII except for local parts of
// addresses. No input can begin another header or end the message.
//
// Pure.

#ifndef SERVICES_HANDLER_DELIVERY_EMAIL_MAIL_MESSAGE_H_
#define SERVICES_HANDLER_DELIVERY_EMAIL_MAIL_MESSAGE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

// True for an address that can stand in a header and in a command: local part and domain, of
// printable characters without quotes, comments, brackets or lists; at most 254 bytes.
bool IsMailAddress(absl::string_view address);

// The address with its domain in ASCII ("xn--..."), if IDNA has such a form. The local part stays
// as it is: if it is not ASCII, the server must offer SMTPUTF8 (RFC 6531).
std::string WithAsciiDomain(absl::string_view address);

// Appends a header. Control characters of `text` become blanks, and blanks around it are dropped.
// Long text, and text that is not ASCII, becomes encoded words. `name`: at most 30 bytes.
void AppendMailHeader(absl::string_view name, absl::string_view text, std::string* out);

// Appends Content-Transfer-Encoding, the empty line, and the text in that encoding: the shorter one
// of quoted-printable and base64. `text` is UTF-8. Its CR, LF and CR LF become line ends, and the
// last line gets one. No line begins with a dot.
void AppendMailBody(absl::string_view text, std::string* out);

// MailOf: the e-mail of an attempt.
//
// Headers: From, To, Subject, Date, Message-ID, MIME-Version, Content-Type (text/plain, UTF-8),
// Auto-Submitted (RFC 3834), and the facts that HTTP requests have under the same names: ce-id,
// ce-source, ce-type, ce-time, ce-subject, Idempotency-Key, Escapement-Launch-Time,
// Escapement-Attempt, Escapement-Index, Escapement-Count, and Escapement-Token if there is one.
//
// Message-ID is the same on every attempt, so that a mailbox can drop a repeated message:
// <event id.hash of the source@domain of the sender>.
//
// Pure.

// A longer subject or text is cut.
inline constexpr size_t kMailSubjectCharactersMax = 500;
inline constexpr size_t kMailSubjectFilledBytesMax = 2'000;
inline constexpr size_t kMailTextFilledBytesMax = 256 << 10;

// The whole message, with lines that end in CR LF. The target must be an e-mail target.
// INVALID_ARGUMENT: no receiver, an address that is none, or a template that cannot be read.
absl::StatusOr<std::string> MailOf(const DeliveryAttempt& attempt, absl::Time date);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_EMAIL_MAIL_MESSAGE_H_
