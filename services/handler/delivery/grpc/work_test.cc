// Tests of tokens in gRPC deliveries, and of results with the work's end.

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "escapement/v1/trigger_receiver_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "services/handler/delivery/grpc/grpc_transport.h"
#include "tests/fixtures/attempts.h"
#include "tests/fixtures/collecting_sink.h"
#include "tests/fixtures/raw_call.h"

namespace escapement::handler {
namespace work_test {

using fixtures::CollectingSink;
using fixtures::MakeAttempts;

// Answers each delivery with the work that its index names, and its token as the message.
class WorkingReceiver final : public v1::TriggerReceiver::Service {
 public:
  grpc::Status Deliver(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::DeliveryResult, v1::Delivery>* stream) override {
    v1::Delivery delivery;
    while (stream->Read(&delivery)) {
      v1::DeliveryResult result;
      result.set_delivery_number(delivery.delivery_number());
      result.set_status(v1::DeliveryResult::ACCEPTED);
      result.set_work(static_cast<v1::DeliveryResult::Work>(delivery.index()));
      result.set_message(delivery.token());
      stream->Write(result);
    }
    return grpc::Status::OK;
  }
};

TEST(GrpcWorkTest, DeliveryHasTheTokenAndResultHasTheWork) {
  WorkingReceiver receiver;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&receiver);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  {
    GrpcTransport transport{fixtures::OnLoopback<GrpcTransport>()};
    const auto sink = std::make_shared<CollectingSink>();
    std::vector<DeliveryAttempt> attempts =
        MakeAttempts({.uri = absl::StrCat("127.0.0.1:", port)}, 0, 3);
    for (DeliveryAttempt& attempt : attempts) attempt.token = absl::StrCat("token", attempt.index);
    transport.Send(std::move(attempts), sink);
    ASSERT_TRUE(sink->Await(3));
    const std::vector<DeliveryWork> expected = {DeliveryWork::kGoesOn, DeliveryWork::kSucceeded,
                                                DeliveryWork::kFailed};
    for (uint64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(sink->Only(i).status, DeliveryStatus::kAccepted);
      EXPECT_EQ(sink->Only(i).work, expected[i]);
      EXPECT_EQ(sink->Only(i).message, absl::StrCat("token", i));
    }
  }
  server->Shutdown();
}

}  // namespace work_test
}  // namespace escapement::handler
