#include "tests/e2e/chaos/public_door.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "escapement/v1/event_service.grpc.pb.h"
#include "escapement/v1/policy_service.grpc.pb.h"
#include "escapement/v1/schedule_service.grpc.pb.h"
#include "escapement/v1/token_service.grpc.pb.h"

namespace escapement::chaos {
namespace {

using ScheduleStub = v1::ScheduleService::StubInterface::async_interface;
using EventStub = v1::EventService::StubInterface::async_interface;
using PolicyStub = v1::PolicyService::StubInterface::async_interface;
using TokenStub = v1::TokenService::StubInterface::async_interface;

absl::Status StatusOf(const grpc::Status& status) {
  // The call may have taken effect or not; a stopping server cancels calls.
  if (status.error_code() == grpc::StatusCode::CANCELLED ||
      status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED)
    return absl::UnavailableError(status.error_message());
  return FromGrpcStatus(status);
}

void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(kCallMax));
}

}  // namespace

// One channel, its stubs, and the calls that are under way on it.
class PublicDoor::Calls {
 public:
  Calls(LiveWorld& live, const std::string& address)
      : live_(live),
        channel_(NewChannel(address)),
        schedules(v1::ScheduleService::NewStub(channel_)),
        events(v1::EventService::NewStub(channel_)),
        policies(v1::PolicyService::NewStub(channel_)),
        tokens(v1::TokenService::NewStub(channel_)) {}

  ~Calls() {
    absl::MutexLock lock(&mutex_);
    const auto none = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return under_way_ == 0; };
    mutex_.Await(absl::Condition(&none));
  }

  template <typename Stub, typename Request, typename Response, typename Done>
  void Unary(Stub* stub,
             void (Stub::*method)(grpc::ClientContext*, const Request*, Response*,
                                  std::function<void(grpc::Status)>),
             const Request& request, Done done) {
    struct Call {
      grpc::ClientContext context;
      Request request;
      Response response;
      Done done;
    };
    auto call = std::make_shared<Call>();
    call->request = request;
    call->done = std::move(done);
    SetDeadline(&call->context);
    Begun();
    (stub->*method)(&call->context, &call->request, &call->response,
                    [this, call](grpc::Status status) {
                      live_.Post([call, status = StatusOf(status)] {
                        if (!status.ok()) return call->done(status);
                        Give(std::move(call->response), call->done);
                      });
                      Ended();
                    });
  }

  class IngestCall;

 private:
  template <typename Response>
  static void Give(Response response, master::Done<Response>& done) {
    done(std::move(response));
  }
  template <typename Response>
  static void Give(Response response, TokenApi::Done<Response>& done) {
    done(std::make_unique<Response>(std::move(response)));
  }
  void Begun() {
    absl::MutexLock lock(&mutex_);
    ++under_way_;
  }
  void Ended() {
    absl::MutexLock lock(&mutex_);
    --under_way_;
  }

  LiveWorld& live_;
  const std::shared_ptr<grpc::Channel> channel_;
  absl::Mutex mutex_;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;

 public:
  const std::unique_ptr<v1::ScheduleService::Stub> schedules;
  const std::unique_ptr<v1::EventService::Stub> events;
  const std::unique_ptr<v1::PolicyService::Stub> policies;
  const std::unique_ptr<v1::TokenService::Stub> tokens;
};

