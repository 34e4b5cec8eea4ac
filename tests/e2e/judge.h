// The judge of the demo: what arrived against what had to, in pure functions.

#ifndef TESTS_E2E_JUDGE_H_
#define TESTS_E2E_JUDGE_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace escapement::e2e {

// One delivery as the consumer noted it. Times in microseconds since 1970.
struct Arrival {
  std::string event_id;
  int64_t index = 0;
  int64_t launch_micros = 0;
  int64_t wall_micros = 0;
  std::string body_hash;
};

struct Verdict {
  std::string what;
  uint64_t expected = 0;
  uint64_t events = 0;  // distinct ids
  uint64_t again = 0;   // further arrivals of an id
  uint64_t early = 0;   // arrivals before their launch time
  // Of each event's first arrival after its launch time.
  int64_t p50_micros = 0;
  int64_t p99_micros = 0;
  int64_t max_micros = 0;
  std::vector<std::string> problems;  // empty: all held
  std::vector<std::string> figures;   // shown below the line, whatever the verdict
};

// Occurrences that set off nothing, as the platform's record says.
struct Skipped {
  int64_t first_micros = 0;  // nominal times
  int64_t last_micros = 0;
  int64_t count = 1;  // > 1: a summary
  std::string reason = {};
};

// What is known of a schedule whose occurrences are over.
struct OccurrenceFacts {
  std::set<int64_t> due = {};         // nominal times, all that it had
  std::vector<Skipped> skipped = {};  // by the platform's own record, as what follows
  std::set<int64_t> completed = {};   // nominal times of runs that have ended with success
  std::string reason = {};            // the only one that `skipped` may have; empty: none may be
  int64_t apart_micros = 0;           // no two runs begin nearer to each other
};

// What is known of a batch under a policy when it is over.
struct ThrottleFacts {
  int64_t concurrent = 0;    // the policy's limit
  int64_t out_max = 0;       // most distinct events out at once, as the consumer saw it
  int64_t out_left = 0;      // out at the end
  double ideal_seconds = 0;  // events × work / limit
  double took_seconds = 0;   // from the due time until the last one had ended
  double allowed_seconds = 0;
  double busy = 0;         // part of the limit that was out, first to last event
  bool completed = false;  // by the platform's own record, as what follows
  int64_t succeeded = 0;
  int64_t others = 0;  // ended otherwise
};

// Exactly one event for each of `instants` (launch times), none for another, each id with one body,
// none early. Arrivals of an id after the first are a problem unless `again_allowed`.
Verdict JudgeInstants(std::string what, const std::vector<Arrival>& arrivals,
                      const std::set<int64_t>& instants, bool again_allowed);

// Exactly one event for each of `due` that was not skipped, and one record for each that was; the
// rest as above. Launch times are nominal times: there is no jitter.
Verdict JudgeOccurrences(std::string what, const std::vector<Arrival>& arrivals,
                         const OccurrenceFacts& facts);

// A run of n events: each index from 0 to n - 1 exactly one id, and the rest as above.
Verdict JudgeBatch(std::string what, const std::vector<Arrival>& arrivals, uint64_t n,
                   bool again_allowed);

// Adds to the verdict of a batch: never more out than allowed, all given back, in time, and all of
// verdict->expected ended as succeeded.
void JudgeThrottle(const ThrottleFacts& facts, Verdict* verdict);

// The table for people, one line a verdict, problems below it.
std::string FormatVerdicts(const std::vector<Verdict>& verdicts);

}  // namespace escapement::e2e

#endif  // TESTS_E2E_JUDGE_H_
