#include "common/process/store_addresses.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/rpc/host_port.h"

namespace escapement {

absl::StatusOr<std::vector<std::string>> ParseStoreAddresses(absl::string_view text) {
  std::vector<std::string> addresses;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const auto place = ParseHostPort(absl::StripAsciiWhitespace(part));
    if (!place.ok()) return place.status();
    if (place->port == 0)
      return absl::InvalidArgumentError(
          absl::StrCat(place->host, " needs a port, as in 127.0.0.1:7400"));
    std::string address = place->ToString();
    if (std::find(addresses.begin(), addresses.end(), address) != addresses.end())
      return absl::InvalidArgumentError(absl::StrCat(address, " occurs twice"));
    addresses.push_back(std::move(address));
  }
  if (addresses.size() > kStoreAddressesMax)
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", kStoreAddressesMax, " addresses of one store"));
  return addresses;
}

}  // namespace escapement
