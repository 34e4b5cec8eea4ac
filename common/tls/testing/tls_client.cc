#include "common/tls/testing/tls_client.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"

namespace escapement::testing {
namespace {

SSL* SslOf(BIO* bio) {
  SSL* ssl = nullptr;
  BIO_get_ssl(bio, &ssl);
  return ssl;
}

absl::Status LastError() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return absl::UnavailableError(reason == nullptr ? "the connection has ended" : reason);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsClient>> TlsClient::Connect(int port, const PeerTls& tls) {
  signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to connections that the server has closed
  std::unique_ptr<TlsClient> client(new TlsClient());
  client->context_ = {SSL_CTX_new(TLS_client_method()), SSL_CTX_free};
  SSL_CTX* context = client->context_.get();
  SSL_CTX_load_verify_file(context, tls.ca.c_str());
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (!tls.cert.empty()) {
    SSL_CTX_use_certificate_chain_file(context, tls.cert.c_str());
    SSL_CTX_use_PrivateKey_file(context, tls.key.c_str(), SSL_FILETYPE_PEM);
  }
  client->bio_ = BIO_new_ssl_connect(context);
  BIO_set_conn_hostname(client->bio_, absl::StrCat("127.0.0.1:", port).c_str());
  if (BIO_do_connect(client->bio_) != 1 || BIO_do_handshake(client->bio_) != 1) return LastError();
  // Otherwise a request waits until the server has acknowledged the handshake, about 40 ms.
  const int on = 1;
  setsockopt(static_cast<int>(BIO_get_fd(client->bio_, nullptr)), IPPROTO_TCP, TCP_NODELAY, &on,
             sizeof(on));
  return client;
}

TlsClient::~TlsClient() { BIO_free_all(bio_); }

int64_t TlsClient::serial() const {
  return ASN1_INTEGER_get(X509_get0_serialNumber(SSL_get0_peer_certificate(SslOf(bio_))));
}

void TlsClient::Write(const std::string& bytes) {
  BIO_write(bio_, bytes.data(), static_cast<int>(bytes.size()));
}

std::string TlsClient::ReadSome(size_t bytes_max) {
  std::string piece(bytes_max, '\0');
  const int bytes = BIO_read(bio_, piece.data(), static_cast<int>(bytes_max));
  piece.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
  return piece;
}

std::string TlsClient::ReadToEnd() {
  std::string all;
  while (true) {
    const std::string piece = ReadSome(16 << 10);
    if (piece.empty()) break;
    all += piece;
  }
  ended_cleanly_ = (SSL_get_shutdown(SslOf(bio_)) & SSL_RECEIVED_SHUTDOWN) != 0;
  ERR_clear_error();
  return all;
}

absl::StatusOr<std::string> TlsGet(const std::string& address, const PeerTls& tls,
                                   const std::string& path) {
  int port = 0;
  if (!absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port))
    return absl::InvalidArgumentError(address);
  ASSIGN_OR_RETURN(auto client, TlsClient::Connect(port, tls));
  client->Write(
      absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: ", address, "\r\nConnection: close\r\n\r\n"));
  return client->ReadToEnd();
}

absl::Status AwaitSerial(int port, const PeerTls& tls, int64_t serial) {
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  std::string last;
  do {
    const auto client = TlsClient::Connect(port, tls);
    if (client.ok() && (*client)->serial() == serial) return absl::OkStatus();
    last = client.ok() ? absl::StrCat("serial ", (*client)->serial()) : client.status().ToString();
  } while (absl::Now() < deadline);
  return absl::DeadlineExceededError(last);
}

}  // namespace escapement::testing