// An ingest stream of one batch. Deletes itself when gRPC is done with it.
class PublicDoor::Calls::IngestCall final
    : public grpc::ClientBidiReactor<v1::IngestRequest, v1::IngestResponse> {
 public:
  IngestCall(Calls& calls, v1::IngestRequest request, master::Done<v1::IngestResponse> done)
      : calls_(calls), request_(std::move(request)), done_(std::move(done)) {
    SetDeadline(&context_);
    calls_.Begun();
    calls_.events->async()->Ingest(&context_, this);
    StartWriteLast(&request_, grpc::WriteOptions());
    StartRead(&response_);
    StartCall();
  }

  void OnReadDone(bool ok) override { answered_ = ok; }
  void OnDone(const grpc::Status& status) override {
    // If an answer was read, it counts, whatever status ended the stream.
    absl::Status end;
    if (answered_ && response_.error_code() != 0) {
      end = absl::Status(static_cast<absl::StatusCode>(response_.error_code()),
                         response_.error_message());
    } else if (!answered_) {
      end = StatusOf(status);
      if (end.ok()) end = absl::UnavailableError("the stream ended without an answer");
    }
    calls_.live_.Post([done = std::move(done_), end, response = std::move(response_)]() mutable {
      if (!end.ok()) return done(end);
      done(std::move(response));
    });
    calls_.Ended();
    delete this;
  }

 private:
  Calls& calls_;
  grpc::ClientContext context_;
  v1::IngestRequest request_;
  v1::IngestResponse response_;
  bool answered_ = false;
  master::Done<v1::IngestResponse> done_;
};

// These classes have only the methods that users call.
class PublicDoor::Schedules final : public master::ScheduleApi {
 public:
  explicit Schedules(Calls& calls) : calls_(calls), stub_(calls.schedules->async()) {}

  void CreateSchedule(v1::CreateScheduleRequest request, master::Done<v1::Schedule> done) override {
    calls_.Unary(stub_, &ScheduleStub::CreateSchedule, request, std::move(done));
  }
  void GetSchedule(v1::GetScheduleRequest request, master::Done<v1::Schedule> done) override {
    calls_.Unary(stub_, &ScheduleStub::GetSchedule, request, std::move(done));
  }
  void ListSchedules(v1::ListSchedulesRequest request,
                     master::Done<v1::ListSchedulesResponse> done) override {
    calls_.Unary(stub_, &ScheduleStub::ListSchedules, request, std::move(done));
  }
  void UpdateSchedule(v1::UpdateScheduleRequest request, master::Done<v1::Schedule> done) override {
    calls_.Unary(stub_, &ScheduleStub::UpdateSchedule, request, std::move(done));
  }
  void DeleteSchedule(v1::DeleteScheduleRequest request,
                      master::Done<google::protobuf::Empty> done) override {
    calls_.Unary(stub_, &ScheduleStub::DeleteSchedule, request, std::move(done));
  }
  void BatchCreateSchedules(v1::BatchCreateSchedulesRequest request,
                            master::Done<v1::BatchCreateSchedulesResponse> done) override {
    calls_.Unary(stub_, &ScheduleStub::BatchCreateSchedules, request, std::move(done));
  }
  void BatchUpdateSchedules(v1::BatchUpdateSchedulesRequest request,
                            master::Done<v1::BatchUpdateSchedulesResponse> done) override {
    calls_.Unary(stub_, &ScheduleStub::BatchUpdateSchedules, request, std::move(done));
  }
  void BatchDeleteSchedules(v1::BatchDeleteSchedulesRequest request,
                            master::Done<v1::BatchDeleteSchedulesResponse> done) override {
    calls_.Unary(stub_, &ScheduleStub::BatchDeleteSchedules, request, std::move(done));
  }
  void PauseSchedule(v1::PauseScheduleRequest request, master::Done<v1::Schedule> done) override {
    calls_.Unary(stub_, &ScheduleStub::PauseSchedule, request, std::move(done));
  }
  void ResumeSchedule(v1::ResumeScheduleRequest request, master::Done<v1::Schedule> done) override {
    calls_.Unary(stub_, &ScheduleStub::ResumeSchedule, request, std::move(done));
  }
  void TriggerSchedule(v1::TriggerScheduleRequest request, master::Done<v1::Run> done) override {
    calls_.Unary(stub_, &ScheduleStub::TriggerSchedule, request, std::move(done));
  }
  void BackfillSchedule(v1::BackfillScheduleRequest request,
                        master::Done<v1::BackfillScheduleResponse> done) override {
    calls_.Unary(stub_, &ScheduleStub::BackfillSchedule, request, std::move(done));
  }
  void ListScheduleVersions(v1::ListScheduleVersionsRequest request,
                            master::Done<v1::ListScheduleVersionsResponse> done) override {
    calls_.Unary(stub_, &ScheduleStub::ListScheduleVersions, request, std::move(done));
  }
  void PreviewSchedule(v1::PreviewScheduleRequest request,
                       master::Done<v1::PreviewScheduleResponse> done) override {
    calls_.Unary(stub_, &ScheduleStub::PreviewSchedule, request, std::move(done));
  }
  void ForecastLoad(v1::ForecastLoadRequest request,
                    master::Done<v1::ForecastLoadResponse> done) override {
    calls_.Unary(stub_, &ScheduleStub::ForecastLoad, request, std::move(done));
  }

