#include "tests/integration/api_client.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/status_conversion.h"
#include "escapement/v1/event_service.grpc.pb.h"
#include "escapement/v1/run_service.grpc.pb.h"
#include "escapement/v1/schedule_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace escapement::integration {
namespace {

constexpr char kParent[] = "tenants/default";
constexpr size_t kBatchEvents = 500;

std::string ScheduleName(const std::string& id) { return absl::StrCat(kParent, "/schedules/", id); }

// Calls `method` of `stub`.
template <typename Response, typename Stub, typename Method, typename Request>
absl::StatusOr<Response> Call(Stub& stub, Method method, const Request& request,
                              absl::Duration timeout) {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(timeout));
  Response response;
  const grpc::Status status = (stub.*method)(&context, request, &response);
  if (!status.ok()) return FromGrpcStatus(status);
  return response;
}

}  // namespace

struct ApiClient::Stubs {
  explicit Stubs(std::shared_ptr<grpc::Channel> channel)
      : schedules(channel), events(channel), runs(channel) {}
  v1::ScheduleService::Stub schedules;
  v1::EventService::Stub events;
  v1::RunService::Stub runs;
};

ApiClient::ApiClient(const std::string& address, absl::Duration timeout,
                     const fixtures::CallerProof& proof)
    : stubs_(std::make_unique<Stubs>(fixtures::NewCallerChannel(address, proof))),
      timeout_(timeout) {}
ApiClient::~ApiClient() = default;

absl::StatusOr<v1::Schedule> ApiClient::CreateSchedule(const std::string& id,
                                                       const v1::Schedule& schedule) {
  v1::CreateScheduleRequest request;
  request.set_parent(kParent);
  request.set_schedule_id(id);
  *request.mutable_schedule() = schedule;
  return Call<v1::Schedule>(stubs_->schedules, &v1::ScheduleService::Stub::CreateSchedule, request,
                            timeout_);
}

absl::StatusOr<v1::Schedule> ApiClient::GetSchedule(const std::string& id) {
  v1::GetScheduleRequest request;
  request.set_name(ScheduleName(id));
  return Call<v1::Schedule>(stubs_->schedules, &v1::ScheduleService::Stub::GetSchedule, request,
                            timeout_);
}

absl::StatusOr<v1::Schedule> ApiClient::PauseSchedule(const std::string& id) {
  v1::PauseScheduleRequest request;
  request.set_name(ScheduleName(id));
  return Call<v1::Schedule>(stubs_->schedules, &v1::ScheduleService::Stub::PauseSchedule, request,
                            timeout_);
}

absl::StatusOr<v1::Schedule> ApiClient::ResumeSchedule(const std::string& id) {
  v1::ResumeScheduleRequest request;
  request.set_name(ScheduleName(id));
  return Call<v1::Schedule>(stubs_->schedules, &v1::ScheduleService::Stub::ResumeSchedule, request,
                            timeout_);
}

absl::StatusOr<v1::BackfillScheduleResponse> ApiClient::BackfillSchedule(const std::string& id,
                                                                         absl::Time start,
                                                                         absl::Time end,
                                                                         int max_occurrences) {
  v1::BackfillScheduleRequest request;
  request.set_name(ScheduleName(id));
  *request.mutable_start_time() = ToTimestamp(start);
  *request.mutable_end_time() = ToTimestamp(end);
  request.set_max_occurrences(max_occurrences);
  return Call<v1::BackfillScheduleResponse>(
      stubs_->schedules, &v1::ScheduleService::Stub::BackfillSchedule, request, timeout_);
}

absl::StatusOr<v1::PreviewScheduleResponse> ApiClient::PreviewSchedule(
    const v1::PreviewScheduleRequest& request) {
  return Call<v1::PreviewScheduleResponse>(
      stubs_->schedules, &v1::ScheduleService::Stub::PreviewSchedule, request, timeout_);
}

absl::Status ApiClient::DeleteSchedule(const std::string& id) {
  v1::DeleteScheduleRequest request;
  request.set_name(ScheduleName(id));
  return Call<google::protobuf::Empty>(
             stubs_->schedules, &v1::ScheduleService::Stub::DeleteSchedule, request, timeout_)
      .status();
}

absl::StatusOr<v1::Run> ApiClient::TriggerSchedule(const std::string& id, int64_t event_count,
                                                   const std::string& request_id) {
  v1::TriggerScheduleRequest request;
  request.set_name(ScheduleName(id));
  request.set_event_count(event_count);
  request.set_request_id(request_id);
  return Call<v1::Run>(stubs_->schedules, &v1::ScheduleService::Stub::TriggerSchedule, request,
                       timeout_);
}

