#include "common/rpc/unary_answer_grpc.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_server.h"
#include "escapement/v1/event_service.grpc.pb.h"
#include "gtest/gtest.h"
#include "services/master/events/event_grpc.h"

namespace escapement::master {
namespace {

// Keeps the call it was given, as without the store.
class SilentEvents : public EventApi {
 public:
  void CreateEvent(v1::CreateEventRequest, Done<v1::Event>) override {}
  void BatchCreateEvents(v1::BatchCreateEventsRequest,
                         Done<v1::BatchCreateEventsResponse>) override {}
  void ListEvents(v1::ListEventsRequest, Done<v1::ListEventsResponse>) override {}
  void CancelEvent(v1::CancelEventRequest, Done<v1::Event>) override {}
  void IngestBatch(std::shared_ptr<const v1::IngestRequest>, IngestOptions,
                   Done<v1::IngestResponse>) override {}
  void GetEvent(v1::GetEventRequest, Done<v1::Event> done) override {
    answer = std::move(done);
    asked.Notify();
  }

  absl::Notification asked;
  Done<v1::Event> answer;
};

TEST(UnaryAnswerTest, StoppingServerDoesNotWaitForAnswersAndLateOnesDoNoHarm) {
  SilentEvents events;
  const std::unique_ptr<grpc::Service> service = NewEventGrpc(events);
  auto server = GrpcServer::Start(GrpcServer::Options(), {service.get()});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto stub = v1::EventService::NewStub(NewChannel((*server)->address()));
  grpc::ClientContext context;
  v1::GetEventRequest request;
  v1::Event event;
  absl::Notification answered;
  grpc::Status status;
  stub->async()->GetEvent(&context, &request, &event, [&](grpc::Status end) {
    status = std::move(end);
    answered.Notify();
  });
  events.asked.WaitForNotification();
  (*server)->Shutdown(absl::ZeroDuration());
  answered.WaitForNotification();
  EXPECT_FALSE(status.ok());
  events.answer(v1::Event());
}

}  // namespace
}  // namespace escapement::master
