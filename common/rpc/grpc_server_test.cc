#include "common/rpc/grpc_server.h"

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "common/rpc/channel.h"
#include "common/rpc/host_port.h"
#include "common/rpc/rpc_table_grpc.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace escapement {
namespace grpc_server_test {

// A server without methods of its own. Its table outlives the test.
absl::StatusOr<std::unique_ptr<GrpcServer>> StartServer(const GrpcServer::Options& options) {
  static std::deque<RpcTable>* const tables = new std::deque<RpcTable>;
  return GrpcServer::Start(options, tables->emplace_back());
}

struct Answer {
  grpc::Status status;
  std::string bytes;
};

// Sends `request` to grpc.health.v1.Health/Check.
Answer CallHealth(const std::string& address, const std::string& request,
                  grpc_compression_algorithm compression) {
  grpc::GenericStub stub(NewChannel(address));
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
  context.set_compression_algorithm(compression);
  grpc::CompletionQueue queue;
  const grpc::Slice slice(request);
  auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                                    grpc::ByteBuffer(&slice, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer received;
  Answer answer;
  call->Finish(&received, &answer.status, &answer);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  std::vector<grpc::Slice> slices;
  if (answer.status.ok() && received.Dump(&slices).ok()) {
    for (const grpc::Slice& part : slices)
      answer.bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
  }
  return answer;
}

// The answer's field 1 is 1 = SERVING, 2 = NOT_SERVING. A negative number is an error's code.
int CheckHealth(const std::string& address) {
  const Answer answer = CallHealth(address, "", GRPC_COMPRESS_NONE);
  if (!answer.status.ok()) return -static_cast<int>(answer.status.error_code());
  return answer.bytes.size() == 2 ? answer.bytes[1] : 0;
}

TEST(GrpcServerTest, AnswersHealthAsSet) {
  auto server = StartServer({});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_GT((*server)->port(), 0);
  EXPECT_EQ(CheckHealth((*server)->address()), 2);
  (*server)->SetServing(true);
  EXPECT_EQ(CheckHealth((*server)->address()), 1);
  (*server)->Shutdown(absl::Seconds(1));
  (*server)->Shutdown(absl::Seconds(1));
}

TEST(GrpcServerTest, RefusesAddressesBeyondLoopbackUnlessInsecure) {
  EXPECT_EQ(StartServer({.listen = "0.0.0.0:0"}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(StartServer({.listen = "[::]:0"}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(StartServer({.listen = "0.0.0.0:0", .insecure = true}).ok());
}

TEST(GrpcServerTest, ASecondServerCannotShareThePort) {
  auto first = StartServer({});
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(StartServer({.listen = (*first)->address()}).status().code(),
            absl::StatusCode::kUnavailable);
}

// gRPC would decompress without a bound. The request is small, so only its compression is wrong.
TEST(GrpcServerTest, RefusesCompressedMessages) {
  auto server = StartServer({});
  ASSERT_TRUE(server.ok()) << server.status();
  // Field 1, a service of which nothing is known: 100 equal letters, which compress well.
  const std::string request = "\x0a\x64" + std::string(100, 'a');
  EXPECT_EQ(CallHealth((*server)->address(), request, GRPC_COMPRESS_NONE).status.error_code(),
            grpc::StatusCode::NOT_FOUND);
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    EXPECT_EQ(CallHealth((*server)->address(), request, algorithm).status.error_code(),
              grpc::StatusCode::UNIMPLEMENTED)
        << algorithm;
  }
}

TEST(ListenRuleTest, BeyondLoopbackNeedsTlsAndCredentials) {
  for (const bool tls : {false, true}) {
    for (const bool credentials : {false, true}) {
      EXPECT_EQ(MayListenBeyondLoopback(tls, credentials, false), tls && credentials);
      EXPECT_TRUE(MayListenBeyondLoopback(tls, credentials, true));
    }
  }
  const HostPort loopback = *ParseHostPort("127.0.0.1:1");
  EXPECT_TRUE(CheckListen(loopback, false, false, false).ok());
  const HostPort beyond = *ParseHostPort("0.0.0.0:1");
  EXPECT_TRUE(CheckListen(beyond, true, true, false).ok());
  const absl::Status refused = CheckListen(beyond, true, false, false);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("no required credentials"), std::string::npos) << refused;
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

}  // namespace grpc_server_test
}  // namespace escapement
