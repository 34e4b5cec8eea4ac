// Flags of whoever opens the data folder: the store and the standalone process.

#ifndef SERVICES_STORE_STORE_FLAGS_H_
#define SERVICES_STORE_STORE_FLAGS_H_

#include <string>
#include <vector>

#include "services/store/store_server.h"

namespace escapement::store {

// Appends a sentence for each flag that cannot be.
void ValidateStoreFlags(std::vector<std::string>& errors);

StoreServer::Options StoreOptionsFromFlags();

}  // namespace escapement::store

#endif  // SERVICES_STORE_STORE_FLAGS_H_
