// Definitions that use everything that docs/time.md describes, drawn at random.

#ifndef TESTS_SIMULATION_WORLD_DRAW_TIMES_H_
#define TESTS_SIMULATION_WORLD_DRAW_TIMES_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/sim/sim_random.h"
#include "escapement/v1/resources.pb.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// `definition` has a cron expression with many occurrences a minute, or with one or none
// (`frequent` false), a zone and a count; it becomes an interval or a list of instants, or stays
// what it is, and gets restrictions and policies. It has an occurrence more than 20 s after `now`
// that max_runs may take from it.
void DrawTimes(sim::SimRandom& random, absl::Time now, bool frequent, Definition* definition);

// May it have its last occurrence soon? `made`: when the schedule was.
bool MayFinish(const Definition& definition, absl::Time made, absl::Time now);

// When it fires, and the policies of that; a cron expression by its fields if `by_fields`.
void SetTimes(const Definition& definition, bool by_fields, v1::Schedule* schedule);
// The paths of an update to it.
std::vector<std::string> TimesPaths(const v1::Schedule& schedule);

google::protobuf::Timestamp ToTimestamp(absl::Time time);

// "every 3s from …, max_runs 4, …"
std::string Describe(const Definition& definition);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_WORLD_DRAW_TIMES_H_
