#include "common/net/address_rule.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"

namespace escapement {
namespace {

constexpr int kMappedBits = 96;

// Ranges that are not globally reachable (https://www.iana.org/assignments: the special-purpose and
// multicast registries of IPv4 and IPv6).
constexpr const char* kLocalRanges[] = {
    "0.0.0.0/8",        // this network
    "10.0.0.0/8",       // private
    "100.64.0.0/10",    // shared
    "127.0.0.0/8",      // loopback
    "169.254.0.0/16",   // link-local
    "172.16.0.0/12",    // private
    "192.0.0.0/24",     // IETF protocols
    "192.0.2.0/24",     // documentation
    "192.88.99.0/24",   // former 6to4 relays
    "192.168.0.0/16",   // private
    "198.18.0.0/15",    // benchmarks
    "198.51.100.0/24",  // documentation
    "203.0.113.0/24",   // documentation
    "224.0.0.0/4",      // multicast
    "240.0.0.0/4",      // reserved, and broadcast
    "::/8",             // unspecified, loopback, compatible; mapped addresses are judged as IPv4
    "64:ff9b:1::/48",   // local NAT64
    "100::/64",         // discard
    "2001:db8::/32",    // documentation
    "3fff::/20",        // documentation
    "5f00::/16",        // segment routing
    "fc00::/7",         // private
    "fe80::/10",        // link-local
    "fec0::/10",        // former site-local
    "ff00::/8",         // multicast
};

// Services that give credentials to whoever asks on the machine.
constexpr const char* kMetadataAddresses[] = {
    "169.254.169.254",  // most clouds
    "169.254.170.2",    // tasks of Amazon ECS
    "169.254.170.23",   // pods of Amazon EKS
    "fd00:ec2::23",     // pods of Amazon EKS
    "fd00:ec2::254",    // Amazon EC2
    "100.100.100.200",  // Alibaba
    "168.63.129.16",    // Azure
    "192.0.0.192",      // Oracle
};

// nullopt: no address.
std::optional<IpAddress> ReadAddress(const std::string& text) {
  IpAddress address = {};
  if (inet_pton(AF_INET6, text.c_str(), address.data()) == 1) return address;
  if (inet_pton(AF_INET, text.c_str(), address.data() + 12) != 1) return std::nullopt;
  address[10] = address[11] = 0xff;
  return address;
}

bool IsMapped(const IpAddress& address) {
  return std::all_of(address.begin(), address.begin() + 10, [](uint8_t b) { return b == 0; }) &&
         address[10] == 0xff && address[11] == 0xff;
}

IpAddress Mapped(const uint8_t* four, uint8_t mask = 0) {
  IpAddress address = {};
  address[10] = address[11] = 0xff;
  for (size_t i = 0; i < 4; ++i) address[12 + i] = static_cast<uint8_t>(four[i] ^ mask);
  return address;
}

// The IPv4 address that an IPv6 address of a tunnel or translator carries.
std::optional<IpAddress> Carried(const IpAddress& address) {
  const auto begins = [&address](std::initializer_list<uint8_t> bytes) {
    return std::equal(bytes.begin(), bytes.end(), address.begin());
  };
  if (begins({0x00, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0})) return Mapped(&address[12]);
  if (begins({0x20, 0x02})) return Mapped(&address[2]);                     // 6to4
  if (begins({0x20, 0x01, 0x00, 0x00})) return Mapped(&address[12], 0xff);  // Teredo
  return std::nullopt;
}

}  // namespace

absl::StatusOr<AddressRule::Range> AddressRule::ReadRange(absl::string_view text) {
  const size_t slash = text.find('/');
  const auto address = ReadAddress(std::string(text.substr(0, slash)));
  const bool four = address.has_value() && text.find(':') == absl::string_view::npos;
  int bits = four ? 32 : 128;
  const int bits_max = bits;
  const bool counted =
      slash == absl::string_view::npos || absl::SimpleAtoi(text.substr(slash + 1), &bits);
  if (!address.has_value() || !counted || bits < 0 || bits > bits_max) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", CleanText(text, 60), "\" is no range such as 10.0.0.0/8 or ::1/128"));
  }
  return Range{.begin = *address, .bits = four ? bits + kMappedBits : bits};
}

bool AddressRule::InRange(const IpAddress& address, const Range& range) {
  // "::/0" is about IPv6 only.
  if (IsMapped(address) && range.bits < kMappedBits) return false;
  const size_t bytes = static_cast<size_t>(range.bits / 8);
  if (!std::equal(address.begin(), address.begin() + bytes, range.begin.begin())) return false;
  const int rest = range.bits % 8;
  return rest == 0 || (address[bytes] ^ range.begin[bytes]) >> (8 - rest) == 0;
}

absl::StatusOr<AddressRule> AddressRule::Allowing(const std::vector<std::string>& ranges) {
  AddressRule rule;
  for (const std::string& text : ranges) {
    ASSIGN_OR_RETURN(Range range, ReadRange(text));
    rule.allowed_.push_back(range);
  }
  return rule;
}

AddressRule AddressRule::AllowingLoopback() { return *Allowing({"127.0.0.0/8", "::1/128"}); }

bool AddressRule::AllowsIp(const IpAddress& address) const {
  static const auto* const local = new std::vector<Range>([] {
    std::vector<Range> ranges;
    for (const char* text : kLocalRanges) ranges.push_back(*ReadRange(text));
    return ranges;
  }());
  static const auto* const metadata = new std::vector<Range>([] {
    std::vector<Range> ranges;
    for (const char* text : kMetadataAddresses) ranges.push_back(*ReadRange(text));
    return ranges;
  }());
  const auto in = [&address](const Range& range) { return InRange(address, range); };
  if (std::any_of(metadata->begin(), metadata->end(), in)) return false;
  if (const auto carried = Carried(address); carried.has_value()) return AllowsIp(*carried);
  if (std::any_of(allowed_.begin(), allowed_.end(), in)) return true;
  return std::none_of(local->begin(), local->end(), in);
}

bool AddressRule::Allows(const sockaddr& address) const {
  if (address.sa_family == AF_INET) {
    sockaddr_in four;
    std::memcpy(&four, &address, sizeof(four));
    return AllowsIp(Mapped(reinterpret_cast<const uint8_t*>(&four.sin_addr)));
  }
  if (address.sa_family != AF_INET6) return false;
  sockaddr_in6 six;
  std::memcpy(&six, &address, sizeof(six));
  IpAddress ip;
  std::memcpy(ip.data(), &six.sin6_addr, ip.size());
  return AllowsIp(ip);
}

bool AddressRule::Allows(absl::string_view address) const {
  const auto ip = ReadAddress(std::string(address));
  return ip.has_value() && AllowsIp(*ip);
}

}  // namespace escapement
