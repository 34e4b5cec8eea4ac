// RefusedEvents: which events of an Ingest batch were refused, by the violations of the refusal.
//
// Pure.

#ifndef SERVICES_MASTER_INGEST_REFUSED_EVENTS_H_
#define SERVICES_MASTER_INGEST_REFUSED_EVENTS_H_

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace escapement::master {

// The first violation of each refused event, by its position in the batch. Fields are named as
// those of an Event: "events[3].overrides.target" becomes "target". Empty: the refusal is of the
// batch as a whole. There may be more refused events than violations: send the other events again.
std::map<size_t, absl::Status> RefusedEvents(
    const std::vector<std::pair<std::string, std::string>>& violations, size_t events);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_INGEST_REFUSED_EVENTS_H_
