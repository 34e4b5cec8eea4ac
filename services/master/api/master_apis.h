// Those services of the public API that tests and the simulation also have over other things than a
// master. The contract of each method, here as in the master's other services, is that of its RPC
// in escapement/v1/*_service.proto; errors carry the details of common/status/errors.h.
//
// Threads: methods may be called from any thread and never block. common/rpc/done.h says how the
// answers come.

#ifndef SERVICES_MASTER_API_MASTER_APIS_H_
#define SERVICES_MASTER_API_MASTER_APIS_H_

#include <memory>

#include "common/rpc/done.h"
#include "escapement/v1/event_service.pb.h"
#include "escapement/v1/policy_service.pb.h"
#include "escapement/v1/run_service.pb.h"
#include "escapement/v1/schedule_service.pb.h"

namespace escapement::master {

using ::escapement::Done;

struct IngestOptions {
  bool return_ids = false;  // give back the server-made ids
};

// The record may replace or cancel an event that exists: its place among others of its id counts.
inline bool TakesBack(const v1::IngestEvent& event) {
  return event.mode() == v1::Event::UPSERT || event.mode() == v1::Event::CANCEL;
}

class EventApi {
 public:
  virtual ~EventApi() = default;

  virtual void CreateEvent(v1::CreateEventRequest request, Done<v1::Event> done) = 0;
  virtual void BatchCreateEvents(v1::BatchCreateEventsRequest request,
                                 Done<v1::BatchCreateEventsResponse> done) = 0;
  virtual void UpsertEvent(v1::UpsertEventRequest request, Done<v1::Event> done) = 0;
  virtual void UpdateEvent(v1::UpdateEventRequest request, Done<v1::Event> done) = 0;
  virtual void GetEvent(v1::GetEventRequest request, Done<v1::Event> done) = 0;
  virtual void ListEvents(v1::ListEventsRequest request, Done<v1::ListEventsResponse> done) = 0;
  virtual void CancelEvent(v1::CancelEventRequest request, Done<v1::Event> done) = 0;

  // One batch of an Ingest stream. `request` carries the parent and the defaults that are in force
  // (the stream remembers them); nobody changes it until `done` has run or was destroyed. An error:
  // nothing of the batch was written. Several batches may be under way at once. The batch is parsed
  // and built on the calling thread.
  virtual void IngestBatch(std::shared_ptr<const v1::IngestRequest> request, IngestOptions options,
                           Done<v1::IngestResponse> done) = 0;
};

class PolicyApi {
 public:
  virtual ~PolicyApi() = default;

  virtual void CreatePolicy(v1::CreatePolicyRequest request, Done<v1::ThrottlePolicy> done) = 0;
  virtual void GetPolicy(v1::GetPolicyRequest request, Done<v1::ThrottlePolicy> done) = 0;
  virtual void ListPolicies(v1::ListPoliciesRequest request,
                            Done<v1::ListPoliciesResponse> done) = 0;
  virtual void UpdatePolicy(v1::UpdatePolicyRequest request, Done<v1::ThrottlePolicy> done) = 0;
  virtual void DeletePolicy(v1::DeletePolicyRequest request,
                            Done<google::protobuf::Empty> done) = 0;
  virtual void PausePolicy(v1::PausePolicyRequest request, Done<v1::ThrottlePolicy> done) = 0;
  virtual void ResumePolicy(v1::ResumePolicyRequest request, Done<v1::ThrottlePolicy> done) = 0;
  virtual void OverridePolicy(v1::OverridePolicyRequest request, Done<v1::ThrottlePolicy> done) = 0;
  virtual void ClearOverride(v1::ClearOverrideRequest request, Done<v1::ThrottlePolicy> done) = 0;
  virtual void ListPolicyKeys(v1::ListPolicyKeysRequest request,
                              Done<v1::ListPolicyKeysResponse> done) = 0;
  virtual void GetPolicyUsage(v1::GetPolicyUsageRequest request, Done<v1::PolicyUsage> done) = 0;
};

class RunApi {
 public:
  virtual ~RunApi() = default;

  virtual void ListRuns(v1::ListRunsRequest request, Done<v1::ListRunsResponse> done) = 0;
  virtual void GetRun(v1::GetRunRequest request, Done<v1::Run> done) = 0;
  virtual void ListRunEvents(v1::ListRunEventsRequest request,
                             Done<v1::ListRunEventsResponse> done) = 0;
  virtual void CancelRun(v1::CancelRunRequest request, Done<v1::Run> done) = 0;
  // An RPC of ScheduleService.
  virtual void ListOccurrences(v1::ListOccurrencesRequest request,
                               Done<v1::ListOccurrencesResponse> done) = 0;
};

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
  virtual void BatchCreateSchedules(v1::BatchCreateSchedulesRequest request,
                                    Done<v1::BatchCreateSchedulesResponse> done) = 0;
  virtual void BatchUpdateSchedules(v1::BatchUpdateSchedulesRequest request,
                                    Done<v1::BatchUpdateSchedulesResponse> done) = 0;
  virtual void BatchDeleteSchedules(v1::BatchDeleteSchedulesRequest request,
                                    Done<v1::BatchDeleteSchedulesResponse> done) = 0;
  virtual void PauseSchedule(v1::PauseScheduleRequest request, Done<v1::Schedule> done) = 0;
  virtual void ResumeSchedule(v1::ResumeScheduleRequest request, Done<v1::Schedule> done) = 0;
  virtual void TriggerSchedule(v1::TriggerScheduleRequest request, Done<v1::Run> done) = 0;
  virtual void BackfillSchedule(v1::BackfillScheduleRequest request,
                                Done<v1::BackfillScheduleResponse> done) = 0;
  virtual void ListScheduleVersions(v1::ListScheduleVersionsRequest request,
                                    Done<v1::ListScheduleVersionsResponse> done) = 0;
  virtual void PreviewSchedule(v1::PreviewScheduleRequest request,
                               Done<v1::PreviewScheduleResponse> done) = 0;
  virtual void ForecastLoad(v1::ForecastLoadRequest request,
                            Done<v1::ForecastLoadResponse> done) = 0;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_API_MASTER_APIS_H_
