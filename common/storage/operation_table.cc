#include "common/storage/operation_table.h"

#include "absl/strings/str_format.h"
#include "common/base/key_codec.h"
#include "common/base/micros.h"

namespace escapement {

std::string OperationKey(absl::string_view tenant, absl::string_view operation_id) {
  return KeyWriter().Text(tenant).Text(operation_id).Take();
}

std::string OperationPrefix(absl::string_view tenant) { return KeyWriter().Text(tenant).Take(); }

std::string NewOperationId(absl::Time now, uint64_t random) {
  return absl::StrFormat("%016x%016x", static_cast<uint64_t>(ToMicros(now)), random);
}

}  // namespace escapement
