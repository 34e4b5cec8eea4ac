#include "services/handler/delivery/email/smtp_session.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"

namespace escapement::handler {
namespace {

using storage::v1::EmailTargetRecord;

constexpr int kLoggedIn = 235;
constexpr int kDone = 250;
constexpr size_t kReadBytesMax = 256 << 10;  // at once; replies to 50 receivers are far shorter

absl::Status CheckTarget(const EmailTargetRecord& target) {
  const absl::string_view uri = target.smtp_uri();
  const bool secure = absl::StartsWith(uri, "smtps://");
  if (!secure && !absl::StartsWith(uri, "smtp://"))
    return absl::InvalidArgumentError("the server's URI must begin with smtp:// or smtps://");
  const absl::string_view place = uri.substr(uri.find("//") + 2);
  if (place.empty() || place.find_first_of("/?#@") != absl::string_view::npos)
    return absl::InvalidArgumentError("the server's URI must be only a host and a port");
  if (!secure && target.plaintext() && !target.username().empty())
    return absl::InvalidArgumentError("a password needs TLS");
  return absl::OkStatus();
}

// The text must outlive the handle's use.
void SetBlob(CURL* easy, CURLoption option, const std::string& text) {
  if (text.empty()) return;
  curl_blob blob = {
      .data = const_cast<char*>(text.data()), .len = text.size(), .flags = CURL_BLOB_NOCOPY};
  curl_easy_setopt(easy, option, &blob);
}

// Errors that come from the target's configuration or the server's, not from the network.
bool IsSecurityError(CURLcode code) {
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_ISSUER_ERROR:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool SameLogin(const EmailTargetRecord& a, const EmailTargetRecord& b) {
  return &a == &b || (a.smtp_uri() == b.smtp_uri() && a.username() == b.username() &&
                      a.password() == b.password() && a.plaintext() == b.plaintext() &&
                      a.tls().ca_certificates() == b.tls().ca_certificates() &&
                      a.tls().client_certificate() == b.tls().client_certificate() &&
                      a.tls().client_key() == b.tls().client_key());
}

SmtpSession::SmtpSession(std::shared_ptr<const storage::v1::DefinitionRecord> definition)
    : definition_(std::move(definition)), easy_(curl_easy_init()) {
  CHECK(easy_ != nullptr);
}

SmtpSession::~SmtpSession() {
  if (multi_ != nullptr) curl_multi_remove_handle(multi_, easy_);
  curl_easy_cleanup(easy_);
}

absl::Status SmtpSession::Connect(const Options& options) {
  RETURN_IF_ERROR(CheckTarget(target()));
  socket_.addresses = options.addresses;
  const long millis = static_cast<long>(std::clamp<int64_t>(
      absl::ToInt64Milliseconds(options.timeout), 1, absl::ToInt64Milliseconds(absl::Hours(24))));
  const std::string url = absl::StrCat(target().smtp_uri(), "/", options.ehlo_name);
  SetCommonOptions(easy_, "smtp,smtps");
  curl_easy_setopt(easy_, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy_, CURLOPT_CONNECT_ONLY, 1L);
  curl_easy_setopt(easy_, CURLOPT_FRESH_CONNECT, 1L);
  curl_easy_setopt(easy_, CURLOPT_TIMEOUT_MS, millis);
  curl_easy_setopt(easy_, CURLOPT_CONNECTTIMEOUT_MS, millis);
  curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, error_);
  curl_easy_setopt(easy_, CURLOPT_OPENSOCKETFUNCTION, &SmtpSession::OnOpen);
  curl_easy_setopt(easy_, CURLOPT_OPENSOCKETDATA, this);
  curl_easy_setopt(easy_, CURLOPT_CLOSESOCKETFUNCTION, &SmtpSession::OnClose);
  curl_easy_setopt(easy_, CURLOPT_CLOSESOCKETDATA, this);
  curl_easy_setopt(easy_, CURLOPT_HEADERFUNCTION, &SmtpSession::OnReplyLine);
  curl_easy_setopt(easy_, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(easy_, CURLOPT_DEBUGFUNCTION, &SmtpSession::OnDebug);
  curl_easy_setopt(easy_, CURLOPT_DEBUGDATA, this);
  curl_easy_setopt(easy_, CURLOPT_VERBOSE, 1L);  // for OnDebug
  RETURN_IF_ERROR(SetSecurity());
  if (curl_multi_add_handle(options.multi, easy_) != CURLM_OK)
    return absl::InvalidArgumentError("the connection could not be begun");
  multi_ = options.multi;
  return absl::OkStatus();
}

absl::Status SmtpSession::SetSecurity() {
  curl_easy_setopt(easy_, CURLOPT_USE_SSL,
                   static_cast<long>(target().plaintext() ? CURLUSESSL_NONE : CURLUSESSL_ALL));
  curl_easy_setopt(easy_, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  // A resumed session has the client certificate of the target that began it.
  curl_easy_setopt(easy_, CURLOPT_SSL_SESSIONID_CACHE, 0L);
  const storage::v1::TlsRecord& tls = target().tls();
  if (!tls.ca_certificates().empty()) {
    // Only these: the folder of the system's would be searched, too.
    curl_easy_setopt(easy_, CURLOPT_CAPATH, nullptr);
    SetBlob(easy_, CURLOPT_CAINFO_BLOB, tls.ca_certificates());
  }
  SetBlob(easy_, CURLOPT_SSLCERT_BLOB, tls.client_certificate());
  SetBlob(easy_, CURLOPT_SSLKEY_BLOB, tls.client_key());
  if (target().username().empty()) return absl::OkStatus();
  curl_easy_setopt(easy_, CURLOPT_USERNAME, target().username().c_str());
  curl_easy_setopt(easy_, CURLOPT_PASSWORD, target().password().c_str());
  curl_easy_setopt(easy_, CURLOPT_LOGIN_OPTIONS, "AUTH=PLAIN;AUTH=LOGIN");
  return absl::OkStatus();
}

curl_socket_t SmtpSession::OnOpen(void* self, curlsocktype purpose, curl_sockaddr* address) {
  auto* session = static_cast<SmtpSession*>(self);
  const int fd = CheckedSocket::Open(&session->socket_, purpose, address);
  if (fd >= 0) session->opened_.push_back(fd);
  return fd;
}

int SmtpSession::OnClose(void* self, curl_socket_t fd) {
  auto* session = static_cast<SmtpSession*>(self);
  session->opened_.erase(std::remove(session->opened_.begin(), session->opened_.end(), fd),
                         session->opened_.end());
  return close(fd);
}

// Called for each line of the server while libcurl connects.
size_t SmtpSession::OnReplyLine(char* data, size_t size, size_t count, void* self) {
  auto* session = static_cast<SmtpSession*>(self);
  session->replies_.Add({data, size * count});
  while (true) {
    const absl::StatusOr<std::optional<SmtpReply>> reply = session->replies_.Next();
    // libcurl would skip lines of another protocol, and wait for more of them.
    if (!reply.ok()) session->StopReading();
    if (!reply.ok() || !reply->has_value()) return size * count;
    session->OnConnectReply(**reply);
  }
}

void SmtpSession::OnConnectReply(const SmtpReply& reply) {
  if (reply.code == kDone) features_ = SmtpFeatures::Of(reply);  // the last EHLO counts
  if (reply.code == kLoggedIn) logged_in_ = true;
  if (reply.code >= 400) refusal_ = reply;
}

int SmtpSession::OnDebug(CURL*, curl_infotype kind, char* data, size_t size, void* self) {
  auto* session = static_cast<SmtpSession*>(self);
  if (kind != CURLINFO_HEADER_OUT) return 0;
  if (absl::StartsWith(absl::string_view(data, size), "AUTH ")) session->login_begun_ = true;
  return 0;
}

void SmtpSession::StopReading() {
  for (const int fd : opened_) shutdown(fd, SHUT_RD);
}

std::optional<DeliveryResult> SmtpSession::OnConnected(CURLcode code) {
  curl_easy_setopt(easy_, CURLOPT_VERBOSE, 0L);
  const bool login_missing = !target().username().empty() && !logged_in_;
  if (code != CURLE_OK || login_missing) return ResultOfConnect(code);
  curl_socket_t fd = CURL_SOCKET_BAD;
  if (curl_easy_getinfo(easy_, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd == CURL_SOCKET_BAD)
    return ResultOfConnect(CURLE_COULDNT_CONNECT);
  fd_ = fd;
  replies_ = SmtpReplyReader();
  return std::nullopt;
}

DeliveryResult SmtpSession::ResultOfConnect(CURLcode code) const {
  const auto failed = [](std::string why) {
    return DeliveryResult{
        .status = DeliveryStatus::kFailed, .not_sent = true, .message = std::move(why)};
  };
  const char* text = error_[0] != '\0' ? error_ : curl_easy_strerror(code);
  const std::string why = CleanText(text, kDeliveryMessageBytesMax);
  if (code == CURLE_USE_SSL_FAILED && refusal_.code == 0)
    return failed("the server offers no STARTTLS; without TLS nothing is sent");
  if (refusal_.code != 0 && code != CURLE_OPERATION_TIMEDOUT) {
    return {
        .status = DeliveryStatus::kFailed, .message = WhyRefused(), .status_code = refusal_.code};
  }
  if (code == CURLE_OK || code == CURLE_LOGIN_DENIED)
    return failed("the server offers no login by AUTH PLAIN or AUTH LOGIN");
  if (IsSecurityError(code)) return failed(why);
  if (socket_.refused && !socket_.allowed)
    return failed("the address of the target is not allowed");
  if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL)
    return {.status = DeliveryStatus::kRejected, .not_sent = true, .message = why};
  return failed(why);
}

// The text of a server may repeat the login.
std::string SmtpSession::WhyRefused() const {
  if (login_begun_) return absl::StrCat("the server refused the login: ", SmtpReplyCodes(refusal_));
  return absl::StrCat("the server refused the connection: ", SmtpReplyText(refusal_),
                      RefusesEhloName(refusal_) ? kEhloNameAdvice : "");
}

absl::Status SmtpSession::Write(absl::string_view bytes, size_t* written) {
  *written = 0;
  while (*written < bytes.size()) {
    size_t count = 0;
    const CURLcode code =
        curl_easy_send(easy_, bytes.data() + *written, bytes.size() - *written, &count);
    *written += count;
    if (code == CURLE_AGAIN) return absl::OkStatus();
    if (code != CURLE_OK) return absl::UnavailableError("the connection broke");
  }
  return absl::OkStatus();
}

absl::Status SmtpSession::Read() {
  char buffer[4096];
  for (size_t bytes = 0; bytes < kReadBytesMax;) {
    size_t count = 0;
    const CURLcode code = curl_easy_recv(easy_, buffer, sizeof(buffer), &count);
    if (code == CURLE_AGAIN) return absl::OkStatus();
    if (code != CURLE_OK || count == 0)
      return absl::UnavailableError("the server closed the connection");
    replies_.Add({buffer, count});
    bytes += count;
  }
  return absl::UnavailableError("the server sent too much");
}

void SmtpSession::Quit() {
  size_t written = 0;
  if (fd_ >= 0) (void)Write("QUIT\r\n", &written);
}

}  // namespace escapement::handler
