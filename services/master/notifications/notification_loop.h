// NotificationLoop: checks all subscriptions of all tenants, one after the other, again and again.
// Every master does it; a check that another master has just made is left out
// (subscription_check.h).
//
// Each check is followed by a pause of kNotifyShare times its own time, at most kNotifyPauseMax,
// and each round by one of `every`. So checks take less than a twentieth of a core, and problems
// are found later if there are very many schedules.
//
// Threads: the context's executor.

#ifndef SERVICES_MASTER_NOTIFICATIONS_NOTIFICATION_LOOP_H_
#define SERVICES_MASTER_NOTIFICATIONS_NOTIFICATION_LOOP_H_

#include <deque>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "services/master/notifications/subscription_check.h"

namespace escapement::master {

class NotificationLoop {
 public:
  // The parts of `world` outlive the loop. The context's executor is stopped before it is
  // destroyed. `every`: the pause between two rounds; zero: it does nothing.
  NotificationLoop(SubscriptionWorld world, absl::Duration every) : world_(world), every_(every) {}

  void Start() {
    if (every_ > absl::ZeroDuration()) Rest();
  }

 private:
  void Rest();
  void Read(std::string begin);
  void CheckNext();

  const SubscriptionWorld world_;
  const absl::Duration every_;
  std::shared_ptr<void> check_;  // under way
  std::deque<kv::Entry> rows_;   // subscriptions that are to be checked
  std::string rest_;             // then those from this key on; empty: there are no more
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_NOTIFICATIONS_NOTIFICATION_LOOP_H_
