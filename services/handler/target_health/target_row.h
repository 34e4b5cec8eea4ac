// TargetRowOf: the record of a target in `target_states`.
//
// Pure.

#ifndef SERVICES_HANDLER_TARGET_HEALTH_TARGET_ROW_H_
#define SERVICES_HANDLER_TARGET_HEALTH_TARGET_ROW_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "escapement/storage/v1/target_records.pb.h"
#include "services/handler/target_health/circuit_breaker.h"
#include "services/handler/target_health/target_use.h"

namespace escapement::handler {

struct TargetRowInput {
  const std::string& target_key;
  const CircuitBreaker& breaker;
  const TargetUse& use;
  uint64_t in_flight_max = 0;
  absl::Time now;          // store time
  absl::Duration elapsed;  // Clock::Elapsed at `now`
};

storage::v1::TargetRowRecord TargetRowOf(const TargetRowInput& input);

// The target's key without user information and queries. Master checks refuse both where they could
// be secret; this keeps them out of lists in any case.
std::string ShownTargetKey(absl::string_view target_key);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_TARGET_HEALTH_TARGET_ROW_H_
