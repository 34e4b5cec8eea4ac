// A user who makes a policy; changes its limits, pauses and resumes it while events wait and are
// out; and deletes it once nothing refers to it.
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
    int64_t limit_min = 1;  // least max_concurrent that it sets
    int64_t limit_max = 50;
    int64_t key_limit_min = 1;                   // least max_concurrent of keys
    bool rates = true;                           // sets a rate sometimes; if false, never
    absl::Duration rest_min = absl::Seconds(2);  // between two calls
    absl::Duration rest_max = absl::Seconds(12);
  };

  // `calls` outlives the user.
  PolicyUser(UserCalls& calls, Options options) : calls_(calls), options_(std::move(options)) {}
  void Start() { Create(); }
  // Makes no more changes, and resumes a paused policy.
  void Calm() { calm_ = true; }
  // Deletes the policy, and repeats that until nothing refers to it.
  void Finish() { finishing_ = calm_ = true; }
  bool made() const { return made_; }
  bool finishing() const { return finishing_; }
  bool finished() const { return finished_; }
  std::string name() const { return calls_.parent() + "/policies/" + options_.id; }

  // Answers that the user did not expect.
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  void Next();
  void Create();
  void Update();
  void Override();
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
