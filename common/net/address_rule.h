// AddressRule: which network addresses the platform may connect to for its users.
//
// Users name the hosts that events go to. Without a rule they could make the platform call services
// that only it can reach: its own ports, other machines of its network, the metadata service of a
// cloud. So an address is checked after the name was resolved, and exactly the checked address is
// connected to.
//
// Refused, unless the operator allows the range: addresses that are not globally reachable
// (RFC 6890 and the registries of IANA): loopback, private, link-local, shared (RFC 6598),
// multicast, reserved and documentation ranges. IPv6 addresses that carry an IPv4 address (mapped,
// NAT64, 6to4, Teredo) are judged by that address. Addresses of metadata services are refused in
// every case.
//
// Threads: immutable after it was made.

#ifndef COMMON_NET_ADDRESS_RULE_H_
#define COMMON_NET_ADDRESS_RULE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct sockaddr;

namespace escapement {

// An IPv6 address, or an IPv4 address in the mapped form (::ffff:a.b.c.d).
using IpAddress = std::array<uint8_t, 16>;

class AddressRule {
 public:
  // Only what is globally reachable.
  AddressRule() = default;
  // Also these ranges, such as "10.0.0.0/8", "::1/128" or a single address. INVALID_ARGUMENT for a
  // text that is none.
  static absl::StatusOr<AddressRule> Allowing(const std::vector<std::string>& ranges);
  // Also loopback: for installations on one machine.
  static AddressRule AllowingLoopback();

  // False for other families than IPv4 and IPv6.
  bool Allows(const sockaddr& address) const;
  // The text of an address, without a port. False for other texts.
  bool Allows(absl::string_view address) const;

 private:
  struct Range {
    IpAddress begin;
    int bits;  // counted in the mapped form
  };
  static absl::StatusOr<Range> ReadRange(absl::string_view text);
  static bool InRange(const IpAddress& address, const Range& range);
  bool AllowsIp(const IpAddress& address) const;

  std::vector<Range> allowed_;
};

}  // namespace escapement

#endif  // COMMON_NET_ADDRESS_RULE_H_
