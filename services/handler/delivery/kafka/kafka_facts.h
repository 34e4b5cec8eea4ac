// The facts that a Kafka record's headers tell: the attributes of CloudEvents 1.0 and the
// platform's own, as name and value.
//
// Pure functions.

#ifndef SERVICES_HANDLER_DELIVERY_KAFKA_KAFKA_FACTS_H_
#define SERVICES_HANDLER_DELIVERY_KAFKA_KAFKA_FACTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

struct KafkaFact {
  absl::string_view name;  // the header's; a constant
  std::string value;
};

// Equal for all attempts of a context: ce_specversion, ce_type, ce_source, ce_time, content-type
// (not without a payload), escapement-launch-time, escapement-count.
std::vector<KafkaFact> KafkaContextFacts(const DeliveryContext& context);

// ce_id, ce_subject (occurrence/index; not for one-off events), escapement-attempt,
// escapement-index, escapement-token (if there is one), traceparent (trace by event, span by
// attempt).
std::vector<KafkaFact> KafkaAttemptFacts(const DeliveryAttempt& attempt);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_KAFKA_KAFKA_FACTS_H_
