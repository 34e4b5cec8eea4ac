#include "common/sim/sim_net_kv_store.h"

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "common/kv/engine/observer_gate.h"

namespace escapement::sim {

namespace {

// Both ends of one watch. Each end touches only its own half.
struct Connection {
  SimNetwork& network;
  std::shared_ptr<SimNetwork::Stream> to_client;
  std::shared_ptr<SimNetwork::Stream> to_store;
  // The client's half.
  kv::WatchObserver observer;
  bool closed = false;
  // The store's half.
  std::unique_ptr<kv::Watch> watch;
  bool opened = false;

  bool Broken() const { return to_client->broken || to_store->broken || to_client->from->dead; }
};

// Runs at the store. A separate event ends the watch, because the watch may be making a call right
// now.
void EndAtStore(const std::shared_ptr<Connection>& connection) {
  SimWorld& world = connection->network.world();
  world.At(world.Elapsed(), connection->to_client->from, world.NewLine(), "watch end",
           [connection] { connection->watch = nullptr; });
}

void OpenAtStore(const std::shared_ptr<Connection>& connection, kv::KvStore& store,
                 kv::WatchRequest request) {
  if (std::exchange(connection->opened, true)) return;
  // The connection holds the watch, so the store's watcher must not keep the connection alive.
  std::weak_ptr<Connection> weak = connection;
  kv::WatchObserver forward;
  forward.on_batch = [weak](kv::WatchBatch batch) {
    auto connection = weak.lock();
    if (connection == nullptr) return;
    const bool sent = connection->network.Send(*connection->to_client,
                                               [connection, batch = std::move(batch)]() mutable {
                                                 if (!connection->closed)
                                                   connection->observer.on_batch(std::move(batch));
                                               });
    if (!sent) EndAtStore(connection);
  };
  forward.on_lagged = [weak](absl::Status why) {
    auto connection = weak.lock();
    if (connection == nullptr) return;
    connection->network.Send(*connection->to_client, [connection, why = std::move(why)] {
      if (!std::exchange(connection->closed, true)) connection->observer.on_lagged(why);
    });
    EndAtStore(connection);
  };
  connection->watch = store.OpenWatch(std::move(request), std::move(forward));
}

// Runs at the client and notices a broken connection.
void KeepAlive(const std::shared_ptr<Connection>& connection, absl::Duration every) {
  SimWorld& world = connection->network.world();
  world.At(world.Elapsed() + every, connection->to_client->to, world.NewLine(), "keepalive",
           [connection, every] {
             if (connection->closed) return;
             if (!connection->Broken()) return KeepAlive(connection, every);
             connection->closed = true;
             connection->observer.on_lagged(absl::UnavailableError("the connection is broken"));
           });
}

// A watch that found no store.
class RefusedWatch final : public kv::Watch {
 public:
  explicit RefusedWatch(std::shared_ptr<bool> closed) : closed_(std::move(closed)) {}
  ~RefusedWatch() override { *closed_ = true; }
  void MoveEnd(size_t, std::string) override {}

 private:
  const std::shared_ptr<bool> closed_;
};

}  // namespace

// Calls on watches that are on their way to the store.
struct SimNetKvStore::WatchCalls {
  struct Call {
    uint64_t number = 0;
    std::shared_ptr<Connection> connection;
    std::function<void(kv::KvStore&)> run;
  };
  const SimStoreEndpoint& endpoint;
  uint64_t last = 0;
  std::vector<Call> on_the_way;

  // Runs at the store: every earlier call that is not lost has arrived by now.
  void Arrive(uint64_t to, kv::KvStore& store) {
    std::vector<Call> there;
    while (!on_the_way.empty() && on_the_way.front().number <= to) {
      there.push_back(std::move(on_the_way.front()));
      on_the_way.erase(on_the_way.begin());
    }
    for (Call& call : there) {
      if (!call.connection->Broken()) call.run(store);
    }
  }

  static void Send(const std::shared_ptr<WatchCalls>& calls,
                   const std::shared_ptr<Connection>& connection,
                   std::function<void(kv::KvStore&)> run) {
    const uint64_t number = ++calls->last;
    const bool sent = connection->network.Send(*connection->to_store, [calls, number] {
      if (calls->endpoint.service != nullptr) calls->Arrive(number, *calls->endpoint.service);
    });
    if (sent) calls->on_the_way.push_back({number, connection, std::move(run)});
  }
};

class SimNetKvStore::ClientWatch final : public kv::Watch {
 public:
  ClientWatch(std::shared_ptr<Connection> connection, std::shared_ptr<WatchCalls> calls)
      : connection_(std::move(connection)), calls_(std::move(calls)) {}
  ~ClientWatch() override {
    connection_->closed = true;
    connection_->network.Send(*connection_->to_store,
                              [connection = connection_] { connection->watch = nullptr; });
  }

