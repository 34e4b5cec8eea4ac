// The judge of the demo: pure functions that compare the arrivals with what had to arrive.

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
  // Lateness of each event's first arrival: arrival less launch time.
  int64_t p50_micros = 0;
  int64_t p99_micros = 0;
  int64_t max_micros = 0;
  std::vector<std::string> problems;  // empty if everything held
  std::vector<std::string> figures;   // shown below the line in any case
};

// Occurrences that did not fire, by the platform's record.
struct Skipped {
  int64_t first_micros = 0;  // nominal times
  int64_t last_micros = 0;
  int64_t count = 1;  // > 1: a summary
  std::string reason = {};
};

// Facts about a schedule whose occurrences are over.
struct OccurrenceFacts {
  std::set<int64_t> due = {};         // nominal times of all its occurrences
  std::vector<Skipped> skipped = {};  // by the platform's own record, as all below
  std::set<int64_t> completed = {};   // nominal times of runs that succeeded
  // The only reason allowed in `skipped`; empty: nothing may be skipped.
  std::string reason = {};
  int64_t apart_micros = 0;  // least distance between the begins of two runs
};

// Facts about a finished batch under a policy.
struct ThrottleFacts {
  int64_t concurrent = 0;    // the policy's limit
  int64_t out_max = 0;       // most distinct events out at once, as the consumer saw it
  int64_t out_left = 0;      // out at the end
  double ideal_seconds = 0;  // events × work / limit
  double took_seconds = 0;   // from the due time to the last end
  double allowed_seconds = 0;
  double busy = 0;         // used part of the limit, from the first event to the last
  bool completed = false;  // by the platform's own record, as all below
  int64_t succeeded = 0;
  int64_t others = 0;  // events that ended otherwise
};

// Requires exactly one event for each of `instants` (launch times), no other event, one body for
// each id, and no early event. A second arrival of an id is a problem unless `again_allowed`.
Verdict JudgeInstants(std::string what, const std::vector<Arrival>& arrivals,
                      const std::set<int64_t>& instants, bool again_allowed);

// Requires exactly one event for each of `due` that was not skipped, and one record for each that
// was; the rest as above. Launch times are nominal times: there is no jitter.
Verdict JudgeOccurrences(std::string what, const std::vector<Arrival>& arrivals,
                         const OccurrenceFacts& facts);

// Requires for a run of n events exactly one id for each index from 0 to n - 1; the rest as above.
Verdict JudgeBatch(std::string what, const std::vector<Arrival>& arrivals, uint64_t n,
                   bool again_allowed);

// Adds to the verdict of a batch: never more events out than allowed; all tokens given back in
// time; and all of verdict->expected ended as succeeded.
void JudgeThrottle(const ThrottleFacts& facts, Verdict* verdict);

// The table for people: one line for each verdict, with its problems below.
std::string FormatVerdicts(const std::vector<Verdict>& verdicts);

}  // namespace escapement::e2e

#endif  // TESTS_E2E_JUDGE_H_
