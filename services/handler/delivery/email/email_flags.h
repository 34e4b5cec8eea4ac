// The flags of the e-mail transport, and the transport that they describe.
//
// Threads: call after the flags are parsed, on one thread.

#ifndef SERVICES_HANDLER_DELIVERY_EMAIL_EMAIL_FLAGS_H_
#define SERVICES_HANDLER_DELIVERY_EMAIL_EMAIL_FLAGS_H_

#include <memory>
#include <string>
#include <vector>

#include "common/net/address_rule.h"
#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

// Appends one sentence for each flag with an invalid value.
void ValidateEmailFlags(std::vector<std::string>& errors);

std::unique_ptr<DeliveryTransport> NewEmailTransportFromFlags(
    std::shared_ptr<const AddressRule> addresses);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_EMAIL_EMAIL_FLAGS_H_
