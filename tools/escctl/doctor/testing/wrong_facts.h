// Facts of installations for tests of `escctl doctor`: a healthy one, and some that are wrong.

#ifndef TOOLS_ESCCTL_DOCTOR_TESTING_WRONG_FACTS_H_
#define TOOLS_ESCCTL_DOCTOR_TESTING_WRONG_FACTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/escctl/doctor/diagnosis.h"

namespace escapement::escctl::testing {

inline const absl::Time kDoctorNow = absl::FromUnixSeconds(1'800'000'000);

// Nothing is wrong: a replicated store of two replicas, one tenant, and a process of each program.
Facts HealthyFacts();

// Adds a process with these metrics.
void AddProcess(Facts& facts, const std::string& url, absl::string_view metrics);

// Installations that have every kind of finding together.
std::vector<Facts> WrongFacts();

}  // namespace escapement::escctl::testing

#endif  // TOOLS_ESCCTL_DOCTOR_TESTING_WRONG_FACTS_H_
