// SmtpSession: one connection to an SMTP server, with TLS and logged in as its target says.
//
// libcurl resolves the name, connects, and speaks EHLO, STARTTLS and AUTH (CURLOPT_CONNECT_ONLY).
// After that, the owner reads and writes the connection. Mails are not sent by libcurl: version
// 7.88 waits inside curl_multi_perform for the answers to a message and to QUIT, and would hold all
// other connections. It sends no QUIT with CURLOPT_CONNECT_ONLY.
//
// Passwords go only through TLS. A connection is shared only by targets for which SameLogin holds.
// libcurl's own reuse of connections does not compare the certificates of STARTTLS.
//
// Threads: one, the one of the multi handle. Nothing blocks.

#ifndef SERVICES_HANDLER_DELIVERY_EMAIL_SMTP_SESSION_H_
#define SERVICES_HANDLER_DELIVERY_EMAIL_SMTP_SESSION_H_

#include <curl/curl.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/net/address_rule.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/delivery/delivery_transport.h"
#include "services/handler/delivery/email/smtp_exchange.h"
#include "services/handler/delivery/http/curl_multi.h"

namespace escapement::handler {

// True if a connection made for one target may be used by the other.
bool SameLogin(const storage::v1::EmailTargetRecord& a, const storage::v1::EmailTargetRecord& b);

class SmtpSession {
 public:
  struct Options {
    CURLM* multi = nullptr;                  // outlives the session
    const AddressRule* addresses = nullptr;  // null: all are allowed; outlives the session
    // For EHLO. Empty: the machine's name.
    std::string ehlo_name;
    absl::Duration timeout;  // for everything until the login
  };

  explicit SmtpSession(std::shared_ptr<const storage::v1::DefinitionRecord> definition);
  // Closes the connection.
  ~SmtpSession();
  SmtpSession(const SmtpSession&) = delete;
  SmtpSession& operator=(const SmtpSession&) = delete;

  // Begins to connect. The multi handle reports the end. INVALID_ARGUMENT: the target cannot be
  // used.
  absl::Status Connect(const Options& options);
  // Takes that report. Returns why the session cannot be used, or nullopt.
  std::optional<DeliveryResult> OnConnected(CURLcode code);

  CURL* easy() const { return easy_; }
  int fd() const { return fd_; }
  const storage::v1::EmailTargetRecord& target() const {
    return definition_->delivery().target().email();
  }
  const SmtpFeatures& features() const { return features_; }

  // Writes as much as possible now. UNAVAILABLE: the connection is broken.
  absl::Status Write(absl::string_view bytes, size_t* written);
  // Gives all bytes that have arrived to replies(). UNAVAILABLE: the connection is broken or ended.
  absl::Status Read();
  SmtpReplyReader& replies() { return replies_; }
  // Says good-bye, as far as that is possible at once.
  void Quit();

  // Kept for the owner: mails sent so far, and whether the next one begins with a reset.
  int mails = 0;
  bool needs_reset = false;

 private:
  static size_t OnReplyLine(char* data, size_t size, size_t count, void* self);
  static int OnDebug(CURL* easy, curl_infotype kind, char* data, size_t size, void* self);
  static curl_socket_t OnOpen(void* self, curlsocktype purpose, curl_sockaddr* address);
  static int OnClose(void* self, curl_socket_t fd);
  void OnConnectReply(const SmtpReply& reply);
  // Ends the connection for libcurl.
  void StopReading();
  absl::Status SetSecurity();
  DeliveryResult ResultOfConnect(CURLcode code) const;
  std::string WhyRefused() const;

  const std::shared_ptr<const storage::v1::DefinitionRecord> definition_;
  CURL* const easy_;
  CURLM* multi_ = nullptr;
  char error_[CURL_ERROR_SIZE] = {};
  CheckedSocket socket_;
  std::vector<int> opened_;  // sockets; libcurl may try two addresses at once
  int fd_ = -1;              // the socket, once connected
  bool login_begun_ = false;
  bool logged_in_ = false;
  SmtpReply refusal_;  // the last negative reply while connecting; code 0: none
  SmtpFeatures features_;
  SmtpReplyReader replies_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_EMAIL_SMTP_SESSION_H_
