// Flags of the processes that open the data folder: store and standalone.

#ifndef SERVICES_STORE_SERVICE_STORE_FLAGS_H_
#define SERVICES_STORE_SERVICE_STORE_FLAGS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/metrics/metrics.h"
#include "common/runtime/runtime.h"
#include "services/store/service/store_server.h"

namespace escapement::store {

// The work that the process does instead of serving (store_tasks.h).
enum class StoreTask { kNone, kMigrate, kMoveIntoLog, kMoveOutOfLog };
StoreTask StoreTaskFlag();

// Appends a sentence for each impossible flag.
void ValidateStoreFlags(std::vector<std::string>& errors);

StoreServer::Options StoreOptionsFromFlags();

// With its metrics of the log. Errors as StoreServer::Open.
absl::StatusOr<std::unique_ptr<StoreServer>> OpenStoreFromFlags(Metrics& metrics, Runtime& runtime);

}  // namespace escapement::store

#endif  // SERVICES_STORE_SERVICE_STORE_FLAGS_H_
