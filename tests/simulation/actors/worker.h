// The working side of the consumer: what it does with events that hold a token. It works on an
// event for a while and then completes it. As the seed decides, it may also fail, release, complete
// twice, extend, outlive its hold time or never report. It uses any door, and repeats a call until
// the answer is known.
//
// It deduplicates by event id, as consumers do. An event that arrives again after it was finished
// is completed at once. If the worker still works on the event, it goes on under the newest token.
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
#include "common/tokens/token_door.h"
#include "services/handler/delivery/delivery_transport.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// How many of a million events get each treatment; the rest is worked on for up to `work_max` and
// completed.
struct WorkHabits {
  uint32_t at_once = 100'000;       // completed in the delivery's answer
  uint32_t fails_at_once = 10'000;  // failed in the delivery's answer
  uint32_t fails = 30'000;          // completed as FAILED
  uint32_t fails_finally = 10'000;
  uint32_t releases = 100'000;        // released, with no result of the work
  uint32_t completes_twice = 50'000;  // through two doors
  uint32_t extends = 30'000;          // every second, for up to `outlives_max`
  uint32_t outlives = 10'000;         // works for up to `outlives_max`, and uses its first token
  uint32_t says_nothing = 3'000;      // gives no token back until Tidy
  absl::Duration work_max = absl::Milliseconds(200);
  absl::Duration outlives_max = absl::Seconds(9);
};

class Worker {
 public:
  using Door = sim::SimEndpoint<TokenApi>;

  // All arguments outlive the worker. `doors` is not empty.
  Worker(sim::SimNetwork& network, sim::SimProcess& process, std::vector<const Door*> doors,
         WorkHabits habits);

  // Takes an accepted event with a token; its receipt is `receipts`[`receipt`]. Returns what the
  // delivery's answer says about the work.
  handler::DeliveryWork Accept(size_t receipt, const Receipt& what);
  // Notes an event that arrived but will not be answered as accepted, or holds no token. It counts
  // as ended when it is answered.
  void Arrived(size_t receipt, const Receipt& what);
  void Answered(size_t receipt, const Receipt& what);

  // True if the worker works on the event or has finished it. Then it does not refuse another copy.
  bool Has(const std::string& event_id) const {
    auto known = known_.find(event_id);
    return known != known_.end() && (known->second.working || known->second.finished);
  }

  // Gives back every token it has. From now on it gives back each new token at once.
  void Tidy();
  bool idle() const { return calls_open_ == 0; }

  const std::vector<Work>& works() const { return works_; }
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  struct Known {
    bool finished = false;
    bool working = false;
    uint32_t attempt = 0;             // number of the attempt that brought `token`
    std::vector<std::string> tokens;  // every token that the event was given
    std::string first_token, token;   // first and newest token of the present work
    std::vector<size_t> open;         // indices into works_
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
  sim::SimRandom random_;  // chooses doors
  bool tidy_ = false;
  uint64_t calls_open_ = 0;
  std::map<std::string, Known> known_;  // by event id
  std::vector<Work> works_;
  std::vector<std::string> complaints_;
};

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_ACTORS_WORKER_H_
