// The table of transports: one row for each kind of target.
//
// The row names the kind, makes its transport and checks its flags. The transport of all kinds,
// which NewTransports returns, passes attempts to the transport of their target's kind. No result
// has the target's secrets, whatever the consumer answers (delivery_transport.h).
//
// Threads: call after the flags are parsed, on one thread. The threads of the returned transport
// are those of the transports in the table.

#ifndef SERVICES_HANDLER_DELIVERY_KINDS_TRANSPORT_TABLE_H_
#define SERVICES_HANDLER_DELIVERY_KINDS_TRANSPORT_TABLE_H_

#include <memory>
#include <string>
#include <vector>

#include "common/net/address_rule.h"
#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

// Appends one sentence for each flag of a transport with an invalid value.
void ValidateTransportFlags(std::vector<std::string>& errors);

// Makes the transports of all kinds, as the flags say. They connect to what `addresses` allows.
// Attempts of a kind without a row are kRejected.
std::unique_ptr<DeliveryTransport> NewTransports(std::shared_ptr<const AddressRule> addresses);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_KINDS_TRANSPORT_TABLE_H_
