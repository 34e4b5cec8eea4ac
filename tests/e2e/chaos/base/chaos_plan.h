// The faults of one run with real processes and their times, drawn from a seed.
//
// Pure.

#ifndef TESTS_E2E_CHAOS_BASE_CHAOS_PLAN_H_
#define TESTS_E2E_CHAOS_BASE_CHAOS_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/e2e/chaos/base/cutting_proxy.h"

namespace escapement::chaos {

struct Fault {
  enum class Kind : uint8_t {
    kKill,       // SIGKILL, and a restart at the end
    kPause,      // SIGSTOP, and SIGCONT at the end
    kTerminate,  // SIGTERM; a restart at the end, or once it has drained
    kCut,        // a link is cut, and healed at the end
    kForget,     // SIGKILL; at the end the data folder is deleted, and the process restarted
    kPromote,    // the database's primary is lost for good, and its standby promoted
    kSplit,      // the standby is promoted while the primary lives on, until the end
  };
  Kind kind = Kind::kKill;
  std::string victim;  // a process, or a link
  absl::Duration begin, end;
  Cut cut = Cut::kNone;
  bool reset = false;  // the link's connections are reset when it is healed
};

struct PlanOptions {
  uint64_t seed = 1;
  absl::Duration begin = absl::Seconds(4);
  absl::Duration end = absl::Seconds(90);  // all faults are over by then
  int kills = 25;
  int pauses = 6;
  int terminations = 3;
  int cuts = 12;
  absl::Duration pause_max = absl::Seconds(6);
  absl::Duration down_max = absl::Seconds(2);  // until a killed process is restarted
  absl::Duration cut_max = absl::Seconds(8);
  std::vector<std::string> processes;  // names, with "store" among them: "handler", "handler.2" …
  std::vector<std::string> links;
};

// The faults in order of their begin. Faults of one victim do not overlap. The kinds are spread
// over the whole time. Every process is equally likely to be a victim.
std::vector<Fault> PlanChaos(const PlanOptions& options);

std::string Describe(const Fault& fault);

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_BASE_CHAOS_PLAN_H_
