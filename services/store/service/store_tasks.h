// Flags of the processes that open the data folder: store and standalone.

#ifndef SERVICES_STORE_SERVICE_STORE_TASKS_H_
#define SERVICES_STORE_SERVICE_STORE_TASKS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/metrics/metrics.h"
#include "common/runtime/runtime.h"
#include "common/tls/tls_files.h"
#include "services/store/service/store_server.h"

namespace escapement::store {

// The work that the process does instead of serving.
enum class StoreTask { kNone, kMigrate, kMoveIntoLog, kMoveOutOfLog };
StoreTask StoreTaskFlag();

// Appends a sentence for each impossible flag.
void ValidateStoreFlags(std::vector<std::string>& errors);

// The certificate files that the URL of --replicate_through names.
std::vector<TlsPaths> ReplicationCertificates();

StoreServer::Options StoreOptionsFromFlags();

// With its metrics of the log. Errors as StoreServer::Open.
absl::StatusOr<std::unique_ptr<StoreServer>> OpenStoreFromFlags(Metrics& metrics, Runtime& runtime);

// Work that a process of the store does instead of serving, because a flag asks for it: --migrate,
// --move_into_log, --move_out_of_log.

// Null if no flag asks for anything.
std::function<absl::Status(Runtime&)> StoreTaskFromFlags();

}  // namespace escapement::store

#endif  // SERVICES_STORE_SERVICE_STORE_TASKS_H_
