// Draws definitions at random that use everything described in docs/time.md.

#ifndef TESTS_SIMULATION_ACTORS_DRAW_TIMES_H_
#define TESTS_SIMULATION_ACTORS_DRAW_TIMES_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/sim/sim_random.h"
#include "escapement/v1/resources.pb.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

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

#endif  // TESTS_SIMULATION_ACTORS_DRAW_TIMES_H_
