// LiveConsumer: the simulation's consumer behind a real socket. It gets each delivery of an
// AttemptPort as if a transport had brought it. Its answers go back over HTTP.
//
// The simulation's consumer writes the receipts under the sender "attempt N". judge_chaos.h adds
// what only the socket knows.
//
// Threads: made and destroyed while the world does not run; otherwise the world's.

#ifndef TESTS_E2E_CHAOS_LIVE_CONSUMER_H_
#define TESTS_E2E_CHAOS_LIVE_CONSUMER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/sim/sim_process.h"
#include "services/handler/delivery/delivery_transport.h"
#include "tests/e2e/chaos/attempt_port.h"
#include "tests/e2e/chaos/live_world.h"
#include "tests/simulation/actors/consumer.h"

namespace escapement::chaos {

class LiveConsumer {
 public:
  // Both outlive it.
  LiveConsumer(LiveWorld& live, simulation::Consumer& consumer);
  ~LiveConsumer();

  absl::Status Start();
  const AttemptPort& port() const { return *port_; }
  const std::vector<Attempt>& attempts() const { return attempts_; }

 private:
  class Sink;
  void Take(Attempt attempt);

  LiveWorld& live_;
  simulation::Consumer& consumer_;
  sim::SimProcess process_;
  std::shared_ptr<Sink> sink_;
  // By attempt, until the attempt is answered.
  std::map<size_t, std::unique_ptr<handler::DeliveryTransport>> transports_;
  std::vector<Attempt> attempts_;
  std::unique_ptr<AttemptPort> port_;
};

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_LIVE_CONSUMER_H_
