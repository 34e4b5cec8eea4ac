#include "common/rpc/grpc_server.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/rpc/channel.h"
#include "common/rpc/host_port.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace escapement {
namespace {

// Calls grpc.health.v1.Health/Check with an empty request. Field 1 of the answer is 1 = SERVING or
// 2 = NOT_SERVING.
int CheckHealth(const std::string& address) {
  grpc::GenericStub stub(NewChannel(address));
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
  grpc::CompletionQueue queue;
  const grpc::Slice empty;
  auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                                    grpc::ByteBuffer(&empty, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->Finish(&answer, &status, &answer);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (!status.ok()) return -static_cast<int>(status.error_code());
  std::vector<grpc::Slice> slices;
  if (!answer.Dump(&slices).ok() || slices.empty() || slices[0].size() != 2) return 0;
  return slices[0].begin()[1];
}

TEST(GrpcServerTest, AnswersHealthAsSet) {
  auto server = GrpcServer::Start({}, {});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_GT((*server)->port(), 0);
  EXPECT_EQ(CheckHealth((*server)->address()), 2);
  (*server)->SetServing(true);
  EXPECT_EQ(CheckHealth((*server)->address()), 1);
  (*server)->Shutdown(absl::Seconds(1));
  (*server)->Shutdown(absl::Seconds(1));
}

TEST(GrpcServerTest, RefusesAddressesBeyondLoopbackUnlessInsecure) {
  EXPECT_EQ(GrpcServer::Start({.listen = "0.0.0.0:0"}, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GrpcServer::Start({.listen = "[::]:0"}, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(GrpcServer::Start({.listen = "0.0.0.0:0", .insecure = true}, {}).ok());
}

TEST(GrpcServerTest, ASecondServerCannotShareThePort) {
  auto first = GrpcServer::Start({}, {});
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(GrpcServer::Start({.listen = (*first)->address()}, {}).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(HostPortTest, ParsesAndPrints) {
  EXPECT_EQ(ParseHostPort("127.0.0.1:7400")->ToString(), "127.0.0.1:7400");
  EXPECT_EQ(ParseHostPort("[::1]:0")->ToString(), "[::1]:0");
  EXPECT_TRUE(ParseHostPort("[::1]:0")->IsLoopback());
  EXPECT_TRUE(ParseHostPort("localhost:1")->IsLoopback());
  EXPECT_TRUE(ParseHostPort("127.9.9.9:1")->IsLoopback());
  EXPECT_FALSE(ParseHostPort("0.0.0.0:1")->IsLoopback());
  EXPECT_FALSE(ParseHostPort("example.com:1")->IsLoopback());
  for (const char* bad :
       {"", "7400", ":7400", "host:", "host:65536", "host:-1", "::1:80", "host:8o"}) {
    EXPECT_FALSE(ParseHostPort(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace escapement
