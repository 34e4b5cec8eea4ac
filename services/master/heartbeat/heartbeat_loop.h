// HeartbeatLoop: keeps the platform's own schedule (common/records/row_judge.h): makes it if it is
// not there, and gives it the interval that the operator has set. An operator who deletes the
// schedule gets it back within a minute; who pauses it keeps it paused.
//
// Every master does it. With different intervals the schedule would change from minute to minute,
// so all masters must have the same.
//
// Threads: the executor given.

#ifndef SERVICES_MASTER_HEARTBEAT_HEARTBEAT_LOOP_H_
#define SERVICES_MASTER_HEARTBEAT_HEARTBEAT_LOOP_H_

#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "common/runtime/runtime.h"
#include "services/master/api/master_apis.h"

namespace escapement::master {

class HeartbeatLoop {
 public:
  // `schedules` outlives it and answers on `executor`, which is stopped before the loop is
  // destroyed. If `every` is zero the loop does nothing, and a schedule that is there stays.
  HeartbeatLoop(std::shared_ptr<Executor> executor, ScheduleApi& schedules, absl::Duration every)
      : executor_(std::move(executor)), schedules_(schedules), every_(every) {}

  void Start();

 private:
  void Look();
  void Create();
  void SetInterval();
  void LookLater();
  v1::Schedule Wanted() const;

  const std::shared_ptr<Executor> executor_;
  ScheduleApi& schedules_;
  const absl::Duration every_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_HEARTBEAT_HEARTBEAT_LOOP_H_
