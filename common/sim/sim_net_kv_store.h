// SimNetKvStore: a process's access over a SimNetwork to the KvStore of another process.
// SimStoreConnection: the same, over a connection that the client can end.

#ifndef COMMON_SIM_SIM_NET_KV_STORE_H_
#define COMMON_SIM_SIM_NET_KV_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/kv/wire/store_connection.h"
#include "common/sim/sim_network.h"
#include "common/sim/sim_process.h"
#include "common/sim/sim_rpc.h"

namespace escapement::sim {

using SimStoreEndpoint = SimEndpoint<kv::KvStore>;

// SimNetKvStore: a process's access over a SimNetwork to the KvStore of another process. Calls meet
// the faults of a wire: requests and answers are lost, delayed or doubled; a store that is down
// refuses or stays silent; watches break.
//
// - A call without an answer within `timeout` answers UNAVAILABLE: the result of a commit is then
//   unknown.
// - A doubled request reaches the store twice. A commit reaches the process of the store to which
//   it was sent, or none (KvStore::Commit).
// - A watch is one connection and keeps its order. The first lost message, or the end of either
//   process, ends it as lagged. The client notices that within two `keepalive`s.
//
// As on one connection, calls on watches keep their order with other calls, even if messages
// overtake one another. Before a call runs at the store, the earlier watches are open there and
// their ends have moved.
//
// Threads: the world's. Callbacks run as events of the client's process, and never after it was
// killed.
class SimNetKvStore final : public kv::KvStore {
 public:
  struct Options {
    absl::Duration timeout = absl::Milliseconds(800);
    absl::Duration keepalive = absl::Milliseconds(400);
    // A commit reaches the store only if this gives the same number on its arrival as when it was
    // sent. A connection to a replica ends when that stops leading. Null: only the process counts.
    std::function<uint64_t()> generation = nullptr;
  };

  // All arguments must outlive the store and its watches. The endpoint's service changes when the
  // store's process ends or starts.
  SimNetKvStore(SimNetwork& network, SimProcess& client, const SimStoreEndpoint& endpoint,
                Options options);
  ~SimNetKvStore() override;

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

 private:
  struct WatchCalls;
  class ClientWatch;

  SimNetwork& network_;
  const std::shared_ptr<ProcessState> client_;
  const SimStoreEndpoint& endpoint_;
  const Options options_;
  const std::shared_ptr<WatchCalls> watch_calls_;
};

// SimStoreConnection: a SimNetKvStore whose connection the client can end. Then its open calls
// fail, its watches end, and late answers are dropped. LeaderSeekingKvStore needs one for each
// store.
//
// Threads: the world's. No callback runs after the client was killed.
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

#endif  // COMMON_SIM_SIM_NET_KV_STORE_H_
