#include "tests/integration/grpc_health.h"

#include <chrono>
#include <utility>
#include <vector>

#include "common/rpc/channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace escapement::integration {

Health CheckHealth(const std::string& address, std::optional<PeerTls> tls) {
  ChannelOptions options;
  options.tls = std::move(tls);
  grpc::GenericStub stub(NewChannel(address, options));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
  grpc::CompletionQueue queue;
  // HealthCheckRequest{service: ""} is empty. HealthCheckResponse has field 1: 1 = SERVING, 2 =
  // NOT_SERVING.
  const grpc::Slice empty;
  auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                                    grpc::ByteBuffer(&empty, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  std::vector<grpc::Slice> slices;
  if (!status.ok() || !answer.Dump(&slices).ok() || slices.empty() || slices[0].size() != 2)
    return Health::kUnreachable;
  return slices[0].begin()[1] == 1 ? Health::kServing : Health::kNotServing;
}

}  // namespace escapement::integration
