// TlsClient: a blocking TLS connection to a port of 127.0.0.1, for tests.

#ifndef COMMON_TLS_TESTING_TLS_CLIENT_H_
#define COMMON_TLS_TESTING_TLS_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/tls/tls_files.h"

struct bio_st;      // OpenSSL's BIO
struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace escapement::testing {

class TlsClient {
 public:
  // UNAVAILABLE: no connection, or the handshake failed. With TLS 1.3 a server's refusal of the
  // client certificate comes only with the first read.
  static absl::StatusOr<std::unique_ptr<TlsClient>> Connect(int port, const PeerTls& tls);
  ~TlsClient();

  // The serial number of the server's certificate.
  int64_t serial() const;

  void Write(const std::string& bytes);
  // At least one byte and at most `bytes_max`; "" at the end of the connection.
  std::string ReadSome(size_t bytes_max);
  // Everything until the end of the connection.
  std::string ReadToEnd();
  // True if the server ended the connection by TLS's own message, not just by closing it.
  bool ended_cleanly() const { return ended_cleanly_; }

 private:
  TlsClient() = default;

  std::unique_ptr<ssl_ctx_st, void (*)(ssl_ctx_st*)> context_{nullptr, nullptr};
  bio_st* bio_ = nullptr;
  bool ended_cleanly_ = false;
};

// The whole answer, with its head, of an HTTP server at "127.0.0.1:port".
absl::StatusOr<std::string> TlsGet(const std::string& address, const PeerTls& tls,
                                   const std::string& path);

// Connects until the server's certificate has this serial number. DEADLINE_EXCEEDED after 10 s.
absl::Status AwaitSerial(int port, const PeerTls& tls, int64_t serial);

}  // namespace escapement::testing

#endif  // COMMON_TLS_TESTING_TLS_CLIENT_H_
