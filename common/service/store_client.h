// --store: the address of the store, for every service that does not open the data folder itself.

#ifndef COMMON_SERVICE_STORE_CLIENT_H_
#define COMMON_SERVICE_STORE_CLIENT_H_

#include <memory>
#include <string>
#include <vector>

#include "common/kv/kv_store.h"

namespace escapement {

// Appends a sentence if --store cannot be.
void ValidateStoreFlag(std::vector<std::string>& errors);

// A client of the store at --store. It connects on demand and again after every break.
std::unique_ptr<kv::KvStore> NewStoreClient();

}  // namespace escapement

#endif  // COMMON_SERVICE_STORE_CLIENT_H_
