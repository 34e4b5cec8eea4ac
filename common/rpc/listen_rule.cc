#include "common/rpc/listen_rule.h"

#include "absl/strings/str_cat.h"

namespace escapement {

bool MayListenBeyondLoopback(bool tls, bool credentials, bool insecure) {
  return insecure || (tls && credentials);
}

absl::Status CheckListen(const HostPort& address, bool tls, bool credentials, bool insecure) {
  if (address.IsLoopback() || MayListenBeyondLoopback(tls, credentials, insecure))
    return absl::OkStatus();
  const char* missing = credentials ? "no TLS" : "no required credentials";
  if (!tls && !credentials) missing = "neither TLS nor required credentials";
  return absl::InvalidArgumentError(
      absl::StrCat(address.ToString(), " is reachable from other machines and there is ", missing,
                   "; use a loopback address or --insecure"));
}

}  // namespace escapement
