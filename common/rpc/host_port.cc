#include "common/rpc/host_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace escapement {

std::string HostPort::ToString() const {
  if (host.find(':') != std::string::npos) return absl::StrCat("[", host, "]:", port);
  return absl::StrCat(host, ":", port);
}

bool HostPort::IsLoopback() const {
  if (absl::AsciiStrToLower(host) == "localhost") return true;
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text) {
  const auto bad = [text](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not host:port: ", why));
  };
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return bad("it has no colon");
  absl::string_view host = text.substr(0, colon);
  const absl::string_view port_text = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != absl::string_view::npos) {
    return bad("an IPv6 address needs brackets");
  }
  if (host.empty()) return bad("the host is empty (use 127.0.0.1 or 0.0.0.0)");
  uint32_t port = 0;
  if (!absl::SimpleAtoi(port_text, &port) || port > 65535) {
    return bad("the port is not a number from 0 to 65535");
  }
  return HostPort{std::string(host), static_cast<uint16_t>(port)};
}

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
