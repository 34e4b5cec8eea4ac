// The facts of an attempt that consumers get beside the payload: CloudEvents attributes, and the
// platform's own. Transports that send names with values (SQS attributes, Kafka headers) use them.
//
// HTTP has its own names and an order that saves work (http/answer.h).
//
// Pure functions.

#ifndef SERVICES_HANDLER_DELIVERY_FACTS_H_
#define SERVICES_HANDLER_DELIVERY_FACTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/templates/event_template.h"
#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

inline constexpr absl::string_view kCloudEventsSpecVersion = "1.0";
inline constexpr absl::string_view kCloudEventsType = "escapement.trigger.v1";

// One name with its value. Both names live as long as the program.
struct Fact {
  absl::string_view name;       // without a prefix: "id", "attempt"
  std::string value;            // never empty
  absl::string_view attribute;  // with the prefix, as a header or attribute: "ce_id"
};

// The facts that all events of a row share, in this order:
//
//   specversion, source, type, time (nominal)       ce_…
//   datacontenttype (only if there is a payload)    ce_…
//   count, launchtime                               escapement_…
//   traceparent (only if there is one)              as it is
std::vector<Fact> ContextFactsOf(const DeliveryContext& context);

// Calls `visit` with the facts of one attempt, without a copy of them: a value is valid during the
// call. In this order:
//
//   id, subject (occurrence/index; not for one-off events)   ce_…
//   token (only if there is one), attempt, index             escapement_…
//
// The most useful ones come first: a transport that has no room for all omits the last ones.
void VisitAttemptFacts(const DeliveryAttempt& attempt,
                       absl::FunctionRef<void(absl::string_view name, absl::string_view attribute,
                                              absl::string_view value)>
                           visit);

// Both: first the facts of the context, then those of the attempt.
std::vector<Fact> FactsOf(const DeliveryAttempt& attempt);

// RFC 3339 in UTC, with six digits of microseconds unless they are zero. Years 0 to 9999.
void AppendRfc3339(absl::Time time, std::string* out);

// EventFactsOf: what the templates of messages to people can say about an attempt.

// Points to the attempt's payload. Pure.
EventFacts EventFactsOf(const DeliveryAttempt& attempt);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_FACTS_H_
