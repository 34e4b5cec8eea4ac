#include "services/handler/delivery/email/smtp_reply.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/printable_text.h"

namespace escapement::handler {
namespace {

constexpr size_t kLineBytesMax = 4096;  // RFC 5321 has 512
constexpr size_t kLinesMax = 256;
constexpr size_t kShownBytesMax = 400;

bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

// The length of "5.7.8" at the beginning of the text; 0: none.
size_t EnhancedCodeBytes(absl::string_view text) {
  if (text.size() < 5 || !absl::StrContains("245", text.substr(0, 1))) return 0;
  size_t at = 1;
  for (int part = 0; part < 2; ++part) {
    if (at >= text.size() || text[at] != '.') return 0;
    size_t digits = 0;
    while (at + 1 + digits < text.size() && IsDigit(text[at + 1 + digits])) ++digits;
    if (digits < 1 || digits > 3) return 0;
    at += 1 + digits;
  }
  return at == text.size() || text[at] == ' ' ? at : 0;
}

}  // namespace

std::string SmtpReplyText(const SmtpReply& reply) {
  return absl::StrCat("SMTP ", reply.code, reply.text.empty() ? "" : ": ",
                      CleanText(reply.text, kShownBytesMax));
}

std::string SmtpReplyCodes(const SmtpReply& reply) {
  const size_t bytes = EnhancedCodeBytes(reply.text);
  return absl::StrCat("SMTP ", reply.code, bytes > 0 ? " " : "", reply.text.substr(0, bytes));
}

absl::StatusOr<std::optional<SmtpReply>> SmtpReplyReader::Next() {
  while (true) {
    const size_t end = bytes_.find('\n', used_);
    if (end == std::string::npos) {
      bytes_.erase(0, used_);
      used_ = 0;
      if (bytes_.size() > kLineBytesMax)
        return absl::InvalidArgumentError("the server sent a line without an end");
      return std::nullopt;
    }
    const absl::string_view line =
        absl::StripSuffix(absl::string_view(bytes_).substr(used_, end - used_), "\r");
    used_ = end + 1;
    bool last = false;
    if (absl::Status taken = TakeLine(line, &last); !taken.ok()) return taken;
    if (!last) continue;
    lines_ = 0;
    return std::exchange(next_, SmtpReply());
  }
}

absl::Status SmtpReplyReader::TakeLine(absl::string_view line, bool* last) {
  const bool coded = line.size() >= 3 && line[0] >= '2' && line[0] <= '5' && IsDigit(line[1]) &&
                     IsDigit(line[2]) && (line.size() == 3 || line[3] == ' ' || line[3] == '-');
  if (!coded) return absl::InvalidArgumentError("the server does not speak SMTP");
  const int code = (line[0] - '0') * 100 + (line[1] - '0') * 10 + (line[2] - '0');
  if (lines_ > 0 && code != next_.code)
    return absl::InvalidArgumentError("the server sent a reply with two codes");
  if (++lines_ > kLinesMax)
    return absl::InvalidArgumentError("the server sent a reply that is too long");
  next_.code = code;
  if (lines_ > 1) next_.text.push_back('\n');
  const absl::string_view text = line.size() > 4 ? line.substr(4) : absl::string_view();
  next_.text.append(text.data(), text.size());
  if (next_.text.size() > kSmtpReplyTextBytesMax) next_.text.resize(kSmtpReplyTextBytesMax);
  *last = line.size() == 3 || line[3] == ' ';
  return absl::OkStatus();
}

}  // namespace escapement::handler
