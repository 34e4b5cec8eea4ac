#include "tools/escctl/base/tls_options.h"

#include "absl/strings/match.h"

namespace escapement::escctl {

void AddTlsFlags(CLI::App& app, PeerTls& tls) {
  app.add_option("--tls-ca", tls.ca,
                 "PEM file with the authorities of the server; escctl uses TLS if it is set");
  app.add_option("--tls-cert", tls.cert, "PEM file with your client certificate");
  app.add_option("--tls-key", tls.key, "PEM file with the key of --tls-cert");
}

absl::Status CheckTlsFlags(const PeerTls& tls) {
  if (tls.cert.empty() != tls.key.empty())
    return absl::InvalidArgumentError("--tls-cert and --tls-key: each needs the other one");
  if (!tls.ca.empty()) return CheckPeerTls(tls);
  if (tls.cert.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("--tls-cert: needs --tls-ca as well");
}

absl::string_view TlsAdvice(absl::string_view words, bool tls) {
  const auto has = [&](absl::string_view part) { return absl::StrContains(words, part); };
  if (!tls) {
    // A TLS server ends a connection that does not begin with a handshake.
    return has("Socket closed") || has("Connection reset")
               ? "does the server use TLS? Then --tls-ca is needed"
               : "";
  }
  if (has("WRONG_VERSION_NUMBER") || has("wrong version number"))
    return "the server does not use TLS; leave --tls-ca out";
  if (has("CERTIFICATE_VERIFY_FAILED") || has("certificate verify failed"))
    return "the server's certificate is not from the authorities in --tls-ca";
  if (has("Hostname Verification")) return "the server's certificate is for another host";
  if (has("Socket closed") || has("Connection reset"))
    return "the server may not accept the certificate in --tls-cert";
  return "";
}

}  // namespace escapement::escctl
