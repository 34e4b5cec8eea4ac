#include "services/handler/delivery/address_flags.h"

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"

ABSL_FLAG(std::vector<std::string>, delivery_allowed_addresses, {},
          "ranges of addresses that targets may have besides the globally reachable ones, e.g. "
          "10.0.0.0/8,fd00::/8. If it is empty and both ports listen on loopback: loopback. "
          "Metadata services of clouds are never allowed");

namespace escapement::handler {

void ValidateAddressFlags(std::vector<std::string>& errors) {
  const auto rule = AddressRule::Allowing(absl::GetFlag(FLAGS_delivery_allowed_addresses));
  if (!rule.ok())
    errors.push_back(absl::StrCat("--delivery_allowed_addresses: ", rule.status().message()));
}

std::shared_ptr<const AddressRule> AddressRuleFromFlags(bool on_loopback) {
  const std::vector<std::string> ranges = absl::GetFlag(FLAGS_delivery_allowed_addresses);
  if (!ranges.empty() || !on_loopback)
    return std::make_shared<const AddressRule>(*AddressRule::Allowing(ranges));
  Log(LogLevel::kInfo, "delivery",
      "targets may have loopback addresses, because this process listens on loopback only");
  return std::make_shared<const AddressRule>(AddressRule::AllowingLoopback());
}

}  // namespace escapement::handler
