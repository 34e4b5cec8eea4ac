// The flag --delivery_allowed_addresses: to which addresses transports may connect.

#ifndef SERVICES_HANDLER_DELIVERY_ADDRESS_FLAGS_H_
#define SERVICES_HANDLER_DELIVERY_ADDRESS_FLAGS_H_

#include <memory>
#include <string>
#include <vector>

#include "common/net/address_rule.h"

namespace escapement::handler {

// Appends a sentence for a range that is none.
void ValidateAddressFlags(std::vector<std::string>& errors);

// `on_loopback`: the process can be reached from its own machine only. Then loopback addresses are
// allowed, too, unless the flag is set; a log line says so. Call it after the validation.
std::shared_ptr<const AddressRule> AddressRuleFromFlags(bool on_loopback);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_ADDRESS_FLAGS_H_
