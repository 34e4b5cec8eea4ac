// The casts: who takes part in a run, for how long, what users and consumers are like, and what
// goes wrong.
//
// Pure.

#ifndef TESTS_SIMULATION_CAST_H_
#define TESTS_SIMULATION_CAST_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tests/simulation/actors/consumer.h"
#include "tests/simulation/actors/worker.h"
#include "tests/simulation/world/fault_plan.h"

namespace escapement::simulation {

enum class Cast {
  kPlain,      // schedules whose events go out as they fall due, and one-off events
  kThrottled,  // token managers, policies, and schedules of which most are throttled
  kBatches,    // the same with 20,000 events in four runs, and with many kills
  kClocks,     // as kPlain, while the store's wall clock is set back and forth
  kTimes,      // as kPlain; schedules of all kinds with all policies, and times without emitters
  kWhole,      // all of them together for as long as is wished, but for the clock's great leaps
  kMixed,      // as kWhole; the throttled ones are of all kinds, too, with all policies
};

// Of `name` ("plain", "throttled", …); nothing if there is none.
std::optional<Cast> CastNamed(absl::string_view name);
absl::string_view NameOf(Cast cast);
// CastOptions::length says how long.
bool LastsAsWished(Cast cast);

struct CastOptions {
  Cast cast = Cast::kPlain;
  uint64_t seed = 1;
  bool faults = true;
  absl::Duration length = absl::Minutes(10);  // of kWhole and kMixed
};

struct CastPlan {
  // Since the run began. Between the two nothing goes wrong; then the schedules are deleted.
  absl::Duration faults_end;
  absl::Duration users_end;
  bool tokens = false;    // token managers and policies
  bool calendar = false;  // definitions of all kinds, backfills, and all that commits say of them
  bool mixed = false;     // so are throttled definitions; more cron expressions
  bool cancels = false;   // users cancel runs
  bool clock_leaps = false;  // the store's wall clock is set by `clock_step`
  bool batches = false;
  bool only_downtimes = false;  // nothing goes wrong but that emitters are down
  absl::Duration clock_step;

  // Drawn: from `least` to `most`.
  struct Number {
    int least = 0;
    int most = 0;
  };
  Number schedules;  // that are not throttled
  Number throttled_schedules;
  Number policies;
  int64_t count_max = 40;              // events of a run
  int64_t throttled_count_max = 2000;  // of a throttled one
  int event_users = 0;
  int event_calls = 0;  // of each
  // Between two calls of a user of a schedule that is not throttled.
  absl::Duration rest_min = absl::Seconds(1);
  absl::Duration rest_max = absl::Seconds(9);

  ConsumerHabits consumer;
  WorkHabits work;
  Number faults;
  Number downtimes;
  FaultPlan::Options fault_plan;  // but for these two
};

CastPlan PlanOf(const CastOptions& options);

// When the world of the seed begins: an ordinary day, changes of clocks, the end of a year.
absl::Time BeginOf(uint64_t seed);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CAST_H_
