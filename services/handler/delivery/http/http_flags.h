// The flags of the HTTP transport, and the transport that they describe.
//
// Threads: call after the flags are parsed, on one thread.

#ifndef SERVICES_HANDLER_DELIVERY_HTTP_HTTP_FLAGS_H_
#define SERVICES_HANDLER_DELIVERY_HTTP_HTTP_FLAGS_H_

#include <memory>
#include <string>
#include <vector>

#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

// Appends one sentence for each flag with an invalid value.
void ValidateHttpFlags(std::vector<std::string>& errors);

std::unique_ptr<DeliveryTransport> NewHttpTransportFromFlags();

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_HTTP_HTTP_FLAGS_H_