absl::StatusOr<std::vector<v1::Run>> ApiClient::ListRuns(const std::string& id) {
  std::vector<v1::Run> runs;
  v1::ListRunsRequest request;
  request.set_parent(ScheduleName(id));
  request.set_page_size(1000);
  do {
    ASSIGN_OR_RETURN(auto page,
                     Call<v1::ListRunsResponse>(stubs_->runs, &v1::RunService::Stub::ListRuns,
                                                request, timeout_));
    for (auto& run : *page.mutable_runs()) runs.push_back(std::move(run));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return runs;
}

absl::StatusOr<v1::Run> ApiClient::GetRun(const std::string& name) {
  v1::GetRunRequest request;
  request.set_name(name);
  return Call<v1::Run>(stubs_->runs, &v1::RunService::Stub::GetRun, request, timeout_);
}

absl::Status ApiClient::CreateEvents(const std::vector<v1::Event>& events) {
  for (size_t begin = 0; begin < events.size(); begin += kBatchEvents) {
    v1::BatchCreateEventsRequest request;
    request.set_parent(kParent);
    for (size_t i = begin; i < std::min(events.size(), begin + kBatchEvents); ++i) {
      *request.add_requests()->mutable_event() = events[i];
    }
    ASSIGN_OR_RETURN(auto response, Call<v1::BatchCreateEventsResponse>(
                                        stubs_->events, &v1::EventService::Stub::BatchCreateEvents,
                                        request, timeout_));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Event> ApiClient::CreateEvent(const std::string& event_id,
                                                 const v1::Event& event) {
  v1::CreateEventRequest request;
  request.set_parent(kParent);
  request.set_event_id(event_id);
  *request.mutable_event() = event;
  return Call<v1::Event>(stubs_->events, &v1::EventService::Stub::CreateEvent, request, timeout_);
}

absl::StatusOr<v1::Event> ApiClient::GetEvent(const std::string& name) {
  v1::GetEventRequest request;
  request.set_name(name);
  return Call<v1::Event>(stubs_->events, &v1::EventService::Stub::GetEvent, request, timeout_);
}

absl::StatusOr<v1::Event> ApiClient::CancelEvent(const std::string& name) {
  v1::CancelEventRequest request;
  request.set_name(name);
  return Call<v1::Event>(stubs_->events, &v1::EventService::Stub::CancelEvent, request, timeout_);
}

absl::StatusOr<std::vector<v1::Event>> ApiClient::ListPendingEvents() {
  v1::ListEventsRequest request;
  request.set_parent(kParent);
  ASSIGN_OR_RETURN(const auto response,
                   Call<v1::ListEventsResponse>(stubs_->events, &v1::EventService::Stub::ListEvents,
                                                request, timeout_));
  return std::vector<v1::Event>(response.events().begin(), response.events().end());
}

absl::StatusOr<std::vector<v1::Event>> ApiClient::ListEvents(const std::string& filter) {
  std::vector<v1::Event> events;
  v1::ListEventsRequest request;
  request.set_parent(kParent);
  request.set_page_size(1000);
  request.set_filter(filter);
  do {
    ASSIGN_OR_RETURN(
        auto page, Call<v1::ListEventsResponse>(stubs_->events, &v1::EventService::Stub::ListEvents,
                                                request, timeout_));
    for (auto& event : *page.mutable_events()) events.push_back(std::move(event));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return events;
}

google::protobuf::Timestamp ToTimestamp(absl::Time time) {
  const int64_t micros = absl::ToUnixMicros(time);
  google::protobuf::Timestamp timestamp;
  timestamp.set_seconds(micros / 1'000'000);
  timestamp.set_nanos(static_cast<int32_t>(micros % 1'000'000 * 1000));
  return timestamp;
}

v1::Target HttpTo(const std::string& uri) {
  v1::Target target;
  target.mutable_http()->set_uri(uri);
  return target;
}

v1::Target HttpsTo(const std::string& uri, const std::string& ca) {
  v1::Target target = HttpTo(uri);
  target.mutable_http()->mutable_tls()->set_ca_certificates(ca);
  return target;
}

v1::Target GrpcTo(const std::string& uri) {
  v1::Target target;
  target.mutable_grpc()->set_uri(uri);
  return target;
}

v1::Target SqsTo(const std::string& queue_url, const std::string& credentials) {
  v1::Target target;
  target.mutable_sqs()->set_queue_url(queue_url);
  target.mutable_sqs()->set_region("eu-central-1");
  target.mutable_sqs()->set_credentials(credentials);
  return target;
}

v1::Target KafkaTo(const std::string& brokers, const std::string& topic) {
  v1::Target target;
  target.mutable_kafka()->set_brokers(brokers);
  target.mutable_kafka()->set_topic(topic);
  return target;
}

v1::Target EmailTo(const std::string& smtp_uri) {
  v1::Target target;
  target.mutable_email()->set_smtp_uri(smtp_uri);
  target.mutable_email()->set_plaintext(true);
  target.mutable_email()->set_from("jobs@example.com");
  target.mutable_email()->add_to("ann@example.org");
  return target;
}

}  // namespace escapement::integration
