// A user who makes one-off events in every way the API offers, and replaces and cancels some of
// them.
//
// Threads: the world's.

#ifndef TESTS_SIMULATION_ACTORS_EVENT_USER_H_
#define TESTS_SIMULATION_ACTORS_EVENT_USER_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/actors/user_calls.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

class EventUser {
 public:
  struct Options {
    std::string name;
    int calls = 12;
    absl::Duration rest_max = absl::Seconds(4);  // between two calls
    absl::Duration ahead_max = absl::Seconds(15);
    int batch_max = 12;
    // Names of the policies that exist for good; nullptr: none. Some events are under one of them.
    std::function<std::vector<std::string>()> policies = nullptr;
    bool several = false;  // some of those are under several limits
  };

  // `calls` outlives the user.
  EventUser(UserCalls& calls, Options options) : calls_(calls), options_(std::move(options)) {}
  void Start() { Next(); }
  bool finished() const { return made_ >= options_.calls && open_ == 0; }

  std::vector<OneOff> Events() const;
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  void Next();
  void CreateOne();
  void CreateBatch();
  void Ingest();
  struct Revision {
    absl::Time due;
    std::optional<uint64_t> body_hash;  // nullopt: that of the revision before
  };
  void Created(std::string event_id, absl::Time due, const std::string& payload, absl::Time called);
  void MayCancel(size_t event);
  void MayReplace(const std::string& event_id);
  void Replaced(const v1::Event& answer, Revision revision, absl::Time called);
  static std::string DeliveredIdOf(const v1::Event& event);
  OneOff* Find(const std::string& event_id);
  v1::Event DrawEvent(absl::Time* due);
  // Empty: no policy.
  // The policies are being deleted, and the request named one.
  bool PoliciesGone(const absl::Status& status) const;
  void Complain(absl::string_view call, const absl::Status& status);

  UserCalls& calls_;
  const Options options_;
  int made_ = 0;  // calls made so far
  int open_ = 0;  // unanswered calls and planned cancels
  int last_id_ = 0;
  std::vector<OneOff> events_;
  // By the id that the consumer receives, then by number.
  std::map<std::string, std::map<uint64_t, Revision>> revisions_;
  std::map<std::string, std::vector<Revision>> refused_;  // by id without the generation
  std::vector<std::string> complaints_;
};

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_ACTORS_EVENT_USER_H_
