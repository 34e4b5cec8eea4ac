// The addresses on which a port may listen. Other machines cannot reach loopback, so it is always
// allowed. Beyond it, a port needs TLS and required credentials, or the operator's --insecure.

#ifndef COMMON_RPC_LISTEN_RULE_H_
#define COMMON_RPC_LISTEN_RULE_H_

#include "absl/status/status.h"
#include "common/rpc/host_port.h"

namespace escapement {

// `credentials`: each call must prove who sends it.
bool MayListenBeyondLoopback(bool tls, bool credentials, bool insecure);

// INVALID_ARGUMENT: the address must not be listened on; the sentence says what is missing.
absl::Status CheckListen(const HostPort& address, bool tls, bool credentials, bool insecure);

}  // namespace escapement

#endif  // COMMON_RPC_LISTEN_RULE_H_