  void MoveEnd(size_t range, std::string end) override {
    WatchCalls::Send(calls_, connection_,
                     [connection = connection_, range, end = std::move(end)](kv::KvStore&) {
                       if (connection->watch != nullptr) connection->watch->MoveEnd(range, end);
                     });
  }

 private:
  const std::shared_ptr<Connection> connection_;
  const std::shared_ptr<WatchCalls> calls_;
};

SimNetKvStore::SimNetKvStore(SimNetwork& network, SimProcess& client,
                             const SimStoreEndpoint& endpoint, Options options)
    : network_(network),
      client_(client.state()),
      endpoint_(endpoint),
      options_(options),
      watch_calls_(std::make_shared<WatchCalls>(WatchCalls{endpoint, 0, {}})) {}

SimNetKvStore::~SimNetKvStore() = default;

void SimNetKvStore::OpenSession(uint64_t seen_incarnation, kv::CommitSeq seen,
                                Callback<kv::SessionInfo> done) {
  SimCall<kv::SessionInfo, kv::KvStore>(
      network_, client_, endpoint_, options_.timeout,
      [seen_incarnation, seen](kv::KvStore& store, auto answer) {
        store.OpenSession(seen_incarnation, seen, std::move(answer));
      },
      std::move(done));
}

void SimNetKvStore::Commit(std::shared_ptr<const kv::CommitRequest> request,
                           Callback<kv::CommitResult> done) {
  // Shared by all copies of the call. A call made while there was no process goes to the first
  // process that it reaches.
  auto sent_to =
      std::make_shared<std::shared_ptr<ProcessState>>(network_.world().Find(endpoint_.process));
  SimCall<kv::CommitResult, kv::KvStore>(
      network_, client_, endpoint_, options_.timeout,
      [endpoint = &endpoint_, world = &network_.world(), sent_to = std::move(sent_to),
       generation = options_.generation, sent_in = options_.generation ? options_.generation() : 0,
       calls = watch_calls_, to = watch_calls_->last,
       request = std::move(request)](kv::KvStore& store, auto answer) {
        const std::shared_ptr<ProcessState> process = world->Find(endpoint->process);
        if (*sent_to == nullptr) *sent_to = process;
        if (*sent_to != process || (generation && generation() != sent_in)) return;
        calls->Arrive(to, store);
        store.Commit(request, std::move(answer));
      },
      std::move(done));
}

void SimNetKvStore::MultiGet(std::vector<kv::Key> keys, Callback<kv::GetResult> done) {
  SimCall<kv::GetResult, kv::KvStore>(
      network_, client_, endpoint_, options_.timeout,
      [calls = watch_calls_, to = watch_calls_->last, keys = std::move(keys)](kv::KvStore& store,
                                                                              auto answer) {
        calls->Arrive(to, store);
        store.MultiGet(keys, std::move(answer));
      },
      std::move(done));
}

void SimNetKvStore::Scan(kv::ScanRequest request, Callback<kv::ScanResult> done) {
  SimCall<kv::ScanResult, kv::KvStore>(
      network_, client_, endpoint_, options_.timeout,
      [calls = watch_calls_, to = watch_calls_->last, request = std::move(request)](
          kv::KvStore& store, auto answer) {
        calls->Arrive(to, store);
        store.Scan(request, std::move(answer));
      },
      std::move(done));
}

void SimNetKvStore::AskClock(kv::ClockCall call, Callback<kv::ClockState> done) {
  SimCall<kv::ClockState, kv::KvStore>(
      network_, client_, endpoint_, options_.timeout,
      [call = std::move(call)](kv::KvStore& store, auto answer) {
        store.AskClock(call, std::move(answer));
      },
      std::move(done));
}

std::unique_ptr<kv::Watch> SimNetKvStore::OpenWatch(kv::WatchRequest request,
                                                    kv::WatchObserver observer) {
  SimWorld& world = network_.world();
  std::shared_ptr<ProcessState> store = world.Find(endpoint_.process);
  if (store == nullptr || endpoint_.service == nullptr) {
    auto closed = std::make_shared<bool>(client_->dead);
    if (!client_->dead) {
      world.At(world.Elapsed() + options_.keepalive, client_, world.NewLine(), "watch refused",
               [closed, observer = std::move(observer)] {
                 if (!*closed) observer.on_lagged(absl::UnavailableError("connection refused"));
               });
    }
    return std::make_unique<RefusedWatch>(std::move(closed));
  }
  auto connection = std::make_shared<Connection>(
      Connection{network_, network_.OpenStream(store, client_), network_.OpenStream(client_, store),
                 std::move(observer), false, nullptr, false});
  WatchCalls::Send(watch_calls_, connection,
                   [connection, request = std::move(request)](kv::KvStore& store) {
                     OpenAtStore(connection, store, request);
                   });
  if (!client_->dead) KeepAlive(connection, options_.keepalive);
  return std::make_unique<ClientWatch>(std::move(connection), watch_calls_);
}

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
