#include "services/master/master_grpc.h"

#include <grpcpp/grpcpp.h>

#include "common/rpc/unary_answer_grpc.h"
#include "escapement/v1/run_service.grpc.pb.h"
#include "escapement/v1/schedule_service.grpc.pb.h"
#include "services/master/events/event_grpc.h"
#include "services/master/policies/policy_grpc.h"

namespace escapement::master {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

class ScheduleGrpc final : public v1::ScheduleService::CallbackService {
 public:
  explicit ScheduleGrpc(ScheduleApi& schedules) : schedules_(schedules) {}

  ServerUnaryReactor* CreateSchedule(CallbackServerContext* context,
                                     const v1::CreateScheduleRequest* request,
                                     v1::Schedule* response) override {
    ServerUnaryReactor* reactor = nullptr;
    schedules_.CreateSchedule(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  ServerUnaryReactor* GetSchedule(CallbackServerContext* context,
                                  const v1::GetScheduleRequest* request,
                                  v1::Schedule* response) override {
    ServerUnaryReactor* reactor = nullptr;
    schedules_.GetSchedule(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  ServerUnaryReactor* ListSchedules(CallbackServerContext* context,
                                    const v1::ListSchedulesRequest* request,
                                    v1::ListSchedulesResponse* response) override {
    ServerUnaryReactor* reactor = nullptr;
    schedules_.ListSchedules(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  ServerUnaryReactor* UpdateSchedule(CallbackServerContext* context,
                                     const v1::UpdateScheduleRequest* request,
                                     v1::Schedule* response) override {
    ServerUnaryReactor* reactor = nullptr;
    schedules_.UpdateSchedule(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  ServerUnaryReactor* DeleteSchedule(CallbackServerContext* context,
                                     const v1::DeleteScheduleRequest* request,
                                     google::protobuf::Empty* response) override {
    ServerUnaryReactor* reactor = nullptr;
    schedules_.DeleteSchedule(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  ServerUnaryReactor* PauseSchedule(CallbackServerContext* context,
                                    const v1::PauseScheduleRequest* request,
                                    v1::Schedule* response) override {
    ServerUnaryReactor* reactor = nullptr;
    schedules_.PauseSchedule(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  ServerUnaryReactor* ResumeSchedule(CallbackServerContext* context,
                                     const v1::ResumeScheduleRequest* request,
                                     v1::Schedule* response) override {
    ServerUnaryReactor* reactor = nullptr;
    schedules_.ResumeSchedule(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  ServerUnaryReactor* TriggerSchedule(CallbackServerContext* context,
                                      const v1::TriggerScheduleRequest* request,
                                      v1::Run* response) override {
    ServerUnaryReactor* reactor = nullptr;
    schedules_.TriggerSchedule(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  ServerUnaryReactor* BackfillSchedule(CallbackServerContext* context,
                                       const v1::BackfillScheduleRequest* request,
                                       v1::BackfillScheduleResponse* response) override {
    ServerUnaryReactor* reactor = nullptr;
    schedules_.BackfillSchedule(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  ServerUnaryReactor* PreviewSchedule(CallbackServerContext* context,
                                      const v1::PreviewScheduleRequest* request,
                                      v1::PreviewScheduleResponse* response) override {
    ServerUnaryReactor* reactor = nullptr;
    schedules_.PreviewSchedule(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }

 private:
  ScheduleApi& schedules_;
};

class RunGrpc final : public v1::RunService::CallbackService {
 public:
  explicit RunGrpc(RunApi& runs) : runs_(runs) {}

  ServerUnaryReactor* ListRuns(CallbackServerContext* context, const v1::ListRunsRequest* request,
                               v1::ListRunsResponse* response) override {
    ServerUnaryReactor* reactor = nullptr;
    runs_.ListRuns(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  ServerUnaryReactor* GetRun(CallbackServerContext* context, const v1::GetRunRequest* request,
                             v1::Run* response) override {
    ServerUnaryReactor* reactor = nullptr;
    runs_.GetRun(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  ServerUnaryReactor* ListRunEvents(CallbackServerContext* context,
                                    const v1::ListRunEventsRequest* request,
                                    v1::ListRunEventsResponse* response) override {
    ServerUnaryReactor* reactor = nullptr;
    runs_.ListRunEvents(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  ServerUnaryReactor* CancelRun(CallbackServerContext* context, const v1::CancelRunRequest* request,
                                v1::Run* response) override {
    ServerUnaryReactor* reactor = nullptr;
    runs_.CancelRun(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }

 private:
  RunApi& runs_;
};

}  // namespace

struct MasterGrpc::Parts {
  Parts(ScheduleApi& schedules_api, EventApi& events_api, RunApi& runs_api, PolicyApi& policies_api)
      : schedules(schedules_api),
        events(NewEventGrpc(events_api)),
        runs(runs_api),
        policies(NewPolicyGrpc(policies_api)) {}
  ScheduleGrpc schedules;
  const std::unique_ptr<grpc::Service> events;
  RunGrpc runs;
  const std::unique_ptr<grpc::Service> policies;
};

MasterGrpc::MasterGrpc(ScheduleApi& schedules, EventApi& events, RunApi& runs, PolicyApi& policies)
    : parts_(std::make_unique<Parts>(schedules, events, runs, policies)) {}

MasterGrpc::~MasterGrpc() = default;

std::vector<grpc::Service*> MasterGrpc::services() {
  return {&parts_->schedules, parts_->events.get(), &parts_->runs, parts_->policies.get()};
}

}  // namespace escapement::master
