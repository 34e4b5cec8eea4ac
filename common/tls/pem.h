// PEM files in an OpenSSL context. Errors are INVALID_ARGUMENT sentences that begin with the path.
//
// Threads: any; one at a time for each context.

#ifndef COMMON_TLS_PEM_H_
#define COMMON_TLS_PEM_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace escapement {

// A file and its contents.
struct Pem {
  const std::string& path;
  const std::string& text;
};

// Reads a whole file of at most 1 MiB.
absl::Status ReadPemFile(const std::string& path, std::string* text);

// Gives `context` a certificate with its chain and the certificate's key.
absl::Status UseIdentity(Pem cert, Pem key, ssl_ctx_st& context);

// Lets `context` accept peers whose certificates come from these authorities.
absl::Status TrustCa(Pem ca, ssl_ctx_st& context);

}  // namespace escapement

#endif  // COMMON_TLS_PEM_H_
