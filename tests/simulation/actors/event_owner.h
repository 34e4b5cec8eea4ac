// A user who creates, replaces and cancels its events by ingestion only, some of them long before
// they are due. It knows what each answer must be: nobody else changes these events, and the next
// batch with an event is sent when the former one is answered.
//
// Threads: the world's.

#ifndef TESTS_SIMULATION_ACTORS_EVENT_OWNER_H_
#define TESTS_SIMULATION_ACTORS_EVENT_OWNER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/actors/user_calls.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

class EventOwner {
 public:
  struct Options {
    std::string name;
    int sets = 6;                                 // each is of events that are changed together
    int events_of_set = 6;                        // at most
    int batches_of_set = 6;                       // at most
    absl::Duration begin_max = absl::Seconds(4);  // the first batch of a set
    absl::Duration rest_max = absl::Seconds(4);   // between two batches of a set
    // How long after a batch its events are due: those of every other set are near, of others far.
    absl::Duration near_max = absl::Seconds(15);
    absl::Duration far_min = absl::Seconds(63), far_max = absl::Seconds(75);
  };

  // `calls` outlives the user. Its network doubles no call.
  EventOwner(UserCalls& calls, Options options) : calls_(calls), options_(std::move(options)) {}
  void Start();
  bool finished() const { return open_ == 0; }

  const std::vector<OneOff>& events() const { return events_; }
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  struct Owned {
    std::string id;
    std::optional<size_t> present = std::nullopt;  // its latest generation, in events_
  };
  struct Set {
    std::vector<Owned> owned;
    bool far = false;
    int batches = 0;  // that are left
  };
  enum class Fate {
    kDone,
    kReplaced,
    kIgnored,
    kNotNow,  // the record may be sent again: the store had no room, or the event changed too often
  };
  struct Change {
    v1::Event::IngestMode mode = v1::Event::UPSERT;
    absl::Time due;
    uint64_t body_hash = 0;
    Fate fate = Fate::kDone;
    std::string why = {};  // it had no effect
  };

  void After(absl::Duration most, std::shared_ptr<Set> set);
  void Send(std::shared_ptr<Set> set);
  void Heard(Set& set, std::vector<Change> changes, const v1::IngestResponse& answer, bool once,
             absl::Time called);
  void Upserted(Owned& owned, const Change& change, bool once, absl::Time called);
  void Cancelled(Owned& owned, const Change& change, bool once);
  void Add(Owned& owned, const Change& change, absl::Time called);
  // The latest generation, unless it was cancelled.
  OneOff* Waiting(const Owned& owned);
  // An event cannot have been claimed yet.
  bool Unclaimed(const OneOff& event) const;
  void Complain(const Owned& owned, absl::string_view what);

  UserCalls& calls_;
  const Options options_;
  int open_ = 0;  // sets with batches that are left
  int last_payload_ = 0;
  std::vector<OneOff> events_;
  std::vector<std::string> complaints_;
};

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_ACTORS_EVENT_OWNER_H_
