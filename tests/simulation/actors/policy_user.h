// A user who makes a policy, changes its limits, pauses and resumes it while events wait under it
// and are out, and deletes it when nothing refers to it any more.
//
// Threads: the world's.

#ifndef TESTS_SIMULATION_ACTORS_POLICY_USER_H_
#define TESTS_SIMULATION_ACTORS_POLICY_USER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/simulation/actors/user_calls.h"

namespace escapement::simulation {

class PolicyUser {
 public:
  struct Options {
    std::string id;
    int64_t limit_min = 1;  // of max_concurrent
    int64_t limit_max = 50;
    bool rates = true;                           // sometimes; else none has one
    absl::Duration rest_min = absl::Seconds(2);  // between two calls
    absl::Duration rest_max = absl::Seconds(12);
  };

  // `calls` outlives the user.
  PolicyUser(UserCalls& calls, Options options) : calls_(calls), options_(std::move(options)) {}
  void Start() { Create(); }
  // No more changes; a paused policy is resumed.
  void Calm() { calm_ = true; }
  // Deletes it, trying until nothing refers to it.
  void Finish() { finishing_ = calm_ = true; }
  bool made() const { return made_; }
  bool finished() const { return finished_; }
  std::string name() const { return "tenants/default/policies/" + options_.id; }

  // Answers that a user had no reason to expect.
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  void Next();
  void Create();
  void Update();
  void Pause();
  void Resume();
  void Delete();
  void DrawLimits(v1::ThrottlePolicy* policy);
  void Known(absl::string_view call, const absl::Status& status, std::function<void()> then);

  UserCalls& calls_;
  const Options options_;
  bool made_ = false;
  bool paused_ = false;
  bool calm_ = false;
  bool finishing_ = false;
  bool finished_ = false;
  std::vector<std::string> complaints_;
};

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_ACTORS_POLICY_USER_H_
