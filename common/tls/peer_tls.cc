#include "common/tls/peer_tls.h"

#include <openssl/ssl.h>

#include <memory>

#include "common/status/return_if_error.h"
#include "common/tls/pem.h"

namespace escapement {

absl::Status CheckPeerTls(const PeerTls& tls) {
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()),
                                                             SSL_CTX_free);
  if (context == nullptr) return absl::InternalError("OpenSSL has no TLS client");
  std::string ca;
  RETURN_IF_ERROR(ReadPemFile(tls.ca, &ca));
  RETURN_IF_ERROR(TrustCa({tls.ca, ca}, *context));
  if (tls.cert.empty()) return absl::OkStatus();
  std::string cert;
  std::string key;
  RETURN_IF_ERROR(ReadPemFile(tls.cert, &cert));
  RETURN_IF_ERROR(ReadPemFile(tls.key, &key));
  return UseIdentity({tls.cert, cert}, {tls.key, key}, *context);
}

}  // namespace escapement
