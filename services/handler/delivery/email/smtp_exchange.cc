#include "services/handler/delivery/email/smtp_exchange.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "services/handler/delivery/email/mail_message.h"

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

bool RefusesEhloName(const SmtpReply& reply) {
  // Postfix: "504 5.5.2 <vm>: Helo command rejected: need fully-qualified hostname". The texts of
  // others begin with or have HELO or EHLO, too.
  const std::string text = absl::AsciiStrToLower(reply.text);
  return reply.code >= 400 &&
         (reply.code == 504 || absl::StrContains(text, "helo") || absl::StrContains(text, "ehlo"));
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
    RETURN_IF_ERROR(TakeLine(line, &last));
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

namespace {

constexpr int kClosing = 421;

// The server wants a login, or a better one. An operator can mend that.
bool WantsLogin(int code) { return code == 530 || code == 534 || code == 535 || code == 538; }

DeliveryStatus StatusOf(const SmtpReply& reply) {
  if (reply.accepts()) return DeliveryStatus::kAccepted;
  const bool for_good = reply.code / 100 == 5 && !WantsLogin(reply.code) && !RefusesEhloName(reply);
  return for_good ? DeliveryStatus::kRejected : DeliveryStatus::kFailed;
}

}  // namespace

SmtpFeatures SmtpFeatures::Of(const SmtpReply& reply) {
  SmtpFeatures features;
  for (const absl::string_view line : absl::StrSplit(reply.text, '\n')) {
    const absl::string_view word = line.substr(0, line.find(' '));
    if (absl::EqualsIgnoreCase(word, "PIPELINING")) features.pipelining = true;
    if (absl::EqualsIgnoreCase(word, "SIZE")) features.size = true;
    if (absl::EqualsIgnoreCase(word, "SMTPUTF8")) features.smtputf8 = true;
  }
  return features;
}

SmtpExchange::SmtpExchange(const storage::v1::EmailTargetRecord& target, std::string mail,
                           SmtpFeatures features, bool reset)
    : target_(target), features_(features), mail_(std::move(mail)) {
  if (const std::string address = InternationalAddress(); !address.empty()) {
    international_ = true;
    if (!features_.smtputf8) {
      End({.status = DeliveryStatus::kFailed,
           .not_sent = true,
           .message =
               absl::StrCat("the server does not offer SMTPUTF8, which the address ", address,
                            " needs; use an address whose local part is ASCII, or another server")},
          /*reusable=*/true, /*needs_reset=*/reset);
      return;
    }
  }
  if (reset) {
    step_ = Step::kReset;
    Write("RSET");
    if (!features_.pipelining) return;
  }
  WriteSender();
  if (!features_.pipelining) return;
  for (int i = 0; i < target_.to_size(); ++i) WriteReceiver(i);
  WriteData();
}

std::string SmtpExchange::InternationalAddress() const {
  const auto is_ascii = [](absl::string_view address) {
    return std::all_of(address.begin(), address.end(),
                       [](char c) { return absl::ascii_isascii(static_cast<unsigned char>(c)); });
  };
  const std::string from = WithAsciiDomain(target_.from());
  if (!is_ascii(from)) return from;
  for (const std::string& to : target_.to()) {
    const std::string address = WithAsciiDomain(to);
    if (!is_ascii(address)) return address;
  }
  return "";
}

void SmtpExchange::Write(absl::string_view command) { absl::StrAppend(&out_, command, "\r\n"); }

void SmtpExchange::WriteSender() {
  absl::StrAppend(&out_, "MAIL FROM:<", WithAsciiDomain(target_.from()), ">");
  if (features_.size) absl::StrAppend(&out_, " SIZE=", mail_.size());
  if (international_) out_.append(" SMTPUTF8");
  Write("");
}

void SmtpExchange::WriteReceiver(int index) {
  absl::StrAppend(&out_, "RCPT TO:<", WithAsciiDomain(target_.to(index)), ">\r\n");
}

void SmtpExchange::WriteData() { Write("DATA"); }

void SmtpExchange::OnReply(const SmtpReply& reply) {
  if (reply.code == kClosing && step_ != Step::kMessage) {
    closed_early_ = true;
    return End({.status = DeliveryStatus::kFailed,
                .message = SmtpReplyText(reply),
                .status_code = reply.code},
               false, false);
  }
  switch (step_) {
    case Step::kReset:
      if (!reply.accepts()) return Refuse(reply, "RSET");
      step_ = Step::kSender;
      if (!features_.pipelining) WriteSender();
      return;
    case Step::kSender:
      if (!reply.accepts()) sender_refusal_ = reply;
      if (!features_.pipelining && !reply.accepts()) return Refuse(reply, target_.from());
      step_ = Step::kReceivers;
      if (!features_.pipelining) WriteReceiver(0);
      return;
    case Step::kReceivers:
      return OnReceiver(reply);
    case Step::kData:
      return OnData(reply);
    case Step::kMessage:
      if (!reply.accepts()) return Refuse(reply, "the message");
      return End({.status = DeliveryStatus::kAccepted,
                  .message = {},
                  .status_code = reply.code,
                  .answer = ReceiversText()},
                 to_write().empty(), false);
  }
}

void SmtpExchange::OnReceiver(const SmtpReply& reply) {
  if (!reply.accepts()) {
    ++refused_;
    const bool better = reply.may_accept_later() && !receiver_refusal_.may_accept_later();
    if (receiver_refusal_.code == 0 || better) {
      receiver_refusal_ = reply;
      refused_receiver_ = receiver_;
    }
  }
  if (++receiver_ < target_.to_size()) {
    if (!features_.pipelining) WriteReceiver(receiver_);
    return;
  }
  step_ = Step::kData;
  if (features_.pipelining) return;
  if (refused_ == target_.to_size())
    return Refuse(receiver_refusal_, target_.to(refused_receiver_));
  WriteData();
}

// With pipelining DATA was written before the replies to the other commands came.
void SmtpExchange::OnData(const SmtpReply& reply) {
  const bool ready = reply.code / 100 == 3;
  if (sender_refusal_.code != 0) {
    Refuse(sender_refusal_, target_.from());
  } else if (refused_ == target_.to_size()) {
    Refuse(receiver_refusal_, target_.to(refused_receiver_));
  } else if (!ready) {
    return Refuse(reply, "DATA");
  } else {
    step_ = Step::kMessage;
    out_ = std::move(mail_);
    out_.append(".\r\n");
    written_ = 0;
    return;
  }
  // The server waits for a message that must not be sent.
  if (ready) reusable_ = false;
}

void SmtpExchange::Refuse(const SmtpReply& reply, absl::string_view what) {
  DeliveryResult result;
  result.status = StatusOf(reply);
  // A reply that fits no step, such as 354 to MAIL.
  if (result.status == DeliveryStatus::kAccepted) result.status = DeliveryStatus::kFailed;
  result.message = absl::StrCat(what, " was refused: ", SmtpReplyText(reply),
                                RefusesEhloName(reply) ? kEhloNameAdvice : "");
  result.status_code = reply.code;
  const bool closing = reply.code == kClosing || reply.code / 100 == 3 || !to_write().empty();
  End(std::move(result), !closing, step_ != Step::kMessage);
}

void SmtpExchange::End(DeliveryResult result, bool reusable, bool needs_reset) {
  result_ = std::move(result);
  reusable_ = reusable;
  needs_reset_ = needs_reset;
}

std::string SmtpExchange::ReceiversText() const {
  if (refused_ == 0) return "";
  return absl::StrCat(refused_, " of ", target_.to_size(), " receivers were refused; ",
                      target_.to(refused_receiver_), ": ", SmtpReplyText(receiver_refusal_));
}

}  // namespace escapement::handler
