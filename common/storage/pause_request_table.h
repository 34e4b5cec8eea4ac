// The column family `pause_requests`: schedules that handlers want paused, because their targets
// are gone for good.
//
// pause_requests: uid of the schedule (16 bytes) → PauseRequestRecord

#ifndef COMMON_STORAGE_PAUSE_REQUEST_TABLE_H_
#define COMMON_STORAGE_PAUSE_REQUEST_TABLE_H_

#include <string>

#include "common/base/uid.h"

namespace escapement {

std::string PauseRequestKey(const Uid& schedule);

}  // namespace escapement

#endif  // COMMON_STORAGE_PAUSE_REQUEST_TABLE_H_
