// A user who asks for the account of all schedules now and then, and at last for that of the whole
// run. After the last one it also lists the runs and gets some of them. It keeps the answers.
//
// Threads: the world's.

#ifndef TESTS_SIMULATION_ACTORS_ACCOUNTANT_H_
#define TESTS_SIMULATION_ACTORS_ACCOUNTANT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "escapement/v1/schedule_service.pb.h"
#include "tests/simulation/actors/user_calls.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

class Accountant {
 public:
  struct Options {
    absl::Time begin;                            // when the run began
    absl::Duration rest_min = absl::Seconds(2);  // between two accounts
    absl::Duration rest_max = absl::Seconds(8);
    absl::Duration range = absl::Seconds(60);  // how far back each account but the last goes
    size_t gets_max = 200;                     // runs of the last account that it gets
  };

  // `calls` outlives the user.
  Accountant(UserCalls& calls, Options options) : calls_(calls), options_(options) {}
  void Start() { Rest(); }
  // It asks for the last account next.
  void Finish() { finishing_ = true; }
  bool finished() const { return finished_; }

  const std::vector<AccountSeen>& accounts() const { return accounts_; }
  // Answers that the user did not expect.
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  void Rest();
  void Ask();
  void AskPage(v1::ListOccurrencesRequest request);
  void OnAccount();
  void ListRuns(size_t schedule, std::string page_token);
  void GetRuns(size_t next);

  UserCalls& calls_;
  const Options options_;
  bool finishing_ = false;
  bool finished_ = false;
  std::vector<AccountSeen> accounts_;   // the last one may be under way
  std::vector<std::string> schedules_;  // the ids of the last account's, in order
  std::vector<std::string> complaints_;
};

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_ACTORS_ACCOUNTANT_H_
