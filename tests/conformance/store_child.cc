// The store's process for kv_kill_test. It serves the given folder on a loopback port, which it
// prints, until it is killed or its input ends.

#include <cstdio>

#include "common/rpc/grpc_server.h"
#include "common/rpc/rpc_table_grpc.h"
#include "common/runtime/system_runtime.h"
#include "services/store/service/store_server.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  escapement::SystemRuntime runtime;
  escapement::store::StoreServer::Options options;
  options.data_dir = argv[1];
  options.free_bytes_min = 0;
  options.block_cache_bytes = 8 << 20;
  auto store = escapement::store::StoreServer::Open(options, runtime);
  if (!store.ok()) {
    std::fprintf(stderr, "%s\n", store.status().ToString().c_str());
    return 1;
  }
  escapement::GrpcServer::Options port;
  port.receive_bytes_max = escapement::store::StoreServer::kReceiveBytesMax;
  escapement::RpcTable rpcs;
  (*store)->AddRpcs(rpcs);
  auto server = escapement::GrpcServer::Start(port, rpcs);
  if (!server.ok()) return 1;
  std::printf("%s\n", (*server)->address().c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}
