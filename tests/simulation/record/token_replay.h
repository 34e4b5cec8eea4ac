// TokenReplay: replays commits in order. Knows which events wait, which hold tokens and which have
// ended.
//
// Pure.

#ifndef TESTS_SIMULATION_RECORD_TOKEN_REPLAY_H_
#define TESTS_SIMULATION_RECORD_TOKEN_REPLAY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

class TokenReplay {
 public:
  // Uid and occurrence; of a one-off event nothing and its id.
  using Run = std::pair<std::string, std::string>;
  // Names the run of a receipt or of a row of Done.
  template <typename Event>
  static Run RunOf(const Event& event) {
    return {event.uid, event.uid.empty() ? event.event_id : event.occurrence};
  }

  // The state of an event: how many rows of `waiting` and how many grants have it, and how often it
  // has ended. `grant` is the last of its grants.
  struct Place {
    uint16_t waiting = 0;
    uint16_t held = 0;
    uint16_t ended = 0;
    GrantName grant = {};
  };
  struct Grant {
    Run run;
    std::vector<LimitOf> limits;  // that of its policy first
    bool asleep = false;          // until its next attempt
    std::vector<Indices> holders;
    absl::Time grant_time;
    absl::Time return_due;
    absl::Time send_before;
  };
  struct HolderChange {
    GrantName grant;
    Run run;
    Indices events;
    bool fresh = false;   // only for `added`: this commit made the grant
    bool reused = false;  // only for `added`: the grant's name had been used and given up
    absl::Time grant_time;
    absl::Time return_due;
    std::vector<LimitOf> limits = {};
    bool asleep = false;
    bool kept = false;  // only for `added`: it is, or was in this commit, asleep
  };
  struct RowChange {
    Run run;
    Indices events;
  };
  struct Changes {
    std::vector<HolderChange> added,
        removed;                           // as far as they lie between the commit's begin and end
    std::vector<HolderChange> woken;       // holders that slept and are claimed now
    std::vector<RowChange> waiting_added;  // events in new rows of `waiting`
  };

  Changes Apply(const Commit& commit);

  const std::map<std::string, PolicyWrite>& policies() const { return policies_; }
  // Tokens, as the events weigh.
  uint64_t held(const std::string& policy) const;
  // Only those that count under this key.
  uint64_t held_of(const std::string& policy, const std::string& policy_key) const;
  // By key; none is 0.
  std::map<std::string, uint64_t> held_by_key(const std::string& policy) const;
  // Waiting rows of a policy by key; nullptr if it has none.
  const std::map<std::string, RowWrite>* waiting(const std::string& policy) const;
  // True if the run's schedule is enabled, or if the run was triggered after the pause.
  bool goes_on(const Run& run) const;
  const Grant* grant(const GrantName& name) const;
  Place place(const Run& run, uint64_t index) const;
  // True if an event has waited that needs several tokens at once.
  bool several() const { return several_; }
  // The limits with which the run's rows of `waiting` have been written.
  const std::set<std::vector<LimitOf>>& limits_of(const Run& run) { return limits_of_[run]; }
  // True if the run has ever waited. Only such runs have places.
  bool throttled(const Run& run) const { return runs_.count(run) > 0; }

 private:
  void Write(const PolicyWrite& write);
  void Write(const ScheduleStateWrite& write) { states_[write.uid] = write; }
  void Write(const GrantWrite& write, std::map<GrantName, Grant>* before);
  void Write(const RowWrite& write, Changes* changes);
  void Write(const EndWrite& write);
  void Count(const Run& run, const Indices& events, uint16_t Place::*field, int by);
  void Hold(const std::vector<LimitOf>& limits, uint64_t events, bool hold);
  void AddChanges(const std::map<GrantName, Grant>& before, Changes* changes);

  std::map<std::string, PolicyWrite> policies_;
  std::map<std::string, ScheduleStateWrite> states_;  // by uid
  std::map<Run, absl::Time> trigger_times_;           // only for runs that were triggered
  std::map<GrantName, Grant> grants_;
  std::map<GrantName, bool> given_up_;
  std::map<std::string, uint64_t> held_;
  std::map<std::string, std::map<std::string, uint64_t>> held_by_key_;  // by policy
  std::map<std::string, std::map<std::string, RowWrite>> waiting_;      // by policy
  std::map<Run, std::vector<Place>> runs_;
  std::map<Run, std::set<std::vector<LimitOf>>> limits_of_;
  bool several_ = false;
  std::set<GrantName> slept_;  // grants that the commit has put to sleep
};

// All limits of a row or grant of the policy.
template <typename Write>
std::vector<LimitOf> LimitsOf(const std::string& policy, const Write& write) {
  std::vector<LimitOf> limits = {{policy, write.policy_key, write.weight}};
  limits.insert(limits.end(), write.further.begin(), write.further.end());
  return limits;
}

// The owner of a policy may know its overrides to end, or not to have ended, so much later.
inline constexpr absl::Duration kOverrideEndsLate = absl::Seconds(5);
// max_concurrent of the policy, or of the key, at `now`; nullopt: no limit.
std::optional<uint64_t> MaxConcurrent(const PolicyWrite& policy,
                                      const std::optional<std::string>& key, absl::Time now);
// The greatest that any override in the policy's record may have set.
std::optional<uint64_t> MaxConcurrentEver(const PolicyWrite& policy,
                                          const std::optional<std::string>& key);

// The parts of `from` that are in no part of `without`.
std::vector<Indices> Without(const Indices& from, const std::vector<Indices>& without);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_RECORD_TOKEN_REPLAY_H_
