// What one incarnation of a schedule was meant to be, from moment to moment: its versions with
// their occurrences by the naive expander, and the phases between its changes.
//
// A change takes effect somewhere between its call and its answer: what falls due in between may
// follow either side.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_MODEL_LIFE_MODEL_H_
#define TESTS_SIMULATION_CHECKERS_MODEL_LIFE_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// Events are claimed up to this much ahead of their time where commits are slow (the longest lead
// and tick of a claim, and 5 ms), and what was claimed before a change is sent after it if its
// handler has not heard of the change by then.
inline constexpr absl::Duration kClaimLead = absl::Milliseconds(275);

class LifeModel {
 public:
  struct Version {
    Definition definition;
    absl::Time called, answered;                    // it became the current one between them
    std::map<std::string, absl::Time> occurrences;  // by id, also outside its own time
    std::vector<absl::Time> instants;               // of those, ascending
  };

  // What the schedule is between two changes.
  struct Phase {
    bool enabled = false;
    bool paused = false;
    size_t version = 0;                    // index in versions()
    absl::Time begins_first, begins_last;  // its begin lies between them
    absl::Time ends_first, ends_last;
    // Of a paused one: it ends with a resume, or with an update that takes over (what fell due
    // until then is skipped). Either way what falls due in it is owed.
    bool resumed = false;
    bool replaced = false;  // surely: by other times
    bool updated = false;
    bool owed() const { return resumed || replaced; }
    // Of max_runs so many have been used when it begins, at least and at most.
    int64_t used_low = 0, used_high = 0;

    bool May(absl::Time t) const { return t >= begins_first && t < ends_last; }
  };

  // `end`: of the history.
  LifeModel(const ScheduleLife& life, absl::Time end);

  const std::vector<Version>& versions() const { return versions_; }
  const std::vector<Phase>& phases() const { return phases_; }

  // Has the version in force in this phase the occurrence, which is due at `due`? max_runs may
  // leave that open.
  bool MayHave(const Phase& phase, const std::string& id, absl::Time due) const;
  bool SurelyHas(const Phase& phase, const std::string& id, absl::Time due) const;

  // Null if there is none of this number (versions count from 1).
  const Version* Numbered(uint64_t number) const {
    return number == 0 || number > versions_.size() ? nullptr : &versions_[number - 1];
  }

 private:
  void MakePhases(const ScheduleLife& life, absl::Time end);
  void MarkPauses();
  void Expand(const ScheduleLife& life);
  void CountRuns();
  int64_t CountIn(const Phase& phase, absl::Time begin, absl::Time end) const;

  std::vector<Version> versions_;
  std::vector<Phase> phases_;
};

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_MODEL_LIFE_MODEL_H_
