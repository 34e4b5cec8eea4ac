// The input and output of decisions about a schedule: stored state, request and now in; one group
// and an answer out. Also the parts that the decisions share.
//
// Pure.

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_DECISION_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_DECISION_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"
#include "escapement/v1/resources.pb.h"
#include "google/protobuf/message.h"
#include "services/master/base/target_secrets.h"
#include "services/master/requests/resource_name.h"
#include "services/master/schedules/changes/change_builder.h"
#include "services/master/schedules/changes/schedule_snapshot.h"

namespace escapement::master {

struct Decision {
  kv::Group group;
  std::unique_ptr<google::protobuf::Message> response;  // has the RPC's type
  // True if the group is only a first part (some of very many parked rows): the caller commits it,
  // reads and decides again.
  bool partial = false;
  size_t occurrences = 0;
  // A policy of the schedule's tenant that must be there; the group has that as a condition. Empty:
  // none.
  std::string policy_id = {};
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

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_DECISION_H_
