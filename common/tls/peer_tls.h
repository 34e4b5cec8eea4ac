// PeerTls: how this process proves the servers that it calls, and itself to them.

#ifndef COMMON_TLS_PEER_TLS_H_
#define COMMON_TLS_PEER_TLS_H_

#include <string>

#include "absl/status/status.h"

namespace escapement {

// Paths of PEM files.
struct PeerTls {
  std::string ca;         // the authorities whose servers are believed
  std::string cert = {};  // the client certificate, with its chain; empty: none
  std::string key = {};   // its key, without a password; empty: none
};

// INVALID_ARGUMENT: a sentence that names the file that cannot be used.
absl::Status CheckPeerTls(const PeerTls& tls);

}  // namespace escapement

#endif  // COMMON_TLS_PEER_TLS_H_
