#include "services/handler/delivery/kafka/kafka_facts.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/stable_hash.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/delivery/http/headers.h"

namespace escapement::handler {
namespace {

std::string Rfc3339(absl::Time time) {
  std::string text;
  AppendRfc3339(time, &text);
  return text;
}

// W3C Trace Context, as in HTTP: not sampled, since nobody records these spans; never all zeros.
std::string TraceParent(const DeliveryAttempt& attempt) {
  const uint64_t trace = StableHash64(attempt.event_id);
  const uint64_t span = (trace ^ (attempt.attempt * 0x9e3779b97f4a7c15u)) | 1;
  return absl::StrCat("00-", absl::Hex(trace, absl::kZeroPad16),
                      absl::Hex(~trace, absl::kZeroPad16), "-", absl::Hex(span, absl::kZeroPad16),
                      "-00");
}

}  // namespace

std::vector<KafkaFact> KafkaContextFacts(const DeliveryContext& context) {
  std::vector<KafkaFact> facts;
  facts.push_back({"ce_specversion", "1.0"});
  facts.push_back({"ce_type", "escapement.trigger.v1"});
  facts.push_back({"ce_source", context.source});
  facts.push_back({"ce_time", Rfc3339(context.nominal_time)});
  if (!context.payload->empty())
    facts.push_back({"content-type", context.definition->delivery().content_type()});
  facts.push_back({"escapement-launch-time", Rfc3339(context.launch_time)});
  facts.push_back({"escapement-count", absl::StrCat(context.run_count)});
  return facts;
}

std::vector<KafkaFact> KafkaAttemptFacts(const DeliveryAttempt& attempt) {
  std::vector<KafkaFact> facts;
  facts.reserve(6);
  facts.push_back({"ce_id", attempt.event_id});
  const std::string& occurrence = attempt.context->occurrence;
  if (!occurrence.empty())
    facts.push_back({"ce_subject", absl::StrCat(occurrence, "/", attempt.index)});
  facts.push_back({"escapement-attempt", absl::StrCat(attempt.attempt)});
  facts.push_back({"escapement-index", absl::StrCat(attempt.index)});
  if (!attempt.token.empty()) facts.push_back({"escapement-token", attempt.token});
  facts.push_back({"traceparent", TraceParent(attempt)});
  return facts;
}

}  // namespace escapement::handler