 private:
  Calls& calls_;
  ScheduleStub* const stub_;
};

class PublicDoor::Events final : public master::EventApi {
 public:
  Events(Calls& calls, std::string target)
      : calls_(calls), stub_(calls.events->async()), target_(std::move(target)) {}

  void CreateEvent(v1::CreateEventRequest request, master::Done<v1::Event> done) override {
    Aim(request.mutable_event()->mutable_target());
    calls_.Unary(stub_, &EventStub::CreateEvent, request, std::move(done));
  }
  void BatchCreateEvents(v1::BatchCreateEventsRequest request,
                         master::Done<v1::BatchCreateEventsResponse> done) override {
    for (auto& one : *request.mutable_requests()) Aim(one.mutable_event()->mutable_target());
    calls_.Unary(stub_, &EventStub::BatchCreateEvents, request, std::move(done));
  }
  void GetEvent(v1::GetEventRequest request, master::Done<v1::Event> done) override {
    calls_.Unary(stub_, &EventStub::GetEvent, request, std::move(done));
  }
  void ListEvents(v1::ListEventsRequest request,
                  master::Done<v1::ListEventsResponse> done) override {
    calls_.Unary(stub_, &EventStub::ListEvents, request, std::move(done));
  }
  void UpsertEvent(v1::UpsertEventRequest request, master::Done<v1::Event> done) override {
    Aim(request.mutable_event()->mutable_target());
    calls_.Unary(stub_, &EventStub::UpsertEvent, request, std::move(done));
  }
  void UpdateEvent(v1::UpdateEventRequest request, master::Done<v1::Event> done) override {
    calls_.Unary(stub_, &EventStub::UpdateEvent, request, std::move(done));
  }
  void CancelEvent(v1::CancelEventRequest request, master::Done<v1::Event> done) override {
    calls_.Unary(stub_, &EventStub::CancelEvent, request, std::move(done));
  }
  void IngestBatch(std::shared_ptr<const v1::IngestRequest> request, master::IngestOptions,
                   master::Done<v1::IngestResponse> done) override {
    v1::IngestRequest aimed = *request;
    Aim(aimed.mutable_defaults()->mutable_target());
    new Calls::IngestCall(calls_, std::move(aimed), std::move(done));
  }

 private:
  // The consumer speaks HTTP only, so every kind of target becomes one of HTTP.
  void Aim(v1::Target* target) const {
    target->mutable_http()->set_uri(absl::StrCat("http://", target_, "/events"));
  }

  Calls& calls_;
  EventStub* const stub_;
  const std::string target_;
};

class PublicDoor::Policies final : public master::PolicyApi {
 public:
  explicit Policies(Calls& calls) : calls_(calls), stub_(calls.policies->async()) {}

