// Measures the cost of a handle: bazel run //common/tokens:token_handle_bench

#include <benchmark/benchmark.h>

#include "common/tokens/token_batch.h"

namespace escapement {
namespace {

void MakeHandle(benchmark::State& state) {
  const TokenMint mint(FreshTokenKey());
  TokenName token = {
      .grant = {.policy_shard = 3, .policy = Uid::FromHalves(1, 2), .epoch = 5, .number = 7}};
  for (auto _ : state) {
    ++token.index;
    benchmark::DoNotOptimize(mint.Handle(token));
  }
}
BENCHMARK(MakeHandle);

void ReadHandle(benchmark::State& state) {
  const TokenMint mint(FreshTokenKey());
  const std::string handle = mint.Handle(
      {.grant = {.policy_shard = 3, .policy = Uid::FromHalves(1, 2), .epoch = 5, .number = 7}});
  for (auto _ : state) benchmark::DoNotOptimize(mint.Read(handle));
}
BENCHMARK(ReadHandle);

}  // namespace
}  // namespace escapement

BENCHMARK_MAIN();
