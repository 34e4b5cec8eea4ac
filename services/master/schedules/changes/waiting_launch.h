// A launch record that has fallen due while its schedule was paused. Plain value.

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_WAITING_LAUNCH_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_WAITING_LAUNCH_H_

#include <string>

#include "common/storage/children_table.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement::master {

struct WaitingLaunch {
  LaunchKey key;
  std::string bytes;  // as stored
  storage::v1::LaunchRecord record;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_WAITING_LAUNCH_H_
