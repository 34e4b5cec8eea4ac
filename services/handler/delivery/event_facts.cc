#include "services/handler/delivery/event_facts.h"

#include "absl/strings/str_cat.h"
#include "services/handler/delivery/facts.h"

namespace escapement::handler {

EventFacts EventFactsOf(const DeliveryAttempt& attempt) {
  const DeliveryContext& context = *attempt.context;
  EventFacts facts;
  facts.payload = *context.payload;
  facts.id = attempt.event_id;
  facts.source = context.source;
  AppendRfc3339(context.nominal_time, &facts.time);
  if (!context.occurrence.empty())
    facts.subject = absl::StrCat(context.occurrence, "/", attempt.index);
  facts.attempt = absl::StrCat(attempt.attempt);
  facts.index = absl::StrCat(attempt.index);
  facts.count = absl::StrCat(context.run_count);
  return facts;
}

}  // namespace escapement::handler
