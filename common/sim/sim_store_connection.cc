#include "common/sim/sim_store_connection.h"

#include <functional>
#include <map>
#include <utility>

#include "common/kv/engine/observer_gate.h"

namespace escapement::sim {

// The calls and watches that end with the connection.
struct SimStoreConnection::Open {
  uint64_t last = 0;
  std::map<uint64_t, std::function<void(const absl::Status&)>> calls;
  std::vector<std::weak_ptr<kv::ObserverGate>> watches;
};

class SimStoreConnection::GatedWatch final : public kv::Watch {
 public:
  GatedWatch(std::shared_ptr<kv::ObserverGate> gate, std::unique_ptr<kv::Watch> inner)
      : gate_(std::move(gate)), inner_(std::move(inner)) {}
  ~GatedWatch() override { gate_->Close(); }
  void MoveEnd(size_t range, std::string end) override { inner_->MoveEnd(range, std::move(end)); }

 private:
  const std::shared_ptr<kv::ObserverGate> gate_;
  const std::unique_ptr<kv::Watch> inner_;
};

SimStoreConnection::SimStoreConnection(SimNetwork& network, SimProcess& client,
                                       const SimStoreEndpoint& endpoint,
                                       SimNetKvStore::Options options)
    : client_(client.state()),
      open_(std::make_shared<Open>()),
      store_(network, client, endpoint, std::move(options)) {}

void SimStoreConnection::Disconnect() {
  const absl::Status ended = absl::UnavailableError("the connection has ended");
  const auto calls = std::exchange(open_->calls, {});
  const auto watches = std::exchange(open_->watches, {});
  if (client_->dead) return;
  for (const auto& [id, fail] : calls) fail(ended);
  for (const auto& weak : watches) {
    if (const auto watch = weak.lock()) watch->Lagged(ended);
  }
}

template <typename T>
kv::KvStore::Callback<T> SimStoreConnection::Kept(Callback<T> done) {
  const uint64_t id = ++open_->last;
  open_->calls.emplace(id, [done](const absl::Status& ended) { done(ended); });
  return [open = open_, id, done = std::move(done)](absl::StatusOr<T> answer) {
    if (open->calls.erase(id) > 0) done(std::move(answer));
  };
}

void SimStoreConnection::OpenSession(uint64_t seen_incarnation, kv::CommitSeq seen,
                                     Callback<kv::SessionInfo> done) {
  store_.OpenSession(seen_incarnation, seen, Kept(std::move(done)));
}

void SimStoreConnection::Commit(std::shared_ptr<const kv::CommitRequest> request,
                                Callback<kv::CommitResult> done) {
  store_.Commit(std::move(request), Kept(std::move(done)));
}

void SimStoreConnection::MultiGet(std::vector<kv::Key> keys, Callback<kv::GetResult> done) {
  store_.MultiGet(std::move(keys), Kept(std::move(done)));
}

void SimStoreConnection::Scan(kv::ScanRequest request, Callback<kv::ScanResult> done) {
  store_.Scan(std::move(request), Kept(std::move(done)));
}

void SimStoreConnection::AskClock(kv::ClockCall call, Callback<kv::ClockState> done) {
  store_.AskClock(std::move(call), Kept(std::move(done)));
}

void SimStoreConnection::GetStatus(Callback<v1::StoreStatus> done) {
  done(absl::UnimplementedError("the simulation has no operators"));
}

void SimStoreConnection::HandOver(Callback<v1::HandOverResponse> done) {
  done(absl::UnimplementedError("the simulation has no operators"));
}

std::unique_ptr<kv::Watch> SimStoreConnection::OpenWatch(kv::WatchRequest request,
                                                         kv::WatchObserver observer) {
  auto gate = std::make_shared<kv::ObserverGate>(std::move(observer));
  std::erase_if(open_->watches, [](const auto& watch) { return watch.expired(); });
  open_->watches.push_back(gate);
  kv::WatchObserver inner;
  inner.on_batch = [gate](kv::WatchBatch batch) { gate->Batch(std::move(batch)); };
  inner.on_lagged = [gate](const absl::Status& why) { gate->Lagged(why); };
  return std::make_unique<GatedWatch>(gate, store_.OpenWatch(std::move(request), std::move(inner)));
}

}  // namespace escapement::sim
