// Calls over a SimNetwork: a request, an answer, and UNAVAILABLE if either is lost.
//
// Threads: the world's.

#ifndef COMMON_SIM_SIM_RPC_H_
#define COMMON_SIM_SIM_RPC_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/sim/sim_network.h"
#include "common/sim/sim_world.h"

namespace escapement::sim {

// A service, found by the name of its process; `service` is null while the process is down.
template <typename Service>
struct SimEndpoint {
  std::string process;
  Service* service = nullptr;
};

// Runs `invoke` at the server once, twice (a doubled message) or never. Gives the first answer that
// returns within `timeout` to `done`; otherwise UNAVAILABLE, and it is unknown whether `invoke`
// ran. `done` runs at most once, as an event of the client's process, and never after that is
// killed. `endpoint` must outlive the call.
template <typename T, typename Service>
void SimCall(SimNetwork& network, std::shared_ptr<ProcessState> client,
             const SimEndpoint<Service>& endpoint, absl::Duration timeout,
             std::function<void(Service&, std::function<void(absl::StatusOr<T>)>)> invoke,
             std::function<void(absl::StatusOr<T>)> done) {
  SimWorld& world = network.world();
  if (client->dead) return;
  struct Call {
    bool answered = false;
    std::function<void(absl::StatusOr<T>)> done;
    SimWorld::EventId timer = 0;
  };
  auto call = std::make_shared<Call>();
  call->done = std::move(done);
  auto answer = [call, &world](absl::StatusOr<T> result) {
    if (std::exchange(call->answered, true)) return;
    world.Forget(call->timer);
    auto done = std::move(call->done);
    done(std::move(result));
  };
  call->timer = world.At(world.Elapsed() + timeout, client, world.NewLine(), "call timeout",
                         [answer] { answer(absl::UnavailableError("no answer in time")); });
  const std::string server = endpoint.process;
  network.Send(
      client, server,
      [&network, &endpoint, client, server, answer, invoke = std::move(invoke)] {
        if (endpoint.service == nullptr) return;
        std::shared_ptr<ProcessState> self = network.world().Find(server);
        if (self == nullptr) return;
        invoke(*endpoint.service, [&network, client, self, answer](absl::StatusOr<T> result) {
          if (client->dead) return;
          network.Send(self, client->name, [client, answer, result = std::move(result)] {
            if (!client->dead) answer(result);  // a newer incarnation did not ask
          });
        });
      },
      [answer] { answer(absl::UnavailableError("connection refused")); });
}

}  // namespace escapement::sim

#endif  // COMMON_SIM_SIM_RPC_H_
