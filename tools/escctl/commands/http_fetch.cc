#include "tools/escctl/commands/http_fetch.h"

#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace escapement::escctl {
namespace {

constexpr size_t kAnswerBytesMax = 16 << 20;
constexpr char kWanted[] = "is not a URL such as http://127.0.0.1:7411";

constexpr char kNotInTime[] = "does not answer in time";
constexpr char kEnds[] = "ends the connection without an answer";

// Why a call on a socket has failed, as words that follow the URL.
std::string SocketProblem(int error) {
  if (error == EAGAIN || error == EINPROGRESS || error == ETIMEDOUT) return kNotInTime;
  if (error == ECONNREFUSED) return "refuses connections";
  if (error == 0 || error == ECONNRESET || error == EPIPE) return kEnds;
  return absl::StrCat("cannot be reached: ", std::strerror(error));
}

// Connects to the first address that accepts. UNAVAILABLE if none does, with the last one's reason.
absl::StatusOr<int> Connect(const std::string& host, const std::string& port,
                            absl::Duration timeout) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* addresses = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &addresses); error != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot be reached: its name is not found: ", gai_strerror(error)));
  }
  const absl::Cleanup free_addresses = [&] { freeaddrinfo(addresses); };
  const timeval limit = absl::ToTimeval(timeout);
  std::string problem;
  for (const addrinfo* address = addresses; address != nullptr; address = address->ai_next) {
    const int peer = socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC, 0);
    if (peer >= 0) {
      setsockopt(peer, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);  // also for connect
      setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
      if (connect(peer, address->ai_addr, address->ai_addrlen) == 0) return peer;
    }
    problem = SocketProblem(errno);
    if (peer >= 0) close(peer);
  }
  return absl::UnavailableError(problem);
}

// While it lives, a connection that the server has closed raises no SIGPIPE in this thread. OpenSSL
// writes without MSG_NOSIGNAL.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &former_);
  }
  ~NoSigpipe() {
    const timespec none = {};
    sigtimedwait(&sigpipe_, nullptr, &none);
    pthread_sigmask(SIG_SETMASK, &former_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t sigpipe_;
  sigset_t former_;
};

// A connection, with TLS if Secure has succeeded.
class Connection {
 public:
  explicit Connection(int peer) : peer_(peer) {}
  ~Connection() {
    ssl_.reset();
    close(peer_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  absl::Status Secure(const std::string& host, const PeerTls& tls) {
    context_.reset(SSL_CTX_new(TLS_client_method()));
    if (context_ == nullptr) return absl::InternalError("OpenSSL has no TLS client");
    std::string ca;
    RETURN_IF_ERROR(ReadPemFile(tls.ca, &ca));
    RETURN_IF_ERROR(TrustCa({tls.ca, ca}, *context_));
    if (!tls.cert.empty()) {
      std::string cert;
      std::string key;
      RETURN_IF_ERROR(ReadPemFile(tls.cert, &cert));
      RETURN_IF_ERROR(ReadPemFile(tls.key, &key));
      RETURN_IF_ERROR(UseIdentity({tls.cert, cert}, {tls.key, key}, *context_));
    }
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    ssl_.reset(SSL_new(context_.get()));
    if (ssl_ == nullptr) return absl::InternalError("OpenSSL has no connection");
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), host.c_str()) != 1) {
      SSL_set1_host(ssl_.get(), host.c_str());
      SSL_set_tlsext_host_name(ssl_.get(), host.c_str());
    }
    ERR_clear_error();
    errno = 0;
    if (SSL_set_fd(ssl_.get(), peer_) == 1 && SSL_connect(ssl_.get()) == 1) return absl::OkStatus();
    const int error = errno;
    if (const long verified = SSL_get_verify_result(ssl_.get()); verified != X509_V_OK) {
      return absl::UnavailableError(absl::StrCat("TLS: its certificate is not trusted: ",
                                                 X509_verify_cert_error_string(verified)));
    }
    if (const char* reason = ERR_reason_error_string(ERR_peek_last_error()); reason != nullptr)
      return absl::UnavailableError(absl::StrCat("TLS: ", reason));
    return absl::UnavailableError(absl::StrCat("TLS: it ", SocketProblem(error)));
  }

  bool SendAll(absl::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ssl_ == nullptr
                               ? send(peer_, text.data(), text.size(), MSG_NOSIGNAL)
                               : SSL_write(ssl_.get(), text.data(), static_cast<int>(text.size()));
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // 0 at the end, less after an error, whose number is in errno: 0 if the server has broken TLS.
  ssize_t Receive(std::string& buffer) {
    if (ssl_ == nullptr) return recv(peer_, buffer.data(), buffer.size(), 0);
    errno = 0;
    const int got = SSL_read(ssl_.get(), buffer.data(), static_cast<int>(buffer.size()));
    if (got > 0) return got;
    return SSL_get_error(ssl_.get(), got) == SSL_ERROR_ZERO_RETURN ? 0 : -1;
  }

 private:
  const int peer_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{nullptr, SSL_CTX_free};
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, SSL_free};
};

}  // namespace

absl::StatusOr<std::string> HttpFetch(const std::string& url, const PeerTls& tls,
                                      absl::Duration timeout) {
  absl::string_view rest = url;
  const bool secure = absl::ConsumePrefix(&rest, "https://");
  if (!secure && !absl::ConsumePrefix(&rest, "http://"))
    return absl::InvalidArgumentError(absl::StrCat("'", url, "' ", kWanted));
  if (secure && tls.ca.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", url, "' needs --tls-ca, which proves the server"));
  }
  const size_t slash = rest.find('/');
  const std::string path(slash == absl::string_view::npos || slash + 1 == rest.size()
                             ? "/metrics"
                             : rest.substr(slash));
  const absl::string_view authority = rest.substr(0, slash);
  const size_t colon = authority.rfind(':');
  if (colon == absl::string_view::npos || colon == 0 || colon + 1 == authority.size())
    return absl::InvalidArgumentError(absl::StrCat("'", url, "' ", kWanted));
  absl::string_view host = authority.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");

  const auto failed = [&](absl::string_view why) {
    return absl::UnavailableError(absl::StrCat(url, " ", why));
  };
  const absl::StatusOr<int> peer =
      Connect(std::string(host), std::string(authority.substr(colon + 1)), timeout);
  if (!peer.ok()) return failed(peer.status().message());
  const NoSigpipe no_sigpipe;
  Connection connection(*peer);
  if (secure) {
    const absl::Status status = connection.Secure(std::string(host), tls);
    if (!status.ok()) return absl::Status(status.code(), absl::StrCat(url, ": ", status.message()));
  }
  // With HTTP/1.0 the body ends with the connection.
  if (!connection.SendAll(absl::StrCat("GET ", path, " HTTP/1.0\r\nHost: ", authority, "\r\n\r\n")))
    return failed("does not take requests");
  std::string answer;
  std::string buffer(64 << 10, '\0');
  ssize_t got;
  while ((got = connection.Receive(buffer)) > 0) {
    answer.append(buffer, 0, static_cast<size_t>(got));
    if (answer.size() > kAnswerBytesMax) return failed("answers too much");
  }
  if (got < 0) return failed(SocketProblem(errno));
  const size_t body = answer.find("\r\n\r\n");
  if (body == std::string::npos) return failed(kEnds);
  const std::string line = answer.substr(0, answer.find("\r\n"));
  if (!absl::StrContains(line, " 200")) return failed(absl::StrCat("answers ", line));
  return answer.substr(body + 4);
}

}  // namespace escapement::escctl
