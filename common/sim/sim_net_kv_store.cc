#include "common/sim/sim_net_kv_store.h"

#include <string>
#include <utility>

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

  bool Broken() const { return to_client->broken || to_store->broken || to_client->from->dead; }
};

// At the store. The watch is ended by an event of its own: it may be calling right now.
void EndAtStore(const std::shared_ptr<Connection>& connection) {
  SimWorld& world = connection->network.world();
  world.At(world.Elapsed(), connection->to_client->from, world.NewLine(), "watch end",
           [connection] { connection->watch = nullptr; });
}

void OpenAtStore(const std::shared_ptr<Connection>& connection, kv::KvStore& store,
                 kv::WatchRequest request) {
  // The store's watcher must not keep the connection alive that holds the watch.
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

// At the client: notices a broken connection.
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

class ClientWatch final : public kv::Watch {
 public:
  explicit ClientWatch(std::shared_ptr<Connection> connection)
      : connection_(std::move(connection)) {}
  ~ClientWatch() override {
    connection_->closed = true;
    connection_->network.Send(*connection_->to_store,
                              [connection = connection_] { connection->watch = nullptr; });
  }

  void MoveEnd(std::string end) override {
    connection_->network.Send(*connection_->to_store,
                              [connection = connection_, end = std::move(end)] {
                                if (connection->watch != nullptr) connection->watch->MoveEnd(end);
                              });
  }

 private:
  const std::shared_ptr<Connection> connection_;
};

// A watch that found no store.
class RefusedWatch final : public kv::Watch {
 public:
  explicit RefusedWatch(std::shared_ptr<bool> closed) : closed_(std::move(closed)) {}
  ~RefusedWatch() override { *closed_ = true; }
  void MoveEnd(std::string) override {}

 private:
  const std::shared_ptr<bool> closed_;
};

}  // namespace

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
  SimCall<kv::CommitResult, kv::KvStore>(
      network_, client_, endpoint_, options_.timeout,
      [request = std::move(request)](kv::KvStore& store, auto answer) {
        store.Commit(request, std::move(answer));
      },
      std::move(done));
}

void SimNetKvStore::MultiGet(std::vector<kv::Key> keys, Callback<kv::GetResult> done) {
  SimCall<kv::GetResult, kv::KvStore>(
      network_, client_, endpoint_, options_.timeout,
      [keys = std::move(keys)](kv::KvStore& store, auto answer) {
        store.MultiGet(keys, std::move(answer));
      },
      std::move(done));
}

void SimNetKvStore::Scan(kv::ScanRequest request, Callback<kv::ScanResult> done) {
  SimCall<kv::ScanResult, kv::KvStore>(
      network_, client_, endpoint_, options_.timeout,
      [request = std::move(request)](kv::KvStore& store, auto answer) {
        store.Scan(request, std::move(answer));
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
                 std::move(observer), false, nullptr});
  const SimStoreEndpoint& endpoint = endpoint_;
  network_.Send(*connection->to_store, [connection, &endpoint, request = std::move(request)] {
    if (endpoint.service != nullptr) OpenAtStore(connection, *endpoint.service, request);
  });
  if (!client_->dead) KeepAlive(connection, options_.keepalive);
  return std::make_unique<ClientWatch>(std::move(connection));
}

}  // namespace escapement::sim
