// A user who makes a schedule and changes, pauses, resumes and triggers it at random. Sometimes the
// user deletes it and makes it again; in the end the user deletes it.
//
// Threads: the world's.

#ifndef TESTS_SIMULATION_ACTORS_SCHEDULE_USER_H_
#define TESTS_SIMULATION_ACTORS_SCHEDULE_USER_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/sim/sim_random.h"
#include "escapement/v1/resources.pb.h"
#include "tests/simulation/actors/user_calls.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

class ScheduleUser {
 public:
  // For schedules whose events wait for tokens.
  struct Throttling {
    std::vector<std::string> policies;  // full names; not empty
    std::function<bool()> ready;        // true once the policies exist
    bool several = false;               // some schedules have several limits
    int64_t count_max = 2000;
    int64_t batch = 0;  // if > 0, every definition has this many events
  };
  struct Options {
    std::string id;
    absl::Duration first_call_max = absl::Seconds(12);  // the schedule is made within this time
    absl::Duration rest_min = absl::Seconds(1);         // between two calls
    absl::Duration rest_max = absl::Seconds(9);
    bool changes = true;  // if false, it is only made and deleted
    // Definitions have at most 100 occurrences in this time; zero: no such limit.
    absl::Duration leap = absl::ZeroDuration();
    int64_t count_max = 40;
    // Definitions of all kinds with all policies, and backfills.
    bool times = false;
    bool cancels = false;       // cancels runs, too
    bool minute_lists = false;  // with `times`: also cron expressions that need several children
    std::vector<std::string> zones;  // not empty
    std::optional<Throttling> throttling = std::nullopt;
    std::string target = "consumer.test";
    int64_t kind = 0;  // the target's (TargetOfKind)
  };

  // `calls` outlives the user.
  ScheduleUser(UserCalls& calls, Options options) : calls_(calls), options_(std::move(options)) {}
  void Start();
  // Deletes the schedule as its last call. A call that is under way is finished first.
  void Finish() { finishing_ = true; }
  bool finished() const { return finished_; }

  const std::vector<ScheduleLife>& lives() const { return lives_; }
  // Answers that the user did not expect.
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  enum class State { kNone, kEnabled, kPaused };

  void Next();
  void Create();
  void Update();
  void Pause();
  void Resume();
  void Delete();
  void Trigger();
  void BackfillRange();
  void CancelRun();
  void CancelOne(const std::string& run);
  template <typename T>
  void Change(ScheduleChange change, State state, UserCalls::Invoke<T> invoke,
              std::function<void(const T&)> then = nullptr);
  void Complain(absl::string_view call, const absl::Status& status);

  Definition DrawDefinition();
  void DrawThrottle(bool* frequent, Definition* definition);
  void DrawWindow(Definition* definition);
  std::string DrawCron(bool* frequent);
  std::string DrawMinuteList();
  v1::Schedule Message(const Definition& definition);
  std::string Name() const { return calls_.parent() + "/schedules/" + options_.id; }

  UserCalls& calls_;
  const Options options_;
  State state_ = State::kNone;
  bool finishing_ = false;
  bool finished_ = false;
  int definitions_ = 0;
  Definition current_;
  v1::Schedule throttle_;  // policy, window and completion of the last definition
  bool may_drop_ = false;  // whether any definition so far may drop events
  std::vector<ScheduleLife> lives_;
  std::vector<std::string> complaints_;
};

// Draws definitions at random that use everything described in docs/time.md.

// Changes `definition`, which has a cron expression, a zone and a count. The expression has many
// occurrences a minute if `frequent`, else one or none. The definition may become an interval or a
// list of instants, and gets restrictions and policies. It keeps an occurrence more than 20 s after
// `now`, which only max_runs may remove.
void DrawTimes(sim::SimRandom& random, absl::Time now, bool frequent, Definition* definition);

// True if the definition may have its last occurrence soon. `made`: when the schedule was made.
bool MayFinish(const Definition& definition, absl::Time made, absl::Time now);

// Sets when the schedule fires, with its policies. `by_fields`: a cron expression is given as
// fields.
void SetTimes(const Definition& definition, bool by_fields, v1::Schedule* schedule);
// The field paths of an update that sets those times.
std::vector<std::string> TimesPaths(const v1::Schedule& schedule);

google::protobuf::Timestamp ToTimestamp(absl::Time time);

// "every 3s from …, max_runs 4, …"
std::string Describe(const Definition& definition);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_ACTORS_SCHEDULE_USER_H_
