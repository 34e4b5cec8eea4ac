// LiveConsumer: the consumer of the simulation behind a real socket: what arrives at an AttemptPort
// is given to it as if a transport had brought it, and what it answers goes back over HTTP.
//
// Receipts are written by the simulation's consumer under the sender "attempt N"; true_receipts.h
// puts in what only the socket knows.
//
// Threads: made and destroyed while the world does not run, else the world's.

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
  // By attempt, until it is answered.
  std::map<size_t, std::unique_ptr<handler::DeliveryTransport>> transports_;
  std::vector<Attempt> attempts_;
  std::unique_ptr<AttemptPort> port_;
};

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_LIVE_CONSUMER_H_
