// --tls-ca, --tls-cert and --tls-key, and what to say if a connection fails for want of them.

#ifndef TOOLS_ESCCTL_BASE_TLS_OPTIONS_H_
#define TOOLS_ESCCTL_BASE_TLS_OPTIONS_H_

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/tls/peer_tls.h"

namespace escapement::escctl {

void AddTlsFlags(CLI::App& app, PeerTls& tls);

// INVALID_ARGUMENT: a sentence that names the flag or file. OK without any of them.
absl::Status CheckTlsFlags(const PeerTls& tls);

// Advice to the user after a connection that failed with these words of gRPC; "" if TLS does not
// seem to be the reason. `tls`: the client used TLS.
absl::string_view TlsAdvice(absl::string_view words, bool tls);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_BASE_TLS_OPTIONS_H_
