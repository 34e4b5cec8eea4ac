// Work that a process of the store does instead of serving, because a flag asks for it: --migrate,
// --move_into_log, --move_out_of_log.

#ifndef SERVICES_STORE_SERVICE_STORE_TASKS_H_
#define SERVICES_STORE_SERVICE_STORE_TASKS_H_

#include <functional>

#include "absl/status/status.h"
#include "common/runtime/runtime.h"

namespace escapement::store {

// Null if no flag asks for anything.
std::function<absl::Status(Runtime&)> StoreTaskFromFlags();

}  // namespace escapement::store

#endif  // SERVICES_STORE_SERVICE_STORE_TASKS_H_
