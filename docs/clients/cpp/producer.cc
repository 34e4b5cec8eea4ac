// Makes a throttled schedule, a one-off event and a batch of events, lists the schedules, and
// deletes the schedule.
//
// Usage: producer [TARGET]
// TARGET is host:port of the gRPC consumer that receives the events (default 127.0.0.1:8080).

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

#include "escapement/v1/event_service.grpc.pb.h"
#include "escapement/v1/policy_service.grpc.pb.h"
#include "escapement/v1/schedule_service.grpc.pb.h"
#include "google/protobuf/util/time_util.h"

namespace v1 = escapement::v1;
using google::protobuf::util::TimeUtil;
constexpr char kParent[] = "tenants/default";

// Calls `method` of `stub`. Ends the program if the call fails, except with the code `accepted`.
template <typename Response, typename Stub, typename Method, typename Request>
Response Call(Stub& stub, Method method, const Request& request,
              grpc::StatusCode accepted = grpc::StatusCode::OK) {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  Response response;
  const grpc::Status status = (stub.*method)(&context, request, &response);
  if (!status.ok() && status.error_code() != accepted) {
    std::cerr << Request::descriptor()->name() << ": " << status.error_message() << "\n";
    std::exit(1);
  }
  return response;
}

// An event that is due in a second.
v1::Event EventSoon(const v1::Target& target, const std::string& payload) {
  v1::Event event;
  *event.mutable_target() = target;
  event.set_payload(payload);
  *event.mutable_due_time() = TimeUtil::GetCurrentTime() + TimeUtil::SecondsToDuration(1);
  return event;
}

int main(int argc, char** argv) {
  v1::Target target;
  target.mutable_grpc()->set_uri(argc > 1 ? argv[1] : "127.0.0.1:8080");
  const char* server = std::getenv("ESCAPEMENT_SERVER");
  const auto channel = grpc::CreateChannel(server == nullptr ? "127.0.0.1:7410" : server,
                                           grpc::InsecureChannelCredentials());
  v1::PolicyService::Stub policies(channel);
  v1::ScheduleService::Stub schedules(channel);
  v1::EventService::Stub events(channel);

  // A throttling policy: at most two of all its events are with the consumer at once.
  v1::CreatePolicyRequest create_policy;
  create_policy.set_parent(kParent);
  create_policy.set_policy_id("two-at-once");
  create_policy.mutable_policy()->set_max_concurrent(2);
  Call<v1::ThrottlePolicy>(policies, &v1::PolicyService::Stub::CreatePolicy, create_policy,
                           grpc::StatusCode::ALREADY_EXISTS);

  v1::CreateScheduleRequest create;
  create.set_parent(kParent);
  create.set_schedule_id("cpp-pulse");
  create.mutable_schedule()->set_cron("*/2 * * * * *");
  create.mutable_schedule()->set_time_zone("Europe/Berlin");
  *create.mutable_schedule()->mutable_target() = target;
  create.mutable_schedule()->set_payload(R"({"kind": "pulse"})");
  create.mutable_schedule()->set_policy(std::string(kParent) + "/policies/two-at-once");
  const auto schedule =
      Call<v1::Schedule>(schedules, &v1::ScheduleService::Stub::CreateSchedule, create);
  std::cout << "created " << schedule.name() << ", next at "
            << TimeUtil::ToString(schedule.next_time()) << "\n";

  // With a request_id a call can be repeated after an error and creates its events only once.
  const std::string run = std::to_string(std::random_device()());
  v1::CreateEventRequest create_event;
  create_event.set_parent(kParent);
  create_event.set_request_id("one-off-" + run);
  *create_event.mutable_event() = EventSoon(target, R"({"kind": "one-off"})");
  create_event.mutable_event()->set_policy("two-at-once");
  const auto event = Call<v1::Event>(events, &v1::EventService::Stub::CreateEvent, create_event);
  std::cout << "created " << event.name() << "\n";

  // A batch creates all its events or none.
  v1::BatchCreateEventsRequest create_batch;
  create_batch.set_parent(kParent);
  create_batch.set_request_id("batch-" + run);
  for (int i = 0; i < 3; ++i) {
    *create_batch.add_requests()->mutable_event() =
        EventSoon(target, R"({"kind": "batch", "number": )" + std::to_string(i) + "}");
  }
  const auto batch = Call<v1::BatchCreateEventsResponse>(
      events, &v1::EventService::Stub::BatchCreateEvents, create_batch);
  std::cout << "created " << batch.events_size() << " events\n";

  v1::ListSchedulesRequest list;
  list.set_parent(kParent);
  do {
    const auto page =
        Call<v1::ListSchedulesResponse>(schedules, &v1::ScheduleService::Stub::ListSchedules, list);
    for (const v1::Schedule& listed : page.schedules()) {
      std::cout << "listed " << listed.name() << " " << v1::Schedule::State_Name(listed.state())
                << "\n";
    }
    list.set_page_token(page.next_page_token());
  } while (!list.page_token().empty());

  std::cout << "press Enter to delete the schedule" << std::endl;
  std::string line;
  std::getline(std::cin, line);
  v1::DeleteScheduleRequest remove;
  remove.set_name(schedule.name());
  Call<google::protobuf::Empty>(schedules, &v1::ScheduleService::Stub::DeleteSchedule, remove);
  std::cout << "deleted " << schedule.name() << "\n";
}
