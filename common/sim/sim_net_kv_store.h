// SimNetKvStore: a process' way over a SimNetwork to the KvStore of another process. What a wire
// does to a call happens to it: requests and answers are lost, late, doubled; a store that is down
// refuses or stays silent; watches break.
//
//  - A call without an answer within `timeout` answers UNAVAILABLE: a commit's result is then
//    unknown.
//  - A doubled request reaches the store twice. A commit reaches the process of the store to which
//    it was sent, or none (KvStore::Commit).
//  - A watch is one connection: in order; the first message that is lost, or the end of either
//    process, ends it as lagged, which the client notices within two `keepalive`s.
//
// Threads: the world's. Callbacks run as events of the client's process; none runs once that is
// killed.

#ifndef COMMON_SIM_SIM_NET_KV_STORE_H_
#define COMMON_SIM_SIM_NET_KV_STORE_H_

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/sim/sim_network.h"
#include "common/sim/sim_process.h"
#include "common/sim/sim_rpc.h"

namespace escapement::sim {

using SimStoreEndpoint = SimEndpoint<kv::KvStore>;

// As on one connection, a watch is open at the store, and its ends have moved, before what is
// called after it is done there, though messages overtake one another.
class SimNetKvStore final : public kv::KvStore {
 public:
  struct Options {
    absl::Duration timeout = absl::Milliseconds(800);
    absl::Duration keepalive = absl::Milliseconds(400);
  };

  // All outlive the store and its watches; the endpoint's service changes when the store's process
  // ends or starts.
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

}  // namespace escapement::sim

#endif  // COMMON_SIM_SIM_NET_KV_STORE_H_
