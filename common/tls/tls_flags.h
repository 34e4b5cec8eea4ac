// --tls_cert, --tls_key, --tls_client_ca and --peer_ca: TLS of a process, by PEM files.

#ifndef COMMON_TLS_TLS_FLAGS_H_
#define COMMON_TLS_TLS_FLAGS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tls/peer_tls.h"
#include "common/tls/server_tls.h"

namespace escapement {

// Appends a sentence for each flag that cannot be used: a pair that is not complete, files that
// cannot be read or do not fit together. Starts no thread.
void ValidateTlsFlags(std::vector<std::string>& errors);

// True if the ports of this process use TLS.
bool ServesTls();

// The TLS of this process's ports; null: none.
absl::StatusOr<std::shared_ptr<ServerTls>> ServerTlsFromFlags();

// The TLS of channels to other processes of the platform; nullopt: none.
std::optional<PeerTls> PeerTlsFromFlags();

}  // namespace escapement

#endif  // COMMON_TLS_TLS_FLAGS_H_
