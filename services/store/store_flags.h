// Flags of the processes that open the data folder: store and standalone.

#ifndef SERVICES_STORE_STORE_FLAGS_H_
#define SERVICES_STORE_STORE_FLAGS_H_

#include <string>
#include <vector>

#include "services/store/store_server.h"

namespace escapement::store {

// Appends a sentence for each impossible flag.
void ValidateStoreFlags(std::vector<std::string>& errors);

StoreServer::Options StoreOptionsFromFlags();

}  // namespace escapement::store

#endif  // SERVICES_STORE_STORE_FLAGS_H_
