// The working side of the consumer: what it does with events that hold a token. It works on them
// for a while and completes them, or fails, releases, completes twice, extends, outlives its hold
// time or says nothing, as the seed decides; through any door, again until the answer is known.
//
// It deduplicates by event id, as consumers do: what it has finished it completes at once when it
// arrives again, what it is still working on it goes on with, under the newest token.
//
// Threads: the world's.

#ifndef TESTS_SIMULATION_ACTORS_WORKER_H_
#define TESTS_SIMULATION_ACTORS_WORKER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/sim/sim_network.h"
#include "common/sim/sim_process.h"
#include "common/sim/sim_rpc.h"
#include "common/tokens/token_api.h"
#include "services/handler/delivery/delivery_transport.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// Of a million events; the rest is worked on for up to `work_max` and completed.
struct WorkHabits {
  uint32_t at_once = 100'000;       // done with the delivery's answer
  uint32_t fails_at_once = 10'000;  // failed with it
  uint32_t fails = 30'000;          // completed as FAILED
  uint32_t fails_finally = 10'000;
  uint32_t releases = 100'000;        // without a word on the work
  uint32_t completes_twice = 50'000;  // through two doors
  uint32_t extends = 30'000;          // every second, for up to `outlives_max`
  uint32_t outlives = 10'000;         // works for up to `outlives_max`, and uses its first token
  uint32_t says_nothing = 3'000;      // until Tidy
  absl::Duration work_max = absl::Milliseconds(200);
  absl::Duration outlives_max = absl::Seconds(9);
};

class Worker {
 public:
  using Door = sim::SimEndpoint<TokenApi>;

  // All outlive the worker. `doors` is not empty.
  Worker(sim::SimNetwork& network, sim::SimProcess& process, std::vector<const Door*> doors,
         WorkHabits habits);

  // An accepted event of `receipts`[`receipt`] that holds a token. What the answer says of the
  // work.
  handler::DeliveryWork Accept(size_t receipt, const Receipt& what);
  // An event that arrived and will not be answered as accepted, or holds no token; ended when it is
  // answered.
  void Arrived(size_t receipt, const Receipt& what);
  void Answered(size_t receipt, const Receipt& what);

  // It works on the event, or has finished it: it does not refuse another copy.
  bool Has(const std::string& event_id) const {
    auto known = known_.find(event_id);
    return known != known_.end() && (known->second.working || known->second.finished);
  }

  // Gives back everything it has, and from now on at once what comes.
  void Tidy();
  bool idle() const { return calls_open_ == 0; }

  const std::vector<Work>& works() const { return works_; }
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  struct Known {
    bool finished = false;
    bool working = false;
    uint32_t attempt = 0;             // that brought `token`
    std::vector<std::string> tokens;  // all that it was given
    std::string first_token, token;   // of the work under way
    std::vector<size_t> open;         // in works_
  };
  enum class Word { kSucceeded, kFailed, kFailedFinally, kReleased };

  handler::DeliveryWork Begin(const Receipt& what, Known& known);
  void WorkFor(const std::string& event_id, absl::Duration duration, Word word, bool first_token,
               int times);
  void Extend(const std::string& event_id, int seconds);
  void Finish(const std::string& event_id, Word word, bool first_token, int times);
  void EndOpen(Known& known, Word word, std::vector<size_t>* ended);
  void GiveBack(const std::string& token, Word word, std::vector<size_t> works);
  template <typename Response>
  using Done = std::function<void(absl::StatusOr<std::shared_ptr<Response>>)>;
  template <typename Response>
  void UntilKnown(std::function<void(TokenApi&, Done<Response>)> invoke,
                  std::function<void(const Response&)> done);
  void OnResult(const std::string& token, v1::TokenResult::Status status,
                const std::vector<size_t>& works);
  void After(absl::Duration delay, Closure closure);

  sim::SimNetwork& network_;
  sim::SimProcess& process_;
  const std::vector<const Door*> doors_;
  const WorkHabits habits_;
  sim::SimRandom random_;  // of doors
  bool tidy_ = false;
  uint64_t calls_open_ = 0;
  std::map<std::string, Known> known_;  // by event id
  std::vector<Work> works_;
  std::vector<std::string> complaints_;
};

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_ACTORS_WORKER_H_
