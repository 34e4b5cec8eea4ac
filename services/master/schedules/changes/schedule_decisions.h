// Decisions about a schedule: their input (ChangeInput) and output (Decision), and what each change
// writes and answers (DecideCreate and the others).

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_SCHEDULE_DECISIONS_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_SCHEDULE_DECISIONS_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"
#include "common/rpc/call_gate.h"
#include "escapement/v1/resources.pb.h"
#include "escapement/v1/schedule_service.pb.h"
#include "google/protobuf/message.h"
#include "services/master/base/target_secrets.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/requests/resource_name.h"
#include "services/master/schedules/changes/change_builder.h"
#include "services/master/schedules/changes/schedule_snapshot.h"

namespace escapement::master {

// The input and output of decisions about a schedule: stored state, request and now in; one group
// and an answer out. Also the parts that the decisions share.
//
// Pure.

struct Decision {
  kv::Group group;
  std::unique_ptr<google::protobuf::Message> response;  // has the RPC's type
  // True if the group is only a first part (some of very many parked rows): the caller commits it,
  // reads and decides again.
  bool partial = false;
  size_t occurrences = 0;
  // The ids of the policies, of the schedule's tenant, that must exist: conditions of the group.
  // With each the field that names it.
  std::map<std::string, std::string> policies = {};
  // The id of the calendar, of the schedule's tenant, whose days the definition has; empty: none.
  // It and those that it contains must be as they were read: conditions of the group.
  std::string calendar = {};
};

struct ChangeInput {
  const ScheduleSnapshot& snapshot;
  const ScheduleName& name;
  const kv::Layout& layout;
  const TargetSecrets& secrets;
  absl::Time now;  // store time
};

// NOT_FOUND if there is none, ABORTED (ETAG_MISMATCH) if an etag is given and not the current one.
absl::Status CheckCurrent(const ChangeInput& input, const std::string& etag);
// FAILED_PRECONDITION (WRONG_STATE) unless the schedule is there and ENABLED: neither paused nor
// FINISHED.
absl::Status CheckEnabled(const ChangeInput& input);

// The state as it will be stored by PutState.
storage::v1::StateRecord NextState(const ChangeInput& input);

// The schedule as an answer: as it is after a change to these. Its timetable ends at FinishOf the
// state.
v1::Schedule ShownAfter(const ChangeInput& input, const storage::v1::ScheduleRecord& record,
                        storage::v1::StateRecord state, const Definition& definition);

// Takes the builder's group.
Decision ToDecision(ChangeBuilder& builder, std::unique_ptr<google::protobuf::Message> response);

// Decides what each change of a schedule writes and answers, except resume (resume_decision.h).
// Pure.

// ALREADY_EXISTS if there is one.
absl::StatusOr<Decision> DecideCreate(const ChangeInput& input, const ScheduleDraft& draft);
// All others: NOT_FOUND if there is none, ABORTED (ETAG_MISMATCH) if an etag is given and not the
// current one.
// If an update of a paused schedule changes its times, the former version's occurrences until now
// that were never emitted are skipped ("paused"), and a resume counts from the update.
absl::StatusOr<Decision> DecideUpdate(const ChangeInput& input,
                                      const v1::UpdateScheduleRequest& request);
// Gives the schedule a new version that differs only in the present days of its calendar, as an
// update would; also if it never fires with them. `caller` is named in the audit. CANCELLED,
// without details, if the schedule is gone, names no calendar or has these days already.
absl::StatusOr<Decision> DecideRetime(const ChangeInput& input, const Caller& caller);
absl::StatusOr<Decision> DecideDelete(const ChangeInput& input,
                                      const v1::DeleteScheduleRequest& request);
// Notes as covered_to how far every occurrence has its rows; those at or beyond the end of max_runs
// have none.
absl::StatusOr<Decision> DecidePause(const ChangeInput& input,
                                     const v1::PauseScheduleRequest& request);
// The overlap policy does not apply to the run: it is launched at once, whatever else is active.
absl::StatusOr<Decision> DecideTrigger(const ChangeInput& input,
                                       const v1::TriggerScheduleRequest& request);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_SCHEDULE_DECISIONS_H_