  void CreatePolicy(v1::CreatePolicyRequest request,
                    master::Done<v1::ThrottlePolicy> done) override {
    calls_.Unary(stub_, &PolicyStub::CreatePolicy, request, std::move(done));
  }
  void GetPolicy(v1::GetPolicyRequest request, master::Done<v1::ThrottlePolicy> done) override {
    calls_.Unary(stub_, &PolicyStub::GetPolicy, request, std::move(done));
  }
  void ListPolicies(v1::ListPoliciesRequest request,
                    master::Done<v1::ListPoliciesResponse> done) override {
    calls_.Unary(stub_, &PolicyStub::ListPolicies, request, std::move(done));
  }
  void UpdatePolicy(v1::UpdatePolicyRequest request,
                    master::Done<v1::ThrottlePolicy> done) override {
    calls_.Unary(stub_, &PolicyStub::UpdatePolicy, request, std::move(done));
  }
  void DeletePolicy(v1::DeletePolicyRequest request,
                    master::Done<google::protobuf::Empty> done) override {
    calls_.Unary(stub_, &PolicyStub::DeletePolicy, request, std::move(done));
  }
  void PausePolicy(v1::PausePolicyRequest request, master::Done<v1::ThrottlePolicy> done) override {
    calls_.Unary(stub_, &PolicyStub::PausePolicy, request, std::move(done));
  }
  void ResumePolicy(v1::ResumePolicyRequest request,
                    master::Done<v1::ThrottlePolicy> done) override {
    calls_.Unary(stub_, &PolicyStub::ResumePolicy, request, std::move(done));
  }
  void OverridePolicy(v1::OverridePolicyRequest request,
                      master::Done<v1::ThrottlePolicy> done) override {
    calls_.Unary(stub_, &PolicyStub::OverridePolicy, request, std::move(done));
  }
  void ClearOverride(v1::ClearOverrideRequest request,
                     master::Done<v1::ThrottlePolicy> done) override {
    calls_.Unary(stub_, &PolicyStub::ClearOverride, request, std::move(done));
  }
  void ListPolicyKeys(v1::ListPolicyKeysRequest request,
                      master::Done<v1::ListPolicyKeysResponse> done) override {
    calls_.Unary(stub_, &PolicyStub::ListPolicyKeys, request, std::move(done));
  }
  void GetPolicyUsage(v1::GetPolicyUsageRequest request,
                      master::Done<v1::PolicyUsage> done) override {
    calls_.Unary(stub_, &PolicyStub::GetPolicyUsage, request, std::move(done));
  }

 private:
  Calls& calls_;
  PolicyStub* const stub_;
};

class PublicDoor::Tokens final : public TokenApi {
 public:
  explicit Tokens(Calls& calls) : calls_(calls), stub_(calls.tokens->async()) {}

  void CompleteTokens(const v1::CompleteTokensRequest& request,
                      Done<v1::CompleteTokensResponse> done) override {
    calls_.Unary(stub_, &TokenStub::CompleteTokens, request, std::move(done));
  }
  void ReleaseTokens(const v1::ReleaseTokensRequest& request,
                     Done<v1::ReleaseTokensResponse> done) override {
    calls_.Unary(stub_, &TokenStub::ReleaseTokens, request, std::move(done));
  }
  void ExtendTokens(const v1::ExtendTokensRequest& request,
                    Done<v1::ExtendTokensResponse> done) override {
    calls_.Unary(stub_, &TokenStub::ExtendTokens, request, std::move(done));
  }

 private:
  Calls& calls_;
  TokenStub* const stub_;
};

PublicDoor::PublicDoor(LiveWorld& live, const std::string& address, std::string one_off_target)
    : calls_(std::make_unique<Calls>(live, address)),
      schedules_(std::make_unique<Schedules>(*calls_)),
      events_(std::make_unique<Events>(*calls_, std::move(one_off_target))),
      policies_(std::make_unique<Policies>(*calls_)),
      tokens_(std::make_unique<Tokens>(*calls_)) {}
PublicDoor::~PublicDoor() = default;

master::ScheduleApi& PublicDoor::schedules() { return *schedules_; }
master::EventApi& PublicDoor::events() { return *events_; }
master::PolicyApi& PublicDoor::policies() { return *policies_; }
TokenApi& PublicDoor::tokens() { return *tokens_; }

}  // namespace escapement::chaos
