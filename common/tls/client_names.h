// The subject alternative names of a verified client certificate, which say who the client is.
//
// Each name begins with its kind, as in the configuration of openssl: "DNS:escapement-service",
// "URI:spiffe://cluster/ns/jobs", "email:ops@example.com", "IP:10.0.0.1". So a name of one
// kind cannot pass for another kind. Names with characters beyond printable ASCII are left out.

#ifndef COMMON_TLS_CLIENT_NAMES_H_
#define COMMON_TLS_CLIENT_NAMES_H_

#include <string>
#include <vector>

struct ssl_st;   // OpenSSL's SSL
struct x509_st;  // OpenSSL's X509

namespace escapement {

std::vector<std::string> SubjectAlternativeNames(const x509_st& certificate);

// The names of the client at the other end of a connection whose handshake is complete; none if it
// gave no certificate or the certificate was not verified.
std::vector<std::string> VerifiedClientNames(const ssl_st& connection);

}  // namespace escapement

#endif  // COMMON_TLS_CLIENT_NAMES_H_
