// ScheduleTransaction: one change of a schedule: read → decide → commit, again from the read while
// races are lost. Changes that are made together share the reads and commits that they make at the
// same time (joint_calls.h).
//
// A remembered answer (request_id) is given before anything is decided. A partition whose emitter
// is in the middle of a window (a cursor is present) is waited for, a little longer each time.
//
// Threads: runs on the context's executor.

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_SCHEDULE_TRANSACTION_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_SCHEDULE_TRANSACTION_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/request_table.h"
#include "services/master/requests/resource_name.h"
#include "services/master/schedules/changes/schedule_decisions.h"
#include "services/master/schedules/changes/schedule_snapshot.h"

namespace escapement::master {

struct ScheduleChange {
  ScheduleName name;
  RequestMark mark = {};
  // Reads whatever else the decision needs, once for each try, before it; the schedule is there.
  // Unset: nothing.
  absl::AnyInvocable<void(const ChangeInput& input, absl::AnyInvocable<void(absl::Status)> done)>
      read_more = nullptr;
  // Called with what was read, once for each try; twice if the decision names a policy or calendar,
  // which is then read for the second call.
  absl::AnyInvocable<absl::StatusOr<Decision>(const ChangeInput& input)> decide = nullptr;
  std::unique_ptr<google::protobuf::Message> response = nullptr;  // an empty one of the RPC's type
  bool takes_parked = false;                                      // resume, delete
  bool waits_for_emitter = true;
  bool validate_only = false;  // decide and answer, write nothing
};

using ScheduleAnswer = absl::StatusOr<std::unique_ptr<google::protobuf::Message>>;
using ScheduleChanged = absl::AnyInvocable<void(ScheduleAnswer)>;

// Turns the transaction's answer into the RPC's.
template <typename Response>
ScheduleChanged As(Done<Response> done) {
  return [done = std::move(done)](ScheduleAnswer response) mutable {
    if (!response.ok()) return done(response.status());
    done(std::move(static_cast<Response&>(**response)));
  };
}

// ABORTED (CONTENDED) after too many lost races.
void ChangeSchedule(MasterContext& context, ScheduleChange change, ScheduleChanged done);

// Makes the changes together, each as ChangeSchedule would. Where one could not be read from its
// request, that error is its answer. The answers are in the order of the changes.
void ChangeSchedules(MasterContext& context, std::vector<absl::StatusOr<ScheduleChange>> changes,
                     absl::AnyInvocable<void(std::vector<ScheduleAnswer>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_SCHEDULE_TRANSACTION_H_
