// The flags of the HTTP transport, and the options that they make.
//
// Threads: call after the flags are parsed, on one thread.

#ifndef SERVICES_HANDLER_DELIVERY_HTTP_HTTP_FLAGS_H_
#define SERVICES_HANDLER_DELIVERY_HTTP_HTTP_FLAGS_H_

#include <memory>
#include <string>
#include <vector>

#include "common/net/address_rule.h"
#include "services/handler/delivery/http/http_transport.h"

namespace escapement::handler {

// Appends one sentence for each flag with an invalid value.
void ValidateHttpFlags(std::vector<std::string>& errors);

HttpTransport::Options HttpOptionsFromFlags(std::shared_ptr<const AddressRule> addresses);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_HTTP_HTTP_FLAGS_H_
