#include "services/master/target_states/target_status.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/micros.h"
#include "common/base/proto_time.h"

namespace escapement::master {
namespace {

using storage::v1::TargetStateRecord;
using v1::TargetStatus;

TargetStatus::State StateOf(TargetStateRecord::Breaker breaker) {
  switch (breaker) {
    case TargetStateRecord::CLOSED:
      return TargetStatus::CLOSED;
    case TargetStateRecord::OPEN:
      return TargetStatus::OPEN;
    case TargetStateRecord::HALF_OPEN:
      return TargetStatus::HALF_OPEN;
    default:
      return TargetStatus::STATE_UNSPECIFIED;
  }
}

// The state of the target, if handlers see it in both of these.
TargetStatus::State Worse(TargetStatus::State a, TargetStatus::State b) {
  if (a == TargetStatus::OPEN || b == TargetStatus::OPEN) return TargetStatus::OPEN;
  return std::max(a, b);
}

void ShowHandler(const HandlerRow& row, TargetStatus::Handler& handler) {
  const TargetStateRecord& state = row.record.state();
  handler.set_handler(row.handler);
  handler.set_state(StateOf(state.breaker()));
  if (row.record.down_since_micros() != 0) {
    SetTimestamp(row.record.down_since_micros(), *handler.mutable_down_since_time());
    SetTimestamp(state.open_until_micros(), *handler.mutable_next_probe_time());
  }
  handler.set_in_flight(static_cast<int64_t>(state.in_flight()));
  handler.set_in_flight_max(static_cast<int64_t>(row.record.in_flight_max()));
  handler.set_attempt_count(static_cast<int64_t>(state.attempts()));
  handler.set_failure_count(static_cast<int64_t>(state.failures()));
  SetDuration(state.measured_micros(), *handler.mutable_measured_duration());
  if (state.last_error_time_micros() != 0) {
    handler.set_last_error(state.last_error());
    SetTimestamp(state.last_error_time_micros(), *handler.mutable_last_error_time());
  }
  SetTimestamp(state.update_time_micros(), *handler.mutable_update_time());
}

// The smaller of two times, where 0 is none.
int64_t Earlier(int64_t a, int64_t b) { return a == 0 || b == 0 ? a + b : std::min(a, b); }

}  // namespace

TargetStatus ShowTarget(const std::string& tenant, const Uid& target,
                        const std::vector<HandlerRow>& rows) {
  CHECK(!rows.empty());
  TargetStatus status;
  status.set_name(absl::StrCat("tenants/", tenant, "/targets/", target.ToHex()));
  const std::string& key = rows.front().record.state().target_key();
  const size_t colon = key.find(':');
  status.set_transport(key.substr(0, colon));
  if (colon != std::string::npos) status.set_endpoint(key.substr(colon + 1));
  int64_t down_since = 0, next_probe = 0, error_at = 0, updated = 0;
  for (const HandlerRow& row : rows) {
    const TargetStateRecord& state = row.record.state();
    TargetStatus::Handler& handler = *status.add_handlers();
    ShowHandler(row, handler);
    status.set_state(Worse(status.state(), handler.state()));
    status.set_in_flight(status.in_flight() + handler.in_flight());
    status.set_in_flight_max(status.in_flight_max() + handler.in_flight_max());
    status.set_attempt_count(status.attempt_count() + handler.attempt_count());
    status.set_failure_count(status.failure_count() + handler.failure_count());
    down_since = Earlier(down_since, row.record.down_since_micros());
    next_probe = Earlier(next_probe, state.open_until_micros());
    updated = std::max(updated, state.update_time_micros());
    if (state.last_error_time_micros() <= error_at) continue;
    error_at = state.last_error_time_micros();
    status.set_last_error(state.last_error());
  }
  if (down_since != 0) {
    SetTimestamp(down_since, *status.mutable_down_since_time());
    SetTimestamp(next_probe, *status.mutable_next_probe_time());
  }
  if (error_at != 0) SetTimestamp(error_at, *status.mutable_last_error_time());
  SetTimestamp(updated, *status.mutable_update_time());
  if (status.attempt_count() > 0) {
    status.set_error_rate(static_cast<double>(status.failure_count()) /
                          static_cast<double>(status.attempt_count()));
  }
  return status;
}

}  // namespace escapement::master
