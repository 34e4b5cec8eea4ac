// Flags of the processes that open the data folder: store and standalone.

#ifndef SERVICES_STORE_STORE_FLAGS_H_
#define SERVICES_STORE_STORE_FLAGS_H_

#include <string>
#include <vector>

#include "services/store/store_server.h"

namespace escapement::store {

// What the process does instead of serving (store_tasks.h).
enum class StoreTask { kNone, kMigrate, kMoveIntoLog, kMoveOutOfLog };
StoreTask StoreTaskFlag();

// Appends a sentence for each impossible flag.
void ValidateStoreFlags(std::vector<std::string>& errors);

StoreServer::Options StoreOptionsFromFlags();

}  // namespace escapement::store

#endif  // SERVICES_STORE_STORE_FLAGS_H_
