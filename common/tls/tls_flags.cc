#include "common/tls/tls_flags.h"

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

ABSL_FLAG(std::string, tls_cert, "",
          "PEM file with the certificate of this process and its chain; the ports use TLS if it is "
          "set");
ABSL_FLAG(std::string, tls_key, "", "PEM file with the key of --tls_cert, without a password");
ABSL_FLAG(std::string, tls_client_ca, "",
          "PEM file with the authorities whose client certificates are accepted; clients without a "
          "certificate may still connect; empty = client certificates are not asked for");
ABSL_FLAG(std::string, peer_ca, "",
          "PEM file with the authorities of the servers that this process calls; if set, channels "
          "to other processes of the platform use TLS and present --tls_cert");

namespace escapement {
namespace {

ServerTlsFiles FilesFromFlags() {
  return {.cert = absl::GetFlag(FLAGS_tls_cert),
          .key = absl::GetFlag(FLAGS_tls_key),
          .client_ca = absl::GetFlag(FLAGS_tls_client_ca)};
}

// The flag of the file with which the sentence begins.
absl::string_view FlagOf(const absl::Status& error, const ServerTlsFiles& files) {
  const auto names = [&](const std::string& path) {
    return absl::StartsWith(error.message(), absl::StrCat(path, ":"));
  };
  if (names(files.cert)) return "--tls_cert";
  return names(files.key) ? "--tls_key" : "--tls_client_ca";
}

}  // namespace

void ValidateTlsFlags(std::vector<std::string>& errors) {
  const ServerTlsFiles files = FilesFromFlags();
  if (files.cert.empty() != files.key.empty()) {
    errors.push_back(files.key.empty() ? "--tls_cert: needs --tls_key as well"
                                       : "--tls_key: needs --tls_cert as well");
    return;
  }
  if (files.cert.empty() && !files.client_ca.empty()) {
    errors.push_back("--tls_client_ca: needs --tls_cert and --tls_key as well");
  }
  if (!files.cert.empty()) {
    if (const auto tls = ServerTls::Load(files); !tls.ok()) {
      errors.push_back(absl::StrCat(FlagOf(tls.status(), files), ": ", tls.status().message()));
      return;
    }
  }
  if (const auto peer = PeerTlsFromFlags(); peer.has_value()) {
    if (const absl::Status status = CheckPeerTls(*peer); !status.ok())
      errors.push_back(absl::StrCat("--peer_ca: ", status.message()));
  }
}

bool ServesTls() { return !absl::GetFlag(FLAGS_tls_cert).empty(); }

absl::StatusOr<std::shared_ptr<ServerTls>> ServerTlsFromFlags() {
  if (!ServesTls()) return std::shared_ptr<ServerTls>();
  return ServerTls::Load(FilesFromFlags());
}

std::optional<PeerTls> PeerTlsFromFlags() {
  if (absl::GetFlag(FLAGS_peer_ca).empty()) return std::nullopt;
  return PeerTls{.ca = absl::GetFlag(FLAGS_peer_ca),
                 .cert = absl::GetFlag(FLAGS_tls_cert),
                 .key = absl::GetFlag(FLAGS_tls_key)};
}

}  // namespace escapement
