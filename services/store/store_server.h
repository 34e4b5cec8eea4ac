// StoreServer: the store service without its process: a RocksKvStore and the gRPC services that
// serve it. main.cc gives it a port.
//
//   StoreServer::Options options;
//   options.data_dir = ...;
//   auto server = StoreServer::Open(options, runtime.clock());
//   GrpcServer::Start(..., (*server)->services());  // receive_bytes_max =
//   StoreServer::kReceiveBytesMax
//
// Threads: Open and destruction by one thread; the gRPC server must have been shut down before the
// latter.

#ifndef SERVICES_STORE_STORE_SERVER_H_
#define SERVICES_STORE_STORE_SERVER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/runtime/runtime.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace escapement::store {

class StoreServer {
 public:
  // Of the internal port: a commit of kv::kCommitBytesMax with room for its form on the wire.
  static constexpr size_t kReceiveBytesMax = 64 << 20;

  struct Options {
    std::string data_dir;
    bool accept_loss = false;  // see RocksKvStore::Options
    // No lease is taken over in this time after a start.
    absl::Duration lease_ttl = absl::Seconds(5);
    uint32_t partitions = 16;    // of a new store; 1 to 1,024
    uint32_t queue_shards = 8;   // of a new store; 1 to 1,024
    uint32_t policy_shards = 8;  // of a new store; 1 to 1,024
    uint64_t free_bytes_min = uint64_t{256} << 20;
    size_t block_cache_bytes = 256 << 20;
  };

  // Errors as of RocksKvStore::Open. `clock` outlives the server.
  static absl::StatusOr<std::unique_ptr<StoreServer>> Open(const Options& options, Clock& clock);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  // StoreService of escapement.internal.v1, for our own processes, and of escapement.v1, for
  // operators.
  std::vector<grpc::Service*> services();
  // As of HostedService: empty, or that the clock has held emission for longer than a step of
  // minutes needs to be followed (clock_hold.h). Then nothing is planned until an operator has
  // looked.
  std::string NotReadyReason() const;
  kv::RocksKvStore& store();

 private:
  struct Parts;
  explicit StoreServer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace escapement::store

#endif  // SERVICES_STORE_STORE_SERVER_H_
