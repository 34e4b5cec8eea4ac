#include "tools/escctl/commands/http_fetch.h"

#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

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

// Connects to the first address that accepts. Returns -1 if none does.
int Connect(const std::string& host, const std::string& port, absl::Duration timeout) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* addresses = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &addresses) != 0) return -1;
  const absl::Cleanup free_addresses = [&] { freeaddrinfo(addresses); };
  const timeval limit = absl::ToTimeval(timeout);
  for (const addrinfo* address = addresses; address != nullptr; address = address->ai_next) {
    const int peer = socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC, 0);
    if (peer < 0) continue;
    setsockopt(peer, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);  // also for connect
    setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(peer, address->ai_addr, address->ai_addrlen) == 0) return peer;
    close(peer);
  }
  return -1;
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
    if (SSL_set_fd(ssl_.get(), peer_) == 1 && SSL_connect(ssl_.get()) == 1) return absl::OkStatus();
    const long verified = SSL_get_verify_result(ssl_.get());
    const char* reason = verified == X509_V_OK ? ERR_reason_error_string(ERR_peek_last_error())
                                               : X509_verify_cert_error_string(verified);
    return absl::UnavailableError(reason == nullptr ? "no answer to the handshake" : reason);
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

  // 0 at the end, less after an error.
  ssize_t Receive(std::string& buffer) {
    if (ssl_ == nullptr) return recv(peer_, buffer.data(), buffer.size(), 0);
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

  const int peer = Connect(std::string(host), std::string(authority.substr(colon + 1)), timeout);
  if (peer < 0) return absl::UnavailableError(absl::StrCat(url, " cannot be reached"));
  const NoSigpipe no_sigpipe;
  Connection connection(peer);
  if (secure) {
    const absl::Status status = connection.Secure(std::string(host), tls);
    if (!status.ok())
      return absl::Status(status.code(), absl::StrCat(url, ": TLS: ", status.message()));
  }
  // With HTTP/1.0 the body ends with the connection.
  if (!connection.SendAll(absl::StrCat("GET ", path, " HTTP/1.0\r\nHost: ", authority, "\r\n\r\n")))
    return absl::UnavailableError(absl::StrCat(url, " does not take requests"));
  std::string answer;
  std::string buffer(64 << 10, '\0');
  ssize_t got;
  while ((got = connection.Receive(buffer)) > 0) {
    answer.append(buffer, 0, static_cast<size_t>(got));
    if (answer.size() > kAnswerBytesMax)
      return absl::UnavailableError(absl::StrCat(url, " answers too much"));
  }
  const size_t body = answer.find("\r\n\r\n");
  if (got < 0 || body == std::string::npos)
    return absl::UnavailableError(absl::StrCat(url, " does not answer in time"));
  const std::string line = answer.substr(0, answer.find("\r\n"));
  if (!absl::StrContains(line, " 200"))
    return absl::UnavailableError(absl::StrCat(url, " answers ", line));
  return answer.substr(body + 4);
}

}  // namespace escapement::escctl
