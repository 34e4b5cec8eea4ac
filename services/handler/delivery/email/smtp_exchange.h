// SmtpExchange: sends one message over an SMTP connection. SmtpReplyReader: reads the replies of
// the server from the bytes of the connection.

#ifndef SERVICES_HANDLER_DELIVERY_EMAIL_SMTP_EXCHANGE_H_
#define SERVICES_HANDLER_DELIVERY_EMAIL_SMTP_EXCHANGE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/delivery/delivery_transport.h"

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
inline constexpr absl::string_view kEhloNameAdvice =
    "; set --email_ehlo_name to a name that the server accepts";
// True if the server refuses the name that EHLO has given. Some do so only after RCPT.
bool RefusesEhloName(const SmtpReply& reply);
// The code and, if the reply begins with one, the enhanced code (RFC 3463): "SMTP 535 5.7.8".
// Nothing else of the server's text.
std::string SmtpReplyCodes(const SmtpReply& reply);

// SmtpReplyReader: the replies of an SMTP server (RFC 5321, 4.2), from the bytes of a connection.
//
// Pure; not thread-safe.
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

// The extensions that a server offers.
struct SmtpFeatures {
  bool pipelining = false;
  bool size = false;
  bool smtputf8 = false;

  // From the reply to EHLO.
  static SmtpFeatures Of(const SmtpReply& reply);
};

// SmtpExchange: sends one message over an SMTP connection that is open and logged in, and judges
// the server's replies. It knows the protocol, not the connection: the caller writes to_write() and
// passes on each reply.
//
// If the server allows pipelining (RFC 2920), MAIL, all RCPT and DATA go out at once.
//
// Results:
//   2xx after the message      kAccepted, also if some receivers were refused before
//   4xx                        kFailed
//   530, 534, 535, 538         kFailed: the server wants a login or another one
//   an address needs SMTPUTF8  kFailed, if the server does not offer it: nothing is sent
//   the name of EHLO refused   kFailed: an operator can set --email_ehlo_name
//   5xx                        kRejected: sender, all receivers or the content are refused
//
// If the server takes some receivers and refuses others, the message goes to the accepted ones, and
// the result is kAccepted. Its message has the number of refused receivers and the first reason.
// A retry would send the message again to the accepted receivers, as often as the policy retries. A
// rejection would hide that they have it. The handler does not keep messages of accepted events. If
// all receivers are refused, one 4xx among them makes the result kFailed: later some may be
// accepted.
//
// Pure; not thread-safe.
class SmtpExchange {
 public:
  // `mail` is a whole message with CR LF line ends, of which none begins with a dot. `reset`: the
  // connection has a transaction that was not finished. `target` must outlive the exchange.
  SmtpExchange(const storage::v1::EmailTargetRecord& target, std::string mail,
               SmtpFeatures features, bool reset);

  // The bytes to be written now.
  absl::string_view to_write() const { return absl::string_view(out_).substr(written_); }
  void Wrote(size_t bytes) { written_ += bytes; }

  // Takes the next reply. No call after `result` is set.
  void OnReply(const SmtpReply& reply);

  const std::optional<DeliveryResult>& result() const { return result_; }
  // Once there is a result: whether the connection can carry another message, and whether that one
  // must begin with a reset.
  bool reusable() const { return reusable_; }
  bool needs_reset() const { return needs_reset_; }
  // True once the whole message is written: the server may accept it, whatever comes.
  bool may_have_arrived() const { return step_ == Step::kMessage && to_write().empty(); }
  // True if the server closes the connection (421) before it has got a message.
  bool closed_early() const { return closed_early_; }

 private:
  enum class Step { kReset, kSender, kReceivers, kData, kMessage };
  // The first address whose local part is not ASCII; empty: none is.
  std::string InternationalAddress() const;
  void Write(absl::string_view command);
  void WriteSender();
  void WriteReceiver(int index);
  void WriteData();
  void OnReceiver(const SmtpReply& reply);
  void OnData(const SmtpReply& reply);
  void Refuse(const SmtpReply& reply, absl::string_view what);
  void End(DeliveryResult result, bool reusable, bool needs_reset);
  std::string ReceiversText() const;

  const storage::v1::EmailTargetRecord& target_;
  const SmtpFeatures features_;
  bool international_ = false;
  std::string mail_;
  std::string out_;
  size_t written_ = 0;
  Step step_ = Step::kSender;
  int receiver_ = 0;  // the reply to RCPT that comes next
  int refused_ = 0;   // receivers
  // The replies that refused something first; code 0: none.
  SmtpReply sender_refusal_;
  SmtpReply receiver_refusal_;  // a 4xx is preferred
  int refused_receiver_ = 0;    // the receiver of that refusal
  std::optional<DeliveryResult> result_;
  bool reusable_ = false;
  bool needs_reset_ = false;
  bool closed_early_ = false;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_EMAIL_SMTP_EXCHANGE_H_
