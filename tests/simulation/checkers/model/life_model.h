// The intended state of one incarnation of a schedule over time: its versions, with their
// occurrences by the naive expander, and the phases between its changes.
//
// A change takes effect somewhere between its call and its answer. An occurrence due in between may
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

// With slow commits, events are claimed up to this much ahead of their time: the longest lead and
// tick of a claim, and 5 ms. Events claimed before a change are sent after it if the handler does
// not know the change yet.
inline constexpr absl::Duration kClaimLead = absl::Milliseconds(275);

class LifeModel {
 public:
  struct Version {
    Definition definition;
    absl::Time called, answered;                    // it came into force between them
    std::map<std::string, absl::Time> occurrences;  // by id, also outside its time in force
    std::vector<absl::Time> instants;               // times of `occurrences`, ascending
  };

  // The state of the schedule between two changes.
  struct Phase {
    bool enabled = false;
    bool paused = false;
    size_t version = 0;                    // index in versions()
    absl::Time begins_first, begins_last;  // bounds of its begin
    absl::Time ends_first, ends_last;
    // Only for a paused phase. It ends with a resume, or with an update that takes over and skips
    // the occurrences due until then. Either way these occurrences must have an outcome.
    bool resumed = false;
    bool replaced = false;  // an update surely changed the times
    bool updated = false;
    bool owed() const { return resumed || replaced; }
    // Bounds of how many of max_runs are used when the phase begins.
    int64_t used_low = 0, used_high = 0;

    bool May(absl::Time t) const { return t >= begins_first && t < ends_last; }
  };

  // `end`: end of the history.
  LifeModel(const ScheduleLife& life, absl::Time end);

  const std::vector<Version>& versions() const { return versions_; }
  const std::vector<Phase>& phases() const { return phases_; }

  // Whether the version of this phase has the occurrence that is due at `due`. max_runs may leave
  // that open: then MayHave is true and SurelyHas false.
  bool MayHave(const Phase& phase, const std::string& id, absl::Time due) const;
  bool SurelyHas(const Phase& phase, const std::string& id, absl::Time due) const;

  // Versions count from 1. Null if there is no such version.
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
