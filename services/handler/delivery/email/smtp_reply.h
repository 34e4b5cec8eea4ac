// SmtpReplyReader: the replies of an SMTP server (RFC 5321, 4.2), from the bytes of a connection.
//
// Pure; not thread-safe.

#ifndef SERVICES_HANDLER_DELIVERY_EMAIL_SMTP_REPLY_H_
#define SERVICES_HANDLER_DELIVERY_EMAIL_SMTP_REPLY_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement::handler {

inline constexpr size_t kSmtpReplyTextBytesMax = 4096;

struct SmtpReply {
  int code = 0;      // 200 to 599
  std::string text;  // the texts of its lines, joined by LF; cut to kSmtpReplyTextBytesMax

  bool accepts() const { return code / 100 == 2; }
  bool may_accept_later() const { return code / 100 == 4; }
};

// "SMTP 550: text" in one line, for messages.
std::string SmtpReplyText(const SmtpReply& reply);
// The code and, if the reply begins with one, the enhanced code (RFC 3463): "SMTP 535 5.7.8".
// Nothing else of the server's text.
std::string SmtpReplyCodes(const SmtpReply& reply);

class SmtpReplyReader {
 public:
  void Add(absl::string_view bytes) { bytes_.append(bytes.data(), bytes.size()); }
  // Takes the next reply; nullopt if it is not complete. INVALID_ARGUMENT: no SMTP, or too long.
  absl::StatusOr<std::optional<SmtpReply>> Next();

 private:
  absl::Status TakeLine(absl::string_view line, bool* last);

  std::string bytes_;
  size_t used_ = 0;   // bytes that are read already
  size_t lines_ = 0;  // lines that next_ has
  SmtpReply next_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_EMAIL_SMTP_REPLY_H_
