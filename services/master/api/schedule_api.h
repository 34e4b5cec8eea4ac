// ScheduleApi: what the master promises about schedules. The contract of each method is that of its
// RPC in escapement/v1/schedule_service.proto; errors carry the details of common/status/errors.h.
//
// Threads: methods may be called from any thread and never block; see api/done.h for the answers.

#ifndef SERVICES_MASTER_API_SCHEDULE_API_H_
#define SERVICES_MASTER_API_SCHEDULE_API_H_

#include "escapement/v1/schedule_service.pb.h"
#include "services/master/api/done.h"

namespace escapement::master {

class ScheduleApi {
 public:
  virtual ~ScheduleApi() = default;

  virtual void CreateSchedule(v1::CreateScheduleRequest request, Done<v1::Schedule> done) = 0;
  virtual void GetSchedule(v1::GetScheduleRequest request, Done<v1::Schedule> done) = 0;
  virtual void ListSchedules(v1::ListSchedulesRequest request,
                             Done<v1::ListSchedulesResponse> done) = 0;
  virtual void UpdateSchedule(v1::UpdateScheduleRequest request, Done<v1::Schedule> done) = 0;
  virtual void DeleteSchedule(v1::DeleteScheduleRequest request,
                              Done<google::protobuf::Empty> done) = 0;
  virtual void PauseSchedule(v1::PauseScheduleRequest request, Done<v1::Schedule> done) = 0;
  virtual void ResumeSchedule(v1::ResumeScheduleRequest request, Done<v1::Schedule> done) = 0;
  virtual void TriggerSchedule(v1::TriggerScheduleRequest request, Done<v1::Run> done) = 0;
  virtual void BackfillSchedule(v1::BackfillScheduleRequest request,
                                Done<v1::BackfillScheduleResponse> done) = 0;
  virtual void PreviewSchedule(v1::PreviewScheduleRequest request,
                               Done<v1::PreviewScheduleResponse> done) = 0;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_API_SCHEDULE_API_H_
