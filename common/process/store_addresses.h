// The value of --store: where the processes of one store serve.
//
// Pure.

#ifndef COMMON_PROCESS_STORE_ADDRESSES_H_
#define COMMON_PROCESS_STORE_ADDRESSES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement {

// A replicated store has two or three processes. The bound catches a list of something else.
inline constexpr size_t kStoreAddressesMax = 16;

// "host:port", or several of them separated by commas; spaces around them are ignored.
// INVALID_ARGUMENT with a reason that a person can act on: an address that is not host:port, has no
// port or occurs twice, or more than kStoreAddressesMax.
absl::StatusOr<std::vector<std::string>> ParseStoreAddresses(absl::string_view text);

}  // namespace escapement

#endif  // COMMON_PROCESS_STORE_ADDRESSES_H_
