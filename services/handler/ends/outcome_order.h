// The order in which outcomes become records. A pure function.

#ifndef SERVICES_HANDLER_ENDS_OUTCOME_ORDER_H_
#define SERVICES_HANDLER_ENDS_OUTCOME_ORDER_H_

#include <vector>

#include "services/handler/sending/claim.h"

namespace escapement::handler {

// Sorts by claim, entry and first event. No two outcomes may be of one event.
void SortByEvent(std::vector<Outcome>& outcomes);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_ENDS_OUTCOME_ORDER_H_
