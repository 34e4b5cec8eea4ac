// Measures giving tokens back without the owner's work: a stream on loopback, the door, and an
// owner that accepts everything. Client and server share the process.
//
//   bazel run //common/tokens:token_grpc_bench

#include <benchmark/benchmark.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>
#include <vector>

#include "common/kv/memory/mem_kv_store.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_server.h"
#include "common/rpc/rpc_table_grpc.h"
#include "common/runtime/system_runtime.h"
#include "common/tokens/token_door.h"
#include "common/tokens/token_grpc.h"
#include "escapement/v1/token_service.grpc.pb.h"

namespace escapement {
namespace {

constexpr int kOutstanding = 32;

class YesOwner final : public LocalGrants {
 public:
  void Apply(uint16_t, std::vector<storage::v1::GrantReportRecord::Entry> entries,
             Done done) override {
    done(std::vector<bool>(entries.size(), true));
  }
};

void StreamedBatches(benchmark::State& state) {
  SystemRuntime runtime;
  kv::MemKvStore store(runtime, kv::MemKvStore::Options());
  YesOwner owner;
  const std::string key = FreshTokenKey();
  TokenDoor::Options options;
  options.local = &owner;
  options.fresh_key = [&] { return key; };
  TokenDoor door(options, store, runtime);
  door.Start();
  while (!door.Ready()) {
  }
  RpcTable rpcs;
  AddTokenRpcs(door, rpcs);
  const auto server = *GrpcServer::Start(GrpcServer::Options(), rpcs);
  const auto stub = v1::TokenService::NewStub(NewChannel(server->address()));

  const TokenMint mint(key);
  const int64_t batch = state.range(0);
  v1::StreamTokensRequest request;
  for (int64_t i = 0; i < batch; ++i) {
    auto* completion = request.mutable_complete()->add_completions();
    completion->set_token(mint.Handle(
        {.grant = {.policy_shard = 3, .policy = Uid::FromHalves(1, 2), .epoch = 5, .number = 7},
         .index = static_cast<uint64_t>(i)}));
    completion->set_outcome(v1::TokenCompletion::SUCCEEDED);
  }
  grpc::ClientContext context;
  auto stream = stub->StreamTokens(&context);
  int64_t done = 0;
  v1::StreamTokensResponse response;
  const auto read = [&] {
    if (!stream->Read(&response)) return state.SkipWithError("the stream is broken");
    for (const v1::TokenResult& result : response.results())
      done += result.status() == v1::TokenResult::DONE;
  };
  int outstanding = 0;
  for (auto _ : state) {
    if (outstanding == kOutstanding) {
      read();
      --outstanding;
    }
    stream->Write(request);
    ++outstanding;
  }
  for (; outstanding > 0; --outstanding) read();
  stream->WritesDone();
  if (!stream->Finish().ok()) state.SkipWithError("the stream failed");
  if (done != state.iterations() * batch) state.SkipWithError("not all were done");
  state.SetItemsProcessed(done);
}
BENCHMARK(StreamedBatches)->Arg(1)->Arg(10)->Arg(100)->Arg(1000)->UseRealTime();

}  // namespace
}  // namespace escapement

BENCHMARK_MAIN();
