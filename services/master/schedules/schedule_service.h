// ScheduleService: the schedules of tenants. Check → decide → write → answer; every change is one
// commit (schedule_transaction.h).
//
// Threads: as ScheduleApi. No state but the number of forecasts under way.

#ifndef SERVICES_MASTER_SCHEDULES_SCHEDULE_SERVICE_H_
#define SERVICES_MASTER_SCHEDULES_SCHEDULE_SERVICE_H_

#include <atomic>

#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"

namespace escapement::master {

class ScheduleService final : public ScheduleApi {
 public:
  // `context` outlives the service.
  explicit ScheduleService(MasterContext& context) : context_(context) {}

  void CreateSchedule(v1::CreateScheduleRequest request, Done<v1::Schedule> done) override;
  void GetSchedule(v1::GetScheduleRequest request, Done<v1::Schedule> done) override;
  void ListSchedules(v1::ListSchedulesRequest request,
                     Done<v1::ListSchedulesResponse> done) override;
  void UpdateSchedule(v1::UpdateScheduleRequest request, Done<v1::Schedule> done) override;
  void DeleteSchedule(v1::DeleteScheduleRequest request,
                      Done<google::protobuf::Empty> done) override;
  void BatchCreateSchedules(v1::BatchCreateSchedulesRequest request,
                            Done<v1::BatchCreateSchedulesResponse> done) override;
  void BatchUpdateSchedules(v1::BatchUpdateSchedulesRequest request,
                            Done<v1::BatchUpdateSchedulesResponse> done) override;
  void BatchDeleteSchedules(v1::BatchDeleteSchedulesRequest request,
                            Done<v1::BatchDeleteSchedulesResponse> done) override;
  void PauseSchedule(v1::PauseScheduleRequest request, Done<v1::Schedule> done) override;
  void ResumeSchedule(v1::ResumeScheduleRequest request, Done<v1::Schedule> done) override;
  void TriggerSchedule(v1::TriggerScheduleRequest request, Done<v1::Run> done) override;
  void BackfillSchedule(v1::BackfillScheduleRequest request,
                        Done<v1::BackfillScheduleResponse> done) override;
  void ListScheduleVersions(v1::ListScheduleVersionsRequest request,
                            Done<v1::ListScheduleVersionsResponse> done) override;
  void PreviewSchedule(v1::PreviewScheduleRequest request,
                       Done<v1::PreviewScheduleResponse> done) override;
  void ForecastLoad(v1::ForecastLoadRequest request, Done<v1::ForecastLoadResponse> done) override;

 private:
  MasterContext& context_;
  std::atomic<int> forecasts_ = 0;  // under way
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_SCHEDULE_SERVICE_H_
