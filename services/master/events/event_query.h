// The question and the answer of both lists of one-off events (pending_events.h, ended_events.h).

#ifndef SERVICES_MASTER_EVENTS_EVENT_QUERY_H_
#define SERVICES_MASTER_EVENTS_EVENT_QUERY_H_

#include <string>
#include <vector>

#include "escapement/v1/resources.pb.h"
#include "services/master/events/event_filter.h"

namespace escapement::master {

struct EventQuery {
  std::string tenant;
  bool descending = false;
  size_t page_size = 0;
  std::string position;  // ShownEvents::next of the page before; empty: from the beginning
  EventFilter filter;
};

struct ShownEvents {
  std::vector<v1::Event> events;  // without payloads
  std::string next;               // where the list goes on; empty at the end
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EVENTS_EVENT_QUERY_H_
