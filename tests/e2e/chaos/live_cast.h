// LiveCast: the simulation's users, consumer and worker in a LiveWorld. They use real masters,
// token managers and handlers through their public doors.
//
// Threads: Addresses and ConnectTo before the world starts. The rest on the world's thread, or
// after the world has stopped.

#ifndef TESTS_E2E_CHAOS_LIVE_CAST_H_
#define TESTS_E2E_CHAOS_LIVE_CAST_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/sim/sim_network.h"
#include "common/sim/sim_process.h"
#include "tests/e2e/chaos/live_consumer.h"
#include "tests/e2e/chaos/live_world.h"
#include "tests/e2e/chaos/public_door.h"
#include "tests/simulation/actors/consumer.h"
#include "tests/simulation/actors/event_owner.h"
#include "tests/simulation/actors/event_user.h"
#include "tests/simulation/actors/policy_user.h"
#include "tests/simulation/actors/schedule_user.h"
#include "tests/simulation/actors/user_calls.h"
#include "tests/simulation/actors/worker.h"
#include "tests/simulation/record/history.h"

namespace escapement::chaos {

class LiveCast {
 public:
  struct Options {
    int schedules = 6;            // cron, intervals and instants, with all policies
    int throttled_schedules = 4;  // up to 400 events each, whose tokens are given back
    int policies = 2;
    int event_users = 2;
    int event_calls = 20;  // calls of each event user
    // There are as many owners of events. Until then they begin to ingest theirs.
    absl::Duration owners_begin = absl::Seconds(30);
  };

  // `live` outlives it.
  LiveCast(LiveWorld& live, const Options& options);
  ~LiveCast();

  // Begins to receive, at port().
  absl::Status Receive() { return receiver_.Start(); }
  const AttemptPort& port() const { return receiver_.port(); }

  struct Addresses {
    std::vector<std::string> masters;
    std::vector<std::string> token_managers;
    std::vector<std::string> consumers;  // targets of schedules
  };
  void ConnectTo(const Addresses& addresses);

  void Start();
  // From now on no consumer hangs, and no limit changes.
  void Calm();
  // Makes users end their calls and delete what they made.
  void Finish();
  bool finished() const;

  // Adds the observations, except the store's. Receipts are as the consumer wrote them.
  void Tell(simulation::History* history, std::vector<simulation::Violation>* violations) const;
  const std::vector<Attempt>& attempts() const { return receiver_.attempts(); }
  uint64_t calls() const;  // answered calls that changed schedules or made events

 private:
  void MakeUsers(const Addresses& addresses);
  std::vector<std::string> MakePolicies();

  LiveWorld& live_;
  const Options options_;
  sim::SimNetwork user_network_, owner_network_, consumer_network_;
  simulation::Consumer consumer_;
  sim::SimProcess user_process_;
  std::vector<std::unique_ptr<sim::SimProcess>> door_processes_;
  std::vector<std::unique_ptr<simulation::MasterApis>> apis_;
  std::vector<std::unique_ptr<simulation::UserCalls::Endpoint>> masters_;
  std::vector<std::unique_ptr<simulation::Worker::Door>> token_doors_;
  std::unique_ptr<simulation::Worker> worker_;
  std::unique_ptr<simulation::UserCalls> calls_, owner_calls_;
  std::vector<std::unique_ptr<simulation::ScheduleUser>> schedule_users_;
  std::vector<std::unique_ptr<simulation::EventUser>> event_users_;
  std::vector<std::unique_ptr<simulation::EventOwner>> event_owners_;
  std::vector<std::unique_ptr<simulation::PolicyUser>> policy_users_;
  LiveConsumer receiver_;
  // Destroyed first: they wait for their calls.
  std::vector<std::unique_ptr<PublicDoor>> doors_;
};

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_LIVE_CAST_H_
