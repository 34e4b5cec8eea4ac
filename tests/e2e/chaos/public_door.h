// PublicDoor: one master or token manager over gRPC, in the form in which the simulation's users
// and workers call it.
//
// A call has the deadline kCallMax. If its result stays open (deadline, cancelled or broken call),
// it returns UNAVAILABLE. One-off events for http://consumer.test are sent to a real receiver.
//
// Threads: called on the world's thread, and answers on it.

#ifndef TESTS_E2E_CHAOS_PUBLIC_DOOR_H_
#define TESTS_E2E_CHAOS_PUBLIC_DOOR_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/tokens/token_door.h"
#include "services/master/api/master_apis.h"
#include "tests/e2e/chaos/live_world.h"

namespace escapement::chaos {

inline constexpr absl::Duration kCallMax = absl::Seconds(2);

class PublicDoor {
 public:
  // `live` outlives it. `address` is "host:port". `one_off_target` is the receiver's address.
  PublicDoor(LiveWorld& live, const std::string& address, std::string one_off_target);
  ~PublicDoor();  // waits for the calls under way
  PublicDoor(const PublicDoor&) = delete;
  PublicDoor& operator=(const PublicDoor&) = delete;

  master::ScheduleApi& schedules();
  master::EventApi& events();
  master::PolicyApi& policies();
  TokenApi& tokens();

 private:
  class Calls;
  class Schedules;
  class Events;
  class Policies;
  class Tokens;
  std::unique_ptr<Calls> calls_;
  std::unique_ptr<Schedules> schedules_;
  std::unique_ptr<Events> events_;
  std::unique_ptr<Policies> policies_;
  std::unique_ptr<Tokens> tokens_;
};

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_PUBLIC_DOOR_H_
