// The flags of the SQS transport, and the transport that they describe.
//
// Threads: call after the flags are parsed, on one thread.

#ifndef SERVICES_HANDLER_DELIVERY_SQS_SQS_FLAGS_H_
#define SERVICES_HANDLER_DELIVERY_SQS_SQS_FLAGS_H_

#include <memory>
#include <string>
#include <vector>

#include "common/net/address_rule.h"
#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

// Appends one sentence for each flag with an invalid value.
void ValidateSqsFlags(std::vector<std::string>& errors);

// `addresses` is never null.
std::unique_ptr<DeliveryTransport> NewSqsTransportFromFlags(
    std::shared_ptr<const AddressRule> addresses);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_SQS_SQS_FLAGS_H_
