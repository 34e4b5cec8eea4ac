// Texts in e-mails: headers (RFC 5322, RFC 2047) and the body (RFC 2045).
//
// All lines end with CR LF, have at most 998 bytes, and are ASCII. No input can begin another
// header or end the message.
//
// Pure.

#ifndef SERVICES_HANDLER_DELIVERY_EMAIL_MAIL_TEXT_H_
#define SERVICES_HANDLER_DELIVERY_EMAIL_MAIL_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace escapement::handler {

// True for an address that can stand in a header and in a command: local part and domain, of
// printable ASCII without quotes, comments, brackets or lists; at most 254 bytes.
bool IsMailAddress(absl::string_view address);

// Appends a header. Control characters of `text` become blanks, and blanks around it are dropped.
// Long text, and text that is not ASCII, becomes encoded words. `name`: at most 30 bytes.
void AppendMailHeader(absl::string_view name, absl::string_view text, std::string* out);

// Appends Content-Transfer-Encoding, the empty line, and the text in that encoding: the shorter one
// of quoted-printable and base64. `text` is UTF-8. Its CR, LF and CR LF become line ends, and the
// last line gets one. No line begins with a dot.
void AppendMailBody(absl::string_view text, std::string* out);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_EMAIL_MAIL_TEXT_H_
