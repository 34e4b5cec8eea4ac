// EmitterWorld with schedules that have an overlap policy, and a hand that ends their runs as
// handlers do.

#ifndef SERVICES_EMITTER_TESTING_LAUNCH_WORLD_H_
#define SERVICES_EMITTER_TESTING_LAUNCH_WORLD_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/storage/children_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/emitter/testing/emitter_world.h"

namespace escapement::emitter {

class LaunchWorld : public EmitterWorld {
 protected:
  // Five seconds before start_.
  LaunchWorld();
  // Starts emitter "a"; it is start_ then.
  void Begin();

  Uid AddOverlapping(const std::string& cron, storage::v1::RunOverlapKind policy,
                     uint64_t event_count = 1,
                     const std::function<void(storage::v1::DefinitionRecord&)>& adjust = nullptr);

  // Another state of the schedule, as the master writes it.
  void SetState(const Uid& uid, storage::v1::ScheduleStateKind kind);
  // A new version of the definition; what it adds before planned_to is not emitted.
  void Update(const Uid& uid,
              const std::function<void(storage::v1::DefinitionRecord&)>& adjust = nullptr);
  // The state as it is stored.
  storage::v1::StateRecord StoredState(const Uid& uid) const;

  // A run that is active for another reason than the schedule's times.
  void AddTriggeredRun(const Uid& uid, const std::string& occurrence);
  // All events of the run have ended; their rows are gone.
  void EndRun(const Uid& uid, const std::string& occurrence);
  // Advances time, and ends each run that has been active for `run_length`, except those in
  // `hung_`.
  void AdvanceWithRuns(absl::Duration duration, absl::Duration run_length);

  // The UTC occurrence so long after start_.
  std::string At(absl::Duration after_start) const;
  std::set<std::string> Active(const Uid& uid) const;   // occurrences of active runs
  std::set<std::string> Waiting(const Uid& uid) const;  // keys of launch records
  // By occurrence: when its first row became durable, and its lane.
  struct Launched {
    absl::Time at;
    uint8_t lane = 0;
  };
  std::map<std::string, Launched> LaunchedRuns(const Uid& uid) const;
  // By occurrence: the reason.
  std::map<std::string, std::string> Skipped(const Uid& uid) const;

  const absl::Time start_ = Now() + absl::Seconds(10);
  std::set<std::string> hung_;  // occurrences

 private:
  std::map<std::string, absl::Time> active_since_;  // by key of the mark
};

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_TESTING_LAUNCH_WORLD_H_
