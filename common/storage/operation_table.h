// The column family `operations`: long work of a tenant, continued by any master.
//
// operations: tenant (text), operation id (text) → OperationRecord. Ids that the server makes sort
// by their time.
//
// Pure.

#ifndef COMMON_STORAGE_OPERATION_TABLE_H_
#define COMMON_STORAGE_OPERATION_TABLE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace escapement {

std::string OperationKey(absl::string_view tenant, absl::string_view operation_id);
// The prefix of all operations of a tenant.
std::string OperationPrefix(absl::string_view tenant);
// 32 hex digits: the time and random bits.
std::string NewOperationId(absl::Time now, uint64_t random);

}  // namespace escapement

#endif  // COMMON_STORAGE_OPERATION_TABLE_H_
