// SimStoreConnection: a SimNetKvStore whose connection the client can end. Then its open calls
// fail, its watches end, and late answers are dropped. LeaderSeekingKvStore needs one for each
// store.
//
// Threads: the world's. No callback runs after the client was killed.

#ifndef COMMON_SIM_SIM_STORE_CONNECTION_H_
#define COMMON_SIM_SIM_STORE_CONNECTION_H_

#include <memory>
#include <vector>

#include "common/kv/wire/store_connection.h"
#include "common/sim/sim_net_kv_store.h"

namespace escapement::sim {

class SimStoreConnection final : public kv::StoreConnection {
 public:
  // As SimNetKvStore's.
  SimStoreConnection(SimNetwork& network, SimProcess& client, const SimStoreEndpoint& endpoint,
                     SimNetKvStore::Options options);
  ~SimStoreConnection() override { Disconnect(); }

  void Disconnect() override;

  void OpenSession(uint64_t seen_incarnation, kv::CommitSeq seen,
                   Callback<kv::SessionInfo> done) override;
  using KvStore::Commit;
  void Commit(std::shared_ptr<const kv::CommitRequest> request,
              Callback<kv::CommitResult> done) override;
  void MultiGet(std::vector<kv::Key> keys, Callback<kv::GetResult> done) override;
  void Scan(kv::ScanRequest request, Callback<kv::ScanResult> done) override;
  std::unique_ptr<kv::Watch> OpenWatch(kv::WatchRequest request,
                                       kv::WatchObserver observer) override;
  void AskClock(kv::ClockCall call, Callback<kv::ClockState> done) override;
  // The simulation has no operators who ask: UNIMPLEMENTED.
  void GetStatus(Callback<v1::StoreStatus> done) override;
  void HandOver(Callback<v1::HandOverResponse> done) override;

 private:
  struct Open;
  class GatedWatch;
  template <typename T>
  Callback<T> Kept(Callback<T> done);

  const std::shared_ptr<ProcessState> client_;
  const std::shared_ptr<Open> open_;
  SimNetKvStore store_;
};

}  // namespace escapement::sim

#endif  // COMMON_SIM_SIM_STORE_CONNECTION_H_
