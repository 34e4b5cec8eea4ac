// The casts: who takes part in a run, how long it lasts, how users and consumers behave, and which
// faults happen.
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
  kPlain,       // events that go out as soon as they are due: schedules and one-off events
  kThrottled,   // token managers, policies, and mostly throttled schedules
  kBatches,     // as kThrottled, with 20,000 events in four runs and many kills
  kClocks,      // as kPlain, while the store's wall clock is set back and forth
  kTimes,       // as kPlain; schedules of all kinds with all policies; times without emitters
  kWhole,       // all of them for `length`, without the great leaps of the clock
  kMixed,       // as kWhole; throttled schedules are of all kinds with all policies, too
  kReplicated,  // as kWhole and kMixed in turn, over a store of several replicas
  kCells,       // as kWhole and kMixed in turn, in a cell other than the home cell
};

// The cast of this name ("plain", "throttled", …); nullopt if there is none.
std::optional<Cast> CastNamed(absl::string_view name);
absl::string_view NameOf(Cast cast);
// True if CastOptions::length decides how long a run of this cast lasts.
bool LastsAsWished(Cast cast);

struct CastOptions {
  Cast cast = Cast::kPlain;
  uint64_t seed = 1;
  bool faults = true;
  absl::Duration length = absl::Minutes(10);  // only for casts that last as wished
};

struct CastPlan {
  // Both count from the beginning of the run. Between them there are no faults. Schedules are
  // deleted after `users_end`.
  absl::Duration faults_end;
  absl::Duration users_end;
  bool tokens = false;  // token managers and policies
  // Definitions of all kinds, and backfills; commits say what becomes of occurrences.
  bool calendar = false;
  bool mixed = false;        // throttled definitions are of all kinds, too; more cron expressions
  bool cancels = false;      // users cancel runs
  bool clock_leaps = false;  // the store's wall clock is set by `clock_step`
  bool batches = false;
  bool replicated = false;  // the store is two or three replicas over one log
  // The store is that of cell 1, with the tenant of all users. Masters find it in the store of the
  // home cell, which has faults of its own.
  bool cells = false;
  // Each replica has clocks of its own. After an outage of all replicas store time may then be
  // behind true time, until a client that has lived through it commits or the store follows that as
  // a step. So due times are judged by store time.
  bool own_machines = false;
  bool only_downtimes = false;  // the only fault is that all emitters are down at times
  absl::Duration clock_step;

  // Drawn between `least` and `most`, both included.
  struct Number {
    int least = 0;
    int most = 0;
  };
  Number schedules;  // schedules without throttling
  Number throttled_schedules;
  Number policies;
  int64_t count_max = 40;              // events in a run
  int64_t throttled_count_max = 2000;  // events in a run of a throttled schedule
  int event_users = 0;
  int event_calls = 0;   // calls of each event user
  int event_owners = 0;  // some of their events are due a minute later than all others
  // How long a user of an unthrottled schedule rests between two calls.
  absl::Duration rest_min = absl::Seconds(1);
  absl::Duration rest_max = absl::Seconds(9);

  // One more schedule, all of whose attempts hang until it is deleted. Its target is also that of
  // others, and may have few events out.
  bool hanging = false;
  ConsumerHabits consumer;
  WorkHabits work;
  Number faults;
  Number downtimes;
  Number replica_faults;
  // Its numbers of faults, downtimes and replica faults are drawn from those above.
  FaultPlan::Options fault_plan;
};

CastPlan PlanOf(const CastOptions& options);

// The instant at which the seed's world begins: an ordinary day, a change of local clocks, or the
// end of a year.
absl::Time BeginOf(uint64_t seed);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CAST_H_
