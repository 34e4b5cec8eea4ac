// GrpcKvStore: a KvStore whose data another process holds. It is the client of the store service
// (store.proto).
//
// All calls share one stream, so the store receives them in the order in which they were made.
// Calls made while a message is being sent share the next message. If the stream breaks, every open
// call fails with UNAVAILABLE and every watch ends; the next call opens a new stream. This class
// does not resend: KvClient does.
//
// Calls of a new stream wait while the store's clock is asked: its answer has the protocol that the
// leader speaks (kStoreProtocol). If that is less than this program needs, or the store does not
// lead, the calls fail unsent, and the next call asks again. GetStatus and HandOver do not wait,
// because every store answers them.
//
// Threads: as KvStore; callbacks run on gRPC's threads. Destroying it cancels the stream and waits
// for its end.

#ifndef COMMON_KV_WIRE_GRPC_KV_STORE_H_
#define COMMON_KV_WIRE_GRPC_KV_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/kv/kv_store.h"
#include "common/kv/wire/store_connection.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace escapement::kv {

class GrpcKvStore final : public StoreConnection {
 public:
  // `channel`: from common/rpc/channel.h, with its default limits. Only tests give another `needs`:
  // 0 is a program that does not ask.
  explicit GrpcKvStore(std::shared_ptr<grpc::Channel> channel, uint32_t needs = kStoreProtocol);
  ~GrpcKvStore() override;

  void Disconnect() override;
  std::string TooOld() override;

  void OpenSession(uint64_t seen_incarnation, CommitSeq seen, Callback<SessionInfo> done) override;
  using KvStore::Commit;
  void Commit(std::shared_ptr<const CommitRequest> request, Callback<CommitResult> done) override;
  void MultiGet(std::vector<Key> keys, Callback<GetResult> done) override;
  void Scan(ScanRequest request, Callback<ScanResult> done) override;
  std::unique_ptr<Watch> OpenWatch(WatchRequest request, WatchObserver observer) override;
  void AskClock(ClockCall call, Callback<ClockState> done) override;
  void GetStatus(Callback<v1::StoreStatus> done) override;
  void HandOver(Callback<v1::HandOverResponse> done) override;

 private:
  class Stream;
  class Core;
  class Handle;
  std::shared_ptr<Core> core_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_WIRE_GRPC_KV_STORE_H_
