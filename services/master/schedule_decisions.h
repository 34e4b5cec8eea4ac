// What each change of a schedule writes and answers. Pure: (what is stored, request, now) in, one
// group and an answer out.

#ifndef SERVICES_MASTER_SCHEDULE_DECISIONS_H_
#define SERVICES_MASTER_SCHEDULE_DECISIONS_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"
#include "escapement/v1/schedule_service.pb.h"
#include "google/protobuf/message.h"
#include "services/master/resource_name.h"
#include "services/master/schedule_snapshot.h"

namespace escapement::master {

struct Decision {
  kv::Group group;
  std::unique_ptr<google::protobuf::Message> response;  // of the RPC's type
  // The group is only a first part (some of very many parked rows): commit it, read and decide
  // again.
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
  absl::Time now;  // store time
};

// ALREADY_EXISTS if there is one.
absl::StatusOr<Decision> DecideCreate(const ChangeInput& input, const ScheduleDraft& draft);
// All others: NOT_FOUND if there is none, ABORTED (ETAG_MISMATCH) if an etag is given and not the
// current one.
absl::StatusOr<Decision> DecideUpdate(const ChangeInput& input,
                                      const v1::UpdateScheduleRequest& request);
absl::StatusOr<Decision> DecideDelete(const ChangeInput& input,
                                      const v1::DeleteScheduleRequest& request);
absl::StatusOr<Decision> DecidePause(const ChangeInput& input,
                                     const v1::PauseScheduleRequest& request);
absl::StatusOr<Decision> DecideResume(const ChangeInput& input,
                                      const v1::ResumeScheduleRequest& request);
absl::StatusOr<Decision> DecideTrigger(const ChangeInput& input,
                                       const v1::TriggerScheduleRequest& request);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULE_DECISIONS_H_
