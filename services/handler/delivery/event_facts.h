// EventFactsOf: what the templates of messages to people can say about an attempt.

#ifndef SERVICES_HANDLER_DELIVERY_EVENT_FACTS_H_
#define SERVICES_HANDLER_DELIVERY_EVENT_FACTS_H_

#include "common/templates/event_template.h"
#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

// Points to the attempt's payload. Pure.
EventFacts EventFactsOf(const DeliveryAttempt& attempt);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_EVENT_FACTS_H_
