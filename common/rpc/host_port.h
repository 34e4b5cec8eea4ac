// "host:port" addresses, as in flags.

#ifndef COMMON_RPC_HOST_PORT_H_
#define COMMON_RPC_HOST_PORT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement {

struct HostPort {
  std::string host;   // an IP address or a name, IPv6 without brackets; never empty
  uint16_t port = 0;  // 0 = any

  // "host:port", IPv6 in brackets.
  std::string ToString() const;

  // True for 127.0.0.0/8, ::1 and "localhost": other machines cannot reach these.
  bool IsLoopback() const;
};

// INVALID_ARGUMENT with a reason that a person can act on.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

// The addresses on which a port may listen. Other machines cannot reach loopback, so it is always
// allowed. Beyond it, a port needs TLS and required credentials, or the operator's --insecure.

// `credentials`: each call must prove who sends it.
bool MayListenBeyondLoopback(bool tls, bool credentials, bool insecure);

// INVALID_ARGUMENT: the address must not be listened on; the sentence says what is missing.
absl::Status CheckListen(const HostPort& address, bool tls, bool credentials, bool insecure);

}  // namespace escapement

#endif  // COMMON_RPC_HOST_PORT_H_
