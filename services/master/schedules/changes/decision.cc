#include "services/master/schedules/changes/decision.h"

#include <utility>

#include "common/status/errors.h"
#include "services/master/base/errors.h"
#include "services/master/codec/schedule_codec.h"

namespace escapement::master {

absl::Status CheckCurrent(const ChangeInput& input, const std::string& etag) {
  if (!input.snapshot.record.has_value()) return NotFound(input.name.ToString());
  if (!etag.empty() && etag != Etag(input.snapshot.state))
    return EtagMismatch(input.name.ToString());
  return absl::OkStatus();
}

absl::Status CheckEnabled(const ChangeInput& input) {
  const ScheduleSnapshot& snapshot = input.snapshot;
  storage::v1::ScheduleStateKind kind = snapshot.state.kind();
  if (kind == storage::v1::SCHEDULE_STATE_KIND_ENABLED) {
    if (NextTime(snapshot.state, *snapshot.definition, input.now).has_value())
      return absl::OkStatus();
    kind = storage::v1::SCHEDULE_STATE_KIND_FINISHED;
  }
  return WrongState(input.name.ToString(), StateName(kind), "ENABLED");
}

storage::v1::StateRecord NextState(const ChangeInput& input) {
  storage::v1::StateRecord state = input.snapshot.state;
  state.set_tenant(input.name.tenant);
  state.set_schedule_id(input.name.schedule);
  return state;
}

v1::Schedule ShownAfter(const ChangeInput& input, const storage::v1::ScheduleRecord& record,
                        storage::v1::StateRecord state, const Definition& definition) {
  state.set_change_count(input.snapshot.state.change_count() + 1);
  return ShowSchedule({record, state, definition.record}, NextTime(state, definition, input.now));
}

Decision ToDecision(ChangeBuilder& builder, std::unique_ptr<google::protobuf::Message> response) {
  Decision decision;
  decision.group = std::move(builder.group());
  decision.response = std::move(response);
  decision.occurrences = builder.occurrences();
  return decision;
}

}  // namespace escapement::master
