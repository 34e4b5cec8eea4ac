// The gate in front of every call, over gRPC on loopback.

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_server.h"
#include "common/rpc/rpc_table_grpc.h"
#include "common/rpc/status_conversion.h"
#include "common/runtime/system_runtime.h"
#include "common/status/errors.h"
#include "escapement/v1/event_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpc/reflection/v1alpha/reflection.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"

namespace escapement {
namespace call_dispatcher_grpc_test {

using ::testing::ElementsAre;

// Writes down what the server tells it. Refuses what a test says.
class RecordingGate final : public CallGate {
 public:
  absl::StatusOr<std::shared_ptr<const Caller>> Admit(const MethodAccess& method,
                                                      const CallHead& head) override {
    absl::MutexLock lock(&mutex_);
    authorization_ = std::string(head.authorization);
    source_ = head.source;
    client_names_ = head.client_names;
    if (!admit_.ok()) return admit_;
    return std::make_shared<Caller>(Caller{"key/a", v1::Access::EDITOR, "t"});
  }
  absl::Status CheckRequest(const MethodAccess& method, const Caller& caller,
                            const std::string& resource,
                            const google::protobuf::Message& request) override {
    absl::MutexLock lock(&mutex_);
    checked_.push_back(absl::StrCat(method.name(), " ", resource));
    return check_;
  }
  void OnAnswered(const MethodAccess& method, const Caller& caller, const std::string& resource,
                  const std::string& request_id, const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    answered_.push_back(absl::StrCat(caller.principal, " ", method.name(), " ", resource, " ",
                                     request_id, " ", status.message()));
  }

