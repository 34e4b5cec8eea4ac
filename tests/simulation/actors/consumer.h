// The receiving end: a consumer that accepts, fails, refuses, answers late or never answers, as the
// seed decides. Also the handlers' transport to it over the simulated network.
//
// The kind of a target decides what its answers are like. Up to ten attempts to SQS share a request
// and its answer: each has a result of its own, or none. If the request gets no answer, none of its
// attempts does. The records of a Kafka batch are written together. E-mail sometimes has no room:
// then nothing is sent. Throttled events come one by one, whatever the kind.
//
// The consumer knows what really arrived: it writes the receipts.

#ifndef TESTS_SIMULATION_ACTORS_CONSUMER_H_
#define TESTS_SIMULATION_ACTORS_CONSUMER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/sim/sim_network.h"
#include "common/sim/sim_process.h"
#include "services/handler/delivery/delivery_transport.h"
#include "tests/simulation/actors/worker.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// How many of a million attempts get each treatment; the rest is accepted at once.
struct ConsumerHabits {
  uint32_t fails = 0;
  uint32_t asks_for_delay = 0;  // fails with retry_after
  uint32_t rejects = 0;
  // False: events of schedules fail instead. Over HTTP the only refusal is 410, after which the
  // platform pauses the schedule.
  bool rejects_runs = true;
  uint32_t hangs = 0;          // takes the attempt and never answers
  std::string hangs_for = {};  // the id of a schedule all of whose attempts hang
  uint32_t dawdles = 0;        // accepts after up to `dawdle_max`
  absl::Duration dawdle_max = absl::Seconds(3);
  uint32_t unsent = 0;  // only for e-mail: the transport does not send them, and says so
  // One of the events that are sent within this time of the run kills each handler that sends it.
  // Zero: none does.
  absl::Duration poison_within = absl::ZeroDuration();
};

class Consumer {
 public:
  Consumer(sim::SimNetwork& network, ConsumerHabits habits)
      : network_(network), process_(network.world(), "consumer"), habits_(habits) {}

  // A transport for one incarnation of a handler, called `sender` in receipts.
  std::unique_ptr<handler::DeliveryTransport> NewTransport(sim::SimProcess& handler,
                                                           std::string sender);

  // `kill` kills the handler of that name. Without it no event is poisonous.
  void set_kill(std::function<void(const std::string& handler)> kill) { kill_ = std::move(kill); }
  void set_habits(ConsumerHabits habits) { habits_ = habits; }
  // Takes throttled events; outlives the consumer's processes. Null if there is no worker.
  void set_worker(Worker* worker) { worker_ = worker; }
  sim::SimProcess& process() { return process_; }
  const std::vector<Receipt>& receipts() const { return receipts_; }
  // The event that kills handlers, if there was one.
  const std::optional<PoisonSeen>& poison() const { return poison_; }

 private:
  class Transport;
  struct Sending;
  enum class Fate { kAccepted, kFailed, kAsksForDelay, kRejected, kHangs };
  struct Drawn {
    Fate fate = Fate::kAccepted;
    absl::Duration after = absl::ZeroDuration();  // only for kAccepted
  };
  using Batch = std::vector<std::shared_ptr<Sending>>;
  bool IsPoison(const Sending& sending);
  Drawn Draw(const Sending& sending);
  void Receive(const std::shared_ptr<Sending>& sending);
  void ReceiveSqs(const Batch& batch);
  void ReceiveKafka(const Batch& batch);
  void ArriveTogether(const Batch& batch);
  void Arrive(const std::shared_ptr<Sending>& sending);
  void Hang(const std::shared_ptr<Sending>& sending);
  void Accept(const std::shared_ptr<Sending>& sending, absl::Duration after);
  void Answer(const std::shared_ptr<Sending>& sending, handler::DeliveryResult result,
              absl::Duration after);
  // One answer for all.
  void AnswerBatch(const Batch& batch, std::vector<handler::DeliveryResult> results,
                   absl::Duration after);

  sim::SimNetwork& network_;
  sim::SimProcess process_;
  ConsumerHabits habits_;
  Worker* worker_ = nullptr;
  std::vector<Receipt> receipts_;
  std::function<void(const std::string& handler)> kill_;
  std::optional<PoisonSeen> poison_;
  uint64_t batches_ = 0;
  std::set<std::string> hung_;    // attempts: event id "/" number
  std::set<std::string> unsent_;  // ids of events for which there was no room
};

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_ACTORS_CONSUMER_H_