  absl::Mutex mutex_;
  absl::Status admit_ ABSL_GUARDED_BY(mutex_);
  absl::Status check_ ABSL_GUARDED_BY(mutex_);
  std::string authorization_ ABSL_GUARDED_BY(mutex_);
  std::string source_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> client_names_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> checked_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> answered_ ABSL_GUARDED_BY(mutex_);
};

class CallDispatcherTest : public ::testing::Test {
 protected:
  CallDispatcherTest() {
    rpcs_.AddUnary<v1::GetEventRequest, v1::Event>(
        [this](v1::GetEventRequest request, UnaryAnswer<v1::Event> answer) {
          if (request.name() == "silent") {  // keeps the answer, as without the store
            kept_.emplace(std::move(answer));
            return asked_.Notify();
          }
          v1::Event event;
          event.set_name(request.name());
          answer(event);
        });
    rpcs_.AddUnary<v1::CancelEventRequest, v1::Event>(
        [this](v1::CancelEventRequest request, UnaryAnswer<v1::Event> answer) {
          ++cancelled_;
          answer(absl::FailedPreconditionError("too late"));
        });
    auto server = GrpcServer::Start({.metrics = &call_metrics_}, rpcs_, gate_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = NewChannel(server_->address());
    stub_ = v1::EventService::NewStub(channel_);
  }

  absl::Status Get(v1::EventService::Stub& stub, const std::string& name, v1::Event* event,
                   std::optional<std::string> authorization = std::nullopt,
                   const std::vector<std::string>& client_names = {}) {
    v1::GetEventRequest request;
    request.set_name(name);
    grpc::ClientContext context;
    if (authorization.has_value()) context.AddMetadata("authorization", *authorization);
    if (!client_names.empty()) NameClient("192.0.2.1:1", client_names, context);
    return FromGrpcStatus(stub.GetEvent(&context, request, event));
  }
  absl::Status Get(const std::string& name) {
    v1::Event event;
    return Get(*stub_, name, &event);
  }
  absl::Status Cancel() {
    v1::CancelEventRequest request;
    request.set_name("tenants/t/events/e");
    request.set_request_id("r");
    v1::Event event;
    grpc::ClientContext context;
    return FromGrpcStatus(stub_->CancelEvent(&context, request, &event));
  }

  std::optional<UnaryAnswer<v1::Event>> kept_;
  absl::Notification asked_;
  std::atomic<int> cancelled_{0};
  RecordingGate gate_;
  SystemRuntime runtime_;
  Metrics metrics_;
  CallMetrics call_metrics_{metrics_, runtime_.clock()};
  RpcTable rpcs_;
  std::unique_ptr<GrpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::EventService::Stub> stub_;
};

TEST_F(CallDispatcherTest, AdmittedCallIsAnsweredByItsMethod) {
  v1::Event event;
  ASSERT_TRUE(Get(*stub_, "tenants/t/events/e", &event, "Bearer x").ok());
  EXPECT_EQ(event.name(), "tenants/t/events/e");
  absl::MutexLock lock(&gate_.mutex_);
  EXPECT_EQ(gate_.authorization_, "Bearer x");
  EXPECT_TRUE(absl::StartsWith(gate_.source_, "127.0.0.1:") ||
              absl::StartsWith(gate_.source_, "%5B::1%5D:"))
      << gate_.source_;
  EXPECT_THAT(gate_.client_names_, ElementsAre());
  EXPECT_THAT(gate_.checked_, ElementsAre("GetEvent tenants/t/events/e"));
}

TEST_F(CallDispatcherTest, SeveralCredentialsAreNone) {
  v1::GetEventRequest request;
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer x");
  context.AddMetadata("authorization", "Bearer y");
  v1::Event event;
  stub_->GetEvent(&context, request, &event);
  absl::MutexLock lock(&gate_.mutex_);
  EXPECT_EQ(gate_.authorization_, "?");
}

TEST_F(CallDispatcherTest, RefusedCallerReachesNoMethod) {
  {
    absl::MutexLock lock(&gate_.mutex_);
    gate_.admit_ = MakeError(absl::StatusCode::kUnauthenticated, "CREDENTIAL_MISSING", "who?");
  }
  const absl::Status status = Cancel();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(ErrorReason(status), "CREDENTIAL_MISSING");
  EXPECT_EQ(cancelled_, 0);
  absl::MutexLock lock(&gate_.mutex_);
  EXPECT_THAT(gate_.checked_, ElementsAre());
}

TEST_F(CallDispatcherTest, RefusedRequestReachesNoMethodAndIsReported) {
  {
    absl::MutexLock lock(&gate_.mutex_);
    gate_.check_ = NotFound("tenants/t");
  }
  EXPECT_EQ(Cancel().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(cancelled_, 0);
  absl::MutexLock lock(&gate_.mutex_);
  EXPECT_THAT(gate_.answered_, ElementsAre("key/a CancelEvent tenants/t/events/e r "
                                           "tenants/t does not exist"));
}

TEST_F(CallDispatcherTest, AnswersOfAuditedMethodsAreReported) {
  EXPECT_EQ(Cancel().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Get("tenants/t/events/e").ok());
  absl::MutexLock lock(&gate_.mutex_);
  EXPECT_THAT(gate_.answered_, ElementsAre("key/a CancelEvent tenants/t/events/e r too late"));
}

TEST_F(CallDispatcherTest, OnlyDoorsOfTheProcessMayNameAnotherClient) {
  v1::Event event;
  const auto inside = v1::EventService::NewStub(server_->InProcessChannel());
  ASSERT_TRUE(Get(*inside, "tenants/t/events/e", &event, std::nullopt, {"a.example", "b"}).ok());
  {
    absl::MutexLock lock(&gate_.mutex_);
    EXPECT_EQ(gate_.source_, "192.0.2.1:1");
    EXPECT_THAT(gate_.client_names_, ElementsAre("a.example", "b"));
  }
  v1::GetEventRequest request;
  request.set_name("tenants/t/events/e");
  grpc::ClientContext context;
  context.AddMetadata("escapement-client-source", "192.0.2.1:1");
  context.AddMetadata("escapement-client-name-bin", "a.example");
  context.AddMetadata("escapement-door-bin", std::string(32, 'x'));
  ASSERT_TRUE(stub_->GetEvent(&context, request, &event).ok());
  absl::MutexLock lock(&gate_.mutex_);
  EXPECT_NE(gate_.source_, "192.0.2.1:1");
  EXPECT_THAT(gate_.client_names_, ElementsAre());
}

TEST_F(CallDispatcherTest, UnknownMethodIsUnimplementedWithAReason) {
  v1::BatchCreateEventsRequest request;
  v1::BatchCreateEventsResponse response;
  grpc::ClientContext context;
  const absl::Status status =
      FromGrpcStatus(stub_->BatchCreateEvents(&context, request, &response));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(ErrorReason(status), "UNKNOWN_METHOD");
}

TEST_F(CallDispatcherTest, CallsAreCountedByMethodAndCode) {
  EXPECT_TRUE(Get("tenants/t/events/e").ok());
  EXPECT_TRUE(Get("tenants/t/events/e").ok());
  EXPECT_EQ(Cancel().code(), absl::StatusCode::kFailedPrecondition);
  {
    absl::MutexLock lock(&gate_.mutex_);
    gate_.admit_ = absl::UnauthenticatedError("who?");
  }
  EXPECT_EQ(Cancel().code(), absl::StatusCode::kUnauthenticated);
  for (int i = 0; i < 2; ++i) {
    grpc::ClientContext context;
    v1::BatchCreateEventsResponse response;
    stub_->BatchCreateEvents(&context, {}, &response);
  }
  const std::string text = metrics_.Serialize();
  const auto handled = [](const std::string& method, const std::string& code, int count) {
    return ::testing::HasSubstr(absl::StrCat("escapement_rpc_handled_total{code=\"", code,
                                             "\",method=\"", method, "\"} ", count, "\n"));
  };
  EXPECT_THAT(text, handled("escapement.v1.EventService/GetEvent", "OK", 2));
  EXPECT_THAT(text, handled("escapement.v1.EventService/CancelEvent", "FAILED_PRECONDITION", 1));
  EXPECT_THAT(text, handled("escapement.v1.EventService/CancelEvent", "UNAUTHENTICATED", 1));
  // A caller cannot make series with names of its own.
  EXPECT_THAT(text, handled("unknown", "UNIMPLEMENTED", 2));
  EXPECT_THAT(text, ::testing::HasSubstr("escapement_rpc_handling_seconds_count{"
                                         "method=\"escapement.v1.EventService/CancelEvent\"} 1\n"));
}

TEST_F(CallDispatcherTest, StoppingServerDoesNotWaitForAnswersAndLateOnesDoNoHarm) {
  grpc::ClientContext context;
  v1::GetEventRequest request;
  request.set_name("silent");
  v1::Event event;
  absl::Notification answered;
  grpc::Status status;
  stub_->async()->GetEvent(&context, &request, &event, [&](grpc::Status end) {
    status = std::move(end);
    answered.Notify();
  });
  asked_.WaitForNotification();
  server_->Shutdown(absl::ZeroDuration());
  answered.WaitForNotification();
  EXPECT_FALSE(status.ok());
  (*kept_)(v1::Event());
}

TEST_F(CallDispatcherTest, ReflectionListsServicesAndDescribesThem) {
  namespace wire = grpc::reflection::v1alpha;
  {
    absl::MutexLock lock(&gate_.mutex_);
    gate_.admit_ = absl::UnauthenticatedError("reflection needs no credentials");
  }
  grpc::TemplatedGenericStub<wire::ServerReflectionRequest, wire::ServerReflectionResponse> stub(
      channel_);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto await = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok) && ok);
  };
  const auto stream = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  stream->StartCall(nullptr);
  await();
  const auto ask = [&](auto fill) {
    wire::ServerReflectionRequest request;
    fill(request);
    stream->Write(request, nullptr);
    await();
    wire::ServerReflectionResponse response;
    stream->Read(&response, nullptr);
    await();
    return response;
  };
  const auto list = ask([](auto& request) { request.set_list_services("*"); });
  ASSERT_EQ(list.list_services_response().service_size(), 1);
  EXPECT_EQ(list.list_services_response().service(0).name(), "escapement.v1.EventService");
  const auto files = ask([](auto& request) {
    request.set_file_containing_symbol("escapement.v1.EventService.GetEvent");
  });
  std::vector<std::string> names;
  for (const std::string& bytes : files.file_descriptor_response().file_descriptor_proto()) {
    google::protobuf::FileDescriptorProto file;
    ASSERT_TRUE(file.ParseFromString(bytes));
    names.push_back(file.name());
  }
  EXPECT_THAT(names, ::testing::Contains("escapement/v1/event_service.proto"));
  EXPECT_THAT(names, ::testing::Contains("google/api/annotations.proto"));
  const auto unknown = ask([](auto& request) { request.set_file_containing_symbol("no.Such"); });
  EXPECT_EQ(unknown.error_response().error_code(), grpc::StatusCode::NOT_FOUND);
  const auto open = [this] {
    return metrics_
        .GetGauge("escapement_rpc_streams_open", "",
                  {{"method", "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}})
        ->Value();
  };
  EXPECT_EQ(open(), 1);
  stream->WritesDone(nullptr);
  await();
  grpc::Status status;
  stream->Finish(&status, nullptr);
  await();
  EXPECT_TRUE(status.ok());
  server_->Shutdown(absl::ZeroDuration());  // then the stream's object is gone
  EXPECT_EQ(open(), 0);
}

TEST(RpcTableDeathTest, MethodWithoutARoleIsNotServed) {
  RpcTable rpcs;
  const auto add = [&] {
    rpcs.AddStream("grpc.reflection.v1alpha.ServerReflection.ServerReflectionInfo",
                   [](AdmittedCall) { return nullptr; });
  };
  EXPECT_DEATH(add(), "has no role");
}

}  // namespace call_dispatcher_grpc_test
}  // namespace escapement
